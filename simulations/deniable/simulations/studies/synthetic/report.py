"""What is said and drawn of synthetic people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deniable.simulations.engine import comparison, estimator_rows
from deniable.simulations.engine import estimator_rows as forms
from deniable.simulations.engine.figures import new_figure
from deniable.simulations.engine.study import Figure, Options, Report, Row, Table
from deniable.simulations.studies.synthetic.limits import SURE
from deniable.simulations.studies.synthetic.series import (
    BLR,
    CELLS,
    CENTRAL,
    CENTRAL_PEOPLE,
    FEW,
    LOCAL,
    LOCAL_PEOPLE,
    NONE,
)

if TYPE_CHECKING:
    import matplotlib.figure


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, d = (comparison.middle(options[key]) for key in ("epsilon", "attributes"))
    most = max(options["people"])
    findings = _findings(rows, epsilon, most, d)
    shown = comparison.pick(rows, epsilon=epsilon, attributes=d)
    return Report(
        findings=findings,
        figures=[
            Figure(
                "error",
                f"How far off a share of a table of two of {d} attributes is, on average, against "
                f"the people, at ε {epsilon}: of these people, and of the population that they are "
                "drawn from. Lines are formulas, points are simulations.",
                lambda: _error_figure(shown, d, epsilon),
            ),
            Figure(
                "largest",
                "The largest error of all these shares, on average: of characters, of the "
                "synthetic people that are made from them, and what BLR guarantees.",
                lambda: _largest_figure(shown, d, epsilon),
            ),
        ],
        tables=[_table(rows)],
        method=[
            (
                "People are made here: a chain of attributes, each of which agrees with the one "
                "before it with probability 0.8. Errors are root mean squares over all cells of "
                "all tables of two attributes."
            ),
            (
                "Noise and reports are whole numbers, as a server and devices would have them. "
                "Synthetic people have the distribution of the largest entropy with the characters "
                f"that were released: {FEW} sets of them for each line, as many people as were "
                "asked. BLR would have to go through all sets of people: its line is a guarantee "
                f"that holds with probability {1 - SURE:g}, and nothing was drawn."
            ),
            (
                f"Everything else is drawn {options['repetitions']:,} times; the largest distance "
                "of a measured mean squared error from its formula is "
                f"{forms.worst_deviation(rows):.1f} Monte-Carlo errors."
            ),
        ],
        document=forms.document(options, rows, findings),
    )


def _findings(rows: Sequence[Row], epsilon: str, people: int, d: int) -> list[str]:
    here = comparison.pick(rows, epsilon=epsilon, people=people, attributes=d)
    off = {
        each: comparison.figure(100 * math.sqrt(forms.value(here, each)))
        for each in (LOCAL, CELLS, CENTRAL)
    }
    (blr_row,), (local, made) = (
        forms.of(here, BLR),
        (forms.of(here, each)[0] for each in (LOCAL, LOCAL_PEOPLE)),
    )
    over = comparison.number(local, "exact_drawn") / comparison.number(local, "limit_drawn")
    largest = {
        name: comparison.figure(100 * comparison.number(row, "largest"))
        for name, row in (("blr", blr_row), ("made", made))
    }
    return [
        (
            f"With {people:,} people at ε {epsilon}, devices tell each share of all tables of two "
            f"of {d} attributes to a standard error of {off[LOCAL]} points, a trusted server that "
            f"adds noise to cells to {off[CELLS]}, and to {off[CENTRAL]} by characters."
        ),
        (
            f"Synthetic people made from these reports are off by {largest['made']} points in the "
            f"worst cell, where BLR with the true data guarantees {largest['blr']}; devices' "
            f"squared errors are {over:.2f} times what no local protocol is below."
        ),
    ]


def _table(rows: Sequence[Row]) -> Table:
    lines = []
    for row in forms.of(rows, LOCAL):
        epsilon, people, d = row["epsilon"], row["people"], row["attributes"]
        here = comparison.pick(rows, epsilon=epsilon, people=people, attributes=d)
        errors = [
            comparison.figure(100 * math.sqrt(forms.value(here, each)))
            for each in (LOCAL, CELLS, CENTRAL)
        ]
        worst = [
            comparison.figure(100 * comparison.number(forms.of(here, each)[0], "largest"))
            for each in (LOCAL_PEOPLE, CENTRAL_PEOPLE, BLR)
        ]
        lines.append([str(epsilon), f"{d}", f"{people:,}", *errors, *worst])
    return Table(
        "Standard errors of a cell of these people, in points; and the largest error",
        [
            *("ε", "attributes", "people"),
            *(each.label for each in (LOCAL, CELLS, CENTRAL)),
            *("largest: devices", "largest: trusted", "largest: BLR"),
        ],
        lines,
    )


def _error_figure(rows: Sequence[Row], d: int, epsilon: str) -> matplotlib.figure.Figure:
    words = (f"Tables of two of {d} attributes, ε {epsilon}", "standard error of a share")
    shown = (LOCAL, CELLS, CENTRAL, NONE)
    return estimator_rows.both_questions(rows, shown, "people", words, LOCAL, drawn=True)


def _largest_figure(rows: Sequence[Row], d: int, epsilon: str) -> matplotlib.figure.Figure:
    figure = new_figure()
    axes = figure.subplots()
    for each in (LOCAL, LOCAL_PEOPLE, CENTRAL, CENTRAL_PEOPLE, BLR, NONE):
        found = sorted(forms.of(rows, each), key=lambda row: comparison.number(row, "people"))
        axes.plot(
            [comparison.number(row, "people") for row in found],
            [comparison.number(row, "largest") for row in found],
            label=each.label,
            **each.look.style,
        )
    axes.set(xscale="log", yscale="log", xlabel="people", ylabel="largest error of a share")
    axes.set_title(f"Tables of two of {d} attributes, ε {epsilon}")
    axes.grid(visible=True)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9)
    return figure
