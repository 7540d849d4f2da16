"""How figures look: colours that colour-blind readers tell apart, and the same bytes every time.

Colours are those of Okabe and Ito 2008, "Color universal design"; each comes with a marker and a
dash of its own, so that nothing is said by colour alone. `INK` is the colour of text and axes: the
page replaces it by the reader's own, light or dark.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deniable.simulations.engine.study import Figure

if TYPE_CHECKING:
    import matplotlib.figure


INK = "#1c1e21"
FAINT = "#8a8f98"


@dataclass(frozen=True)
class Look:
    """One series: a colour, a marker and a dash that go together."""

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
ON_DARK = {  # the same colours on a dark page: a page takes these there
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
    """An empty figure in the frame's style, in inches; add axes with `figure.subplots()`.

    Call it, and draw, inside `with styled():`, which the frame does around `Figure.draw`.
    """
    from matplotlib.figure import Figure as Empty

    return Empty(figsize=(width, height), layout="constrained")


@contextmanager
def styled() -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context(MATPLOTLIB_STYLE):
        yield


class DrawnFigure:
    """A figure, drawn and laid out once for both of its files."""

    def __init__(self, figure: Figure) -> None:
        self.name, self.caption = figure.name, figure.caption
        with styled():
            self._made = figure.draw()
            self._made.draw_without_rendering()
            self._made.set_layout_engine("none")

    @cached_property
    def svg(self) -> str:
        """Text that is the same whenever the figure is: no date, no random names."""
        stream = io.StringIO()
        with styled():
            self._made.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
        return stream.getvalue()

    @cached_property
    def png(self) -> bytes:
        stream = io.BytesIO()
        with styled():
            self._made.savefig(stream, format="png", dpi=160, facecolor="white")
        return stream.getvalue()
