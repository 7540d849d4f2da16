"""What is measured of a mechanism: its errors, and what a report of it costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.server.estimation.shares import unbiased_share
from deniable.server.estimation.supports import supports
from deniable.server.intake.tally import COUNTERS
from deniable.server.planning.least_variance import RANGE
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.privacy.randomness import kernel_draw
from deniable.shared.privacy.shapes import Shape
from deniable.shared.privacy.shapes.number_table import NumberTable
from deniable.shared.privacy.shapes.support import SupportDesign
from deniable.simulations.engine import custom_mechanisms
from deniable.simulations.engine.comparison import number
from deniable.simulations.engine.study import Cell, Row
from deniable.simulations.population import fixed, on_grid

PEOPLE = 20_000  # at least, and as many with each answer
SOME = 5_000  # reports whose counting is timed
ENOUGH_NS = 3_000_000  # for timing one thing, about


def made_of(row: Cell | Row) -> Shape:
    """Of a cell, or of its row."""
    name, epsilon = str(row["mechanism"]), Epsilon(str(row["epsilon"]))
    if row["kind"] == "number":
        return custom_mechanisms.number_mechanism(name, epsilon)
    made: Shape = mechanisms()[name](epsilon, int(number(row, "size")))
    return made


def of_shares(
    design: SupportDesign, times: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """n times the squared error of a share, on average over the options, in each repetition."""
    each = -(-PEOPLE // design.options)
    people = each * design.options
    counts = fixed(design, [each] * design.options, times, generator).counts
    rates = np.array([supports(design, cells) for cells in counts]) / people
    errors = unbiased_share(rates, design) - 1 / design.options
    return np.asarray(people * (errors**2).mean(axis=1))


def of_numbers(
    table: NumberTable, times: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """n times the squared error of the mean; all people stand where it is largest."""
    place = worst_place(table)
    points = on_grid([place], [PEOPLE], table.steps, 20 * times, generator)
    counts = fixed(table, points, 20 * times, generator).counts
    values = np.array([float(value / table.steps) for value in table.values])
    errors = RANGE * (counts @ values / PEOPLE - place)
    return np.asarray(PEOPLE * errors**2)


def worst_place(table: NumberTable) -> float:
    """As a share of the range. Between two points whose variances are a and b, in steps, the worst
    is (1 + b - a) / 2 of the way, or one of them."""
    spread = [table.variance(1, i / table.steps) * table.steps**2 for i in range(table.answers)]
    worst = [
        (i + min(max((1 + spread[i + 1] - spread[i]) / 2, 0.0), 1.0)) / table.steps
        for i in range(table.steps)
    ]
    return max(worst, key=lambda place: table.variance(1, place))


def with_costs(row: Row) -> Row:
    """And how long a report takes, on a device and in a tally."""
    made = made_of(row)
    symbols = _reports(made, 20)
    answer: Any = made.answer_at(made.answers // 2)  # Any: in the mechanism's own form
    encoding, size = made.encoding, made.payload_size
    payload = b"".join(symbol.to_bytes(size, "little") for symbol in symbols)
    columns = np.frombuffer(payload * (SOME // len(symbols)), np.uint8).reshape(-1, size)
    count = COUNTERS[type(encoding)]
    randomize: Any = made.randomize  # Any: an answer in the mechanism's own form
    return {
        **row,
        "client_ns": _quickest(lambda: randomize(answer, kernel_draw)),
        "tally_ns": _quickest(lambda: count(encoding, columns)) / len(columns),
    }


def _reports(made: Shape, reports: int) -> list[int]:
    answer: Any = made.answer_at(made.answers // 2)  # Any: in the mechanism's own form
    return [made.randomize(answer, kernel_draw) for _ in range(reports)]


def _quickest(call: Callable[[], object]) -> float:
    """Nanoseconds of one call, the best of several, after one that is not timed."""
    call()
    best, begin = math.inf, perf_counter_ns()
    while (start := perf_counter_ns()) - begin < ENOUGH_NS:
        call()
        best = min(best, perf_counter_ns() - start)
    return best if best < math.inf else float(perf_counter_ns() - begin)
