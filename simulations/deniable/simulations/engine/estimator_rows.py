"""Rows of a study that are named by `model` and `estimator`; `drawing.py` draws them.

exact       the mean squared error by formula; null where there is none
first_order a formula for many people, in studies where not every error has an exact one
measured    the same of errors that were drawn, with its Monte-Carlo error `error`
limit       what no estimator of the same model is below; null where that is not known

Lines of rows: by formula and as measured, limits, panels side by side, prices.

Lines are formulas, points are measured, dots are limits, in the colour of the series or model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deniable.simulations.engine.comparison import Series, look, number, one, pick
from deniable.simulations.engine.figures import FAINT, new_figure
from deniable.simulations.engine.study import Options, Row

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


Array = NDArray[np.floating]
Whole = NDArray[np.int64]
LIMITS = ("limit", "limit_drawn")  # of rows about both questions
FORMULA = "first_order"
NOTHING: dict[str, None] = {"measured": None, "error": None}  # is drawn


def measured(squares: Array) -> dict[str, float]:
    """Of squared errors, one for each repetition."""
    spread = float(squares.std(ddof=1) / math.sqrt(len(squares)))
    return {"measured": float(squares.mean()), "error": spread}


def document(options: Options, rows: Sequence[Row], findings: Sequence[str]) -> dict[str, Any]:
    """What --json prints. Any: what JSON can hold."""
    return {"options": dict(options), "rows": [dict(row) for row in rows], "findings": findings}


def of(rows: Sequence[Row], series: Series, **wanted: object) -> list[Row]:
    return pick(rows, model=series.model, estimator=series.mechanism, **wanted)


def value(rows: Sequence[Row], series: Series, key: str = "exact", **wanted: object) -> float:
    found = one(rows, model=series.model, estimator=series.mechanism, **wanted)
    return number(found, key)


def run_by_the_curator(rows: Sequence[Row], trusted: Sequence[Series]) -> list[Row]:
    """The best local estimator, where a curator who runs it does better than with all of these."""
    local = min(
        (row for row in pick(rows, model="local") if row["exact"] is not None),
        key=lambda row: number(row, "exact"),
    )
    if number(local, "exact") >= min(value(rows, each) for each in trusted):
        return []
    (like,) = of(rows, trusted[0])
    return [{**local, "model": "central", **{key: like[key] for key in LIMITS}}]


def worst_deviation(rows: Sequence[Row]) -> float:
    """The largest distance of a measured error from its formula, in Monte-Carlo errors."""
    return max(
        abs(number(row, "measured") - number(row, "exact")) / number(row, "error")
        for row in rows
        if row["exact"] is not None and row["measured"] is not None and number(row, "error") > 0
    )


def ratios(rows: Sequence[Row], people: int, key: str = "exact") -> str:
    """From the least to the largest of measured errors by their formulas."""
    found = [number(row, "measured") / number(row, key) for row in pick(rows, people=people)]
    return f"{min(found):.2f} to {max(found):.2f}"


def price(rows: Sequence[Row], local: Series, central: Series) -> float:
    return value(rows, local) / value(rows, central)


DOTS = (0, (1, 1.5))  # of limits, in every study


def panels(
    titles: Sequence[str], against: str, unit: str, width: float = 9.4
) -> tuple[matplotlib.figure.Figure, list[matplotlib.axes.Axes]]:
    """Side by side on one scale, both axes logarithmic."""
    figure = new_figure(width=width)
    found = list(figure.subplots(1, len(titles), sharey=True, squeeze=False)[0])
    for axes, title in zip(found, titles, strict=True):
        axes.set(xscale="log", yscale="log", xlabel=against, title=title)
        axes.grid(visible=True)
    found[0].set_ylabel(unit)
    return figure, found


def both_questions(
    rows: Sequence[Row],
    series: Sequence[Series],
    against: str,
    words: tuple[str, str],
    limited: Series | None = None,
    drawn: bool = False,
) -> matplotlib.figure.Figure:
    """Errors about these people, and about the population that they are drawn from, where the last
    series is no privacy; `words` are the title and the unit. `drawn` if the second are measured."""
    figure, (these, population) = panels(("these people", "their population"), against, words[1])
    about = ("measured_drawn", "error_drawn") if drawn else (None, "error")
    for each in series[:-1]:
        draw(these, rows, each, against)
    for each in series:
        draw(population, rows, each, against, "exact_drawn", *about)
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
    """Roots of mean squared errors: lines by formula, points as measured with three Monte-Carlo
    errors; marks on the line where nothing is drawn."""
    found = sorted(of(rows, series), key=lambda row: number(row, against))
    drawn = [row for row in found if measured and row[measured] is not None]
    known = [row for row in found if row[exact] is not None]
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
        places = [number(row, against) for row in drawn]
        axes.errorbar(
            places, points, yerr=bars, fmt=series.look.marker, color=series.look.color, capsize=2,
            label=series.label,
        )  # fmt: skip


def draw_limit(
    axes: matplotlib.axes.Axes, rows: Sequence[Row], series: Series, against: str, limit: str
) -> None:
    """Dotted, in the model's colour."""
    found = sorted(of(rows, series), key=lambda row: number(row, against))
    axes.plot(
        [number(row, against) for row in found],
        [math.sqrt(number(row, limit)) for row in found],
        color=series.look.color,
        ls=DOTS,
        lw=1.2,
        label=f"{series.model} limit",
    )


def price_figure(
    rows: Sequence[Row], local: Series, centrals: Sequence[Series], against: str
) -> matplotlib.figure.Figure:
    """By the people, who are as many in all rows: a panel for each, a line for each ε."""
    figure = new_figure(width=9.0, height=4.0)
    panels = figure.subplots(1, len(centrals), sharey=True)
    ticks = sorted({number(row, against) for row in rows})
    epsilons = dict.fromkeys(str(row["epsilon"]) for row in rows)
    for axes, central in zip(panels, centrals, strict=True):
        for place, epsilon in enumerate(epsilons):
            here = (pick(rows, epsilon=epsilon, **{against: tick}) for tick in ticks)
            prices = [price(found, local, central) / number(found[0], "people") for found in here]
            axes.plot(ticks, prices, label=f"ε {epsilon}", **look(place % 6).style)
        axes.set(xscale="log", yscale="log", xlabel=against, title=central.label)
        plain_ticks(axes, ticks)
    panels[0].set_ylabel("price of locality, by people")
    panels[0].legend(loc="best")
    return figure


def plain_ticks(axes: matplotlib.axes.Axes, places: Sequence[float]) -> None:
    """Few places on a logarithmic axis, each written out."""
    if len(places) == 1:  # one value alone would make an axis without a length
        axes.set_xlim(places[0] / 2, places[0] * 2)
    axes.set_xticks(places, [f"{place:,.10g}" for place in places])
    axes.minorticks_off()
    axes.grid(visible=True, color=FAINT)
