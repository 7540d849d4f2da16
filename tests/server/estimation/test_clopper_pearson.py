"""Clopper-Pearson intervals of randomized reports; coverage is summed exactly, not sampled."""

import math
from itertools import product
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from scipy.special import betainc, betaincc, betaincinv
from scipy.stats import beta, binom

from deniable.server.estimation.shares import (
    LARGE,
    OUTWARD,
    OUTWARD_FAR,
    _expansion,
    beta_quantile,
    clopper_pearson,
)
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanisms import KRandomizedResponse, RandomizedResponse, Unary

EPSILONS = ("0.1", "0.5", "1", "2", "4", "8")
PEOPLE = (50, 200, 1_000, 10_000)
SHARES = (0.0, 0.001, 0.01, 0.1, 0.3, 0.5, 0.9, 1.0)


def designs(epsilon: Epsilon) -> list[SupportDesign]:
    return [
        RandomizedResponse(epsilon),
        *(KRandomizedResponse(epsilon, options) for options in (2, 5, 100)),
        Unary(epsilon, 10),
    ]


def rate_of(design: SupportDesign, share: float) -> float:
    return (share * design.keep + (1 - share) * design.lie) / ONE


def coverage(low: np.ndarray, high: np.ndarray, people: int, rate: float) -> float:
    """Return the probability that the interval contains the rate, for people drawn at random."""
    probabilities = binom.pmf(np.arange(people + 1), people, rate)
    return float(probabilities[(low <= rate) & (rate <= high)].sum())


@pytest.mark.parametrize("people", PEOPLE)
def test_coverage_is_never_below_95_percent(people: int) -> None:
    low, high = clopper_pearson(np.arange(people + 1), people, 0.95)
    worst = min(
        coverage(low, high, people, rate_of(design, share))
        for epsilon, share in product(EPSILONS, SHARES)
        for design in designs(Epsilon(epsilon))
    )
    assert worst >= 0.95


def test_the_normal_interval_fails_the_same_check() -> None:
    """Twin: the normal interval covers 47.91 % instead of 95 %, as the theory predicts."""
    people, rate = 100, rate_of(KRandomizedResponse(Epsilon("4"), 100), 0.0)
    seen = np.arange(people + 1) / people
    spread = 1.959964 * np.sqrt(seen * (1 - seen) / people)
    assert coverage(seen - spread, seen + spread, people, rate) == pytest.approx(0.4791, abs=5e-5)


def asked_of(rates: list[float], asked: int) -> np.ndarray:
    """Return the exact distribution of successes among `asked` of these fixed people.

    Every set of `asked` people is equally likely. The sum adds one person at a time.
    """
    sets = np.zeros((asked + 1, asked + 1))  # [people chosen so far, their successes]
    sets[0, 0] = 1
    for rate in rates:
        chosen = np.zeros_like(sets)
        chosen[1:] = (1 - rate) * sets[:-1]
        chosen[1:, 1:] += rate * sets[:-1, :-1]
        sets += chosen
    return np.asarray(sets[asked] / math.comb(len(rates), asked))


@pytest.mark.parametrize("epsilon", ["0.5", "2", "8"])
@pytest.mark.parametrize("holders", [0, 1, 7, 15, 30])
def test_limits_cover_the_share_of_all_people_if_only_some_are_asked(
    epsilon: str, holders: int
) -> None:
    """For every number of people asked out of 30, the interval covers the share of all 30."""
    people, design = 30, RandomizedResponse(Epsilon(epsilon))
    rates = [rate_of(design, 1.0)] * holders + [rate_of(design, 0.0)] * (people - holders)
    truth = sum(rates) / people
    for asked in range(1, people + 1):
        low, high = clopper_pearson(np.arange(asked + 1), asked, 0.95)
        probabilities = asked_of(rates, asked)
        assert probabilities.sum() == pytest.approx(1)
        assert probabilities @ np.arange(asked + 1) == pytest.approx(asked * truth)
        assert probabilities[(low <= truth) & (truth <= high)].sum() >= 0.95


def test_people_asked_because_of_their_answers_fail_the_same_check() -> None:
    """Twin: 20 of the 30 people hold the value, and only those 20 can be asked."""
    design = RandomizedResponse(Epsilon("2"))
    yes, no = rate_of(design, 1.0), rate_of(design, 0.0)
    low, high = clopper_pearson(np.arange(16), 15, 0.95)
    truth, probabilities = (20 * yes + 10 * no) / 30, asked_of([yes] * 20, 15)
    assert probabilities[(low <= truth) & (truth <= high)].sum() < 0.95


@pytest.mark.parametrize("asked", [1, 2, 5, 8])
def test_successes_of_a_sample_are_a_sum_of_independent_trials(asked: int) -> None:
    """Check that their generating function has only real, non-positive roots."""
    probabilities = asked_of([0.1, 0.15, 0.3, 0.5, 0.55, 0.7, 0.8, 0.95], asked)
    roots = np.roots(probabilities[::-1])
    assert np.abs(roots.imag).max() < 1e-4 * np.abs(roots).max()
    assert roots.real.max() <= 0


@pytest.mark.parametrize(
    ("design", "share", "expected"),
    [
        (RandomizedResponse(Epsilon("0.5")), 0.0, 0.9611),
        (RandomizedResponse(Epsilon("1")), 0.5, 0.9648),
        (RandomizedResponse(Epsilon("2")), 0.01, 0.9630),
        (Unary(Epsilon("4"), 10), 0.1, 0.9766),
        (KRandomizedResponse(Epsilon("4"), 100), 0.01, 0.9816),
    ],
)
def test_coverage_matches_the_theory(design: SupportDesign, share: float, expected: float) -> None:
    low, high = clopper_pearson(np.arange(101), 100, 0.95)
    assert coverage(low, high, 100, rate_of(design, share)) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("probability", [0.025, 0.975, 0.005, 0.995])
def test_the_expansion_lies_just_outside_the_exact_quantile(probability: float) -> None:
    a, b = (grid.ravel() for grid in np.meshgrid([501.0, 900.0, 5e3, 4e4], [501.0, 7e3, 1e5]))
    assert (np.minimum(a, b) > LARGE).all()
    spread = np.sqrt(a * b / (a + b + 1)) / (a + b)
    beyond = (beta_quantile(a, b, probability) - betaincinv(a, b, probability)) / spread
    beyond *= 1 if probability > 0.5 else -1
    assert beyond.min() > 0
    assert beyond.max() < 2 * OUTWARD


@pytest.mark.parametrize("joint", [20, 300, 1_024, 65_536, 10**8])
def test_the_expansion_lies_outside_for_many_joint_intervals(joint: int) -> None:
    """Compare with the distribution function, at shapes near the worst and far from it.

    Twin: without the term that grows with z, it lies inside from 1,024 intervals on.
    """
    small = np.array([500.5, 520.0, 600.0, 1_000.0, 20_000.0])
    ratio = np.array([1, 1.3, 1.6, 2, 2.5, 3, 4, 5, 8, 20, 1_000, 1e5])
    small, ratio = (grid.ravel() for grid in np.meshgrid(small, ratio))
    a, b = np.append(small, small * ratio), np.append(small * ratio, small)
    tail = 0.025 / joint
    spread = np.sqrt(a * b / (a + b + 1)) / (a + b)
    z = -NormalDist().inv_cdf(tail)
    for side, below in ((-1, betainc), (1, betaincc)):
        quantile = _expansion(a, b, side * z)
        assert (below(a, b, quantile) <= tail).all()
        less = max(OUTWARD, OUTWARD_FAR * z**6) - OUTWARD
        inside = below(a, b, quantile - side * less * spread) > tail
        assert inside.any() == (joint >= 1_024)


@pytest.mark.parametrize("probability", [0.005, 0.3, 0.975])
def test_the_expansion_uses_the_moments_of_a_beta_distribution(probability: float) -> None:
    """Check the expansion at small shapes, where every moment matters.

    The moments equal scipy's. The expansion is that of Cornish and Fisher up to the fourth moment,
    shifted outward.
    """
    a, b = (grid.ravel() for grid in np.meshgrid([1.5, 4.0, 30.0], [2.0, 11.0]))
    z = NormalDist().inv_cdf(probability)
    stats: Any = beta.stats  # scipy's type stubs lack the argument `moments`
    mean, variance, skew, peak = stats(a, b, moments="mvsk")
    bends = skew * (z**2 - 1) / 6 + peak * (z**3 - 3 * z) / 24 - skew**2 * (2 * z**3 - 5 * z) / 36
    outward = math.copysign(OUTWARD, z)
    expected = mean + np.sqrt(variance) * (z + bends + outward)
    assert _expansion(a, b, z) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("people", [0, 1, 2, 10**6, 10**15])
def test_limits_contain_the_observed_rate_at_every_size(people: int) -> None:
    counts = np.unique(np.array([0, people // 3, people // 2, people]))
    low, high = clopper_pearson(counts, people, 0.95)
    rates = counts / max(people, 1)
    assert (low >= 0).all()
    assert (low <= rates).all()
    assert (rates <= high).all()
    assert (high <= 1).all()
    assert (low[0], high[-1]) == (0.0, 1.0)
