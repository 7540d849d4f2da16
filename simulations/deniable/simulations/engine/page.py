"""The page of a study: self-contained, without a script, readable on a phone and on paper.

It is light or dark as the reader's system asks, and fits screens from 320 px.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

from deniable.shared.errors import WrongUse
from deniable.simulations.engine.figures import INK, ON_DARK, styled
from deniable.simulations.engine.study import Figure, Report, Study, Table

if TYPE_CHECKING:
    import matplotlib.figure

MAX_OPEN_ROWS = 16  # of a table that fits on a small screen: a longer one is folded
EXPLANATION = (  # markup
    "ε bounds what can be learnt of one person: nothing that is released changes anyone's odds "
    "about a person's answer by more than a factor of e<sup>ε</sup>, which is 2.7 at ε 1. Where a "
    "δ is given, that may fail with about that probability. n is the number of people. Devices "
    "randomize their answers before they send them; a trusted server sees all true answers and "
    "adds noise to what it publishes."
)
_DARK = "; ".join(f"--c{light[1:]}: {dark}" for light, dark in ON_DARK.items())
PAGE_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --faint: #5c6370; --line: #d8dbe0;
  --soft: #f4f5f7 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --paper: #16181c; --faint: #a9afbb; --line: #3a3f47; --soft: #1f2228; %s }
}
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 56rem; padding: 1.5rem 1rem 4rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word }
h1 { font-size: 1.6rem; line-height: 1.25; text-wrap: balance }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .6rem }
.finding { font-size: 1.1rem } figure { margin: 1.8rem 0 .4rem } a { color: inherit }
.wide { overflow-x: auto } .wide svg { display: block; width: 100%; min-width: 34rem; height: auto }
.wide:focus-visible, pre:focus-visible { outline: 2px solid currentColor; outline-offset: 2px }
figcaption, .faint { color: var(--faint) } .files { color: var(--faint); font-size: .9rem }
table { border-collapse: collapse; font-size: .85rem }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; font-variant-numeric: tabular-nums }
th:first-child, td:first-child { text-align: left }
pre { font-size: .85rem; overflow-x: auto; padding: .8rem; background: var(--soft) }
dt { margin-top: .9rem } dd { margin: .3rem 0 0 }
dd .wide svg { width: auto; min-width: 0 }
details { margin: .6rem 0 } summary { cursor: pointer; padding: .25rem 0 }
.cards { list-style: none; padding: 0; display: grid; gap: 1.5rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)) }
.cards li { border: 1px solid var(--line); padding: 1rem }
.cards h2 { margin: 0 0 .4rem } .cards p { margin: .6rem 0 0; font-size: .95rem }
.cards img { display: block; width: 100%; height: auto }
@media (prefers-color-scheme: dark) { .cards img { filter: invert(1) hue-rotate(180deg) } }
body:has(.cards) { max-width: 76rem }
@media print {
  body, body:has(.cards) { max-width: none; padding: 0; color: #000; background: #fff }
  .wide, pre { overflow: visible } .wide svg { min-width: 0 } pre { white-space: pre-wrap }
  figure, .cards li, dd, tr { break-inside: avoid } h2 { break-after: avoid }
  .cards img { filter: none } table { font-size: .7rem } nav { display: none }
}
""".replace("%s", _DARK)


def page(
    study: Study, report: Report, figures: Sequence[DrawnFigure], record: str, python: str
) -> str:
    """Return the page. `python` is code that gives the same numbers, or empty."""
    links = [f'Numbers: <a href="{study.name}.csv">{study.name}.csv</a>']
    if python:
        links.append('<a href="#python">the same in Python</a>')
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
        f"<p>For more, read <code>{escape(study.run.__module__)}</code>.</p>",
        _python(study.name, python) if python else "",
        _folded("Run record", _code(record, "Run record")),
    ]
    return _document(f"{study.question} – deniable", parts)


def excerpt(report: Report, figures: Sequence[DrawnFigure]) -> str:
    """Return the findings and figures, for a notebook's own page."""
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
        '<h2 id="python">The same in Python</h2>'
        "<p>This computes every number of this page again:</p>"
        f"{_code(code, 'Python that computes it')}"
        f"<p>This reads the numbers that were written:</p>{_code(read, 'Python that reads it')}"
    )


def _scrolling(content: str, name: str) -> str:
    """Return a box that scrolls, also by keyboard, if its content is wider than the screen."""
    label = escape(name, quote=True)
    return f'<div class="wide" tabindex="0" role="region" aria-label="{label}">{content}</div>'


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def _code(text: str, label: str) -> str:
    return f'<pre tabindex="0" role="region" aria-label="{escape(label)}">{escape(text)}</pre>'


def _inline(svg: str, name: str, label: str) -> str:
    """Return a drawing for the page, with the page's colours and with ids of its own."""
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
        return _folded(f"{table.title} ({len(table.rows)} lines)", whole)
    return f"<h2>{escape(table.title)}</h2>{whole}"


# Drawings


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
