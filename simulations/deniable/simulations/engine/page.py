"""HTML page of a study: one self-contained file without scripts, for screens from 320 px and paper.

`page.html` has the markup. Its colours follow the reader's light or dark setting.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from functools import cache, cached_property
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from deniable.shared.errors import WrongUse
from deniable.simulations.engine.figures import INK, ON_DARK, styled
from deniable.simulations.engine.study import Figure, Report, Study

if TYPE_CHECKING:
    import matplotlib.figure

MAX_OPEN_ROWS = 16  # longer tables are folded, to keep the page short on small screens
FOLDER = files("deniable.simulations.engine")
_DARK = "; ".join(f"--c{light[1:]}: {dark}" for light, dark in ON_DARK.items())
PAGE_STYLE = FOLDER.joinpath("page.css").read_text("utf-8").replace("DARK_COLORS", _DARK)


@cache
def _macros() -> Any:  # Any: the macros of the template are its attributes
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals |= {"style": PAGE_STYLE, "max_open_rows": MAX_OPEN_ROWS}
    return environment.from_string(FOLDER.joinpath("page.html").read_text("utf-8")).module


def page(
    study: Study, report: Report, figures: Sequence[DrawnFigure], record: str, python: str
) -> str:
    """Return the page. `python` is code that reproduces the numbers, or an empty string."""
    formulas = [
        (words, _inline(formula_svg(formula), f"formula-{number}", f"{words}: {formula}"))
        for number, (words, formula) in enumerate(study.formulas)
    ]
    return str(_macros().page(study, report, figures, formulas, record, python)).lstrip()


def excerpt(report: Report, figures: Sequence[DrawnFigure]) -> str:
    """Return the findings and figures as HTML, for display in a notebook."""
    return str(_macros().excerpt(report, figures))


def index_page(cards: Sequence[str]) -> str:
    """Return the page of `simulate all`: a card for each study."""
    return str(_macros().index("What does privacy cost?", cards)).lstrip()


def card(study: Study, report: Report) -> str:
    """Return a study's question, its first figure and its first finding, linked to its page."""
    return str(_macros().card(study, report))


def _inline(svg: str, name: str, label: str) -> str:
    """Return an SVG to embed in the page, with the page's colours and with unique ids."""
    drawing = svg[svg.index("<svg") :].replace(INK, "currentColor")
    for color in ON_DARK:
        drawing = drawing.replace(color, f"var(--c{color[1:]}, {color})")
    drawing = re.sub(r'\bid="', f'id="{name}-', drawing)
    drawing = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", drawing)
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    return drawing.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)


# Drawings


def formula_svg(formula: str) -> str:
    """Typeset a formula, in the TeX subset of matplotlib's mathtext; write ε as a character."""
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


class DrawnFigure:
    """Figure that is drawn and laid out once, then saved as SVG and PNG."""

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

    @property
    def inline(self) -> str:
        return _inline(self.svg, self.name, self.caption)

    @cached_property
    def png(self) -> bytes:
        stream = io.BytesIO()
        with styled():
            self._canvas.savefig(stream, format="png", dpi=160, facecolor="white")
        return stream.getvalue()


def _svg(canvas: matplotlib.figure.Figure) -> str:
    """Return the SVG, without date or random names, so that equal figures give equal files."""
    stream = io.StringIO()
    canvas.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    return stream.getvalue()
