"""Distribution of a number: unbiased, with a band that covers every point simultaneously."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

from deniable.server.estimation import distribution as estimation
from deniable.server.estimation.distribution import (
    EVEN,
    LEVELS,
    Distribution,
    band,
    cumulative_values,
    distributions,
    informative_parts,
    likeliest,
    weighed_values,
    worst_variance,
)
from deniable.server.estimation.mean_limits import anytime_mean as mean
from deniable.server.estimation.mean_limits import bounded_mean
from deniable.server.estimation.statements import Array
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import NumberTable, Row
from deniable.shared.privacy.mechanisms import (
    LocalLaplace,
    OneBitMean,
    OptimalTable,
    SquareWave,
    Ternary,
)
from tests.bench.distribution import optimal
from tests.server.estimation.places import (
    SHAPES,
    Places,
    at_the_points,
    just_below_the_points,
    misses,
    on_grid,
    quantile,
    rows_of,
    smooth,
)

TABLES = [
    (SquareWave(Epsilon("1"), 64), 8),
    (SquareWave(Epsilon("2"), 60), 20),
    (LocalLaplace(Epsilon("4"), 8), 4),
    (OptimalTable(Epsilon("2"), 4), 4),
    (Ternary(Epsilon("2")), 2),
]
OPTIMAL = optimal("2", 16)
RUNS = 60
ALLOWED = int(binom.isf(1e-9, RUNS, 0.05))  # the probability of more misses is 1e-9


def distribution(table: NumberTable, counts: Array, looks: bool = False) -> Distribution | None:
    """Return the distribution of one round."""
    (found,) = distributions(table, counts[None], looks=looks)
    return found


@pytest.mark.parametrize("looks", [False, True])
def test_limits_widen_by_the_bias_of_the_values(looks: bool) -> None:
    values, counts = np.array([[0.0, 0.4, 1.0]]), np.array([20.0, 30.0, 50.0])
    low, high = estimation._limits(values, counts, 0.95, looks, 0.0)
    wide_low, wide_high = estimation._limits(values, counts, 0.95, looks, 0.01)
    np.testing.assert_allclose(low - wide_low, 0.01, rtol=1e-9)
    np.testing.assert_allclose(wide_high - high, 0.01, rtol=1e-9)


@pytest.mark.parametrize(("table", "parts"), TABLES, ids=lambda each: getattr(each, "name", each))
def test_the_expectation_lies_between_the_shares_just_below_and_at_a_point(
    table: NumberTable, parts: int
) -> None:
    """The check is exact for one person at any position, and therefore for any population.

    The expectation at a point is between 0 and 1. It is 1 if the position is at most the point, and
    0 if the position is at least the next point.
    """
    for values, misfit in (cumulative_values(table, parts), weighed_by_an_end(table, parts)):
        assert_between(table, parts, values)
        assert misfit < 1e-9


def weighed_by_an_end(table: NumberTable, parts: int) -> tuple[Array, float]:
    """Return the values if nearly everyone was at the low end in the earlier round."""
    shares = np.full(table.steps + 1, EVEN / (table.steps + 1))
    shares[0] += 1 - EVEN
    return weighed_values(table, parts, shares)


def assert_between(table: NumberTable, parts: int, values: Array) -> None:
    points = np.linspace(0, 1, parts + 1)
    for position in np.linspace(0, 1, 241):
        expected = on_grid(table, np.array([position]), np.ones(1)) @ rows_of(table) @ values.T
        assert (expected >= (position <= points[:-1]) - 1e-9).all()
        assert (expected <= (position < points[1:]) + 1e-9).all()
        assert expected.sum() == pytest.approx(parts * (1 - position), abs=1e-7)


@pytest.mark.parametrize("table", [OneBitMean(Epsilon("4")), LocalLaplace(Epsilon("4"), 127)])
def test_a_table_without_information_gives_no_distribution(table: NumberTable) -> None:
    counts = np.full(table.symbols, 1e6)
    assert distribution(table, counts) is None


class Blind(SquareWave):
    """Square wave that cannot distinguish its fifth point from its neighbours."""

    @property
    def rows(self) -> tuple[Row, ...]:
        rows = list(super().rows)
        rows[4] = tuple((a + b) // 2 for a, b in zip(rows[3], rows[5], strict=True))
        return tuple(rows)


def test_a_table_that_confuses_points_gives_no_distribution() -> None:
    counts = np.full(11, 1e6)
    assert distribution(SquareWave(Epsilon("1"), 8), counts) is not None
    assert distribution(Blind(Epsilon("1"), 8), counts) is None


def test_more_reports_give_a_finer_distribution_and_too_few_give_none() -> None:
    table = SquareWave(Epsilon("1"), 64)
    found = [informative_parts(table, n) for n in (10, 1_000, 10_000, 100_000, 10**7)]
    assert found == [None, 4, 8, 16, 16]
    assert informative_parts(LocalLaplace(Epsilon("1"), 64), 1_000) is None


@pytest.mark.parametrize("epsilon", ["1", "2", "4"])
def test_square_wave_has_less_variance_than_local_laplace(epsilon: str) -> None:
    for steps in (8, 16, 32):
        wave, other = (table(Epsilon(epsilon), steps) for table in (SquareWave, LocalLaplace))
        assert 5 * worst_variance(wave, 8) < worst_variance(other, 8)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("people", [300, 20_000])
def test_the_band_covers_the_whole_distribution(
    people: int, shape: Callable[[int], Places]
) -> None:
    """Measure the coverage.

    False alarms have probability 1e-9 per shape if the band covers in 95 %. In a run whose band
    holds, the intervals of all quantiles hold too.
    """
    bands, quantiles = misses(SquareWave(Epsilon("1"), 32), 8, people, shape, RUNS)
    assert bands <= ALLOWED
    assert quantiles <= bands


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("people", [300, pytest.param(20_000, marks=pytest.mark.long)])
def test_a_band_weighed_by_an_earlier_round_of_the_same_people_covers(
    people: int, shape: Callable[[int], Places]
) -> None:
    """False alarms have probability 1e-9 per shape if the band covers in 95 %."""
    bands, quantiles = misses(OPTIMAL, 8, people, shape, RUNS, weighed=True)
    assert bands <= ALLOWED
    assert quantiles <= bands


@pytest.mark.parametrize(
    "shape", [at_the_points, pytest.param(just_below_the_points, marks=pytest.mark.long)]
)
def test_a_weighed_band_of_too_low_confidence_fails_the_check(
    shape: Callable[[int], Places],
) -> None:
    bands, _ = misses(OPTIMAL, 8, 20_000, shape, RUNS, confidence=-3, weighed=True)
    assert bands > ALLOWED


@pytest.mark.parametrize(("epsilon", "least"), [("1", 0.97), ("2", 0.85), ("4", 0.6)])
def test_an_earlier_round_narrows_the_band_of_people_near_one_place(
    epsilon: str, least: float
) -> None:
    """The mean width of the limits of all R_k is at most this share of that with even weights.

    The band is narrower too, but by less: it also contains the share of one part.
    """
    table, places = optimal(epsilon, 16), np.linspace(0, 1, 2_001)
    weights = np.exp(-((places - 0.3) ** 2) / (2 * 0.03**2))
    fine = on_grid(table, places, weights / weights.sum())
    counts = (30_000 * fine @ rows_of(table))[None]
    (alone,), (weighed,) = (
        distributions(table, counts, earlier=earlier) for earlier in (None, [*counts])
    )
    assert alone is not None
    assert weighed is not None
    widths = [np.subtract(*made.below_interval[::-1]).mean() for made in (weighed, alone)]
    assert widths[0] < 0.99 * widths[1]
    assert weighed.below == pytest.approx(alone.below, abs=1e-9), "both are exact here"
    mixed = (1 - EVEN) * fine + EVEN / len(fine)
    values = weighed_values(table, 16, mixed)[0], cumulative_values(table, 16)[0]
    low, high = zip(*(estimation._limits(v, counts, 0.95, False, 0.0) for v in values), strict=True)
    narrow, wide = (np.subtract(*ends).mean() for ends in zip(high, low, strict=True))
    assert narrow <= least * wide


@pytest.mark.parametrize("shape", [at_the_points, just_below_the_points])
def test_a_band_of_too_low_confidence_fails_the_check(
    shape: Callable[[int], Places],
) -> None:
    """Twin: for these two shapes the band has no slack.

    At `confidence=-3`, each limit of the band has a confidence of 1/2.
    """
    bands, _ = misses(SquareWave(Epsilon("1"), 32), 8, 20_000, shape, RUNS, confidence=-3)
    assert bands > ALLOWED


def test_each_limit_has_the_confidence_that_makes_all_limits_hold() -> None:
    """Check the Bonferroni correction for the number of parts.

    An open round is corrected for every number of parts that it could have.
    """
    table = SquareWave(Epsilon("1"), 32)
    counts = np.arange(500.0, 500 + table.symbols)
    values = cumulative_values(table, 8)[0][0]
    order = np.argsort(values)
    first = {n: bounded_mean(values[order], counts[order], 1 - 0.05 / n) for n in (1, 8)}
    low, high = band(table, counts, 8, 0.95)
    assert low[1] == pytest.approx(max(first[8][0], 0), abs=1e-8)
    assert high[0] == pytest.approx(first[8][1], abs=1e-8)
    assert abs(high[0] - first[1][1]) > 1e-3
    open_high = mean(values[order], counts[order], 1 - 0.05 / (4 + 8 + 16))[1]
    assert band(table, counts, 8, 0.95, looks=True)[1][0] == pytest.approx(open_high, abs=1e-8)


def test_an_open_round_has_a_wider_band() -> None:
    table, counts = SquareWave(Epsilon("1"), 64), np.full(81, 200.0)
    counts[16:65] += 100
    once, always = (distribution(table, counts, looks=looks) for looks in (False, True))
    assert once is not None
    assert always is not None
    assert (always.parts, always.below.tolist()) == (once.parts, once.below.tolist())
    assert (always.below_interval[0] <= once.below_interval[0]).all()
    assert (always.below_interval[1] >= once.below_interval[1]).all()
    for mine, theirs in zip(once.share_interval, always.share_interval, strict=True):
        assert not np.allclose(mine, theirs)


def test_the_consistent_version_is_a_distribution_near_the_truth() -> None:
    """Raw estimates from expected counts are exact.

    The consistent version is only close, because its iteration stops early.
    """
    table = SquareWave(Epsilon("2"), 64)
    places, shares = smooth(0)
    fine = on_grid(table, places, shares)
    found = distribution(table, 1e6 * fine @ rows_of(table))
    assert found is not None
    truth = np.cumsum(estimation._at_points(64, found.parts) @ fine)  # the exact target
    halves = [(a + b) / 2 for a, b in pairwise([0, *truth])]
    assert found.below == pytest.approx(halves, abs=1e-9)
    assert found.share.sum() == pytest.approx(1)
    assert found.below_consistent == pytest.approx(np.cumsum(fine)[::4] - fine[::4] / 2, abs=0.02)
    for level, interval in zip(LEVELS, found.quantiles, strict=True):
        assert interval.estimate == pytest.approx(quantile(places, shares, level), abs=0.01)
        assert interval.low <= quantile(places, shares, level) <= interval.high


def test_the_maximum_likelihood_distribution_has_no_negative_share() -> None:
    table = SquareWave(Epsilon("1"), 64)
    for counts in (np.eye(81)[3] * 7, np.eye(81)[80], np.ones(81)):
        shares = likeliest(rows_of(table), counts)
        assert shares.sum() == pytest.approx(1)
        assert (shares >= 0).all()
