"""Look of figures and formulas: colours that colour-blind readers distinguish, and stable bytes.

The colours are those of Okabe and Ito 2008, "Color universal design". Each comes with its own
marker and dash, so that colour alone carries no meaning. `INK` is the colour of text and axes; the
page replaces it by the reader's own, light or dark.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deniable.shared.errors import WrongUse
from deniable.simulations.engine.study import Figure

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


INK = "#1c1e21"
FAINT = "#8a8f98"
LIMIT_DASH = (0, (1, 1.5))  # dotted lines, of limits


@dataclass(frozen=True)
class Look:
    """Colour, marker and dash of one series."""

    color: str
    marker: str
    dash: str | tuple[float, tuple[float, ...]]

    @property
    def style(self) -> dict[str, Any]:  # Any: keyword arguments of matplotlib's, each its own type
        return {"color": self.color, "marker": self.marker, "ls": self.dash}


LOOKS = (
    Look("#0072b2", "o", "-"),  # blue
    Look("#d55e00", "s", "--"),  # vermilion
    Look("#009e73", "^", "-."),  # green
    Look("#cc79a7", "D", ":"),  # purple
    Look("#e69f00", "v", (0, (5, 1, 1, 1, 1, 1))),  # orange
    Look("#56b4e9", "P", (0, (3, 1))),  # sky
)
ON_DARK = {  # the colours that replace them on a dark page
    "#0072b2": "#56a8e0",
    "#d55e00": "#f58a42",
    "#009e73": "#2cc79a",
    "#cc79a7": "#e09ac3",
    "#e69f00": "#f0b429",
    "#56b4e9": "#8fd0f5",
    "#8c510a": "#c98a4b",
}
MATPLOTLIB_STYLE: dict[Any, Any] = {  # Any: its keys are a type of 300 literals
    "svg.hashsalt": "deniable",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "grid.color": FAINT,
    "grid.alpha": 0.3,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def new_figure(width: float = 7.0, height: float = 4.6) -> matplotlib.figure.Figure:
    """Return an empty figure, measured in inches; add axes with `figure.subplots()`.

    Call it, and draw, inside `with styled():`, as the engine does around `Figure.draw`.
    """
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=(width, height), layout="constrained")


def plain_ticks(axes: matplotlib.axes.Axes, ticks: Sequence[float]) -> None:
    """Set the ticks of a logarithmic axis, each written out."""
    if len(ticks) == 1:  # a single value alone would make an axis of length 0
        axes.set_xlim(ticks[0] / 2, ticks[0] * 2)
    axes.set_xticks(ticks, [f"{tick:,.10g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(visible=True, color=FAINT)


def formula_svg(formula: str) -> str:
    """Typeset a formula in the TeX of matplotlib's mathtext, where ε stands for itself."""
    from matplotlib.figure import Figure as Canvas
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import MathTextParser

    text, font = f"${formula}$", FontProperties(size=14, math_fontfamily="stix")
    try:
        size = MathTextParser("path").parse(text, 72, font)
    except ValueError as error:
        raise WrongUse(f"formula {formula!r} cannot be typeset: {error}") from None
    with styled():
        canvas = Canvas(figsize=(size.width / 72, size.height / 72))
        canvas.text(0, size.depth / size.height, text, fontproperties=font)
        return _svg(canvas)


@contextmanager
def styled() -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context(MATPLOTLIB_STYLE):
        yield


class DrawnFigure:
    """Figure that is drawn and laid out once for both of its files."""

    def __init__(self, figure: Figure) -> None:
        self.name, self.caption = figure.name, figure.caption
        with styled():
            self._canvas = figure.draw()
            self._canvas.draw_without_rendering()
            self._canvas.set_layout_engine("none")

    @cached_property
    def svg(self) -> str:
        with styled():
            return _svg(self._canvas)

    @cached_property
    def png(self) -> bytes:
        stream = io.BytesIO()
        with styled():
            self._canvas.savefig(stream, format="png", dpi=160, facecolor="white")
        return stream.getvalue()


def _svg(canvas: matplotlib.figure.Figure) -> str:
    """Return the same text for the same figure: without a date or random names."""
    stream = io.StringIO()
    canvas.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    return stream.getvalue()
