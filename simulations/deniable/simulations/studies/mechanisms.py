"""Every mechanism beside the least error that is possible: measured, foretold, and what it costs.

Errors are n times the variance that noise and rounding add: of one option's share where all shares
are alike, or of the mean of numbers that all stand at the worst place, with the range as [-1, 1].
So they do not depend on the people. The least that is known to be possible is that of
`deniable plan`.

The JSON form: `options` and `rows` (`mechanism`, `kind`, `epsilon`, `size`: options, or steps of a
number's grid, `predicted_n_variance`, `measured_n_variance`, `measurement_error`, `limit`: null
where none is known closely, `payload_bytes`, `client_ns` and `tally_ns`: for one report).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import cycle
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
from numpy.typing import NDArray

from deniable.server.estimation.shares import unbiased_share
from deniable.server.estimation.supports import supports
from deniable.server.intake.tally import COUNTERS
from deniable.server.planning.least_variance import RANGE, least_n_variance, n_variance
from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import mechanisms, sizes
from deniable.shared.privacy.randomness import kernel_draw
from deniable.shared.privacy.shapes import Shape
from deniable.shared.privacy.shapes.grouped import GroupedDesign
from deniable.shared.privacy.shapes.number_table import NumberTable
from deniable.shared.privacy.shapes.support import SupportDesign
from deniable.shared.privacy.shapes.vector_design import VectorDesign
from deniable.simulations.frame import comparison, option, own
from deniable.simulations.frame.comparison import look, number
from deniable.simulations.frame.figures import FAINT, new_figure
from deniable.simulations.frame.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.population import fixed, on_grid

if TYPE_CHECKING:
    import matplotlib.figure

PEOPLE = 20_000  # at least, and as many with each answer
SOME = 5_000  # reports whose counting is timed
ENOUGH_NS = 3_000_000  # for timing one thing, about
LARGE = 500  # options, from which on a few repetitions tell as much

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
    """Numbers are on the grid where each mechanism errs least."""
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


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    made, times = _made(cell), int(cell["repetitions"])
    match made:
        case NumberTable():
            squares = _of_numbers(made, times, generator)
        case SupportDesign():
            squares = _of_shares(made, times if made.size < LARGE else times // 10, generator)
        case VectorDesign():  # its moments are what a population of vectors is drawn from
            raise WrongUse("vectors have no part in this study: ./run bench --only vectors")
        case GroupedDesign():
            raise WrongUse(f"{made.name}: this study is about mechanisms of one group")
        case _:
            assert_never(made)
    return [
        {
            "mechanism": made.name,
            "kind": made.kind,
            "epsilon": str(made.epsilon),
            "size": made.size,
            "predicted_n_variance": n_variance(made),
            "measured_n_variance": float(squares.mean()),
            "measurement_error": float(squares.std(ddof=1) / math.sqrt(len(squares))),
            "limit": least_n_variance(made),
            "payload_bytes": made.payload_size,
        }
    ]


def _made(row: Cell | Row) -> Shape:
    """Of a cell, or of its row."""
    name, epsilon = str(row["mechanism"]), Epsilon(str(row["epsilon"]))
    if row["kind"] == "number":
        return own.number_mechanism(name, epsilon)
    made: Shape = mechanisms()[name](epsilon, int(number(row, "size")))
    return made


def _of_shares(
    design: SupportDesign, times: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """n times the squared error of a share, on average over the options, in each repetition."""
    each = -(-PEOPLE // design.options)
    people = each * design.options
    counts = fixed(design, [each] * design.options, times, generator).counts
    rates = np.array([supports(design, cells) for cells in counts]) / people
    errors = unbiased_share(rates, design) - 1 / design.options
    return np.asarray(people * (errors**2).mean(axis=1))


def _of_numbers(
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


# What it costs


def _costs(row: Row) -> Row:
    made = _made(row)
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


# What is read


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon = comparison.middle(options["epsilon"])
    costly = [_costs(row) for row in rows]
    chosen = comparison.pick(costly, epsilon=epsilon)
    return Report(
        findings=_findings(rows, options),
        figures=[
            Figure(
                "options",
                f"n times the variance of one option over the least that is possible, at ε "
                f"{epsilon}, against the number of options. Lines are formulas, points are "
                "simulations.",
                lambda: _against(
                    comparison.pick(chosen, kind="choice"),
                    "size",
                    f"Choices, ε {epsilon}",
                    "options",
                ),
            ),
            Figure(
                "numbers",
                "The same for the mean of numbers at the worst place, against ε.",
                lambda: _against(comparison.pick(costly, kind="number"), "epsilon", "Numbers", "ε"),
            ),
        ],
        tables=[_table(chosen, epsilon)],
        method=[
            (
                f"{PEOPLE:,} people, or a few more where shares are to be alike; only noise is "
                "drawn. Errors do not depend on the people."
            ),
            f"{_off(rows):.1f} Monte-Carlo errors is the most that a figure is off its formula.",
            (
                "The time of a report on a device is with the kernel's randomness; that of "
                f"counting one is of {SOME:,} at once. Both are of this machine and this run, and "
                "stand in the JSON form only: they are no part of what is computed again to the "
                "byte."
            ),
        ],
        document={
            "options": dict(options),
            "rows": costly,
        },
    )


def _over(row: Row, key: str = "predicted_n_variance") -> float:
    return number(row, key) / number(row, "limit")


def _off(rows: Sequence[Row]) -> float:
    return max(
        abs(number(r, "measured_n_variance") - number(r, "predicted_n_variance"))
        / number(r, "measurement_error")
        for r in rows
    )


def _findings(rows: Sequence[Row], options: Options) -> list[str]:
    known = [row for row in rows if row["limit"] is not None]
    least: dict[tuple[object, ...], Row] = {}
    for row in known:
        asked = (row["kind"], row["epsilon"], row["size"] if row["kind"] == "choice" else 0)
        least[asked] = min(least.get(asked, row), row, key=_over)
    far = max(least.values(), key=_over)
    epsilon, most = comparison.middle(options["epsilon"]), max(options["options"])
    many = comparison.pick(rows, kind="choice", size=most, epsilon=epsilon)
    best, worst = min(many, key=_over), max(many, key=_over)
    return [
        (
            f"The best mechanism for each question is at most {_over(far):.3f} times the least "
            f"variance that is possible: that is {_label(far)} at ε {far['epsilon']}, size "
            f"{number(far, 'size'):,}."
        ),
        (
            f"With {most:,} options at ε {epsilon}, {_label(best)} has {_over(best):.4f} times "
            f"the least in {best['payload_bytes']} bytes, and {_label(worst)} "
            f"{_over(worst):,.4g} times."
        ),
    ]


def _label(row: Row) -> str:
    return own.label(str(row["kind"]), str(row["mechanism"]))


def _against(rows: Sequence[Row], key: str, title: str, axis: str) -> matplotlib.figure.Figure:
    figure = new_figure()
    axes = figure.subplots()
    names = dict.fromkeys(str(row["mechanism"]) for row in rows)
    for name, appearance in zip(names, cycle(map(look, range(6))), strict=False):
        mine = [r for r in rows if r["mechanism"] == name and r["limit"] is not None]
        x = [float(str(r[key])) for r in mine]
        over = [_over(r) for r in mine]
        axes.plot(x, over, color=appearance.color, ls=appearance.dash, label=_label(mine[0]))
        bars = [3 * _over(r, "measurement_error") for r in mine]
        measured = [_over(r, "measured_n_variance") for r in mine]
        axes.errorbar(
            x, measured, yerr=bars, fmt=appearance.marker, color=appearance.color, capsize=2
        )
    axes.axhline(1, color=FAINT, linewidth=1)
    axes.set(xscale="log", yscale="log", xlabel=axis, ylabel="variance / the least", title=title)
    axes.grid(visible=True, which="major")
    axes.legend()
    return figure


def _table(rows: Sequence[Row], epsilon: str) -> Table:
    return Table(
        f"Every mechanism at ε {epsilon}",
        ["kind", "size", "mechanism", "n × variance", "over the least", "bytes", "device", "count"],
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
    question="How near does each way of randomizing come to the least error there can be?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(("what is compared", 'n · "variance" / "least"'),),
)
