"""Gain from a shuffler: the largest private reports, and one more line in each study of devices."""

import itertools
import json
import math

import pytest

from deniable.server.shuffling.amplification import (
    STEP,
    count_delta,
    report_epsilon,
    shuffled_delta,
)
from deniable.shared.cli.command import main
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations import simulate
from deniable.simulations.engine.presentation import TRUST

TABLE = [  # ε, people; standard errors in people for devices and shuffled; ε₀
    ("0.1", 10**3, 316, 37.50, 0.82), ("0.1", 10**4, 1_000, 37.53, 2.196),
    ("0.1", 10**6, 9_996, 37.53, 6.568), ("1", 10**3, 30.3, 5.816, 3.451),
    ("1", 10**4, 96.0, 5.836, 5.689), ("1", 10**6, 959, 5.837, 10.287),
]  # fmt: skip
PRICES = [("0.1", 7.05), ("1", 18.5)]  # of a shuffled count of a million people


@pytest.mark.parametrize(("epsilon", "people", "local", "mixed", "reported"), TABLE)
def test_the_error_of_a_count_agrees_with_independent_figures(
    epsilon: str, people: int, local: float, mixed: float, reported: float
) -> None:
    found = simulate("bit", epsilon=epsilon, people=people, repetitions=9, share=0.5).rows
    rows = {row["estimator"]: row for row in found}
    wanted = {
        "randomized-response": local,
        "shuffled": mixed,
        "geometric": 14.1 if epsilon == "0.1" else 1.36,
    }
    for name, error in wanted.items():
        exact = float(rows[name]["exact"] or 0)
        assert people * math.sqrt(exact) == pytest.approx(error, rel=3e-3)
    assert float(str(rows["shuffled"]["report_epsilon"])) == pytest.approx(reported, abs=0.006)


@pytest.mark.parametrize(("epsilon", "price"), PRICES)
def test_the_price_of_a_shuffled_count_of_a_million_is_known(epsilon: str, price: float) -> None:
    found = simulate("bit", epsilon=epsilon, people=10**6, repetitions=9).rows
    exact = {row["estimator"]: float(row["exact"] or 0) for row in found}
    assert exact["shuffled"] / exact["geometric"] == pytest.approx(price, rel=1e-3)


@pytest.mark.parametrize("people", [2, 7, 40])
@pytest.mark.parametrize(("local", "epsilon"), [(0.5, 0.01), (2.0, 0.1), (4.0, 0.01), (3.0, 1.0)])
def test_a_count_hides_what_the_worst_answers_of_the_others_allow(
    people: int, local: float, epsilon: float
) -> None:
    """Enumerate all numbers of others who hold a yes, with exact sums of products."""
    keep, factor = 1 / (1 + math.exp(-local)), math.exp(epsilon)
    worst = 0.0
    for yes in range(people):
        rates = [keep] * yes + [1 - keep] * (people - 1 - yes)
        one, other = (count_law([*rates, mine]) for mine in (keep, 1 - keep))
        for law, reference in ((one, other), (other, one)):
            pairs = zip(law, reference, strict=True)
            worst = max(worst, sum(max(0.0, p - factor * q) for p, q in pairs))
    assert count_delta(local, people, epsilon) == pytest.approx(worst, rel=1e-9, abs=1e-15)
    assert count_delta(local, people, epsilon) <= shuffled_delta(local, people, epsilon) + 1e-15


def count_law(rates: list[float]) -> list[float]:
    """Return the distribution of the number of yes, each with a probability of its own."""
    law = [1.0]
    for rate in rates:
        law = [a * (1 - rate) + b * rate for a, b in zip([*law, 0], [0, *law], strict=True)]
    return law


@pytest.mark.parametrize(("epsilon", "people"), [("0.1", 500), ("1", 10**5), ("4", 10**9)])
def test_no_larger_local_epsilon_is_private_enough(epsilon: str, people: int) -> None:
    found = float(report_epsilon(Epsilon(epsilon), people))
    assert shuffled_delta(found, people, float(epsilon)) <= 1e-6
    assert shuffled_delta(found + 2 * STEP / 1e9, people, float(epsilon)) > 1e-6


def test_shuffled_reports_spend_at_least_their_epsilon_and_at_most_a_surveys_limit() -> None:
    assert report_epsilon(Epsilon("0.123456789"), 2) == Epsilon("0.123456789")
    assert report_epsilon(Epsilon("0.00001"), 2) == Epsilon("0.00001")
    assert report_epsilon(Epsilon("20"), 10**9) == Epsilon("20")
    assert report_epsilon(Epsilon("19"), 10**9, 0.5) == Epsilon("20")


@pytest.mark.parametrize("others", list(itertools.product((0, 1), repeat=3)))
def test_a_shuffled_count_is_as_private_as_stated(others: tuple[int, ...]) -> None:
    """Compute the exact distribution of the count of four people, by convolution.

    Whatever the others answer, its δ is at most that of the account. Twin: one person alone has
    more.
    """
    design = RandomizedResponse(Epsilon("1.5"))
    keep = design.keep / ONE

    def count(answers: tuple[int, ...]) -> list[float]:
        found = [1.0]
        for answer in answers:
            yes = keep if answer else 1 - keep
            found = [a * (1 - yes) + b * yes for a, b in zip([*found, 0], [0, *found], strict=True)]
        return found

    for epsilon in (0.2, 0.7, 1.2):
        pairs = [(count((*others, mine)), count((*others, 1 - mine))) for mine in (0, 1)]
        exact = max(
            sum(max(0.0, p - math.exp(epsilon) * q) for p, q in zip(*pair, strict=True))
            for pair in pairs
        )
        assert exact <= shuffled_delta(1.5, 4, epsilon) + 1e-12
        assert exact < shuffled_delta(1.5, 1, epsilon)


@pytest.mark.parametrize("study", ["bit", pytest.param("histogram", marks=pytest.mark.long)])
def test_the_shuffled_line_lies_between_local_and_central(study: str) -> None:
    found = simulate(study, epsilon=[0.1, 1], people=[1e4, 1e6], repetitions=30)
    for epsilon, people in itertools.product(("0.1", "1"), (10**4, 10**6)):
        here = [row for row in found.rows if (row["epsilon"], row["people"]) == (epsilon, people)]
        for k in {row.get("options") for row in here}:
            least = {
                model: min(float(row["exact"] or 0) for row in here
                           if row["model"] == model and row.get("options") == k)
                for model in ("central", "shuffled", "local")
            }  # fmt: skip
            assert least["central"] < least["shuffled"] < least["local"]
    assert any(TRUST in sentence for sentence in found.findings)


def test_simulated_errors_of_shuffled_reports_follow_the_formula() -> None:
    """Allow 6.5 Monte-Carlo errors. Twin: with the unshuffled ε the simulations fail."""
    rows = simulate("bit", epsilon=1, people=1e4, repetitions=4000, seed=3).rows
    for row in rows:
        off = abs(float(row["measured"] or 0) - float(row["exact"] or 0))
        assert off <= 6.5 * float(row["error"] or 0), row
    local, mixed = rows[:2]
    assert float(local["exact"] or 0) > 100 * float(mixed["measured"] or 0)


def test_a_survey_states_what_a_shuffler_would_gain(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--people", "10000", "--forged", "0", "--repetitions", "5", "--json"]
    assert main(["simulate", "survey", *words]) == 0
    cells = json.loads(capsys.readouterr().out)["rows"]
    assert cells
    for cell in cells:
        assert cell["trusted"] < cell["shuffled"] < cell["half_width"]
    crashed = next(cell for cell in cells if cell["question"] == "crashed")
    design = RandomizedResponse(report_epsilon(Epsilon(crashed["epsilon"]), 10_000))
    noise, people = design.variance(10_000, crashed["truth"]), crashed["truth"]
    half = 2.241403 * math.sqrt(noise + people * (1 - people) / 10_000)  # final intervals: 97.5 %
    assert crashed["shuffled"] == pytest.approx(half, rel=1e-6)
