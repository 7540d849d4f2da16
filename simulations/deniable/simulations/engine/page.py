"""HTML page of a study: one self-contained file without scripts, for screens from 320 px and paper.

Its colours follow the reader's light or dark setting.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from deniable.shared.errors import WrongUse
from deniable.simulations.engine.figures import INK, ON_DARK, styled
from deniable.simulations.engine.study import Figure, Report, Study, Table

if TYPE_CHECKING:
    import matplotlib.figure

MAX_OPEN_ROWS = 16  # longer tables are folded, to keep the page short on small screens
EXPLANATION = (  # markup
    "ε limits what anyone can learn about one person: the published results change the odds of any "
    "guess about that person's answer by at most a factor of e<sup>ε</sup>, which is 2.7 at ε = 1. "
    "Where δ is given, this guarantee may fail with a probability of about δ. n is the number of "
    "people. Devices randomize their answers before they send them. A trusted server sees all true "
    "answers and adds noise to what it publishes."
)
_DARK = "; ".join(f"--c{light[1:]}: {dark}" for light, dark in ON_DARK.items())
_STYLESHEET = files("deniable.simulations.engine").joinpath("page.css").read_text("utf-8")
PAGE_STYLE = _STYLESHEET.replace("DARK_COLORS", _DARK)


def page(
    study: Study, report: Report, figures: Sequence[DrawnFigure], record: str, python: str
) -> str:
    """Return the page. `python` is code that reproduces the numbers, or an empty string."""
    links = [f'Numbers: <a href="{study.name}.csv">{study.name}.csv</a>']
    if python:
        links.append('<a href="#python">reproduce in Python</a>')
    links.append('<a href="#method">how it was computed</a>')
    question = study.question.replace("-", "\N{NON-BREAKING HYPHEN}")
    parts = [
        f"<h1>{escape(question)}</h1>",
        *(f'<p class="finding">{escape(sentence)}</p>' for sentence in report.findings),
        f'<nav class="files" aria-label="This page">{", ".join(links)}.</nav>',
        *(_figure(figure) + _downloads(figure) for figure in figures),
        *(_table(table) for table in report.tables),
        '<h2 id="method">How it was computed</h2>',
        f'<p class="faint">{EXPLANATION}</p>',
        _formulas(study.formulas),
        *(f"<p>{escape(paragraph)}</p>" for paragraph in report.method),
        f"<p>Source and references: <code>{escape(study.run.__module__)}</code>.</p>",
        _python(study.name, python) if python else "",
        _folded("Run record", _code(record, "Run record")),
    ]
    return _document(f"{study.question} – deniable", parts)


def excerpt(report: Report, figures: Sequence[DrawnFigure]) -> str:
    """Return the findings and figures as HTML, for display in a notebook."""
    sentences = (f"<p>{escape(sentence)}</p>" for sentence in report.findings)
    return "\n".join([*sentences, *map(_figure, figures)])


def index_page(cards: Iterable[str]) -> str:
    """Return the page of `simulate all`: a card for each study."""
    title = "What does privacy cost?"
    parts = [f"<h1>{title}</h1>", f'<p class="faint">{EXPLANATION}</p>', '<ul class="cards">']
    return _document(f"{title} – deniable", [*parts, *cards, "</ul>"])


def card(study: Study, report: Report) -> str:
    """Return a study's question, its first figure and its first finding, linked to its page."""
    figure = report.figures[0]
    return (
        f'<li><h2><a href="{study.name}/index.html">{escape(study.question)}</a></h2>'
        f'<img src="{study.name}/{figure.name}.svg" alt="{escape(figure.caption)}">'
        f"<p>{escape(report.findings[0])}</p></li>"
    )


def _document(title: str, parts: Iterable[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{PAGE_STYLE}</style></head>\n<body><main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main></body></html>\n"
    )


def _figure(figure: DrawnFigure) -> str:
    drawing = _scrolling(_inline(figure.svg, figure.name, figure.caption), f"Figure: {figure.name}")
    return f"<figure>{drawing}<figcaption>{escape(figure.caption)}</figcaption></figure>"


def _downloads(figure: DrawnFigure) -> str:
    links = (
        f'<a href="{figure.name}.{kind}" aria-label="Figure {figure.name} as {kind.upper()}">'
        f"{kind.upper()}</a>"
        for kind in ("svg", "png")
    )
    return f'<p class="files">Download this figure: {", ".join(links)}</p>'


def _formulas(formulas: Iterable[tuple[str, str]]) -> str:
    parts = []
    for number, (words, formula) in enumerate(formulas):
        drawing = _inline(formula_svg(formula), f"formula-{number}", f"{words}: {formula}")
        parts.append(f"<dt>{escape(words)}</dt><dd>{_scrolling(drawing, words)}</dd>")
    return f"<dl>{''.join(parts)}</dl>" if parts else ""


def _python(name: str, code: str) -> str:
    read = (
        f'import csv\n\nwith open("{name}.csv", encoding="utf-8") as file:\n'
        "    rows = list(csv.DictReader(file))"
    )
    return (
        '<h2 id="python">Reproduce in Python</h2>'
        "<p>Compute every number on this page again:</p>"
        f"{_code(code, 'Python code that computes the numbers')}"
        f"<p>Read the saved numbers:</p>{_code(read, 'Python code that reads the numbers')}"
    )


def _scrolling(content: str, name: str) -> str:
    """Return a box that scrolls, with the keyboard too, if its content is wider than the screen."""
    label = escape(name, quote=True)
    return f'<div class="wide" tabindex="0" role="region" aria-label="{label}">{content}</div>'


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def _code(text: str, label: str) -> str:
    return f'<pre tabindex="0" role="region" aria-label="{escape(label)}">{escape(text)}</pre>'


def _inline(svg: str, name: str, label: str) -> str:
    """Return an SVG to embed in the page, with the page's colours and with unique ids."""
    drawing = svg[svg.index("<svg") :].replace(INK, "currentColor")
    for color in ON_DARK:
        drawing = drawing.replace(color, f"var(--c{color[1:]}, {color})")
    drawing = re.sub(r'\bid="', f'id="{name}-', drawing)
    drawing = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", drawing)
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    return drawing.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in table.rows
    )
    whole = _scrolling(
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", table.title
    )
    if len(table.rows) > MAX_OPEN_ROWS:
        return _folded(f"{table.title} ({len(table.rows)} rows)", whole)
    return f"<h2>{escape(table.title)}</h2>{whole}"


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
