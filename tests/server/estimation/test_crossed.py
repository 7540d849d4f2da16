"""Joint estimates of two questions: they are exactly unbiased, and their intervals hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from deniable.server.estimation import mean_limits
from deniable.server.estimation.crosstab import (
    PairCounts,
    _values,
    joint,
    quarters,
    unbiased_shares,
)
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanisms import (
    KRandomizedResponse,
    ProjectiveGeometry,
    RandomizedResponse,
    SubsetSelection,
    Unary,
)
from tests.plausible import assert_implausible, assert_plausible

ONE_ROUNDED = Fraction(1, 2**56)  # tolerance where a probability is rounded to 2^-64
DESIGNS: list[SupportDesign] = [
    RandomizedResponse(Epsilon("0.5")),
    KRandomizedResponse(Epsilon("1"), 3),
    Unary(Epsilon("2"), 3),
    SubsetSelection(Epsilon("1"), 4),
    ProjectiveGeometry(Epsilon("1"), 4),
]


def of_one_report(first: SupportDesign, second: SupportDesign, x: int, y: int) -> PairCounts:
    ours, theirs = (np.zeros(mechanism.cells, np.int64) for mechanism in (first, second))
    ours[list(first.cells_of(x))] = 1
    theirs[list(second.cells_of(y))] = 1
    return PairCounts.of((first, second), (ours, theirs), np.outer(ours, theirs), 1)


def expected(
    first: SupportDesign, second: SupportDesign, answers: tuple[int, int], by: list[SupportDesign]
) -> list[Fraction]:
    """Return the expected joint shares over all reports of one person with this pair of answers."""
    a, b = answers
    total = [Fraction(0)] * (first.options * second.options)
    for x, y in product(first.encoding.symbols(), second.encoding.symbols()):
        weight = first.weight(x, a) * second.weight(y, b)
        pair = of_one_report(first, second, x, y)
        shares = unbiased_shares(
            PairCounts(by[0], by[1], pair.one, pair.other, pair.both, pair.reports)
        )
        total = [sum_ + weight * share for sum_, share in zip(total, shares, strict=True)]
    return total


@pytest.mark.parametrize("second", DESIGNS, ids=lambda each: each.name)
@pytest.mark.parametrize("first", DESIGNS, ids=lambda each: each.name)
def test_a_joint_share_is_unbiased_for_all_answers(
    first: SupportDesign, second: SupportDesign
) -> None:
    """Check exactly that the expectation is 1 for the held pair and 0 for every other pair."""
    answers = (1, second.options - 1)
    found = expected(first, second, answers, [first, second])
    for cell, share in zip(
        product(range(first.options), range(second.options)), found, strict=True
    ):
        assert abs(share - (cell == answers)) < ONE_ROUNDED


def test_the_test_above_can_fail() -> None:
    """Twin: the reports are inverted with another ε for one question."""
    first, second = DESIGNS[0], DESIGNS[1]
    wrong: list[SupportDesign] = [RandomizedResponse(Epsilon("0.6")), second]
    found = expected(first, second, (1, 2), wrong)
    assert abs(found[-1] - 1) > Fraction(1, 20)


def outcomes(n: int) -> list[tuple[int, int, int, int]]:
    return [
        (a, b, c, n - a - b - c)
        for a in range(n + 1)
        for b in range(n + 1 - a)
        for c in range(n + 1 - a - b)
    ]


def probabilities(
    first: SupportDesign, second: SupportDesign, held: tuple[float, ...]
) -> list[float]:
    """Return the probabilities that a report supports both, the first, the second or neither.

    `held` lists the shares of people who hold both values, only the first, only the second, or
    neither.
    """

    def support(design: SupportDesign, holds: int, says: int) -> float:
        rate = (design.keep if holds else design.lie) / ONE
        return rate if says else 1 - rate

    kinds = ((1, 1), (1, 0), (0, 1), (0, 0))
    return [
        sum(
            share * support(first, holds, says) * support(second, other_holds, other_says)
            for share, (holds, other_holds) in zip(held, kinds, strict=True)
        )
        for says, other_says in kinds
    ]


HELD = [
    (share * both, share * (1 - both), (1 - share) * other, (1 - share) * (1 - other))
    for share, both, other in product((0.0, 0.02, 0.3, 1.0), (0.0, 0.5, 1.0), (0.0, 0.4))
]


def coverages(
    first: SupportDesign, second: SupportDesign, n: int, confidence: float
) -> Iterator[float]:
    """Yield, for each population, the exact probability that the interval contains the truth."""
    counts = np.array(outcomes(n))
    values = _values(first, second)
    order = np.argsort(values)
    low, high = mean_limits.bounded_mean(
        values[order], counts[:, order].astype(np.float64), confidence
    )
    ways = [
        math.factorial(n) / math.prod(map(math.factorial, combination))
        for combination in counts.tolist()
    ]
    for held in HELD:
        rates = np.array(probabilities(first, second, held))
        weights = np.array(ways) * np.prod(rates**counts, axis=1)
        assert weights.sum() == pytest.approx(1)
        yield float(weights[(low <= held[0]) & (held[0] <= high)].sum())


SOME_HELD = HELD[::5]
RUNS = 1_000
PAIRS: list[tuple[SupportDesign, SupportDesign]] = [
    (RandomizedResponse(Epsilon(e)), KRandomizedResponse(Epsilon(f), 5))
    for e, f in (("0.5", "0.5"), ("1", "3"), ("8", "8"))
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("n", [1, 4, 9])
def test_intervals_have_at_least_their_stated_coverage(
    first: SupportDesign, second: SupportDesign, n: int
) -> None:
    assert min(coverages(first, second, n, 0.95)) >= 0.95


def test_intervals_of_lower_confidence_fail_the_coverage_check() -> None:
    """Twin: intervals with a confidence of 50 % are too narrow to pass."""
    assert min(coverages(*PAIRS[2], 9, 0.5)) < 0.95


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_intervals_for_repeated_looks_contain_those_for_one_look(
    first: SupportDesign, second: SupportDesign
) -> None:
    values = np.sort(_values(first, second))
    for cells in ([3.0, 5.0, 2.0, 9.0], [0.0, 0.0, 0.0, 40.0], [10.0, 200.0, 30.0, 100.0]):
        counts = np.array(cells)
        low, high = mean_limits.anytime_mean(values, counts, 0.95)
        once, other = mean_limits.bounded_mean(values, counts[None], 0.95)
        assert low <= once[0]
        assert other[0] <= high


def test_joint_shares_describe_the_people_who_were_asked() -> None:
    """Estimates for a whole crowd lie within their own simultaneous intervals and add up."""
    first, second = DESIGNS[0], DESIGNS[1]
    both = np.array([[40, 20, 10], [5, 15, 30]]) * 20
    pair = PairCounts.of((first, second), (both.sum(1), both.sum(0)), both, int(both.sum()))
    found = joint(pair)
    sums = quarters(pair) @ _values(first, second) / pair.reports
    assert sums == pytest.approx(found.estimate)
    assert found.estimate.sum() == pytest.approx(1)
    assert found.consistent.sum() == pytest.approx(1)
    assert (found.consistent >= 0).all()
    for low, high in (found.like, found.every):
        assert (low < found.estimate).all()
        assert (found.estimate < high).all()
    assert (found.every[0] < found.like[0]).all()


def test_a_single_report_has_a_standard_error() -> None:
    assert (joint(of_one_report(DESIGNS[0], DESIGNS[1], 1, 2)).standard_error > 1).all()


def measured(
    first: SupportDesign, second: SupportDesign, n: int, runs: int, confidence: float = 0.95
) -> int:
    """Count the intervals that contain the truth, over several simulated crowds per population."""
    values, rng = _values(first, second), np.random.default_rng(n)
    order, covered = np.argsort(values), 0
    for held in SOME_HELD:
        counts = rng.multinomial(n, probabilities(first, second, held), runs)
        low, high = mean_limits.bounded_mean(
            values[order], counts[:, order].astype(np.float64), confidence
        )
        covered += int(((low <= held[0]) & (held[0] <= high)).sum())
    return covered


@pytest.mark.long
@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("n", [30, 300, 10_000])
def test_intervals_of_many_reports_cover_the_truth(
    first: SupportDesign, second: SupportDesign, n: int
) -> None:
    """Measure the coverage.

    False alarms have probability 1e-9; a coverage 4 points too low is caught.
    """
    trials = RUNS * len(SOME_HELD)
    covered = measured(first, second, n, RUNS)
    print(f"{n:,} reports, ε {first.epsilon} and {second.epsilon}: {covered / trials:.2%}")
    if covered < 0.95 * trials:
        assert_plausible(covered, trials, 0.95)


@pytest.mark.long
def test_narrower_intervals_of_many_reports_fail_the_coverage_check() -> None:
    trials = RUNS * len(SOME_HELD)
    assert_implausible(measured(*PAIRS[1], 10_000, RUNS, 0.91), trials, 0.95)
