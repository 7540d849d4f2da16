"""Change points: rounds at which the respondents' share or mean changes.

For each round, windows of 1, 2, 4, 8, ... rounds before it are compared with such windows that
begin at it. Let d_A and d_B be the errors of the estimates in two windows of n_A and n_B reports.
The noise of a report, given the answer, is sub-Gaussian with a variance factor v. Bets on its sum,
mixed over a normal distribution of tilts, have the capital [1]

    M_A = √(ρ / (n_A + ρ)) exp(n_A² d_A² / (2 v (n_A + ρ)))

which is a fair game, report by report, and so is M_A M_B. If the true values are equal, their
difference D is at most |d_A| + |d_B|, and the least log(M_A M_B) for this D is

    D² / (2 v (n_A + ρ) / n_A² + 2 v (n_B + ρ) / n_B²) - (log(1 + n_A / ρ) + log(1 + n_B / ρ)) / 2

If that reaches log(number of comparisons / error), the true values differ. By Ville's inequality
the probability that any comparison, of any two windows, at any look, is wrong is at most `error`:
the noise of different reports is independent even if the same people answer in many rounds.

If the true values may move by at most M from one round to the next, those of the two windows differ
by at most M times the distance between their reports' mean rounds. D is reduced by that much, so
only drift beyond M counts as a change.

The narrowest windows that differ locate a change; the search then continues on both sides of it.

[1] Robbins 1970, "Statistical methods related to the law of the iterated logarithm", Annals of
    Mathematical Statistics 41(5).
[2] Buldygin, Moskvichova 2013, "The sub-Gaussian norm of a binary random variable", Theory of
    Probability and Mathematical Statistics 86.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from deniable.server.estimation.mean_limits import places_of, positions
from deniable.server.estimation.statements import Array, Cells
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import SupportDesign

REPORTS = 100.0  # ρ for each round of a window: numbers of reports near 15 ρ cost the least
TILTS = np.geomspace(0.01, 100, 200)
OUTWARD = 1.01  # allows for tilts between these


class ChangePoint(NamedTuple):
    """Change at a round, located by windows from round `first` to `last`; all are indexes."""

    at: int
    first: int
    last: int
    rises: bool


def change_points(
    estimates: Array,
    reports: Cells,
    factor: float,
    comparisons: float,
    error: float,
    drift: float = 0.0,
) -> list[list[ChangePoint]]:
    """Return the changes in each row of estimates, in order; rounds may have no reports.

    A true value that moves by at most `drift` from one round to the next is no change.
    """
    differing: list[list[tuple[ChangePoint, float]]] = [[] for _ in estimates]
    needed = math.log(comparisons / error)
    for row, change, excess in _differing(estimates, reports, factor, needed, drift):
        differing[row].append((change, excess))
    return [_narrowest(pairs, len(reports)) for pairs in differing]


def _narrowest(differing: list[tuple[ChangePoint, float]], rounds: int) -> list[ChangePoint]:
    """Return the changes located by the narrowest windows that do not overlap another change."""
    found, open_parts = list[ChangePoint](), [(0, rounds)]
    differing.sort(key=lambda pair: (pair[0].last - pair[0].first, -pair[1]))
    while open_parts:
        start, end = open_parts.pop()
        inside = (one for one, _ in differing if start <= one.first and one.last < end)
        if (change := next(inside, None)) is not None:
            found.append(change)
            open_parts += [(start, change.at), (change.at, end)]
    return sorted(found)


def comparisons_of(rounds: int) -> int:
    """Return the number of pairs of windows in this number of rounds."""
    lengths = _lengths(rounds)
    return sum(max(0, rounds + 1 - before - after) for before, after in product(lengths, lengths))


def _lengths(rounds: int) -> list[int]:
    return [2**power for power in range(rounds.bit_length())]


class _Windows(NamedTuple):
    """All windows of one length, by their first round."""

    rounds: int
    people: Array
    middle: Array  # mean round of the reports
    variance: Array
    paid: Array
    means: Array  # one row for each series

    def part(self, first: int, number: int) -> _Windows:
        """Return this number of windows, starting at `first`."""
        return _Windows(self.rounds, *(array[..., first : first + number] for array in self[1:]))


def _windows(estimates: Array, reports: Cells, factor: float) -> Iterator[_Windows]:
    known = np.where(reports > 0, estimates, 0) * reports
    order = np.arange(len(reports)) * reports
    counted, moments, totals = (_summed(values) for values in (reports, order, known))
    for length in _lengths(len(reports)):
        people, middle, total = (
            summed[..., length:] - summed[..., :-length] for summed in (counted, moments, totals)
        )
        n, rho = np.maximum(people, 1), length * REPORTS
        paid = np.log1p(n / rho) / 2
        variance = 2 * factor * (n + rho) / n**2
        yield _Windows(length, people, middle / n, variance, paid, total / n)


def _summed(values: Array | Cells) -> Array:
    """Return the sum of the first 0, 1, 2, ... values of each row."""
    before = np.zeros((*values.shape[:-1], 1))
    return np.concatenate([before, np.cumsum(values, axis=-1)], axis=-1)


def _differing(
    estimates: Array, reports: Cells, factor: float, needed: float, drift: float
) -> Iterator[tuple[int, ChangePoint, float]]:
    """Yield each pair of windows whose true values differ: its row, and its excess capital."""
    windows = [*_windows(estimates, reports, factor)]
    for one, other in product(windows, windows):
        if (number := len(reports) + 1 - one.rounds - other.rounds) <= 0:
            continue
        before, after = one.part(0, number), other.part(one.rounds, number)
        allowed = drift * (after.middle - before.middle)
        variance, paid = before.variance + after.variance, before.paid + after.paid
        rise = after.means - before.means
        excess = np.maximum(np.abs(rise) - allowed, 0) ** 2 / variance - paid - needed
        differ = (excess > 0) & (np.minimum(before.people, after.people) > 0)
        for row, first in np.argwhere(differ).tolist():
            at, last = first + one.rounds, first + one.rounds + other.rounds - 1
            rises = bool(rise[row, first] > 0)
            yield row, ChangePoint(at, first, last, rises), excess[row, first]


# The variance factor of one report's noise: log E[e^(t noise)] <= t² factor / 2 for every t


def share_factor(design: SupportDesign) -> float:
    keep, lie = design.keep / ONE, design.lie / ONE
    return max(bit_factor(keep), bit_factor(lie)) / (keep - lie) ** 2


def bit_factor(rate: float) -> float:
    """Return the least factor of a bit with this probability [2]."""
    if abs(rate - 0.5) < 1e-6:
        return 0.25
    return (1 - 2 * rate) / (2 * math.log((1 - rate) / rate))


@lru_cache(maxsize=64)
def mean_factor(table: NumberTable) -> float:
    """Return the largest factor at any position, in units of the range."""
    rows = np.array([[units / ONE for units in row] for row in table.rows])
    values, places = positions(table), places_of(table)
    grid, span = np.linspace(0, 1, table.steps + 1), float(values[-1] - values[0])
    largest = 0.0
    for tilt in np.concatenate([-TILTS, TILTS]) / span:
        logarithm = np.log(np.interp(places, grid, rows @ np.exp(tilt * (values - 0.5))))
        largest = max(largest, float((2 * (logarithm - tilt * (places - 0.5)) / tilt**2).max()))
    return min(OUTWARD * largest, span**2 / 4)  # Hoeffding's lemma bounds it too
