"""Every mechanism against the least possible error: measured, predicted, and its cost.

Errors are n times the variance that noise and rounding add: of one option's share where all shares
are equal, or of the mean of numbers that are all at the worst point, with the range as [-1, 1]. So
they do not depend on the people. The least error that is known to be possible is that of
`deniable plan`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import cycle
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from deniable.server.estimation.point_estimates import support_counts, unbiased_share
from deniable.server.intake.tally import COUNTERS
from deniable.server.planning.variances import least_n_variance
from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import RANGE, NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanism import FamilyTable, Mechanism
from deniable.shared.privacy.mechanisms import mechanisms, sizes
from deniable.shared.privacy.randomness import kernel_draw
from deniable.simulations.engine import comparison, custom_mechanisms, option
from deniable.simulations.engine.comparison import look, number, pick
from deniable.simulations.engine.figures import FAINT
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.population import fixed, on_grid
from deniable.simulations.studies.building_blocks import bars, chart, paragraphs

if TYPE_CHECKING:
    import matplotlib.figure

Squares = NDArray[np.float64]
MANY_OPTIONS = 500  # from here on a tenth of the repetitions is as informative
PEOPLE = 20_000  # at least, and the same number with each answer
TIMED_REPORTS = 5_000  # reports that are counted together when counting is timed
TIMING_NS = 3_000_000  # spent on timing one thing, roughly
OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.Option(
        "options",
        "4,16,128,1024,8192,65536",
        option.several(option.whole(2, 65_536)),
        "how many options",
    ),
    option.repetitions(200, 100),
)


def cells(options: Options) -> Sequence[Cell]:
    """Return the cells; numbers are on the grid where each mechanism has the least error."""
    asked = [("bit", name, 2) for name in mechanisms("bit")]
    asked += [("number", name, 0) for name in mechanisms("number")]
    asked += [
        ("choice", name, k)
        for k in options["options"]
        for name in mechanisms("choice")
        if k <= sizes("choice", name)[1]
    ]
    times = options["repetitions"]
    return [
        {"kind": kind, "mechanism": name, "size": size, "epsilon": epsilon, "repetitions": times}
        for kind, name, size in asked
        for epsilon in options["epsilon"]
    ]


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    mechanism, times = _mechanism_of(cell), int(cell["repetitions"])
    squares = SQUARED_ERRORS.of(mechanism)(mechanism, times, generator)
    return [
        {
            "mechanism": mechanism.name,
            "kind": mechanism.kind,
            "epsilon": str(mechanism.epsilon),
            "size": mechanism.size,
            "predicted_n_variance": mechanism.n_variance(),
            "measured_n_variance": float(squares.mean()),
            "measurement_error": float(squares.std(ddof=1) / math.sqrt(len(squares))),
            "limit": least_n_variance(mechanism),
            "payload_bytes": mechanism.payload_size,
        }
    ]


def _mechanism_of(row: Cell | Row) -> Mechanism:
    """Return the mechanism of a cell, or of its row."""
    name, epsilon = str(row["mechanism"]), Epsilon(str(row["epsilon"]))
    if row["kind"] == "number":
        return custom_mechanisms.number_mechanism(name, epsilon)
    mechanism: Mechanism = mechanisms()[name](epsilon, int(number(row, "size")))
    return mechanism


def _share_errors(design: SupportDesign, times: int, generator: Generator) -> Squares:
    """Return n times the squared error of a share, averaged over the options, per repetition."""
    times = times if design.size < MANY_OPTIONS else times // 10
    holders = -(-PEOPLE // design.options)
    people = holders * design.options
    counts = fixed(design, [holders] * design.options, times, generator).counts
    rates = np.array([support_counts(design, cells) for cells in counts]) / people
    errors = unbiased_share(rates, design) - 1 / design.options
    return np.asarray(people * (errors**2).mean(axis=1))


def _number_errors(table: NumberTable, times: int, generator: Generator) -> Squares:
    """Return n times the squared error of the mean, with all people at the worst point."""
    point = worst_point(table)
    points = on_grid([point], [PEOPLE], table.steps, 20 * times, generator)
    counts = fixed(table, points, 20 * times, generator).counts
    values = np.array([float(value / table.steps) for value in table.values])
    errors = RANGE * (counts @ values / PEOPLE - point)
    return np.asarray(PEOPLE * errors**2)


def worst_point(table: NumberTable) -> float:
    """Return where the variance is largest, as a share of the range.

    Between two grid points whose variances are a and b, in steps, the worst point is
    (1 + b - a) / 2 of the way, or one of them.
    """
    spread = [table.variance(1, i / table.steps) * table.steps**2 for i in range(table.answers)]
    worst = [
        (i + min(max((1 + spread[i + 1] - spread[i]) / 2, 0.0), 1.0)) / table.steps
        for i in range(table.steps)
    ]
    return max(worst, key=lambda point: table.variance(1, point))


def _refuse(
    mechanism: Mechanism,
    times: int,  # noqa: ARG001 # as all functions of the table
    generator: Generator,  # noqa: ARG001 # as above
) -> Squares:
    raise WrongUse(f"{mechanism.name}: this study covers bits, choices and numbers only")


# Any: each function takes the family of its key
SQUARED_ERRORS: FamilyTable[Callable[[Any, int, Generator], Squares]] = FamilyTable(
    {Mechanism: _refuse, SupportDesign: _share_errors, NumberTable: _number_errors}
)


def _with_costs(row: Row) -> Row:
    """Return the row with the time of a report, on a device and in a tally."""
    mechanism = _mechanism_of(row)
    randomize: Any = mechanism.randomize  # Any: an answer in the mechanism's own form
    answer: Any = mechanism.answer_at(mechanism.answers // 2)  # Any: as above
    encoding, size = mechanism.encoding, mechanism.payload_size
    symbols = [randomize(answer, kernel_draw) for _ in range(20)]
    payload = b"".join(symbol.to_bytes(size, "little") for symbol in symbols)
    columns = np.frombuffer(payload * (TIMED_REPORTS // len(symbols)), np.uint8).reshape(-1, size)
    count = COUNTERS[type(encoding)]
    return {
        **row,
        "client_ns": _fastest_ns(lambda: randomize(answer, kernel_draw)),
        "tally_ns": _fastest_ns(lambda: count(encoding, columns)) / len(columns),
    }


def _fastest_ns(call: Callable[[], object]) -> float:
    """Return the shortest duration of several calls, after one that is not timed."""
    call()
    best, begin = math.inf, perf_counter_ns()
    while (start := perf_counter_ns()) - begin < TIMING_NS:
        call()
        best = min(best, perf_counter_ns() - start)
    return best if best < math.inf else float(perf_counter_ns() - begin)


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon = comparison.middle(options["epsilon"])
    costly = [_with_costs(row) for row in rows]
    shown = pick(costly, epsilon=epsilon)
    off = max(
        abs(number(row, "measured_n_variance") - number(row, "predicted_n_variance"))
        / number(row, "measurement_error")
        for row in rows
    )
    return Report(
        findings=_findings(rows, options),
        figures=[
            Figure(
                "options",
                f"n times the variance of one option divided by the least possible, at ε {epsilon}"
                ", against the number of options. Lines are formulas, points are simulations.",
                lambda: _figure(
                    pick(shown, kind="choice"), "size", f"Choices, ε {epsilon}", "options"
                ),
            ),
            Figure(
                "numbers",
                "The same for the mean of numbers at the worst point, against ε.",
                lambda: _figure(pick(costly, kind="number"), "epsilon", "Numbers", "ε"),
            ),
        ],
        tables=[_table(shown, epsilon)],
        method=paragraphs(
            f"""{PEOPLE:,} people, or a few more where shares must be equal; only noise is drawn.
            Errors do not depend on the people.

            The largest distance of a measured value from its formula is {off:.1f} Monte-Carlo
            errors.

            The time of a report on a device includes the kernel's randomness; that of counting one
            is measured on {TIMED_REPORTS:,} reports together. Both belong to this machine and this
            run and are in the JSON form only: a second run does not reproduce them."""
        ),
        document={"options": dict(options), "rows": costly},
    )


def _over(row: Row, key: str = "predicted_n_variance") -> float:
    return number(row, key) / number(row, "limit")


def _label(row: Row) -> str:
    return custom_mechanisms.label(str(row["kind"]), str(row["mechanism"]))


def _findings(rows: Sequence[Row], options: Options) -> list[str]:
    least: dict[tuple[object, ...], Row] = {}
    for row in (row for row in rows if row["limit"] is not None):
        asked = (row["kind"], row["epsilon"], row["size"] if row["kind"] == "choice" else 0)
        least[asked] = min(least.get(asked, row), row, key=_over)
    far = max(least.values(), key=_over)
    epsilon, most = comparison.middle(options["epsilon"]), max(options["options"])
    many = pick(rows, kind="choice", size=most, epsilon=epsilon)
    best, worst = min(many, key=_over), max(many, key=_over)
    return paragraphs(
        f"""The best mechanism for each question has at most {_over(far):.3f} times the least
        possible variance: {_label(far)} at ε {far["epsilon"]}, size {number(far, "size"):,}.

        With {most:,} options at ε {epsilon}, {_label(best)} has {_over(best):.4f} times the least
        in {best["payload_bytes"]} bytes, and {_label(worst)} {_over(worst):,.4g} times."""
    )


def _figure(rows: Sequence[Row], key: str, title: str, axis: str) -> matplotlib.figure.Figure:
    picture, axes = chart(title, axis, "variance / least")
    names = dict.fromkeys(str(row["mechanism"]) for row in rows)
    for name, appearance in zip(names, cycle(map(look, range(6))), strict=False):
        mine = [row for row in pick(rows, mechanism=name) if row["limit"] is not None]
        x, predicted = [float(str(row[key])) for row in mine], [_over(row) for row in mine]
        axes.plot(x, predicted, color=appearance.color, ls=appearance.dash, label=_label(mine[0]))
        measured = [_over(row, "measured_n_variance") for row in mine]
        errors = [3 * _over(row, "measurement_error") for row in mine]
        bars(axes, list(zip(x, measured, errors, strict=True)), appearance)
    axes.axhline(1, color=FAINT, linewidth=1)
    axes.legend()
    return picture


def _table(rows: Sequence[Row], epsilon: str) -> Table:
    return Table(
        f"Every mechanism at ε {epsilon}",
        ["kind", "size", "mechanism", "n × variance", "/ least", "bytes", "device", "count"],
        [
            [
                str(row["kind"]),
                f"{number(row, 'size'):,}",
                _label(row),
                f"{number(row, 'predicted_n_variance'):,.4g}",
                "-" if row["limit"] is None else f"{_over(row):,.4g}",
                f"{number(row, 'payload_bytes'):,}",
                f"{number(row, 'client_ns') / 1e3:,.3g} µs",
                f"{number(row, 'tally_ns'):,.3g} ns",
            ]
            for row in rows
        ],
    )


STUDY = Study(
    name="mechanisms",
    question="How close is each way of randomizing to the least possible error?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(("what is compared", r"\dfrac{n \cdot \mathrm{variance}}{\mathrm{least}}"),),
)
