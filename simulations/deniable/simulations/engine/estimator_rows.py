"""Rows that are named by `model` and `estimator`, and figures of them.

exact       the mean squared error by formula; null where there is none
first_order a formula for many people, in studies where not every error has an exact one
measured    the mean squared error of simulated errors, with its Monte-Carlo error `error`
limit       no estimator of the same model has a smaller error; null where no limit is known

In figures, lines are formulas, points are measured and dotted lines are limits, in the colour of
the series or model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deniable.simulations.engine import comparison
from deniable.simulations.engine.comparison import Series, look, number, one, pick
from deniable.simulations.engine.figures import LIMIT_DASH, new_figure, plain_ticks
from deniable.simulations.engine.study import Options, Row

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Array = NDArray[np.floating]
Whole = NDArray[np.int64]
LIMITS = ("limit", "limit_drawn")  # columns of rows about both questions
FORMULA = "first_order"
NOT_MEASURED: dict[str, None] = {"measured": None, "error": None}


def measured(squares: Array) -> dict[str, float]:
    """Return the columns for squared errors, one for each repetition."""
    spread = float(squares.std(ddof=1) / math.sqrt(len(squares)))
    return {"measured": float(squares.mean()), "error": spread}


def document(options: Options, rows: Sequence[Row], findings: Sequence[str]) -> dict[str, Any]:
    """Return the document that --json prints."""
    return {"options": dict(options), "rows": [dict(row) for row in rows], "findings": findings}


def series_rows(rows: Sequence[Row], series: Series, **wanted: object) -> list[Row]:
    return pick(rows, model=series.model, estimator=series.mechanism, **wanted)


def series_value(
    rows: Sequence[Row], series: Series, key: str = "exact", **wanted: object
) -> float:
    return number(one(rows, model=series.model, estimator=series.mechanism, **wanted), key)


def curator_row(rows: Sequence[Row], trusted: Sequence[Series]) -> list[Row]:
    """Return the best local estimator as a curator's row if it has less error than `trusted`."""
    local = min(
        (row for row in pick(rows, model="local") if row["exact"] is not None),
        key=lambda row: number(row, "exact"),
    )
    if number(local, "exact") >= min(series_value(rows, series) for series in trusted):
        return []
    (like,) = series_rows(rows, trusted[0])
    return [{**local, "model": "central", **{key: like[key] for key in LIMITS}}]


def worst_deviation(rows: Sequence[Row]) -> float:
    return comparison.worst_deviation(rows, "error")


def ratios(rows: Sequence[Row], people: int, key: str = "exact") -> str:
    """Return the range of measured errors divided by their formulas, as text."""
    values = [number(row, "measured") / number(row, key) for row in pick(rows, people=people)]
    return f"{min(values):.2f} to {max(values):.2f}"


def price(rows: Sequence[Row], local: Series, central: Series) -> float:
    return series_value(rows, local) / series_value(rows, central)


def panels(
    titles: Sequence[str], against: str, unit: str, width: float = 9.4
) -> tuple[matplotlib.figure.Figure, list[matplotlib.axes.Axes]]:
    """Return a figure of panels side by side on one scale, with logarithmic axes."""
    figure = new_figure(width=width)
    all_axes = list(figure.subplots(1, len(titles), sharey=True, squeeze=False)[0])
    for axes, title in zip(all_axes, titles, strict=True):
        axes.set(xscale="log", yscale="log", xlabel=against, title=title)
        axes.grid(visible=True)
    all_axes[0].set_ylabel(unit)
    return figure, all_axes


def both_questions(
    rows: Sequence[Row],
    series: Sequence[Series],
    against: str,
    words: tuple[str, str],
    limited: Series | None = None,
    drawn: bool = False,
) -> matplotlib.figure.Figure:
    """Draw errors about these people, and about the population that they are drawn from.

    The last series is no privacy; `words` are the title and the unit. `drawn` states that the
    errors about the population are measured too.
    """
    figure, (these, population) = panels(("these people", "their population"), against, words[1])
    about = ("measured_drawn", "error_drawn") if drawn else (None, "error")
    for one_series in series[:-1]:
        draw(these, rows, one_series, against)
    for one_series in series:
        draw(population, rows, one_series, against, "exact_drawn", *about)
    if limited:
        draw_limit(population, rows, limited, against, "limit_drawn")
    figure.suptitle(words[0], fontsize=12)
    handles, labels = population.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def draw(
    axes: matplotlib.axes.Axes,
    rows: Sequence[Row],
    series: Series,
    against: str,
    exact: str = "exact",
    measured: str | None = "measured",
    error: str = "error",
) -> None:
    """Draw roots of mean squared errors: formulas as a line, measured ones as points with bars.

    A bar is three Monte-Carlo errors. Where nothing is measured, the line has the marks.
    """
    ordered = sorted(series_rows(rows, series), key=lambda row: number(row, against))
    drawn = [row for row in ordered if measured and row[measured] is not None]
    known = [row for row in ordered if row[exact] is not None]
    axes.plot(
        [number(row, against) for row in known],
        [math.sqrt(number(row, exact)) for row in known],
        color=series.look.color,
        ls=series.look.dash,
        marker="" if drawn else series.look.marker,
        label="_" if drawn else series.label,
    )
    if drawn and measured:
        points = [math.sqrt(number(row, measured)) for row in drawn]
        bars = [
            1.5 * number(row, error) / point if point else 0.0
            for row, point in zip(drawn, points, strict=True)
        ]
        x = [number(row, against) for row in drawn]
        axes.errorbar(
            x, points, yerr=bars, fmt=series.look.marker, color=series.look.color, capsize=2,
            label=series.label,
        )  # fmt: skip


def draw_limit(
    axes: matplotlib.axes.Axes, rows: Sequence[Row], series: Series, against: str, limit: str
) -> None:
    """Draw a limit as a dotted line in the model's colour."""
    ordered = sorted(series_rows(rows, series), key=lambda row: number(row, against))
    axes.plot(
        [number(row, against) for row in ordered],
        [math.sqrt(number(row, limit)) for row in ordered],
        color=series.look.color,
        ls=LIMIT_DASH,
        lw=1.2,
        label=f"{series.model} limit",
    )


def price_figure(
    rows: Sequence[Row], local: Series, centrals: Sequence[Series], against: str
) -> matplotlib.figure.Figure:
    """Draw prices per person: a panel for each trusted series, a line for each ε."""
    figure = new_figure(width=9.0, height=4.0)
    panels = figure.subplots(1, len(centrals), sharey=True)
    ticks = sorted({number(row, against) for row in rows})
    epsilons = dict.fromkeys(str(row["epsilon"]) for row in rows)
    for axes, central in zip(panels, centrals, strict=True):
        for i, epsilon in enumerate(epsilons):
            at_ticks = (pick(rows, epsilon=epsilon, **{against: tick}) for tick in ticks)
            prices = [price(at, local, central) / number(at[0], "people") for at in at_ticks]
            axes.plot(ticks, prices, label=f"ε {epsilon}", **look(i % 6).style)
        axes.set(xscale="log", yscale="log", xlabel=against, title=central.label)
        plain_ticks(axes, ticks)
    panels[0].set_ylabel("price of locality, by people")
    panels[0].legend(loc="best")
    return figure
