"""What is said and drawn of slopes: sentences, figures, tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deniable.simulations.engine import comparison, estimator_rows
from deniable.simulations.engine import estimator_rows as forms
from deniable.simulations.engine.comparison import Series
from deniable.simulations.engine.estimator_rows import FORMULA
from deniable.simulations.engine.figures import new_figure
from deniable.simulations.engine.study import Figure, Options, Report, Row, Table
from deniable.simulations.studies.regression import line, logistic

if TYPE_CHECKING:
    import matplotlib.figure


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, people = comparison.middle(options["epsilon"]), options["people"][-1]
    middle = comparison.middle(options["people"])
    findings = _findings(rows, epsilon, middle)
    shown = comparison.pick(rows, epsilon=epsilon)
    return Report(
        findings=findings,
        figures=[
            Figure(
                "error",
                f"How far off a line's slope is, against the people, at ε {epsilon}: by a trusted "
                "server and on devices. Lines are formulas for many people, points are "
                "simulations.",
                lambda: _error_figure(shown, "The slope of a line", epsilon, line.TRUSTED,
                                      line.DEVICES, line.SUMS),
            ),
            Figure(
                "logistic",
                f"The same for a logistic regression, at ε {epsilon}: sums of a polynomial stay "
                f"off by {abs(logistic.OFF):.4f}, however many people there are.",
                lambda: _error_figure(shown, "A logistic slope", epsilon, logistic.TRUSTED,
                                      logistic.DEVICES, logistic.SUMS),
            ),
            Figure(
                "price",
                f"n times the squared error of {middle:,} people, against ε: devices that are "
                "asked better questions, and what no local protocol is below.",
                lambda: _epsilon_figure(comparison.pick(rows, people=middle), middle),
            ),
        ],
        tables=[
            _table(rows, "a line's slope", line.SERIES),
            _table(rows, "a logistic slope", logistic.SERIES),
        ],
        method=[
            (
                "x is uniform on [-1, 1], y is x / 2 and an error uniform on ±1/2; in the logistic "
                "regression x is one of 16 values, and y is 1 or -1, with log-odds x / 2. People "
                "are drawn, and one of them replaced by another is what ε protects against. Lines "
                "are formulas to first order for many people; `exact` in the rows is exact, where "
                "that is known."
            ),
            (
                f"Each line is drawn {options['repetitions']:,} times. A line's sums over people "
                "are drawn from normal distributions; people of the logistic regression and counts "
                "of reports are drawn exactly, given what is asked. With "
                f"{people:,} people the mean squared errors are "
                f"{forms.ratios(rows, people, FORMULA)} times the formulas."
            ),
            (
                "Trusted noise is drawn in doubles: a simulation of its distribution. Reports of "
                "devices are randomized bits, of a number rounded at random to an end of its range."
            ),
        ],
        document=forms.document(options, rows, findings),
    )  # fmt: skip


def _findings(rows: Sequence[Row], epsilon: str, people: int) -> list[str]:
    here = comparison.pick(rows, epsilon=epsilon, people=people)
    error = {
        each: people * forms.series_value(here, each, FORMULA)
        for each in (*line.SERIES, *logistic.SERIES)
    }
    said = {each: comparison.figure(value) for each, value in error.items()}
    against = {
        each: comparison.figure(error[line.SUMS] / error[each])
        for each in (line.EXPONENTIAL, line.KNG)
    }
    least = comparison.figure(error[line.SIGNS] / line.limit(float(epsilon)))
    over = comparison.figure(error[logistic.AGREEMENT] / logistic.limit(float(epsilon)))
    trusted = comparison.figure(error[logistic.EXPONENTIAL] / error[logistic.NONE])
    return [
        (
            f"With {people:,} people at ε {epsilon}, devices' sums cost "
            f"{against[line.EXPONENTIAL]} times the people of a trusted exponential mechanism, and "
            f"{against[line.KNG]} times those of KNG: which trusted server matters more than which "
            "device."
        ),
        (
            f"n times the squared error is {said[line.NONE]} without privacy; on devices "
            f"{said[line.GRADIENT]} by gradients, {said[line.HALVES]} by sums in halves, "
            f"{said[line.SUMS]} by sums with the best split, and {said[line.SIGNS]} by signs, "
            f"{least} times what no local protocol is below."
        ),
        (
            f"Of a logistic regression it is {said[logistic.NONE]} without privacy, {trusted} "
            "times that by a trusted exponential mechanism; on devices "
            f"{said[logistic.GRADIENT]} by gradients, {said[logistic.SIGNS]} by signs, and "
            f"{said[logistic.AGREEMENT]} if they say once whether x and y agree, {over} times what "
            "no local protocol is below."
        ),
    ]


def _table(rows: Sequence[Row], what: str, series: Sequence[Series]) -> Table:
    lines = []
    for row in forms.series_rows(rows, series[0]):
        epsilon, people = row["epsilon"], row["people"]
        here = comparison.pick(rows, epsilon=epsilon, people=people)
        n = comparison.number(row, "people")
        errors = [comparison.figure(n * forms.series_value(here, each, FORMULA)) for each in series]
        lines.append([str(epsilon), f"{people:,}", *errors])
    return Table(
        f"n times the squared error of {what}, by formula for many people",
        ["ε", "people", *(each.label for each in series)],
        lines,
    )


def _error_figure(
    rows: Sequence[Row],
    what: str,
    epsilon: str,
    trusted: Sequence[Series],
    devices: Sequence[Series],
    limited: Series,
) -> matplotlib.figure.Figure:
    titles, unit = ("a trusted server", "devices"), "root mean squared error of the slope"
    figure, panels = estimator_rows.panels(titles, "people", unit)
    for axes, series in zip(panels, (trusted, devices), strict=True):
        for each in series:
            estimator_rows.draw(axes, rows, each, "people", exact=FORMULA)
    estimator_rows.draw_limit(panels[1], rows, limited, "people", "limit")
    for axes in panels:
        axes.legend(loc="lower left", fontsize=9)
    figure.suptitle(f"{what}, ε {epsilon}", fontsize=12)
    return figure


def _epsilon_figure(rows: Sequence[Row], people: int) -> matplotlib.figure.Figure:
    figure = new_figure(width=9.4, height=5.2)
    panels = figure.subplots(1, 2)
    epsilons = sorted({float(str(row["epsilon"])) for row in rows})
    for axes, series, limited, title in (
        (panels[0], (*line.DEVICES, line.NONE), line.SUMS, "a line"),
        (panels[1], (*logistic.DEVICES, logistic.NONE), logistic.SUMS, "logistic"),
    ):
        for each in series:
            found = {float(str(row["epsilon"])): row for row in forms.series_rows(rows, each)}
            values = [people * comparison.number(found[e], FORMULA) for e in epsilons]
            axes.plot(epsilons, values, label=each.label, **each.look.style)
        limits = {float(str(row["epsilon"])): row for row in forms.series_rows(rows, limited)}
        least = [people * comparison.number(limits[e], "limit") for e in epsilons]
        axes.plot(
            epsilons,
            least,
            color=limited.look.color,
            ls=estimator_rows.LIMIT_DASH,
            lw=1.2,
            label="local limit",
        )
        axes.set(xscale="log", yscale="log", xlabel="ε", title=title)
        estimator_rows.plain_ticks(axes, epsilons)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=9)
    panels[0].set_ylabel("n × mean squared error")
    figure.suptitle(f"Slopes, on {people:,} devices", fontsize=12)
    return figure
