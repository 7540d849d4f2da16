"""Means: exactly unbiased, with an interval that covers where the normal interval does not."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta

from deniable.server.estimation import estimates, mean_limits
from deniable.server.estimation.mean_limits import at_pole, bounded_mean
from deniable.server.estimation.means import unbiased_position
from deniable.server.estimation.shares import clopper_pearson
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.mechanisms import LocalLaplace, OneBitMean, SplitSign, Ternary
from deniable.shared.survey.kinds.number import Number
from tests.bench.coverage import Cell, beyond, draw_counts, measure, populations, table_of
from tests.plausible import assert_implausible, assert_plausible

RUNS = 2_000

CELLS = [
    Cell("0.1", 2, 1_000, "1 % high"),
    Cell("1", 8, 200, "two points"),
    Cell("2", 64, 50, "uniform"),
    Cell("4", 2, 50, "middle"),
    Cell("4", 64, 200, "all low"),
    Cell("8", 2, 200, "middle"),
    Cell("8", 8, 50, "all high"),
    Cell("16", 8, 10_000, "0.1 % high"),
]


@pytest.mark.parametrize("epsilon", ["0.1", "2", "16"])
@pytest.mark.parametrize("mechanism", [OneBitMean, Ternary, SplitSign])
def test_expected_counts_reproduce_the_mean_exactly(
    epsilon: str, mechanism: type[OneBitMean | Ternary | SplitSign]
) -> None:
    table = mechanism(Epsilon(epsilon))
    for answer, row in enumerate(table.rows):
        assert Fraction(*unbiased_position(list(row), table)) == Fraction(answer, table.steps)


@pytest.mark.parametrize(("epsilon", "steps"), [("0.1", 2), ("1", 64), ("4", 255), ("16", 8)])
def test_expected_counts_of_local_laplace_reproduce_the_mean(epsilon: str, steps: int) -> None:
    """Values are whole multiples of 2^-96 of a step: not exact, but far finer than needed."""
    table = LocalLaplace(Epsilon(epsilon), steps)
    for answer, row in enumerate(table.rows):
        error = Fraction(*unbiased_position(list(row), table)) - Fraction(answer, steps)
        assert abs(error) < Fraction(1, 10**20)


def test_a_mean_is_in_the_units_of_its_question() -> None:
    question = Number("degrees", OneBitMean(Epsilon("20")), -40, 60)
    (estimate,) = estimates(question, np.array([500, 500]), 1000)
    assert estimate.label == "mean"
    assert estimate.estimate == pytest.approx(10)
    assert estimate.low < 10 < estimate.high
    assert estimate.standard_error == pytest.approx(50 / math.sqrt(1000), rel=1e-3)


def test_the_standard_error_is_that_of_the_values_and_at_least_that_of_the_noise() -> None:
    """Check 30 reports at one end and 70 at the other, a single report, and two equal reports."""
    table = Ternary(Epsilon("1"))
    question = Number("degrees", table, -40, 60)
    reach = float(table.values[-1] - table.values[0]) / 2 * 100
    (mixed,) = estimates(question, np.array([30, 0, 70]), 100)
    assert mixed.standard_error == pytest.approx(reach * math.sqrt(0.21 / 100), rel=1e-12)
    least = min(table.variance(1, position) for position in (0, 0.5, 1)) * 100**2
    for counts in ([1, 0, 0], [0, 2, 0]):
        (alike,) = estimates(question, np.array(counts), sum(counts))
        assert alike.standard_error == pytest.approx(math.sqrt(least / sum(counts)), rel=1e-9)


@pytest.mark.parametrize(
    ("counts", "consistent"), [([9, 1], -40.0), ([1, 9], 60.0), ([5, 5], 10.0)]
)
def test_the_possible_mean_is_the_nearest_in_the_range(
    counts: list[int], consistent: float
) -> None:
    question = Number("degrees", OneBitMean(Epsilon("0.5")), -40, 60)
    (estimate,) = estimates(question, np.array(counts), 10)
    assert estimate.consistent == consistent
    assert (estimate.estimate < -40, estimate.estimate > 60) == (consistent < 0, consistent > 10)


@pytest.mark.parametrize("counts", [[0, 0], [0, 1], [3, 0], [30, 70], [5_000, 5_000]])
def test_with_two_symbols_the_interval_is_clopper_pearson_exactly(counts: list[int]) -> None:
    exact = clopper_pearson(np.array(counts[1:]), sum(counts), 0.95)
    assert bounded_mean(np.array([0.0, 1.0]), np.array(counts, dtype=float), 0.95) == pytest.approx(
        (float(exact[0][0]), float(exact[1][0])), abs=1e-15
    )


@pytest.mark.parametrize("shapes", [(50, 1), (10**6, 1), (1000, 3), (30, 30), (7, 400)])
@pytest.mark.parametrize("tail", [0.025, 0.005])
def test_the_saddlepoint_errs_outward_and_by_little(
    shapes: tuple[float, float], tail: float
) -> None:
    """Compare with beta distributions, whose tails are known: limits may only be farther out."""
    poles = np.geomspace(1e-3 / sum(shapes), 100, 4000)
    x, probability = at_pole(poles, np.array([-1.0, 0.0]), np.array(shapes))
    exact = beta.sf(1 + x, shapes[1], shapes[0])
    near = (tail / 2 < exact) & (exact < tail)
    assert near.any()
    assert (probability[near] / exact[near]).min() >= 1
    assert (probability[near] / exact[near]).max() < 1.02


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_the_interval_covers_the_truth(cell: Cell) -> None:
    """Each cell has a false-alarm probability of 1e-9; a coverage below about 92 % is caught."""
    outcome = measure(cell, RUNS, np.random.default_rng(2027))
    hits = round(outcome.coverage * RUNS)
    assert_plausible(min(hits, math.ceil(0.95 * RUNS)), RUNS, 0.95)


def test_the_normal_interval_fails_the_same_check() -> None:
    """Twin: lies are so rare that two in five samples contain none and therefore show no spread."""
    table, counts, truth = _drawn(Cell("8", 2, 50, "all low"), RUNS)
    values = np.array([float(value) for value in table.values]) / table.steps
    rates = counts / counts.sum(1, keepdims=True)
    means = rates @ values
    spread = np.sqrt(np.maximum(rates @ values**2 - means**2, 0) / 50)
    hits = int((np.abs(means - truth) <= 1.959964 * spread).sum())
    assert_implausible(hits, RUNS, 0.95)


def test_an_interval_without_its_extra_report_fails_the_same_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twin: the interval without the extra report that allows for unseen lies."""
    table, counts, truth = _drawn(Cell("8", 2, 50, "all low"), RUNS)
    values = np.array([float(value) for value in table.values]) / table.steps
    upper = mean_limits._upper

    def without(values: np.ndarray, counts: np.ndarray, tail: np.ndarray) -> np.ndarray:
        ends = []
        for index in np.ndindex(tail.shape[:-1]):
            seen = counts[index] > 0
            fewer = counts[index][seen] - np.eye(seen.sum())[-1]
            ends.append(upper(values[index][None, seen], fewer[None], tail[index][None, :1]))
        return np.array(ends).reshape(tail.shape[:-1])

    monkeypatch.setattr(mean_limits, "_upper", without)
    found = {row.tobytes(): bounded_mean(values, row, 0.95) for row in np.unique(counts, axis=0)}
    ends = [found[row.tobytes()] for row in counts]
    hits = sum(bool(low <= truth <= high) for low, high in ends)
    assert_implausible(hits, RUNS, 0.95)


@pytest.mark.parametrize(
    "cell", [Cell("2", 8, 50, "all low"), Cell("1", 64, 200, "1 % high")], ids=str
)
def test_the_vectorized_check_agrees_with_the_interval(cell: Cell) -> None:
    table, counts, truth = _drawn(cell, 300)
    values = np.array([float(value) for value in table.values]) / table.steps
    limit = bounded_mean(values, counts, 0.95)[1]
    for aim in (truth, truth + float(np.std(limit)), float(np.median(limit))):
        close = np.abs(limit - aim) < 1e-9
        assert ((beyond(values, counts, aim) == (aim > limit)) | close).all()


@pytest.mark.parametrize(
    "cell", [Cell("1", 64, 10_000, "uniform"), Cell("8", 8, 10_000, "all low")], ids=str
)
def test_with_many_reports_the_interval_is_nearly_normal(cell: Cell) -> None:
    outcome = measure(cell, 20, np.random.default_rng(5))
    assert 0.98 < outcome.width < 1.05


@pytest.mark.parametrize("count", [1, 2, 3, 1000, 10**15])
@pytest.mark.parametrize("place", [0, 100, 255])
def test_equal_reports_have_an_interval(count: int, place: int) -> None:
    table = LocalLaplace(Epsilon("2"), 255)
    cells = np.zeros(256, dtype=np.int64)
    cells[place] = count
    (estimate,) = estimates(Number("minutes", table, 0, 120), cells, count)
    assert estimate.low <= estimate.estimate <= estimate.high
    assert estimate.low < estimate.high
    assert estimate.standard_error > 0
    assert 0 <= estimate.consistent <= 120


def test_without_reports_the_interval_is_the_whole_range_of_the_table() -> None:
    table = LocalLaplace(Epsilon("2"), 4)
    (estimate,) = estimates(Number("minutes", table, 0, 1), np.zeros(5, dtype=np.int64), 0)
    assert math.isnan(estimate.estimate)
    assert math.isnan(estimate.consistent)
    ends = float(table.values[0]) / 4, float(table.values[-1]) / 4
    assert (estimate.low, estimate.high) == pytest.approx(ends)


@pytest.mark.parametrize("reports", [10**6, 10**12, 10**15])
def test_the_interval_shrinks_with_the_root_of_the_reports(reports: int) -> None:
    table = LocalLaplace(Epsilon("2"), 64)
    cells = np.array([weight * reports // ONE for weight in table.rows[32]])
    (estimate,) = estimates(Number("minutes", table, 0, 1), cells, int(cells.sum()))
    half = (estimate.high - estimate.low) / 2
    assert half == pytest.approx(1.959964 * estimate.standard_error, rel=1e-3)


def _drawn(cell: Cell, runs: int) -> tuple[NumberTable, np.ndarray, float]:
    table = table_of(cell.epsilon, cell.steps)
    held = populations(cell.steps, cell.people)[cell.population]
    counts = draw_counts(table, held, runs, np.random.default_rng(11)).astype(float)
    return table, counts, float(held @ np.arange(cell.steps + 1)) / cell.people / cell.steps
