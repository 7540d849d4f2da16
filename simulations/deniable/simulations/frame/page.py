"""The page of a study: self-contained, light and dark, readable on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from deniable.simulations.frame.figures import INK, Drawn
from deniable.simulations.frame.study import Report, Study, Table

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --faint: #667; --line: #d8dbe0 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --paper: #16181c; --faint: #a2a8b4; --line: #3a3f47 }
}
body { margin: 0 auto; max-width: 52rem; padding: 1.5rem 1rem 4rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.55 system-ui, sans-serif }
h1 { font-size: 1.5rem; line-height: 1.25 } h2 { font-size: 1.1rem; margin-top: 2.2rem }
.finding { font-size: 1.1rem } figure { margin: 1.8rem 0 } a { color: inherit }
.wide { overflow-x: auto } .wide svg { width: 100%; min-width: 34rem; height: auto }
figcaption { color: var(--faint) } table { border-collapse: collapse; font-size: .85rem }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; font-variant-numeric: tabular-nums }
th:first-child, td:first-child { text-align: left } pre { font-size: .85rem; overflow-x: auto }
.cards { list-style: none; padding: 0 }
.cards li { border-top: 1px solid var(--line); padding: 1rem 0 }
.cards svg { width: 100%; max-width: 34rem; height: auto }
summary { cursor: pointer } .files { color: var(--faint); font-size: .9rem }
@media print { .wide { overflow-x: visible } .wide svg { min-width: 0 } body { max-width: none } }
"""
LONG = 24  # lines of a table that fit on a screen: a longer one is folded behind its title


def page(study: Study, report: Report, drawn: Sequence[Drawn], record: str, again: str) -> str:
    """`again` is what gives the same in Python, or nothing."""
    parts = [
        f"<h1>{escape(study.question)}</h1>",
        *(f'<p class="finding">{escape(sentence)}</p>' for sentence in report.findings),
        *(_figure(each) + _files(each) for each in drawn),
        *(_table(table) for table in report.tables),
        f'<p class="files">Every row: <a href="{study.name}.csv">{study.name}.csv</a></p>',
        "<h2>How it was computed</h2>",
        *(f"<p>{escape(paragraph)}</p>" for paragraph in report.method),
        _folded("The same in Python", _code(again)) if again else "",
        _folded("Run record", _code(record)),
    ]
    return document(f"deniable: {study.name}", parts)


def document(title: str, parts: Iterable[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main></body></html>\n"
    )


def excerpt(report: Report, drawn: Sequence[Drawn]) -> str:
    """What was found, for a notebook's own page: sentences and figures."""
    sentences = (f"<p>{escape(sentence)}</p>" for sentence in report.findings)
    return "\n".join([*sentences, *map(_figure, drawn)])


def _figure(drawn: Drawn) -> str:
    drawing = inline(drawn.svg, drawn.name, drawn.caption)
    return (
        f"<figure>{_wide(drawing, drawn.name)}<figcaption>{escape(drawn.caption)}</figcaption>"
        "</figure>"
    )


def _files(drawn: Drawn) -> str:
    links = (f'<a href="{drawn.name}.{kind}">{kind.upper()}</a>' for kind in ("svg", "png"))
    return f'<p class="files">This figure: {", ".join(links)}</p>'


def _wide(inside: str, name: str) -> str:
    """What may be wider than the screen is scrolled, with the keyboard too."""
    label = escape(name, quote=True)
    return f'<div class="wide" tabindex="0" role="region" aria-label="{label}">{inside}</div>'


def _folded(title: str, inside: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{inside}</details>"


def _code(text: str) -> str:
    return f'<pre tabindex="0">{escape(text)}</pre>'


def inline(svg: str, name: str, caption: str) -> str:
    """Text and axes take the page's colour; names inside become those of this figure alone."""
    drawing = svg[svg.index("<svg") :].replace(INK, "currentColor")
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
