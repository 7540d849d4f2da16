"""The page of a study: self-contained, without a script, readable on a phone and on paper.

How a page of a study looks: light and dark, on paper, from 320 px on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from deniable.simulations.engine.figures import INK, ON_DARK, DrawnFigure
from deniable.simulations.engine.formulas import mathml
from deniable.simulations.engine.study import Report, Study, Table

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
dt { margin-top: .9rem } dd { margin: .3rem 0 0 } math { font-size: 1.15rem; text-align: left }
mfrac > * { padding-block: .1em }
math[display="block"] { display: block math; width: max-content; margin: .2rem 0 }
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


NO_BREAK = "\N{NON-BREAKING HYPHEN}"
LONG = 16  # lines of a table that fit on a small screen: a longer one is folded behind its title
WORDS = (  # markup
    "ε bounds what can be learnt of one person: nothing that is released changes anybody's odds "
    "about a person's answer by more than a factor of e<sup>ε</sup>, which is 2.7 at ε 1, or, "
    "where a δ is named, with about that probability only. n is the number of people. Devices "
    "randomize their answers before they send them; a trusted server sees them all, and adds noise "
    "to what it publishes."
)


def page(
    study: Study, report: Report, drawn: Sequence[DrawnFigure], record: str, again: str
) -> str:
    """`again` is what gives the same in Python, or nothing."""
    csv = f'<a href="{study.name}.csv">{study.name}.csv</a>'
    ways = [f"Numbers: {csv}"]
    if again:
        ways.append('<a href="#python">the same in Python</a>')
    ways.append('<a href="#method">how it was computed</a>')
    parts = [
        heading(study.question),
        *(f'<p class="finding">{escape(sentence)}</p>' for sentence in report.findings),
        f'<nav class="files" aria-label="This page">{", ".join(ways)}.</nav>',
        *(_figure(each) + _files(each) for each in drawn),
        *(_table(table) for table in report.tables),
        '<h2 id="method">How it was computed</h2>',
        f'<p class="faint">{WORDS}</p>',
        _formulas(study.formulas),
        *(f"<p>{escape(paragraph)}</p>" for paragraph in report.method),
        f"<p>The code is <code>{escape(study.run.__module__)}</code>, which says more.</p>",
        _again(study.name, again) if again else "",
        _folded("Run record", _code(record, "Run record")),
    ]
    return document(f"{study.question} – deniable", parts)


def heading(question: str) -> str:
    """A page's title, which no line breaks at a hyphen."""
    return f"<h1>{escape(question.replace('-', NO_BREAK))}</h1>"


def document(title: str, parts: Iterable[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{PAGE_STYLE}</style></head>\n<body><main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main></body></html>\n"
    )


def excerpt(report: Report, drawn: Sequence[DrawnFigure]) -> str:
    """What was found, for a notebook's own page: sentences and figures."""
    sentences = (f"<p>{escape(sentence)}</p>" for sentence in report.findings)
    return "\n".join([*sentences, *map(_figure, drawn)])


def _figure(drawn: DrawnFigure) -> str:
    drawing = inline(drawn.svg, drawn.name, drawn.caption)
    return (
        f"<figure>{_wide(drawing, f'Figure: {drawn.name}')}"
        f"<figcaption>{escape(drawn.caption)}</figcaption></figure>"
    )


def _files(drawn: DrawnFigure) -> str:
    links = (
        f'<a href="{drawn.name}.{kind}" aria-label="Figure {drawn.name} as {kind.upper()}">'
        f"{kind.upper()}</a>"
        for kind in ("svg", "png")
    )
    return f'<p class="files">This figure: {", ".join(links)}</p>'


def _formulas(formulas: Iterable[tuple[str, str]]) -> str:
    """What is computed, typeset by the browser."""
    lines = "".join(
        f"<dt>{escape(words)}</dt><dd>{_wide(mathml(text), words)}</dd>" for words, text in formulas
    )
    return f"<dl>{lines}</dl>" if lines else ""


def _again(name: str, again: str) -> str:
    read = (
        f'import csv\n\nwith open("{name}.csv", encoding="utf-8") as file:\n'
        "    rows = list(csv.DictReader(file))"
    )
    return (
        '<h2 id="python">The same in Python</h2>'
        "<p>This computes every number of this page anew:</p>"
        f"{_code(again, 'Python that computes it')}"
        f"<p>and this reads those that were written:</p>{_code(read, 'Python that reads it')}"
    )


def _wide(inside: str, name: str) -> str:
    """What may be wider than the screen is scrolled, with the keyboard too."""
    label = escape(name, quote=True)
    return f'<div class="wide" tabindex="0" role="region" aria-label="{label}">{inside}</div>'


def _folded(title: str, inside: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{inside}</details>"


def _code(text: str, label: str) -> str:
    return f'<pre tabindex="0" role="region" aria-label="{escape(label)}">{escape(text)}</pre>'


def inline(svg: str, name: str, caption: str) -> str:
    """Text and axes take the page's colours; names inside become those of this figure alone."""
    drawing = svg[svg.index("<svg") :].replace(INK, "currentColor")
    for color in ON_DARK:
        drawing = drawing.replace(color, f"var(--c{color[1:]}, {color})")
    drawing = re.sub(r'\bid="', f'id="{name}-', drawing)
    drawing = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", drawing)
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    return drawing.replace("<svg ", f'<svg role="img" aria-label="{escape(caption)}" ', 1)


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    body = "".join(_rows(table))
    whole = _wide(
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", table.title
    )
    if len(table.rows) > LONG:
        return _folded(f"{table.title} ({len(table.rows)} lines)", whole)
    return f"<h2>{escape(table.title)}</h2>{whole}"


def _rows(table: Table) -> Iterator[str]:
    for row in table.rows:
        yield "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>"


def index_page(cards: Iterable[str]) -> str:
    """Return the page of `simulate all`: a card for each study."""
    title = "What does privacy cost?"
    parts = [f"<h1>{title}</h1>", f'<p class="faint">{WORDS}</p>', '<ul class="cards">']
    return document(f"{title} – deniable", [*parts, *cards, "</ul>"])


def card(study: Study, report: Report) -> str:
    """Return a study's question, its first figure and its first finding, linked to its page."""
    figure = report.figures[0]
    return (
        f'<li><h2><a href="{study.name}/index.html">{escape(study.question)}</a></h2>'
        f'<img src="{study.name}/{figure.name}.svg" alt="{escape(figure.caption)}">'
        f"<p>{escape(report.findings[0])}</p></li>"
    )
