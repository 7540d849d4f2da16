"""Rates within a cross table: coverage, exactly and in draws, and an interval that fails."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import multinomial

from deniable.server.estimation.crosstab import PairCounts, rates
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanisms import (
    KRandomizedResponse,
    RandomizedResponse,
    SubsetSelection,
)

Array = npt.NDArray[np.float64]

EPSILONS = ("0.25", "1", "2", "4", "8")
QUICK_EXACTLY = (("1", 0.99375), ("8", 0.95))  # the other sums are long
QUICK = ((1_000_000, "0.25"),)  # the other draws are long
# rate within the second answer, share of the second answer, share of the first one
PEOPLE = (
    (0.0, 0.01, 0.0), (0.5, 0.01, 0.1), (0.0, 0.2, 0.1), (0.1, 0.2, 0.1), (0.5, 0.2, 0.5),
    (0.95, 0.2, 0.5), (1.0, 0.2, 0.2), (0.5, 0.5, 0.5), (1.0, 0.5, 1.0), (0.05, 1.0, 0.05),
    (0.03, 0.03, 0.001), (0.38, 0.2, 0.1),
)  # fmt: skip
DRAWS = 20_000


def designs(epsilon: str) -> list[tuple[SupportDesign, SupportDesign]]:
    bit, few = RandomizedResponse(Epsilon(epsilon)), KRandomizedResponse(Epsilon(epsilon), 4)
    return [(bit, few), (few, bit), (bit, SubsetSelection(Epsilon(epsilon), 16))]


def chances(pair: tuple[SupportDesign, SupportDesign], people: tuple[float, float, float]) -> Array:
    """Return the probabilities that a report supports both answers, only one, and neither."""
    rate, second, first = people
    both, total = rate * second, np.zeros(4)
    held = {(1, 1): both, (0, 1): second - both, (1, 0): max(0.0, first - both)}
    held[0, 0] = 1 - sum(held.values())
    for answers, share in held.items():
        one, other = (
            (design.keep if answer else design.lie) / ONE
            for design, answer in zip(pair, answers, strict=True)
        )
        total += share * np.array(
            [one * other, one * (1 - other), (1 - one) * other, (1 - one) * (1 - other)]
        )
    return total


def pair_counts(
    pair: tuple[SupportDesign, SupportDesign], counts: npt.NDArray[np.int64]
) -> PairCounts:
    one, other, both = (counts[:, columns].sum(1)[:, None] for columns in ([0, 1], [0, 2], [0]))
    return PairCounts(*pair, one, other, both[..., None], counts.sum(1))


def covered(
    pair: tuple[SupportDesign, SupportDesign],
    counts: npt.NDArray[np.int64],
    confidence: float = 0.95,
    looks: bool = False,
) -> tuple[Array, Array]:
    made = rates(pair_counts(pair, counts), 1, confidence, looks)
    return made.like[0].ravel(), made.like[1].ravel()


def outcomes(reports: int) -> npt.NDArray[np.int64]:
    whole = range(reports + 1)
    listed = [
        (a, b, c, reports - a - b - c)
        for a, b, c in product(whole, repeat=3)
        if a + b + c <= reports
    ]
    return np.array(listed)


@pytest.mark.parametrize(
    ("epsilon", "confidence"),
    [
        pytest.param(*cell, marks=[pytest.mark.long] * (cell not in QUICK_EXACTLY))
        for cell in product(EPSILONS, (0.95, 0.99375))
    ],
)
def test_the_interval_covers_the_rate_exactly(epsilon: str, confidence: float) -> None:
    """Sum over all 23,426 outcomes of 50 reports, for 180 kinds of people and designs."""
    counts = outcomes(50)
    for pair in designs(epsilon):
        low, high = covered(pair, counts, confidence)
        for people in PEOPLE:
            held = (low <= people[0] + 1e-9) & (people[0] - 1e-9 <= high)
            law = multinomial.pmf(counts, 50, chances(pair, people))
            assert float(law @ held) >= confidence, (pair, people)


@pytest.mark.parametrize(
    ("reports", "epsilon"),
    [
        pytest.param(*cell, marks=[pytest.mark.long] * (cell not in QUICK))
        for cell in product((1_000, 30_000, 1_000_000), EPSILONS)
    ],
)
def test_the_interval_covers_the_rate_of_many_reports(epsilon: str, reports: int) -> None:
    """At least 94 % of 20,000 draws: with a coverage of 95 % that fails with probability 1e-9."""
    rng = np.random.default_rng(reports)
    for pair, people in product(designs(epsilon)[:2], PEOPLE[::2]):
        counts = rng.multinomial(reports, chances(pair, people), size=DRAWS)
        low, high = covered(pair, counts)
        held = (low <= people[0] + 1e-9) & (people[0] - 1e-9 <= high)
        assert held.mean() >= 0.94, (pair, people)


def delta_method(
    pair: tuple[SupportDesign, SupportDesign], counts: npt.NDArray[np.int64]
) -> tuple[Array, Array]:
    """Return the observed ratios, and their linearized standard errors."""
    (yes, no), (other_yes, other_no) = (
        [float(design.unbiased_share(rate)) for rate in (1, 0)] for design in pair
    )
    first, second = np.array([yes, yes, no, no]), np.array([other_yes, other_no] * 2)
    ratio = (counts @ (first * second)) / (counts @ second)
    values = second * (first - ratio[:, None])
    return ratio, np.sqrt((counts * values**2).sum(1)) / (counts @ second)


def test_the_delta_method_fails_the_same_check() -> None:
    """A ratio of observed values with its usual error, for a rare answer."""
    pair, people = designs("8")[0], (0.0, 0.01, 0.0)
    counts = np.random.default_rng(1).multinomial(1_000, chances(pair, people), size=DRAWS)
    ratio, error = delta_method(pair, counts)
    assert (np.abs(ratio - people[0]) <= 1.96 * error).mean() < 0.6


@pytest.mark.parametrize("epsilon", ["1", "2", "4", "8"])
def test_with_many_reports_the_interval_is_as_narrow_as_the_delta_method(epsilon: str) -> None:
    for pair, people in product(designs(epsilon), ((0.38, 0.2, 0.1), (0.5, 0.5, 0.5))):
        counts = np.rint(100_000 * chances(pair, people)).astype(np.int64)[None]
        low, high = covered(pair, counts)
        _, error = delta_method(pair, counts)
        assert 0.99 < (high - low).item() / (3.92 * error.item()) < 1.02


def test_an_interval_for_repeated_looks_contains_that_for_one() -> None:
    for pair in designs("2"):
        counts = np.random.default_rng(2).multinomial(5_000, chances(pair, PEOPLE[-1]), size=20)
        (low, high), (lower, higher) = covered(pair, counts), covered(pair, counts, looks=True)
        assert (lower <= low).all()
        assert (high <= higher).all()
        assert (lower < low).any()


@pytest.mark.parametrize("epsilon", ["4", pytest.param("8", marks=pytest.mark.long)])
def test_repeated_looks_rarely_miss_the_rate(epsilon: str) -> None:
    """500 sequences of 2,000 reports, read after every 50: at most 13 % may ever miss.

    If 5 % do, that fails with probability below 1e-10. Intervals for one look miss more often.
    """
    pair, people = designs(epsilon)[0], (0.38, 0.2, 0.1)
    rng, missed = np.random.default_rng(3), {True: 0, False: 0}
    steps = rng.multinomial(50, chances(pair, people), size=(500, 40)).cumsum(1)
    for looks in missed:
        low, high = covered(pair, steps.reshape(-1, 4), looks=looks)
        misses = (low > people[0]) | (people[0] > high)
        missed[looks] = int(misses.reshape(500, 40).any(1).sum())
    assert missed[True] <= 65 < missed[False]


def test_an_answer_that_no_one_seems_to_give_has_no_estimate() -> None:
    pair = designs("1")[0]
    made = rates(pair_counts(pair, np.array([[0, 50, 0, 50]])), 1)
    assert np.isnan(made.estimate).all()
    assert (made.like[0].item(), made.like[1].item()) == (0.0, 1.0)


def test_limits_are_possible_contain_the_estimate_and_never_meet() -> None:
    """Also where the observed ratio is below 0 or above 1."""
    for pair, rate, looks in product(designs("4"), (0.0, 1.0), (False, True)):
        people = chances(pair, (rate, 0.2, 0.2))
        counts = np.random.default_rng(4).multinomial(300, people, size=200)
        made = rates(pair_counts(pair, counts), 1, looks=looks)
        estimate, (low, high) = made.estimate.ravel(), (end.ravel() for end in made.like)
        assert (estimate == rate).mean() > 0.2, "the ratio is often outside"
        assert (low >= 0).all()
        assert (low <= estimate).all()
        assert (estimate <= high).all()
        assert (high <= 1).all()
        assert (high - low > 0.05).all()
