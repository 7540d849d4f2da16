"""The page of a study: self-contained, light and dark, readable on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape

from deniable.simulations.frame.figures import INK
from deniable.simulations.frame.study import Report, Study, Table

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --faint: #667; --line: #d8dbe0 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --paper: #16181c; --faint: #a2a8b4; --line: #3a3f47 }
}
body { margin: 0 auto; max-width: 52rem; padding: 1.5rem 1rem 4rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.55 system-ui, sans-serif }
h1 { font-size: 1.5rem; line-height: 1.25 } h2 { font-size: 1.1rem; margin-top: 2.2rem }
.finding { font-size: 1.1rem } figure { margin: 1.8rem 0 }
.wide { overflow-x: auto } .wide svg { width: 100%; min-width: 34rem; height: auto }
figcaption { color: var(--faint) } table { border-collapse: collapse; font-size: .85rem }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; font-variant-numeric: tabular-nums }
th:first-child, td:first-child { text-align: left } pre { font-size: .85rem; overflow-x: auto }
"""


def page(study: Study, report: Report, drawn: Mapping[str, str], record: str) -> str:
    """`drawn` has the SVG text of each figure by its name."""
    parts = [
        f"<h1>{escape(study.question)}</h1>",
        *(f'<p class="finding">{escape(sentence)}</p>' for sentence in report.findings),
        *(_figure(drawn[figure.name], figure.name, figure.caption) for figure in report.figures),
        *(_table(table) for table in report.tables),
        "<h2>How it was computed</h2>",
        *(f"<p>{escape(paragraph)}</p>" for paragraph in report.method),
        f"<details><summary>Run record</summary><pre>{escape(record)}</pre></details>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>deniable: {escape(study.name)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _figure(svg: str, name: str, caption: str) -> str:
    return (
        f'<figure><div class="wide">{_inline(svg, name, caption)}</div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _inline(svg: str, name: str, caption: str) -> str:
    """Text and axes take the page's colour; names inside become those of this figure alone."""
    drawing = svg[svg.index("<svg") :].replace(INK, "currentColor")
    drawing = re.sub(r'\bid="', f'id="{name}-', drawing)
    drawing = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", drawing)
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    return drawing.replace("<svg ", f'<svg role="img" aria-label="{escape(caption)}" ', 1)


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    return (
        f'<h2>{escape(table.title)}</h2><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(_rows(table))}</tbody></table></div>"
    )


def _rows(table: Table) -> Iterator[str]:
    for row in table.rows:
        yield "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>"
