"""The report on slopes: findings, figures and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deniable.simulations.engine import comparison, estimator_rows
from deniable.simulations.engine.comparison import Series, figure, pick
from deniable.simulations.engine.estimator_rows import FORMULA
from deniable.simulations.engine.figures import new_figure, plain_ticks
from deniable.simulations.engine.study import Figure, Options, Report, Row, Table
from deniable.simulations.studies.building_blocks import (
    column,
    limit_line,
    marked_line,
    paragraphs,
    points_of,
    table,
)
from deniable.simulations.studies.regression import line_slope as line
from deniable.simulations.studies.regression import logistic_slope as logistic

if TYPE_CHECKING:
    import matplotlib.figure


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, most = comparison.middle(options["epsilon"]), options["people"][-1]
    people = comparison.middle(options["people"])
    findings, shown = _findings(rows, epsilon, people), pick(rows, epsilon=epsilon)
    error_caption, logistic_caption, price_caption = paragraphs(
        f"""The error of a line's slope against the number of people, at ε {epsilon}: by a trusted
        server and on devices. Lines are formulas for many people, points are simulations.

        The same for a logistic regression, at ε {epsilon}: sums of a polynomial have a bias of
        {abs(logistic.BIAS):.4f}, whatever the number of people.

        n times the squared error with {people:,} people, against ε: devices that answer better
        questions, and the limit of local protocols."""
    )
    return Report(
        findings=findings,
        figures=[
            Figure(
                "error",
                error_caption,
                lambda: _error_figure(
                    shown,
                    f"The slope of a line, ε {epsilon}",
                    *(line.TRUSTED, line.DEVICES, line.SUMS),
                ),
            ),
            Figure(
                "logistic",
                logistic_caption,
                lambda: _error_figure(
                    shown,
                    f"A logistic slope, ε {epsilon}",
                    *(logistic.TRUSTED, logistic.DEVICES, logistic.SUMS),
                ),
            ),
            Figure(
                "price",
                price_caption,
                lambda: _epsilon_figure(pick(rows, people=people), people),
            ),
        ],
        tables=[
            _table(rows, "a line's slope", line.SERIES),
            _table(rows, "a logistic slope", logistic.SERIES),
        ],
        method=paragraphs(
            f"""x is uniform on [-1, 1], y is x / 2 and an error uniform on ±1/2; in the logistic
            regression x is one of 16 values, and y is 1 or -1, with log-odds x / 2. People are
            drawn, and ε protects against replacing one of them by another. Lines are formulas to
            first order for many people; `exact` in the rows is exact, where that is known.

            Each line is drawn {options["repetitions"]:,} times. A line's sums over people are drawn
            from normal distributions; people of the logistic regression and counts of reports are
            drawn exactly, given the questions. With {most:,} people the mean squared errors are
            {estimator_rows.ratios(rows, most, FORMULA)} times the formulas.

            Trusted noise is drawn in floating point, to simulate its distribution. Reports of
            devices are randomized bits, of a number rounded at random to an end of its range."""
        ),
        document=estimator_rows.document(options, rows, findings),
    )


def _findings(rows: Sequence[Row], epsilon: str, people: int) -> list[str]:
    cell = pick(rows, epsilon=epsilon, people=people)
    value = {
        series: people * estimator_rows.series_value(cell, series, FORMULA)
        for series in (*line.SERIES, *logistic.SERIES)
    }
    text = {series: figure(error) for series, error in value.items()}
    price, kng_price = (
        figure(value[line.SUMS] / value[series]) for series in (line.EXPONENTIAL, line.KNG)
    )
    least = figure(value[line.SIGNS] / line.limit(float(epsilon)))
    over = figure(value[logistic.AGREEMENT] / logistic.limit(float(epsilon)))
    trusted = figure(value[logistic.EXPONENTIAL] / value[logistic.NONE])
    return paragraphs(
        f"""With {people:,} people at ε {epsilon}, sums on devices need {price} times the people of
        a trusted exponential mechanism, and {kng_price} times those of KNG: the choice of the
        trusted server matters more than the choice of the device.

        n times the squared error is {text[line.NONE]} without privacy; on devices it is
        {text[line.GRADIENT]} by gradients, {text[line.HALVES]} by sums in halves,
        {text[line.SUMS]} by sums with the best split, and {text[line.SIGNS]} by signs: {least}
        times the limit of local protocols.

        For a logistic regression it is {text[logistic.NONE]} without privacy, and {trusted} times
        that with a trusted exponential mechanism; on devices it is {text[logistic.GRADIENT]} by
        gradients, {text[logistic.SIGNS]} by signs, and {text[logistic.AGREEMENT]} by reporting once
        whether x and y agree: {over} times the limit of local protocols."""
    )


def _table(rows: Sequence[Row], what: str, series: Sequence[Series]) -> Table:
    return table(
        f"n times the squared error of {what}, by formula for many people",
        rows,
        {"ε": "epsilon", "people": "people"},
        {one.label: column(one, FORMULA, times_n=True) for one in series},
    )


def _error_figure(
    rows: Sequence[Row],
    title: str,
    trusted: Sequence[Series],
    devices: Sequence[Series],
    limited: Series,
) -> matplotlib.figure.Figure:
    titles, unit = ("a trusted server", "devices"), "root mean squared error of the slope"
    picture, panels = estimator_rows.panels(titles, "people", unit)
    for axes, series in zip(panels, (trusted, devices), strict=True):
        for one in series:
            estimator_rows.draw(axes, rows, one, "people", exact=FORMULA)
    estimator_rows.draw_limit(panels[1], rows, limited, "people", "limit")
    for axes in panels:
        axes.legend(loc="lower left", fontsize=9)
    picture.suptitle(title, fontsize=12)
    return picture


def _epsilon_figure(rows: Sequence[Row], people: int) -> matplotlib.figure.Figure:
    picture = new_figure(width=9.4, height=5.2)
    panels = picture.subplots(1, 2)
    for axes, model, title in ((panels[0], line, "a line"), (panels[1], logistic, "logistic")):
        for series in (*model.DEVICES, model.NONE):
            points = points_of(rows, series, "epsilon", FORMULA, people)
            marked_line(axes, points, series.look, series.label)
        limits = points_of(rows, model.SUMS, "epsilon", "limit", people)
        limit_line(axes, limits, model.SUMS.look, "local limit")
        axes.set(xscale="log", yscale="log", xlabel="ε", title=title)
        epsilons = sorted({float(str(row["epsilon"])) for row in rows})
        plain_ticks(axes, epsilons)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=9)
    panels[0].set_ylabel("n × mean squared error")
    picture.suptitle(f"Slopes, on {people:,} devices", fontsize=12)
    return picture
