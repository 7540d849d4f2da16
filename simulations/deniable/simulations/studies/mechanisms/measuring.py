"""What is measured of a mechanism: its errors, and what a report of it costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.server.estimation.shares import unbiased_share
from deniable.server.estimation.support_counts import support_counts
from deniable.server.intake.tally import COUNTERS
from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import RANGE, NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanism import FamilyTable, Mechanism
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.privacy.randomness import kernel_draw
from deniable.simulations.engine import custom_mechanisms
from deniable.simulations.engine.comparison import number
from deniable.simulations.engine.study import Cell, Row
from deniable.simulations.population import fixed, on_grid

Squares = NDArray[np.float64]

LARGE = 500  # options, from which on a few repetitions tell as much
PEOPLE = 20_000  # at least, and as many with each answer
SOME = 5_000  # reports whose counting is timed
ENOUGH_NS = 3_000_000  # for timing one thing, about


def made_of(row: Cell | Row) -> Mechanism:
    """Of a cell, or of its row."""
    name, epsilon = str(row["mechanism"]), Epsilon(str(row["epsilon"]))
    if row["kind"] == "number":
        return custom_mechanisms.number_mechanism(name, epsilon)
    made: Mechanism = mechanisms()[name](epsilon, int(number(row, "size")))
    return made


def measured(made: Mechanism, times: int, generator: np.random.Generator) -> Squares:
    """Return n times the squared errors of its estimates."""
    return ERRORS.of(made)(made, times, generator)


def of_shares(design: SupportDesign, times: int, generator: np.random.Generator) -> Squares:
    """n times the squared error of a share, on average over the options, in each repetition."""
    times = times if design.size < LARGE else times // 10
    each = -(-PEOPLE // design.options)
    people = each * design.options
    counts = fixed(design, [each] * design.options, times, generator).counts
    rates = np.array([support_counts(design, cells) for cells in counts]) / people
    errors = unbiased_share(rates, design) - 1 / design.options
    return np.asarray(people * (errors**2).mean(axis=1))


def of_numbers(table: NumberTable, times: int, generator: np.random.Generator) -> Squares:
    """n times the squared error of the mean; all people stand where it is largest."""
    place = worst_place(table)
    points = on_grid([place], [PEOPLE], table.steps, 20 * times, generator)
    counts = fixed(table, points, 20 * times, generator).counts
    values = np.array([float(value / table.steps) for value in table.values])
    errors = RANGE * (counts @ values / PEOPLE - place)
    return np.asarray(PEOPLE * errors**2)


def _refused(made: Mechanism, times: int, generator: np.random.Generator) -> Squares:  # noqa: ARG001 # as all have it
    raise WrongUse(f"{made.name} is not measured here: this study is about bits, choices, numbers")


# Any: each function takes the family of its key
ERRORS: FamilyTable[Callable[[Any, int, np.random.Generator], Squares]] = FamilyTable(
    {Mechanism: _refused, SupportDesign: of_shares, NumberTable: of_numbers}
)


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


def _reports(made: Mechanism, reports: int) -> list[int]:
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
