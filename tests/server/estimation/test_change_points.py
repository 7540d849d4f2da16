"""Change-points: a stated error rate over all rounds, and a step that is found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from deniable.server.estimation.change_points import (
    REPORTS,
    bit_factor,
    change_points,
    comparisons_of,
    mean_factor,
    share_factor,
)
from deniable.server.estimation.mean_limits import positions
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.mechanisms import (
    KRandomizedResponse,
    LocalLaplace,
    OneBitMean,
    RandomizedResponse,
    Ternary,
)

DAYS, PEOPLE, YEARS = 365, 1_500, 400
ERROR = 0.05


def year(rng: np.random.Generator, shares: list[float], epsilon: str) -> list[float]:
    """Return the estimates of rounds in which exactly these shares of people hold the answer."""
    design = RandomizedResponse(Epsilon(epsilon))
    keep, lie = design.keep / ONE, design.lie / ONE
    held = np.rint(np.array(shares) * PEOPLE).astype(int)
    counts = rng.binomial(held, keep) + rng.binomial(PEOPLE - held, lie)
    return [*((counts / PEOPLE - lie) / (keep - lie))]


def located(estimates: list[float], epsilon: str, comparisons: float | None = None) -> list[int]:
    factor = share_factor(RandomizedResponse(Epsilon(epsilon)))
    of = comparisons_of(len(estimates)) if comparisons is None else comparisons
    reports = np.full(len(estimates), PEOPLE)
    (found,) = change_points(np.array([estimates]), reports, factor, of, ERROR)
    return [change.at for change in found]


@pytest.mark.parametrize("rate", [1e-9, 0.001, 0.05, 0.3, 0.5, 0.9, 0.9999])
def test_no_bet_on_the_noise_of_a_bit_gains_on_average(rate: float) -> None:
    """Exact: the expected factor of the capital is at most 1 for every tilt.

    Twin: half of the variance factor fails, at some tilt.
    """
    factor = bit_factor(rate)
    tilts = np.concatenate([-np.geomspace(1e-3, 200, 2_000), np.geomspace(1e-3, 200, 2_000)])

    def growth(times: float) -> float:
        logarithm = np.logaddexp(
            math.log(rate) + tilts * (1 - rate), math.log1p(-rate) - tilts * rate
        )
        return float((logarithm - times * factor * tilts**2 / 2).max())

    assert growth(1) <= 1e-12
    assert growth(0.5) > 0


@pytest.mark.parametrize(
    "table", [Ternary(Epsilon("2")), LocalLaplace(Epsilon("1"), 8), OneBitMean(Epsilon("0.5"))]
)
def test_no_bet_on_the_noise_of_a_number_gains_on_average(table: NumberTable) -> None:
    """Check other positions and tilts than the code. Twin: the variance alone is too small."""
    values, factor = positions(table), mean_factor(table)
    tilts = np.concatenate([-np.geomspace(0.02, 150, 777), np.geomspace(0.02, 150, 777)])
    worst, with_variance = 0.0, 0.0
    for position in np.linspace(0, 1, 97).tolist():
        point = min(int(position * table.steps), table.steps - 1)
        up = position * table.steps - point
        rows = [np.array(table.rows[point + step]) / ONE for step in (0, 1)]
        chances = (1 - up) * rows[0] + up * rows[1]
        logarithm = np.log(np.exp(np.outer(tilts, values - position)) @ chances)
        worst = max(worst, float((logarithm - factor * tilts**2 / 2).max()))
        spread = chances @ (values - position) ** 2
        with_variance = max(with_variance, float((logarithm - spread * tilts**2 / 2).max()))
    assert worst <= 1e-12
    assert with_variance > 1e-9


@pytest.mark.parametrize("reports", [1, 30, 400])
def test_the_capital_of_the_mixed_bets_is_at_most_one_on_average(reports: int) -> None:
    """Sum over all counts. Twin: with half of the variance factor it exceeds 1."""
    rho = REPORTS

    def expected(times: float) -> float:
        counts, rate = np.arange(reports + 1), 0.2689
        factor = times * bit_factor(rate)
        noise = counts - reports * rate
        logarithm = noise**2 / (2 * factor * (reports + rho)) + math.log(rho / (reports + rho)) / 2
        return float(np.exp(binom.logpmf(counts, reports, rate) + logarithm).sum())

    assert expected(1) <= 1
    assert expected(0.5) > 1


def test_a_quiet_year_has_a_change_in_at_most_five_percent_of_cases() -> None:
    """More than 51 of 400 quiet years would have one with probability below 1e-9, at 5 % each.

    Twin: if the number of comparisons is ignored, most quiet years have one.
    """
    rng = np.random.default_rng(11)
    years = [year(rng, [0.2] * DAYS, "1") for _ in range(YEARS)]
    assert binom.sf(51, YEARS, ERROR) < 1e-9
    assert sum(bool(located(days, "1")) for days in years) <= 51
    assert sum(bool(located(days, "1", comparisons=0.1)) for days in years[:40]) > 20


def test_steps_are_located() -> None:
    rng = np.random.default_rng(5)
    shares = [0.1] * 100 + [0.3] * 40 + [0.1] * 100
    first, second = located(year(rng, shares, "1"), "1")
    assert abs(first - 100) <= 4
    assert abs(second - 140) <= 4


def test_drift_up_to_the_stated_change_is_no_change_and_more_is() -> None:
    """A share that rises by 1 point a day, with exact answers and no noise.

    Without noise, the statistic is largest: a drift of 1 point is never listed if 1 point is
    stated.
    """
    steady = np.array([0.1 + 0.01 * day for day in range(60)])
    reports = np.full(len(steady), 10_000_000)
    factor, of = share_factor(RandomizedResponse(Epsilon("1"))), comparisons_of(60)
    assert change_points(steady[None], reports, factor, of, ERROR, 0.0100001) == [[]]
    assert change_points(steady[None], reports, factor, of, ERROR, 0.009) != [[]]
    uneven = np.where(np.arange(60) % 2, reports, reports // 1_000)
    assert change_points(steady[None], uneven, factor, of, ERROR, 0.0100001) == [[]]


@pytest.mark.long
def test_a_drifting_year_has_a_change_in_at_most_five_percent_of_cases() -> None:
    """The share moves by the stated change every day, up and down in turns of 45 days.

    More than 28 of 150 would have one with probability below 1e-9, at 5 % each. Twin: if no change
    is stated, every year has one.
    """
    rng, drift = np.random.default_rng(12), 5 / PEOPLE
    turns = np.abs((np.arange(DAYS) + 45) % 90 - 45)
    years = [year(rng, [*(0.3 + drift * turns)], "1") for _ in range(150)]
    assert binom.sf(28, 150, ERROR) < 1e-9
    factor = share_factor(RandomizedResponse(Epsilon("1")))
    reports, of = np.full(DAYS, PEOPLE), comparisons_of(DAYS)

    def listed(allowed: float) -> int:
        made = change_points(np.array(years), reports, factor, of, ERROR, allowed)
        return sum(bool(changes) for changes in made)

    assert listed(drift) <= 28
    assert listed(0.0) > 28


def test_rounds_without_reports_are_skipped() -> None:
    estimates, reports = (
        np.array([[0.1, np.nan, 0.1, 0.9, np.nan, 0.9]]),
        np.array([5, 0, 5, 5, 0, 5]),
    )
    factor = share_factor(KRandomizedResponse(Epsilon("4"), 3))
    of = comparisons_of(6)
    assert change_points(estimates, reports * 1_000, factor, of, ERROR)[0][0].at == 3
    assert change_points(estimates, reports, factor, of, ERROR) == [[]]


def test_each_series_is_searched_as_if_it_were_alone() -> None:
    """Twin: the two series have different changes."""
    rng, reports, of = np.random.default_rng(6), np.full(60, PEOPLE), comparisons_of(60)
    years = np.array([year(rng, [0.1] * n + [0.3] * (60 - n), "1") for n in (20, 45)])
    factor = share_factor(RandomizedResponse(Epsilon("1")))
    together = change_points(years, reports, factor, of, ERROR)
    alone = [change_points(one[None], reports, factor, of, ERROR)[0] for one in years]
    assert together == alone
    assert alone[0] != alone[1]
