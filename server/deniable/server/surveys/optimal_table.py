"""The optimal table of a number, in integers that hold its proof: made when a survey is published.

The search gives weights, values and intervals in doubles. Rounding is toward more noise: each low
level goes up to a multiple of 2^-64, and the few units that a row lacks go to a probability that is
low there. Then the values are corrected until no row's mean is off by more than 2^-50 of a step,
as integers measure. The table itself proves the rest.
"""

from __future__ import annotations

from functools import lru_cache
from operator import mul

import numpy as np

from deniable.server.surveys.table_search import Half, NoTable, search
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import OptimalTable
from deniable.shared.privacy.mechanisms.optimal_table import VALUE_UNIT
from deniable.shared.privacy.thresholds import ONE, PROOF_PRECISION, exp_interval

ENOUGH_EPSILON = 12.0  # for the search: beyond it, rounding to the grid is nearly all of the error
LARGEST_BIAS = VALUE_UNIT * ONE >> 50
CORRECTIONS = 20

Column = list[int]  # the units of each answer


@lru_cache(maxsize=64)
def optimal_table(epsilon: Epsilon, steps: int) -> OptimalTable:
    """Return the optimal table, always the same one on one machine.

    Raises NoTable if none is found and proved.
    """
    return whole_table(search(min(float(epsilon), ENOUGH_EPSILON), steps), epsilon, steps)


def whole_table(found: list[Half], epsilon: Epsilon, steps: int) -> OptimalTable:
    """Convert the result of a search to integers that satisfy its proof."""
    columns = _whole(found, epsilon, steps)
    offsets = _unbiased([round(half.value * steps / 2 * VALUE_UNIT) for half in found], columns)
    lower = sorted(
        [steps * VALUE_UNIT // 2 - abs(offset), *(column if offset < 0 else column[::-1])]
        for offset, column in zip(offsets, columns, strict=True)
    )
    try:
        return OptimalTable(epsilon, steps, [integer for symbol in lower for integer in symbol])
    except ValueError as error:
        raise NoTable(f"the table found at ε {epsilon} with {steps} steps: they {error}") from None


def _whole(found: list[Half], epsilon: Epsilon, steps: int) -> list[Column]:
    """Low levels rounded up, all a little smaller than found, so that every row lacks something:
    it goes to the largest probability that is low there."""
    highs = [int(half.weight * ONE) for half in found]
    most = ONE
    while True:
        columns = [
            _two_levels(high * ONE // most, half, epsilon, steps)
            for high, half in zip(highs, found, strict=True)
        ]
        sums = _sums(columns)
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


def _sums(columns: list[Column]) -> list[int]:
    """Return the sums of the rows up to the middle one, with each symbol's mirror image."""
    rows = list(zip(*columns, strict=True))
    return [sum(row) + sum(rows[-1 - at]) for at, row in enumerate(rows[: len(rows) // 2 + 1])]


def _give(units: int, answer: int, columns: list[Column]) -> None:
    """Add units to this row and to its mirror image; the middle row is its own image."""
    last = len(columns[0]) - 1
    column, at = max(
        ((column, at) for column in columns for at in (answer, last - answer)),
        key=lambda place: (place[0][place[1]] < max(place[0]), place[0][place[1]]),
    )
    column[at] += units // 2 if 2 * answer == last else units


def _unbiased(offsets: list[int], columns: list[Column]) -> list[int]:
    """Return the distance of each value from the middle that makes the table unbiased.

    The smallest corrections are found in doubles and measured in integers until hardly any bias
    is left.
    """
    last = len(columns[0]) - 1
    upper = range(last // 2 + 1, last + 1)
    apart = [[column[at] - column[last - at] for column in columns] for at in upper]
    inverse = np.linalg.pinv(np.array(apart, dtype=float) / ONE)
    for _ in range(CORRECTIONS):
        bias = [
            (2 * at - last) * VALUE_UNIT // 2 * ONE - sum(map(mul, row, offsets))
            for at, row in zip(upper, apart, strict=True)
        ]
        if max(map(abs, bias)) <= LARGEST_BIAS:
            break
        moved = inverse @ np.array([each / ONE for each in bias])
        offsets = [old + round(more) for old, more in zip(offsets, moved, strict=True)]
    return offsets
