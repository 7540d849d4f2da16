"""The search for the unbiased table whose largest variance is least, at one ε and on one grid.

With x in [-1, 1], it solves a linear programme over columns with two levels, high on an interval S
of the grid and e^-ε of that elsewhere, and a value v:

    minimise t    such that at every x    sum q(x) = 1,  sum q(x) v = x,  sum q(x) v^2 - x^2 <= t

where q(x) is a column's weight w, or w e^-ε. There are infinitely many v. So the programme is
solved for a few columns; its dual prices tell for each S which v would lower t most, in closed
form, as a price is quadratic in v; those columns are added, until none lowers t (column
generation). Two values for one S are worse than their mean, so each S has one in the end. x and -x
are alike: half of it is solved. Sets S that are no intervals were tried, and lower t by nothing.

Sources: Kairouz, Oh, Viswanath 2016, "Extremal mechanisms for local differential privacy", Journal
of Machine Learning Research 17(17), for two levels; Gilmore, Gomory 1961, "A linear programming
approach to the cutting-stock problem", Operations Research 9(6), for column generation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deniable.shared.errors import DeniableError

MOST_ROUNDS = 100
GAIN = 1e-6  # of t: what a column must promise, or the search is over
NEARLY = 0.02  # of t: columns that are so near to being used are kept
LEAST_WEIGHT = 1e-9
LARGEST_VALUE = 3.0  # in units of one bit's
TOLERANCE = 1e-10

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


class NoTable(DeniableError):
    """Raised if the search finds no table, or none that satisfies its proof."""


@dataclass(frozen=True)
class Half:
    """A symbol of the upper half; its mirror image belongs to the lower one."""

    weight: float  # of the answers from first to last
    value: float  # with the range as [-1, 1]
    first: int
    last: int


def search(epsilon: float, steps: int, bend: float | None = None) -> list[Half]:
    """Search for a table. With `bend`, minimize second moments, up to t (1 + bend x^2) at x."""
    programme = Programme.of(epsilon, steps, bend)
    every, starts = np.arange(len(programme.intervals)), np.linspace(0, 1.5, 7)
    place, value = np.repeat(every, len(starts)), np.tile(starts, len(every))
    least, weight, prices = programme.solve(place, value)
    for _ in range(MOST_ROUNDS):
        best = programme.best_values(prices)
        gain = programme.gain(prices, every, best)
        if gain.max() <= GAIN * least:
            break
        near = programme.gain(prices, place, value) > -NEARLY * least
        kept, new = near | (weight > 0), np.flatnonzero(gain > GAIN * least / 10)
        place, value = np.append(place[kept], new), np.append(value[kept], best[new])
        least, weight, prices = programme.solve(place, value)
    return _merged(programme, place, value, weight)


def _merged(programme: Programme, place: Indices, value: Array, weight: Array) -> list[Half]:
    """One symbol for each interval that is used, with the mean of its values."""
    used = []
    for each, (first, last) in enumerate(programme.intervals):
        mine = place == each
        if (total := float(weight[mine].sum())) > LEAST_WEIGHT:
            mean = float(weight[mine] @ value[mine]) / total
            used.append(Half(total, mean * programme.reach, first, last))
    return used


@dataclass(frozen=True)
class Prices:
    """The dual prices at each x >= 0: of its row's sum, of its mean, of its second moment."""

    one: Array
    mean: Array
    square: Array


@dataclass(frozen=True)
class Programme:
    """The grid's upper half, and every interval's levels there: values are in units of `reach`."""

    x: Array
    reach: float
    intervals: list[tuple[int, int]]
    both: Array  # an interval's column and its mirror image at x: their sum,
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
        """The least t with these columns, their weights, and what each constraint costs."""
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
        mean = np.append(0.0, equal[rows:])
        prices = Prices(equal[:rows], mean, found.ineqlin.marginals)
        return float(found.fun), found.x[:-1], prices

    def gain(self, prices: Prices, place: Indices, value: Array) -> Array:
        """Return by how much a unit of each column would lower t, to first order."""
        fixed, slope, bend = self._price(prices)
        return np.asarray(fixed[place] + slope[place] * value + bend[place] * value**2)

    def best_values(self, prices: Prices) -> Array:
        """Return the value that gains most in each interval."""
        _, slope, bend = self._price(prices)
        bent = bend < -np.finfo(float).eps
        best = np.divide(-slope, 2 * bend, out=np.zeros(len(bend)), where=bent)
        return np.clip(best, 0, LARGEST_VALUE)

    def _price(self, prices: Prices) -> tuple[Array, Array, Array]:
        return self.both @ prices.one, self.apart @ prices.mean, self.both @ prices.square
