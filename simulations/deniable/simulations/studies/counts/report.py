"""What is said and drawn of many counts of everybody."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deniable.simulations.engine import comparison, estimator_rows
from deniable.simulations.engine import estimator_rows as forms
from deniable.simulations.engine.study import Figure, Options, Report, Row, Table
from deniable.simulations.studies.counts.series import (
    ALL,
    CUBE,
    GAUSSIAN,
    GEOMETRIC,
    ONE_QUESTION,
    SERIES,
)

if TYPE_CHECKING:
    import matplotlib.figure


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, people, m = (
        comparison.middle(options[key]) for key in ("epsilon", "people", "counts")
    )
    findings = _findings(rows, epsilon, people, m, options)
    return Report(
        findings=findings,
        figures=[
            Figure(
                "counts",
                f"How far off each of m counts of {people:,} people is, at ε {epsilon}, against m. "
                "Lines are formulas, points are simulations.",
                lambda: _counts_figure(
                    comparison.pick(rows, epsilon=epsilon, people=people), people, epsilon
                ),
            ),
            Figure(
                "price",
                "The squared error of one drawn question by that of a trusted server, for each "
                "person asked: it falls with m where noise is pure, and for many counts is six "
                "times larger against a cube's than against geometric noise; it does not depend on "
                f"m where δ {options['delta']:g} is given up.",
                lambda: estimator_rows.price_figure(
                    comparison.pick(rows, people=people),
                    ONE_QUESTION,
                    (GEOMETRIC, CUBE, GAUSSIAN),
                    "counts",
                ),
            ),
        ],
        tables=[_table(rows)],
        method=[
            (
                "Half of the people say yes to each question. Errors in figure and table are about "
                "these people; `exact_drawn` in the rows adds the spread of a sample."
            ),
            (
                f"As a check, {options['repetitions']:,} populations are drawn for each line: the "
                "largest distance of a measured mean squared error from its formula is "
                f"{forms.worst_deviation(rows):.1f} Monte-Carlo errors. Reports and geometric "
                "noise are whole numbers; Gaussian noise in doubles is a simulation of its "
                "distribution."
            ),
            (
                "The limit is for many people and shares of one half: information of reports about "
                "all shares together. Up to ε 1.10 one drawn question reaches it."
            ),
        ],
        document=forms.document(options, rows, findings),
    )


def _findings(
    rows: Sequence[Row], epsilon: str, people: int, m: int, options: Options
) -> list[str]:
    here = comparison.pick(rows, epsilon=epsilon, people=people, counts=m)
    said = {
        each: comparison.figure(100 * comparison.Z95 * math.sqrt(forms.value(here, each)))
        for each in SERIES
    }
    most = max(options["counts"])
    there = comparison.pick(rows, epsilon=epsilon, people=people, counts=most)
    ratio = forms.value(there, ALL) / forms.value(there, ONE_QUESTION)
    pure, gaussian = (
        comparison.figure(people / forms.price(there, ONE_QUESTION, each))
        for each in (CUBE, GAUSSIAN)
    )
    (row,) = forms.of(there, ONE_QUESTION)
    over = comparison.number(row, "exact_drawn") / comparison.number(row, "limit_drawn")
    return [
        (
            f"With {people:,} people at ε {epsilon}, devices that answer one of {m} questions give "
            f"each count to ± {said[ONE_QUESTION]} points, and to ± {said[ALL]} if they answer all "
            f"at ε / {m}; a trusted server to ± {said[CUBE]}, or ± {said[GAUSSIAN]} with δ "
            f"{options['delta']:g}."
        ),
        (
            f"With {most} questions all of them have {comparison.figure(ratio)} times the variance "
            f"of one that is drawn, whose price is n / {pure} against a cube's pure noise, and "
            f"n / {gaussian} against Gaussian noise; about the population its squared error is "
            f"{over:.2f} times the least of any local protocol."
        ),
    ]


def _table(rows: Sequence[Row]) -> Table:
    lines = []
    for row in forms.of(rows, ONE_QUESTION):
        epsilon, people, m = row["epsilon"], row["people"], row["counts"]
        here = comparison.pick(rows, epsilon=epsilon, people=people, counts=m)
        errors = [
            f"± {comparison.figure(100 * comparison.Z95 * math.sqrt(forms.value(here, each)))}"
            for each in SERIES[:-1]
        ]
        lines.append([str(epsilon), f"{m:,}", f"{people:,}", *errors])
    labels = [each.label for each in SERIES[:-1]]
    return Table(
        "Error of a count of these people, in points: 1.96 standard errors",
        ["ε", "counts", "people", *labels],
        lines,
    )


def _counts_figure(rows: Sequence[Row], people: int, epsilon: str) -> matplotlib.figure.Figure:
    words = (f"Many counts of {people:,} people, ε {epsilon}", "standard error of a share")
    figure = estimator_rows.both_questions(rows, SERIES, "counts", words, ONE_QUESTION)
    for axes in figure.axes:
        axes.set_xlabel("counts of everybody")
        estimator_rows.plain_ticks(axes, sorted({comparison.number(row, "counts") for row in rows}))
    return figure
