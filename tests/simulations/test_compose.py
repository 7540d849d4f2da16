"""Privacy cost of many rounds: each accounting method against independent figures and a library."""

import math

import pytest

from deniable.simulations import simulate
from deniable.simulations.studies import composition as accounts

# ε and rounds; then basic, advanced, Rényi, exact and central-limit accounts; δ 1e-6
STATED = """
.1 10 1 1.76743 .999371 .99937091 1.36819
.1 100 10 6.30823 5.07311 4.7745676 4.88887
.1 1000 100 27.1397 20.4504 19.344671 19.4340
.5 10 5 11.5549 4.99989 4.9998855 8.40883
.5 100 50 58.7187 34.7073 33.319788 36.0753
1 10 10 33.8054 10.0001 9.9999771 20.48
1 30 30 80.3396 29.9879 29.987864 42.7009
"""


@pytest.mark.parametrize("line", STATED.strip().splitlines())
def test_accounting_methods_agree_with_independent_figures(line: str) -> None:
    epsilon, rounds, *stated = map(float, line.split())
    ways = (accounts.basic, accounts.advanced, accounts.rdp, accounts.exact, accounts.clt)
    found = [way(epsilon, int(rounds), 1e-6) for way in ways]
    assert found == pytest.approx(stated, rel=2e-5)
    basic, advanced, renyi, exact, _ = found
    assert exact <= min(basic, advanced, renyi) * (1 + 1e-6)


def test_one_gaussian_round_and_many_are_exact() -> None:
    assert accounts.gaussian(1, 1, 1e-6) == pytest.approx(4.88655412, abs=1e-8)
    assert accounts.gaussian(0.5, 4, 1e-6) == pytest.approx(4.88655412, abs=1e-8)
    assert accounts.gaussian(accounts.gaussian_mu(0.7, 1e-6), 1, 1e-6) == pytest.approx(0.7)


@pytest.mark.parametrize(("epsilon", "rounds"), [(0.1, 100), (0.5, 30), (1.0, 30), (2.0, 5)])
def test_exact_composition_agrees_with_the_library(epsilon: float, rounds: int) -> None:
    """The library's privacy loss distributions are slightly too large because of their grid."""
    from dp_accounting.pld.privacy_loss_distribution import from_randomized_response

    one = from_randomized_response(
        2 / (1 + math.exp(epsilon)), 2, value_discretization_interval=1e-5
    )
    library = one.self_compose(rounds).get_epsilon_for_delta(1e-6)
    found = accounts.exact(epsilon, rounds, 1e-6)
    assert library == pytest.approx(found, rel=5e-4)


def test_sampled_rounds_agree_with_independent_figures() -> None:
    assert accounts.sampled_pld(1, 0.01, 1000, 1e-5) == pytest.approx(1.82824, abs=2e-5)
    assert accounts.sampled_rdp(1, 0.01, 1000, 1e-5) == pytest.approx(2.10775, abs=2e-5)


def test_the_study_lists_its_accounts_in_order() -> None:
    found = simulate("compose", epsilon=["0.1", 1], rounds=[1, 100])
    for epsilon in ("0.1", "1"):
        for rounds in (1, 100):
            total = {
                row["account"]: float(str(row["total"]))
                for row in found.rows
                if (row["epsilon"], row["rounds"]) == (epsilon, rounds)
            }
            assert total["exact"] <= min(total["basic"], total["advanced"], total["rdp"]) + 1e-9
            assert total["sampled-pld"] <= total["sampled-rdp"]
            assert total["sampled-pld"] < total["gaussian"]
    assert "100 reports" in simulate("compose", rounds=100).findings[0]
