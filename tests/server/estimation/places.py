"""Populations of numbers, and a count of the distribution bands that miss the truth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.distribution import (
    EVEN,
    LEVELS,
    band,
    likeliest,
    quantile_interval,
    weighed_values,
)
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.number_table import NumberTable

Array = npt.NDArray[np.float64]
Places = tuple[Array, Array]  # positions, and the share of people at each

JUST = 1e-7


def rows_of(table: NumberTable) -> Array:
    return np.array([[units / ONE for units in row] for row in table.rows])


def on_grid(table: NumberTable, places: Array, shares: Array) -> Array:
    """Return the share of people at each grid point after stochastic rounding."""
    below = np.minimum((places * table.steps).astype(int), table.steps - 1)
    up = places * table.steps - below
    counted: Array = np.bincount(
        np.concatenate([below, below + 1]),
        np.concatenate([shares * (1 - up), shares * up]),
        table.steps + 1,
    ).astype(np.float64)
    return counted


def smooth(parts: int) -> Places:
    del parts
    places = np.linspace(0, 1, 2_001)
    weights = places * (1 - places) ** 4
    return places, weights / weights.sum()


def at_the_points(parts: int) -> Places:
    """Put everyone exactly on a point, so that the band's upper limits have no slack."""
    return np.linspace(0, 1, parts + 1), np.full(parts + 1, 1 / (parts + 1))


def just_below_the_points(parts: int) -> Places:
    """Put everyone just below a point, so that the band's lower limits have no slack."""
    return np.linspace(0, 1, parts + 1)[1:] - JUST, np.full(parts, 1 / parts)


def mostly_zero(parts: int) -> Places:
    del parts
    return np.array([0.0, 0.31, 0.9]), np.array([0.7, 0.25, 0.05])


SHAPES: list[Callable[[int], Places]] = [smooth, at_the_points, just_below_the_points, mostly_zero]


def at_or_below(places: Array, shares: Array, points: Array) -> Array:
    return np.array([shares[places <= point + 1e-12].sum() for point in points])


def quantile(places: Array, shares: Array, level: float) -> float:
    return float(places[np.searchsorted(np.cumsum(shares) + 1e-12, level)])


def reports_of(table: NumberTable, held: npt.NDArray[np.int64], rng: np.random.Generator) -> Array:
    """Draw the counts of reports of people at grid points."""
    rows = rows_of(table)
    drawn = [rng.multinomial(n, row / row.sum()) for n, row in zip(held, rows, strict=True)]
    counts: Array = np.sum(drawn, axis=0).astype(np.float64)
    return counts


def misses(
    table: NumberTable, parts: int, people: int, shape: Callable[[int], Places],
    runs: int, confidence: float = 0.95, *, weighed: bool = False,
) -> tuple[int, int]:  # fmt: skip
    """Count bands that miss, and runs in which some quantile's interval misses.

    People are drawn at random from the population. If `weighed`, the same people with the same
    answers were in an earlier round, whose distribution weighs this one's.
    """
    rng = np.random.default_rng(20261201)
    places, shares = shape(parts)
    truth = at_or_below(places, shares, np.linspace(0, 1, parts + 1))
    quantiles = [quantile(places, shares, level) for level in LEVELS]
    rates = on_grid(table, places, shares) @ rows_of(table)
    bands = quantiles_missed = 0
    for _ in range(runs):
        counts, solved = rng.multinomial(people, rates / rates.sum()).astype(float), None
        if weighed:
            held_by = rng.multinomial(people, on_grid(table, places, shares))
            counts, before = (reports_of(table, held_by, rng) for _ in range(2))
            likely = likeliest(rows_of(table), before)
            weights = (1 - EVEN) * likely + EVEN / len(likely)
            solved = weighed_values(table, parts, weights)
        low, high = held = band(table, counts, parts, confidence, False, solved)
        bands += not bool((low <= truth + 1e-9).all() and (truth <= high + 1e-9).all())
        ends = [quantile_interval(level, *held) for level in LEVELS]
        quantiles_missed += any(
            not a - 1e-9 <= q <= b + 1e-9 for q, (a, b) in zip(quantiles, ends, strict=True)
        )
    return bands, quantiles_missed
