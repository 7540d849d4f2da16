"""Every mechanism: its error, computed and measured, against the least possible; its cost.

Errors are n times the variance that noise and rounding add, so they do not depend on the number of
people. For bits and choices, this is the variance of one option's share if all shares are equal.
For numbers, it is the variance of the mean if all people are at the worst point, with the range as
[-1, 1]. The least possible error is the one that `deniable plan` uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from deniable.server.estimation.shares import support_counts, unbiased_share
from deniable.server.intake.tally import COUNTERS
from deniable.server.planning.forecast import least_n_variance
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import RANGE, NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanism import Mechanism, kernel_draw
from deniable.shared.privacy.mechanisms import mechanisms, sizes
from deniable.simulations.engine import custom_mechanisms, estimators, figures, option, sentences
from deniable.simulations.engine.estimators import Estimator, Rows, middle, number
from deniable.simulations.engine.study import Cell, Options, Report, Row, Study
from deniable.simulations.population import fixed, on_grid

Array = NDArray[np.float64]
MANY_OPTIONS = 500  # with this many options, a tenth of the repetitions is enough
PEOPLE = 20_000  # rounded up so that every option has equally many people
TIMED_REPORTS = 5_000  # reports counted together to time counting
TIMING_NS = 3_000_000  # approximate time spent on timing one function
COMPARED = ("measured_n_variance", "predicted_n_variance", "measurement_error")
OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.sizes("options", "4,16,128,1024,8192,65536", 2, 65_536, "numbers of options"),
    option.repetitions(200, 100),
)


def cells(options: Options) -> Sequence[Cell]:
    """Return a cell for each mechanism, size and ε; number mechanisms choose their own grid."""
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
        {"kind": kind, "estimator": name, "size": size, "epsilon": epsilon, "repetitions": times}
        for kind, name, size in asked
        for epsilon in options["epsilon"]
    ]


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    mechanism, times = _mechanism_of(cell), int(cell["repetitions"])
    if isinstance(mechanism, NumberTable):
        errors = _number_errors(mechanism, times, generator)
    else:
        assert isinstance(mechanism, SupportDesign), "bits and choices"
        errors = _share_errors(mechanism, times, generator)
    measured, error = estimators.mean_square(errors)
    return [
        {
            "model": "local",
            "estimator": mechanism.name,
            "kind": mechanism.kind,
            "epsilon": str(mechanism.epsilon),
            "size": mechanism.size,
            "predicted_n_variance": mechanism.n_variance(),
            "measured_n_variance": measured,
            "measurement_error": error,
            "limit": least_n_variance(mechanism),
            "payload_bytes": mechanism.payload_size,
        }
    ]


def _mechanism_of(row: Cell | Row) -> Mechanism:
    """Return the mechanism of a cell or row."""
    name, epsilon = str(row["estimator"]), Epsilon(str(row["epsilon"]))
    if row["kind"] == "number":
        return custom_mechanisms.number_mechanism(name, epsilon)
    mechanism: Mechanism = mechanisms()[name](epsilon, int(number(row, "size")))
    return mechanism


def _share_errors(design: SupportDesign, times: int, generator: Generator) -> Array:
    """Sample the errors of the shares, scaled by √n, for each repetition."""
    times = times if design.size < MANY_OPTIONS else times // 10
    holders = -(-PEOPLE // design.options)
    people = holders * design.options
    counts = fixed(design, [holders] * design.options, times, generator).counts
    rates = np.array([support_counts(design, cells) for cells in counts]) / people
    errors = unbiased_share(rates, design) - 1 / design.options
    return np.asarray(math.sqrt(people) * errors)


def _number_errors(table: NumberTable, times: int, generator: Generator) -> Array:
    """Sample the error of the mean, scaled by √n, with everyone at the worst point."""
    point = worst_point(table)
    points = on_grid([point], [PEOPLE], table.steps, 20 * times, generator)
    counts = fixed(table, points, 20 * times, generator).counts
    values = np.array([float(value / table.steps) for value in table.values])
    return np.asarray(math.sqrt(PEOPLE) * RANGE * (counts @ values / PEOPLE - point))


def worst_point(table: NumberTable) -> float:
    """Return the point with the largest variance, as a share of the range.

    Between two grid points with variances a and b (in squared steps), the variance is largest
    (1 + b - a) / 2 of the way from the first to the second, or at one of the two.
    """
    spread = [table.variance(1, i / table.steps) * table.steps**2 for i in range(table.answers)]
    worst = [
        (i + min(max((1 + spread[i + 1] - spread[i]) / 2, 0.0), 1.0)) / table.steps
        for i in range(table.steps)
    ]
    return max(worst, key=lambda point: table.variance(1, point))


def _with_costs(row: Row) -> Row:
    """Return the row with the times to randomize and to count one report."""
    mechanism = _mechanism_of(row)
    randomize: Any = mechanism.randomize  # Any: the answer type of the mechanism
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
    """Return the shortest duration of several calls, after a first call that is not timed."""
    call()
    best, begin = math.inf, perf_counter_ns()
    while (start := perf_counter_ns()) - begin < TIMING_NS:
        call()
        best = min(best, perf_counter_ns() - start)
    return best if best < math.inf else float(perf_counter_ns() - begin)


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon = middle(options["epsilon"])
    costly = Rows(_with_costs(row) for row in rows)
    shown = costly.at(epsilon=epsilon)
    choices, numbers = shown.at(kind="choice"), costly.at(kind="number")
    bar = (partial(_over, key="measured_n_variance"), partial(_over, key="measurement_error", of=3))
    return Report(
        _findings(Rows(rows), options),
        [
            figures.ratio_figure(
                "options",
                "The variance of one option's share divided by the least possible, at "
                f"ε {epsilon}, against the number of options. Lines are formulas, points are "
                "simulations.",
                [(f"Choices, ε {epsilon}", choices, _over)],
                *(_estimators("choice"), "size", "variance / least"), words="options", bar=bar,
            ),
            figures.ratio_figure(
                "numbers",
                "The variance of the mean of numbers at the worst point of the range, divided by "
                "the least possible, against ε. Lines are formulas, points are simulations.",
                [("Numbers", numbers, _over)],
                *(_estimators("number"), "epsilon", "variance / least"), words="ε", bar=bar,
            ),
        ],
        [
            sentences.table(
                f"Every mechanism at ε {epsilon}",
                shown,
                {"kind": "kind", "size": "size", "mechanism": "estimator"},
                {
                    "n × variance": _text("predicted_n_variance", ",.4g"),
                    "/ least": _text(_over, ",.4g"),
                    "bytes": _text("payload_bytes", ",.0f"),
                    "device": _text(lambda row: number(row, "client_ns") / 1e3, ",.3g", " µs"),
                    "count": _text("tally_ns", ",.3g", " ns"),
                },
            )
        ],
        sentences.paragraphs(
            f"""The simulation has fixed answers of {PEOPLE:,} people, or of a few more to make all
            shares equal. Only the noise is random. Errors do not depend on the people.

            The largest difference between a measured value and its formula is
            {sentences.worst_deviation(rows, COMPARED):.1f} Monte-Carlo standard errors.

            The time of a report on a device includes drawing randomness from the kernel. The time
            to count a report is measured on {TIMED_REPORTS:,} reports together. Both times depend
            on this machine and run. They are in the JSON document but not in the CSV, which is
            reproducible."""
        ),
        {"rows": costly},
    )  # fmt: skip


def _estimators(kind: str) -> list[Estimator]:
    return custom_mechanisms.local_estimators(kind, list(mechanisms(kind)), ())


def _text(key: estimators.Value, form: str, unit: str = "") -> Callable[[Rows], str]:
    """Return a table column: a formatted number of the first row, or "-" if it is missing."""

    def text(rows: Rows) -> str:
        value = estimators.value_of(rows[0], key)
        return "-" if value is None else f"{value:{form}}{unit}"

    return text


def _over(row: Row, key: str = "predicted_n_variance", of: float = 1.0) -> float | None:
    return None if row["limit"] is None else of * number(row, key) / number(row, "limit")


def _label(row: Row) -> str:
    return custom_mechanisms.label(str(row["kind"]), str(row["estimator"]))


def _findings(rows: Rows, options: Options) -> list[str]:
    known = Rows(row for row in rows if row["limit"] is not None)
    choices = known.at(kind="choice").groups("epsilon", "size")
    others = Rows(row for row in known if row["kind"] != "choice").groups("kind", "epsilon")
    least = [min(rows, key=_ratio) for rows in (*others.values(), *choices.values())]
    far, epsilon = max(least, key=_ratio), middle(options["epsilon"])
    most = max(options["options"])
    many = known.at(kind="choice", size=most, epsilon=epsilon)
    best, worst = min(many, key=_ratio), max(many, key=_ratio)
    return sentences.paragraphs(
        f"""For every question, the best mechanism has at most {_ratio(far):.3f} times the least
        possible variance. The largest ratio is that of {_label(far)} at ε {far["epsilon"]} and size
        {number(far, "size"):,.0f}.

        With {most:,} options at ε {epsilon}, {_label(best)} has {_ratio(best):.4f} times the least
        possible variance in reports of {best["payload_bytes"]} bytes. {_label(worst)} has
        {_ratio(worst):,.4g} times the least possible variance."""
    )


def _ratio(row: Row) -> float:
    return number(row, _over)


STUDY = Study(
    name="mechanisms",
    question="How close is each way of randomizing to the least possible error?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(("the ratio in the figures", r"\dfrac{n \cdot \mathrm{variance}}{\mathrm{least}}"),),
)
