"""Test of two shares: people needed, and exact powers that no private test exceeds."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import optimize, stats

from deniable.shared.cli.command import main
from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.central.noise import DiscreteLaplace, tulap, tulap_below
from deniable.simulations.studies.hypothesis_test import ESTIMATORS, ShareTest
from tests.plausible import assert_implausible, assert_plausible


def shares(model: str, epsilon: str, low: float = 0.5, high: float = 0.55) -> ShareTest:
    return ShareTest(model, Epsilon(epsilon), low, high, 0.05)


@pytest.mark.parametrize(("epsilon", "central", "local"), [
    ("0.1", 1_332, 343_123), ("0.5", 884, 14_274), ("1", 861, 4_007), ("2", 855, 1_474),
    ("4", 854, 919),
])  # fmt: skip
def test_people_needed_agree_with_independent_figures(
    epsilon: str, central: int, local: int
) -> None:
    """Test 0.5 against 0.55 with level 0.05 and power 0.9.

    Independent figures for small ε are slightly larger: 343,133 and 14,275. With 40 digits, the
    power exceeds 0.9 at 14,274 by a part in 10^5.
    """
    assert shares("none", epsilon).people_needed(0.9) == 853
    assert shares("central", epsilon).people_needed(0.9) == central
    assert shares("local", epsilon).people_needed(0.9) == local


def max_power(people: int, epsilon: float, low: float, high: float) -> float:
    """Return the largest power of any ε-private test, by linear programming row by row."""
    counts = np.arange(people + 1)
    zero, one = (stats.binom.pmf(counts, people, share) for share in (low, high))
    e, rows, ends = math.exp(epsilon), [], []
    for s, t in [*pairwise(counts), *((b, a) for a, b in pairwise(counts))]:
        for sign, end in ((1, 0.0), (-1, e - 1)):  # probability of rejecting, and of not rejecting
            row = np.zeros(people + 1)
            row[s], row[t] = sign, -sign * e
            rows.append(row)
            ends.append(end)
    found = optimize.linprog(
        -one, A_ub=[*rows, zero], b_ub=[*ends, 0.05], bounds=(0, 1), options={"presolve": False}
    )
    assert found.fun is not None
    return -float(found.fun)


@pytest.mark.parametrize(("people", "epsilon"), [(40, "1"), (25, "0.5")])
def test_no_private_test_has_more_power(people: int, epsilon: str) -> None:
    best = max_power(people, float(epsilon), 0.5, 0.7)
    assert shares("central", epsilon, 0.5, 0.7).power(people) == pytest.approx(best, abs=1e-7)
    if people == 40:
        assert best == pytest.approx(0.77048578, abs=1e-7)
        assert shares("local", "1", 0.5, 0.7).power(40) == pytest.approx(0.3147, abs=5e-5)
        assert shares("none", "1", 0.5, 0.7).power(40) == pytest.approx(0.8279, abs=5e-5)


def test_tulap_noise_is_discrete_laplace_plus_a_uniform_number() -> None:
    """Compare the distribution function with a sum over whole-number noise, everywhere."""
    for epsilon in ("0.1", "1", "3"):
        noise, x = DiscreteLaplace(Epsilon(epsilon)), np.linspace(-6.2, 6.2, 1_001)
        direct = sum(noise.probability(z) * np.clip(x - z + 0.5, 0, 1) for z in range(-400, 400))
        assert tulap_below(x, float(epsilon)) == pytest.approx(direct, abs=1e-12)


@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
def test_the_trusted_test_is_private(epsilon: str) -> None:
    """Another answer of one person changes the odds of rejecting and of accepting by at most e^ε.

    This holds up to the rounding of doubles. Twin: with a tenth less, the change is larger.
    """
    e, counts = math.exp(float(epsilon)), np.arange(-60, 60)
    for threshold in np.linspace(0, 1, 11):
        yes = tulap_below(counts - threshold, float(epsilon))
        no = tulap_below(threshold - counts, float(epsilon))
        for chances in (yes, no[::-1]):
            ratio = chances[1:] / chances[:-1]
            assert ratio.max() <= e * (1 + 1e-9)
            assert ratio.min() >= 1 - 1e-12
            assert ratio.max() > e**0.9


@pytest.mark.parametrize("model", [one.model for one in ESTIMATORS])
def test_tests_of_simulated_populations_have_the_stated_power(model: str) -> None:
    """Check both shares; false alarm at most 1e-9. Twin: another number of people."""
    test, rng, n = shares(model, "1"), np.random.default_rng(20261118), 40_000
    low, high = (
        int(test.rejects(1_000, rng.binomial(1_000, rate, n), rng).sum()) for rate in test.rates
    )
    assert_plausible(low, n, 0.05)
    assert_plausible(high, n, test.power(1_000))
    assert_implausible(high, n, test.power(1_300))


def test_tulap_noise_is_drawn_from_its_distribution() -> None:
    """Twin: another ε is rejected."""
    n = 40_000
    drawn = tulap(Epsilon("1"), n, np.random.default_rng(1))
    for x in (-2.3, -0.4, 0.0, 0.7, 3.1):
        assert_plausible(int((drawn <= x).sum()), n, float(tulap_below(np.array(x), 1.0)))
    assert_implausible(int((drawn <= -2.3).sum()), n, float(tulap_below(np.array(-2.3), 1.2)))


@pytest.mark.long
def test_the_study_prints_people_needed(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--epsilon", "1,20", "--people", "100,1e9", "--repetitions", "500", "--json"]
    assert main(["simulate", "test", *words]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {"rows", "findings"} <= set(document)
    needed = {(r["model"], r["epsilon"]): r["people_needed"] for r in document["rows"]}
    assert needed["local", "1"] == 4_007
    assert needed["none", "1"] == needed["local", "20"] == needed["central", "20"] == 853
    for row in document["rows"]:
        assert abs(row["measured"] - row["exact"]) <= 6.5 * row["error"] + 1e-12
        assert row["limit"] <= row["exact"]


@pytest.mark.parametrize(("words", "cure"), [
    (["--low", "0.6"], "low must be below high"),
    (["--level", "0.95"], "level must be below power"),
    (["--power", "1"], "--power must be above 0 and below 1"),
])  # fmt: skip
def test_indistinguishable_shares_are_refused(
    words: list[str], cure: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "test", *words]) == 2
    assert cure in capsys.readouterr().err
