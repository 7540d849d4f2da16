"""Every mechanism against the least possible error: measured, predicted, and its cost.

Errors are n times the variance that noise and rounding add: of one option's share where all shares
are equal, or of the mean of numbers that are all at the worst point, with the range as [-1, 1]. So
they do not depend on the people. The least error that is known to be possible is the one that
`deniable plan` states.
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
from deniable.simulations.engine import custom_mechanisms, figures, option, sentences
from deniable.simulations.engine.estimators import (
    Estimator,
    Rows,
    Value,
    mean_square,
    middle,
    number,
    value_of,
)
from deniable.simulations.engine.study import Cell, Options, Report, Row, Study
from deniable.simulations.population import fixed, on_grid

Array = NDArray[np.float64]
MANY_OPTIONS = 500  # from here on a tenth of the repetitions is as informative
PEOPLE = 20_000  # at least, and the same number with each answer
TIMED_REPORTS = 5_000  # reports that are counted together when counting is timed
TIMING_NS = 3_000_000  # spent on timing one thing, roughly
COMPARED = ("measured_n_variance", "predicted_n_variance", "measurement_error")
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
        {"kind": kind, "estimator": name, "size": size, "epsilon": epsilon, "repetitions": times}
        for kind, name, size in asked
        for epsilon in options["epsilon"]
    ]


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    mechanism, times = _mechanism_of(cell), int(cell["repetitions"])
    if isinstance(mechanism, NumberTable):
        measured, error = mean_square(_number_errors(mechanism, times, generator))
    else:
        assert isinstance(mechanism, SupportDesign), "bits and choices"
        measured, error = mean_square(_share_errors(mechanism, times, generator))
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
    """Return the mechanism of a cell, or of its row."""
    name, epsilon = str(row["estimator"]), Epsilon(str(row["epsilon"]))
    if row["kind"] == "number":
        return custom_mechanisms.number_mechanism(name, epsilon)
    mechanism: Mechanism = mechanisms()[name](epsilon, int(number(row, "size")))
    return mechanism


def _share_errors(design: SupportDesign, times: int, generator: Generator) -> Array:
    """Return √n times the errors of the shares, in each repetition."""
    times = times if design.size < MANY_OPTIONS else times // 10
    holders = -(-PEOPLE // design.options)
    people = holders * design.options
    counts = fixed(design, [holders] * design.options, times, generator).counts
    rates = np.array([support_counts(design, cells) for cells in counts]) / people
    errors = unbiased_share(rates, design) - 1 / design.options
    return np.asarray(math.sqrt(people) * errors)


def _number_errors(table: NumberTable, times: int, generator: Generator) -> Array:
    """Return √n times the error of the mean, with all people at the worst point."""
    point = worst_point(table)
    points = on_grid([point], [PEOPLE], table.steps, 20 * times, generator)
    counts = fixed(table, points, 20 * times, generator).counts
    values = np.array([float(value / table.steps) for value in table.values])
    return np.asarray(math.sqrt(PEOPLE) * RANGE * (counts @ values / PEOPLE - point))


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
                f"n times the variance of one option divided by the least possible, at ε {epsilon}"
                ", against the number of options. Lines are formulas, points are simulations.",
                [(f"Choices, ε {epsilon}", choices, _over)],
                *(_estimators("choice"), "size", "variance / least"), words="options", bar=bar,
            ),
            figures.ratio_figure(
                "numbers",
                "The same for the mean of numbers at the worst point, against ε.",
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
            f"""{PEOPLE:,} people, or a few more where shares must be equal; only noise is drawn.
            Errors do not depend on the people.

            The largest distance of a measured value from its formula is
            {sentences.worst_deviation(rows, COMPARED):.1f} Monte-Carlo errors.

            The time of a report on a device includes the kernel's randomness; that of counting one
            is measured on {TIMED_REPORTS:,} reports together. Both belong to this machine and this
            run and are in the JSON form only: a second run does not reproduce them."""
        ),
        {"rows": costly},
    )  # fmt: skip


def _estimators(kind: str) -> list[Estimator]:
    return custom_mechanisms.local_estimators(kind, list(mechanisms(kind)), ())


def _text(key: Value, form: str, unit: str = "") -> Callable[[Rows], str]:
    """Return a column of the table: one number of the row, or "-" where it is not known."""
    return lambda rows: (
        "-" if value_of(rows[0], key) is None else f"{number(rows[0], key):{form}}{unit}"
    )


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
        f"""The best mechanism for each question has at most {_ratio(far):.3f} times the least
        possible variance: {_label(far)} at ε {far["epsilon"]}, size {number(far, "size"):,}.

        With {most:,} options at ε {epsilon}, {_label(best)} has {_ratio(best):.4f} times the least
        in {best["payload_bytes"]} bytes, and {_label(worst)} {_ratio(worst):,.4g} times."""
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
    formulas=(("what is compared", r"\dfrac{n \cdot \mathrm{variance}}{\mathrm{least}}"),),
)
