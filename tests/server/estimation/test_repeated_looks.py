"""Confidence sequences: coverage over all looks, summed exactly for shares, sampled for means."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from deniable.server.estimation import mean_limits, share_limits
from deniable.server.estimation.mean_limits import positions
from deniable.server.estimation.shares import clopper_pearson as rate_limits
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanisms import (
    KRandomizedResponse,
    LocalLaplace,
    OneBitMean,
    RandomizedResponse,
    Ternary,
)

Array = npt.NDArray[np.float64]
Limits = Callable[[npt.NDArray[np.int64], int], tuple[Array, Array]]

SEEN = 1e-15  # rarer states are dropped and counted as misses
DESIGNS = [
    RandomizedResponse(Epsilon("0.5")),
    RandomizedResponse(Epsilon("4")),
    KRandomizedResponse(Epsilon("1"), 100),
]


def ever_missed(limits: Limits, rates: Array, truths: Array) -> float:
    """Return the probability that the interval of some look misses its truth.

    Reports arrive one by one. Each supports the value with its own rate, and a look follows every
    report.
    """
    alive, first = np.ones(1), 0
    for number, (rate, truth) in enumerate(zip(rates, truths, strict=True), 1):
        alive = np.append(alive, 0) * (1 - rate) + np.append(0, alive) * rate
        kept = np.flatnonzero(alive > SEEN)
        first, alive = first + int(kept[0]), alive[kept[0] : kept[-1] + 1]
        low, high = limits(first + np.arange(len(alive)), number)
        alive = np.where((low <= truth) & (truth <= high), alive, 0)
    return 1 - float(alive.sum())


def of_rates(counts: npt.NDArray[np.int64], reports: int) -> tuple[Array, Array]:
    return share_limits.anytime_rates(counts, reports, 0.95)


def of_holders(design: SupportDesign) -> Limits:
    return lambda counts, people: share_limits.anytime_holders(counts, people, design, 0.95)


def rate_of(design: SupportDesign, share: float) -> float:
    return (share * design.keep + (1 - share) * design.lie) / ONE


def orders(people: int) -> dict[str, npt.NDArray[np.bool_]]:
    """Return which people hold the value, by order of arrival."""
    number = np.arange(people)
    return {
        "every third": number % 3 == 0,
        "holders first": number < people // 4,
        "holders last": number >= people - people // 4,
        "none": number < 0,
    }


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_population_intervals_cover_at_every_look(design: SupportDesign, share: float) -> None:
    rates = np.full(400, rate_of(design, share))
    assert ever_missed(of_rates, rates, rates) <= 0.05


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("order", orders(1))
def test_intervals_about_these_people_cover_at_every_look(
    design: SupportDesign, order: str
) -> None:
    holders = orders(400)[order]
    rates = np.where(holders, design.keep / ONE, design.lie / ONE)
    shares = np.cumsum(holders) / np.arange(1, len(holders) + 1)
    assert ever_missed(of_holders(design), rates, shares) <= 0.05
    mean_rates = np.cumsum(rates) / np.arange(1, len(rates) + 1)
    assert ever_missed(of_rates, rates, mean_rates) <= 0.05


@pytest.mark.long
@pytest.mark.parametrize("design", DESIGNS[:2])
def test_intervals_cover_at_ten_thousand_looks(design: SupportDesign) -> None:
    holders = orders(10_000)["every third"]
    rates = np.where(holders, design.keep / ONE, design.lie / ONE)
    numbers = np.arange(1, len(holders) + 1)
    assert ever_missed(of_holders(design), rates, np.cumsum(holders) / numbers) <= 0.05
    assert ever_missed(of_rates, rates, np.cumsum(rates) / numbers) <= 0.05


def test_intervals_for_one_look_fail_the_same_checks() -> None:
    """Twins: intervals for a closed round miss at some look far more often than in 5 % of cases."""
    design = DESIGNS[0]
    holders = orders(400)["every third"]
    rates = np.where(holders, design.keep / ONE, design.lie / ONE)
    numbers = np.arange(1, 401)
    once = ever_missed(
        lambda counts, people: share_limits.share_limits(counts, people, design, 0.95),
        rates,
        np.cumsum(holders) / numbers,
    )
    assert once > 0.15
    same = np.full(400, 0.5)
    assert ever_missed(lambda c, n: rate_limits(c, n, 0.95), same, same) > 0.15


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("reports", [1, 30, 1_000, 10**6])
def test_limits_are_where_the_capital_reaches_its_threshold(
    design: SupportDesign, reports: int
) -> None:
    """Newton's method has converged, and the capital is above the threshold outside the limits."""
    counts = np.unique(np.linspace(0, reports, 9).astype(np.int64))
    needed = share_limits.needed_capital(0.95)
    rates, _ = share_limits.anytime_rates(counts, reports, 0.95)
    tilts = share_limits._around(counts.astype(float), np.array(float(reports)))
    capital = np.log(
        np.exp(
            tilts * counts[:, None] - reports * np.log1p(rates[:, None] * np.expm1(tilts)) - needed
        ).sum(1)
    )
    assert capital == pytest.approx(0, abs=1e-5)
    low, high = share_limits.anytime_holders(counts, reports, design, 0.95)
    assert (low < high).all()


TABLES = [
    OneBitMean(Epsilon("1")),
    LocalLaplace(Epsilon("1"), 8),
    LocalLaplace(Epsilon("4"), 8),
    Ternary(Epsilon("2"), 2),
]
PLACES = {"low": (1.0, 0.0), "ends": (0.5, 0.5), "most low": (0.95, 0.05)}


def missed(table: NumberTable, shares: tuple[float, float], runs: int, looks: int) -> float:
    """Return the share of runs in which the interval for people or population ever misses."""
    rng = np.random.default_rng(20270101)
    rows = np.array([table.rows[0], table.rows[-1]], dtype=np.float64) / ONE
    rows /= rows.sum(1, keepdims=True)
    failed = 0
    for _ in range(runs):
        high = rng.random(looks) < shares[1]
        rolls = rng.random(looks)
        symbols = [
            int(np.searchsorted(np.cumsum(rows[int(h)]), u))
            for h, u in zip(high, rolls, strict=True)
        ]
        counts = np.zeros(table.symbols)
        for number, symbol in enumerate(symbols, 1):
            counts[min(symbol, table.symbols - 1)] += 1
            if number % 25 and number > 10:
                continue
            truth = high[:number].mean()
            like = mean_limits.anytime_mean(positions(table), counts, 0.95)
            these = mean_limits.anytime_mean_of_these(table, counts, 0.95)
            if not (like[0] <= shares[1] <= like[1] and these[0] <= truth <= these[1]):
                failed += 1
                break
    return failed / runs


@pytest.mark.long
@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table.name}-{table.epsilon}")
@pytest.mark.parametrize("places", PLACES)
def test_means_are_covered_at_every_look(table: NumberTable, places: str) -> None:
    """Test by sampling that the code agrees with the proof of coverage.

    In at most 10 % of runs, some interval misses. More than 21 of 60 runs would then miss with
    probability below 1e-7.
    """
    assert missed(table, PLACES[places], 60, 300) <= 21 / 60


@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table.name}-{table.epsilon}")
def test_the_growth_bound_holds_for_every_population(table: NumberTable) -> None:
    """At every tilt, the concave bound is above the growth of every mixture of positions."""
    rng = np.random.default_rng(3)
    values = positions(table)
    tilts = share_limits.TILTS / (values[-1] - values[0])
    rows = np.array(table.rows, dtype=np.float64) / ONE
    grid = np.linspace(0, 1, table.steps + 1)
    for tilt, corners in zip(tilts[::6], mean_limits._growths(table, False)[::6], strict=True):
        for _ in range(20):
            places, weights = rng.random(3), rng.dirichlet([1, 1, 1])
            growth = np.log(np.interp(places, grid, rows @ np.exp(tilt * values)))
            assert weights @ growth <= np.interp(weights @ places, *corners) + 1e-12


@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table.name}-{table.epsilon}")
def test_bets_are_fair_games(table: NumberTable) -> None:
    """For every stake the expectation under the truth is 1, up to floating-point error."""
    values = positions(table)
    rows = np.array(table.rows, dtype=np.float64) / ONE
    for position, row in zip(np.linspace(0, 1, table.steps + 1), rows, strict=True):
        expected = row @ (1 + np.multiply.outer(mean_limits._stakes(values), values - position)).T
        assert expected == pytest.approx(1, abs=1e-9)
