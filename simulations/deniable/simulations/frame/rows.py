"""Rows, tables and lines of a study whose rows are named by `model` and `estimator`.

exact       the mean squared error by formula; null where there is none
measured    the same of errors that were drawn, with its Monte-Carlo error `error`
limit       what no estimator of the same model is below; null where that is not known
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deniable.simulations.frame.comparison import Series, number, one, pick
from deniable.simulations.frame.figures import FAINT
from deniable.simulations.frame.study import Options, Row

if TYPE_CHECKING:
    import matplotlib.axes

Array = NDArray[np.floating]
DOTS = (0, (1, 1.5))  # of limits, in every study


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


def draw(
    axes: matplotlib.axes.Axes,
    rows: Sequence[Row],
    series: Series,
    against: str,
    scale: Mapping[float, float] | None = None,
) -> None:
    """Roots of mean squared errors, or where `scale` has a factor for each place, the errors times
    it: lines by formula, points as measured with three Monte-Carlo errors."""
    found = sorted(of(rows, series), key=lambda row: number(row, against))
    places = [number(row, against) for row in found]

    def shown(error: float, place: float) -> float:
        return math.sqrt(error) if scale is None else error * scale[place]

    if all(row["exact"] is not None for row in found):
        line = [shown(number(row, "exact"), x) for row, x in zip(found, places, strict=True)]
        axes.plot(places, line, color=series.look.color, ls=series.look.dash)
    points = [shown(number(row, "measured"), x) for row, x in zip(found, places, strict=True)]
    bars = [
        3 * (0.5 if scale is None else 1) * y * number(row, "error") / number(row, "measured")
        if number(row, "measured")
        else 0.0
        for row, y in zip(found, points, strict=True)
    ]
    axes.errorbar(
        places, points, yerr=bars, fmt=series.look.marker, color=series.look.color, capsize=2,
        label=series.label,
    )  # fmt: skip


def worst_deviation(rows: Sequence[Row]) -> float:
    """The largest distance of a measured error from its formula, in Monte-Carlo errors."""
    return max(
        abs(number(row, "measured") - number(row, "exact")) / number(row, "error")
        for row in rows
        if row["exact"] is not None and row["measured"] is not None and number(row, "error") > 0
    )


def plain_ticks(axes: matplotlib.axes.Axes, places: Sequence[float]) -> None:
    """Few places on a logarithmic axis, each written out."""
    axes.set_xticks(places, [f"{place:,.10g}" for place in places])
    axes.minorticks_off()
    axes.grid(visible=True, color=FAINT)
