"""Search for the unbiased number table with the least worst-case variance, for an ε and a grid.

The search: with x in [-1, 1], solve a linear programme over columns with a value v and two levels,
high on an interval S of the grid and e^-ε times as high elsewhere:

    minimise t    such that at every x    sum q(x) = 1,  sum q(x) v = x,  sum q(x) v^2 - x^2 <= t

where q(x) is a column's weight w, or w e^-ε. There are infinitely many v, so the programme is
solved for a few columns. Its dual prices give, for each S, the v that would lower t most, in closed
form, since a price is quadratic in v. Those columns are added until none lowers t (column
generation). Two values for one S are worse than their mean, so each S has one value in the end.
Because x and -x are symmetric, only half of the programme is solved. Sets S that are not intervals
were tried, and do not lower t.

The integers, which the proof uses: weights, values and intervals are computed in doubles. Rounding
is toward more noise: each low level is rounded up to a multiple of 2^-64, and the few units missing
in a row are added to a probability that is low in that row. Then the values are corrected until no
row's mean is off by more than 2^-50 of a step, measured in integers. `OptimalTable` checks the
rest.

Sources: Kairouz, Oh, Viswanath 2016, "Extremal mechanisms for local differential privacy", Journal
of Machine Learning Research 17(17), for two levels; Gilmore, Gomory 1961, "A linear programming
approach to the cutting-stock problem", Operations Research 9(6), for column generation.
"""

from __future__ import annotations

from functools import lru_cache
from operator import mul
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from deniable.shared.errors import DeniableError
from deniable.shared.privacy.epsilon import ONE, PROOF_PRECISION, Epsilon, exp_interval
from deniable.shared.privacy.mechanisms import OptimalTable
from deniable.shared.privacy.mechanisms.optimal_table import VALUE_UNIT

# Above this ε, which limits the search, rounding to the grid causes nearly all of the error.
MAX_SEARCH_EPSILON = 12.0
MAX_SEARCH_ROUNDS = 100
MIN_GAIN = 1e-6  # relative to t: smallest gain of a new column with which the search continues
MAX_LOSS = 0.02  # relative to t: unused columns with a greater loss are dropped
MIN_WEIGHT = 1e-9
MAX_VALUE = 3.0  # relative to the one-bit mechanism's value
TOLERANCE = 1e-10
MAX_BIAS = VALUE_UNIT * ONE >> 50
MAX_CORRECTIONS = 20

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Column = list[int]  # a column's units for each answer


class NoTable(DeniableError):
    """Raised if the search finds no table for which the proof holds."""


@lru_cache(maxsize=64)
def optimal_table(epsilon: Epsilon, steps: int) -> OptimalTable:
    """Return the optimal table, always the same on a given machine, or raise NoTable."""
    return whole_table(search(min(float(epsilon), MAX_SEARCH_EPSILON), steps), epsilon, steps)


# The search


class Half(NamedTuple):
    """Symbol of the upper half, whose mirror image is a symbol of the lower half."""

    weight: float  # the symbol's probability for the answers from first to last
    value: float  # the symbol's value, with the range as [-1, 1]
    first: int
    last: int


def search(epsilon: float, steps: int, bend: float | None = None) -> list[Half]:
    """Search for a table. With `bend`, minimize second moments, up to t (1 + bend x^2) at x."""
    programme = Programme.of(epsilon, steps, bend)
    every, starts = np.arange(len(programme.intervals)), np.linspace(0, 1.5, 7)
    place, value = np.repeat(every, len(starts)), np.tile(starts, len(every))
    least, weight, prices = programme.solve(place, value)
    for _ in range(MAX_SEARCH_ROUNDS):
        best = programme.best_values(prices)
        gain = programme.gain(prices, every, best)
        if gain.max() <= MIN_GAIN * least:
            break
        near = programme.gain(prices, place, value) > -MAX_LOSS * least
        kept, new = near | (weight > 0), np.flatnonzero(gain > MIN_GAIN * least / 10)
        place, value = np.append(place[kept], new), np.append(value[kept], best[new])
        least, weight, prices = programme.solve(place, value)
    used = []
    for number, (first, last) in enumerate(programme.intervals):
        same = place == number
        if (total := float(weight[same].sum())) > MIN_WEIGHT:
            mean = float(weight[same] @ value[same]) / total
            used.append(Half(total, mean * programme.reach, first, last))
    return used


class Prices(NamedTuple):
    """Dual prices of each interval. A column v costs `one` + `mean` v + `square` v^2."""

    one: Array
    mean: Array
    square: Array


class Programme(NamedTuple):
    """Linear programme on the grid's upper half; values are in units of `reach`."""

    x: Array
    reach: float
    intervals: list[tuple[int, int]]
    both: Array  # at x, the sum of an interval's column and its mirror image,
    apart: Array  # and their difference
    bend: float | None = None

    @staticmethod
    def of(epsilon: float, steps: int, bend: float | None = None) -> Programme:
        half, points = steps // 2, np.arange(steps + 1)
        intervals = [
            (first, last)
            for first in range(1, steps + 1)
            for last in range(max(first, steps - first), steps + 1)
        ]
        high = np.array([(first <= points) & (points <= last) for first, last in intervals])
        levels = np.where(high, 1.0, np.exp(-epsilon))
        right, left = levels[:, half:], levels[:, half::-1]
        x, reach = np.arange(half + 1) / half, float(1 / np.tanh(epsilon / 2))
        return Programme(x, reach, intervals, right + left, right - left, bend)

    def solve(self, place: Indices, value: Array) -> tuple[float, Array, Prices]:
        """Return the least t with these columns, the columns' weights, and the prices."""
        from scipy.optimize import linprog

        rows, scaled = len(self.x), self.x / self.reach
        both, apart = self.both[place].T, self.apart[place].T
        room = np.ones(rows) if self.bend is None else 1 + self.bend * self.x**2
        sums = np.vstack([both, (apart * value)[1:]])  # at x = 0 the mean is 0 by symmetry
        found = linprog(
            np.append(np.zeros(len(place)), 1),
            A_ub=np.hstack([both * value**2, -room[:, None]]),
            b_ub=scaled**2 if self.bend is None else np.zeros(rows),
            A_eq=np.hstack([sums, np.zeros((len(sums), 1))]),
            b_eq=np.concatenate([np.ones(rows), scaled[1:]]),
            method="highs-ds",
            options={
                "primal_feasibility_tolerance": TOLERANCE,
                "dual_feasibility_tolerance": TOLERANCE,
            },
        )
        if found.x is None or found.fun is None:
            raise NoTable(f"the search for a table ended early: {found.message}")
        equal = found.eqlin.marginals
        prices = Prices(
            one=self.both @ equal[:rows],
            mean=self.apart @ np.append(0.0, equal[rows:]),
            square=self.both @ found.ineqlin.marginals,
        )
        return float(found.fun), found.x[:-1], prices

    def gain(self, prices: Prices, place: Indices, value: Array) -> Array:
        """Return the first-order decrease of t per unit of each column."""
        linear = prices.one[place] + prices.mean[place] * value
        return np.asarray(linear + prices.square[place] * value**2)

    def best_values(self, prices: Prices) -> Array:
        """Return the value with the greatest gain in each interval."""
        bent = prices.square < -np.finfo(float).eps
        best = np.zeros(len(bent))
        np.divide(-prices.mean, 2 * prices.square, out=best, where=bent)
        return np.clip(best, 0, MAX_VALUE)


# The integers


def whole_table(halves: list[Half], epsilon: Epsilon, steps: int) -> OptimalTable:
    """Convert the result of a search to integers for which the proof holds."""
    columns = _columns(halves, epsilon, steps)
    offsets = _unbiased([round(half.value * steps / 2 * VALUE_UNIT) for half in halves], columns)
    lower = sorted(
        [steps * VALUE_UNIT // 2 - abs(offset), *(column if offset < 0 else column[::-1])]
        for offset, column in zip(offsets, columns, strict=True)
    )
    try:
        return OptimalTable(epsilon, steps, [integer for symbol in lower for integer in symbol])
    except ValueError as error:
        raise NoTable(
            f"the table found at ε {epsilon} with {steps} steps is invalid: its integers {error}"
        ) from None


def _columns(halves: list[Half], epsilon: Epsilon, steps: int) -> list[Column]:
    """Scale all levels down slightly, so that every row lacks units, and round low levels up.

    Add the missing units to the largest probability that is low in that row.
    """
    highs = [int(half.weight * ONE) for half in halves]
    most = ONE
    while True:
        columns = [
            _two_levels(high * ONE // most, half, epsilon, steps)
            for high, half in zip(highs, halves, strict=True)
        ]
        # The sums of the rows up to the middle one, including mirror images.
        rows = list(zip(*columns, strict=True))
        sums = [sum(row) + sum(rows[-1 - at]) for at, row in enumerate(rows[: len(rows) // 2 + 1])]
        if max(sums) <= ONE:
            break
        most += max(sums) - ONE + len(columns)
    for answer, total in enumerate(sums):
        _give(ONE - total, answer, columns)
    return columns


def _two_levels(high: int, half: Half, epsilon: Epsilon, steps: int) -> Column:
    least_ratio = exp_interval(*epsilon.ratio, PROOF_PRECISION).low
    low = max(1, -(-(high << PROOF_PRECISION) // least_ratio))
    return [high if half.first <= at <= half.last else low for at in range(steps + 1)]


def _give(units: int, answer: int, columns: list[Column]) -> None:
    """Add units to a row and to its mirror image; the middle row is its own mirror image."""
    last = len(columns[0]) - 1
    column, at = max(
        ((column, at) for column in columns for at in (answer, last - answer)),
        key=lambda place: (place[0][place[1]] < max(place[0]), place[0][place[1]]),
    )
    column[at] += units // 2 if 2 * answer == last else units


def _unbiased(offsets: list[int], columns: list[Column]) -> list[int]:
    """Return the distances of the values from the middle that make the table unbiased.

    Compute the smallest corrections in doubles and the remaining bias in integers, until that bias
    is negligible.
    """
    last = len(columns[0]) - 1
    upper = range(last // 2 + 1, last + 1)
    apart = [[column[at] - column[last - at] for column in columns] for at in upper]
    inverse = np.linalg.pinv(np.array(apart, dtype=float) / ONE)
    for _ in range(MAX_CORRECTIONS):
        bias = [
            (2 * at - last) * VALUE_UNIT // 2 * ONE - sum(map(mul, row, offsets))
            for at, row in zip(upper, apart, strict=True)
        ]
        if max(map(abs, bias)) <= MAX_BIAS:
            break
        corrections = inverse @ np.array([error / ONE for error in bias])
        offsets = [old + round(more) for old, more in zip(offsets, corrections, strict=True)]
    return offsets
