"""The page of a study: self-contained, without a script, readable on a phone and on paper."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from deniable.simulations.frame.figures import INK, ON_DARK, Drawn
from deniable.simulations.frame.formulas import mathml
from deniable.simulations.frame.study import Report, Study, Table
from deniable.simulations.frame.style import STYLE

NO_BREAK = "\N{NON-BREAKING HYPHEN}"
LONG = 24  # lines of a table that fit on a screen: a longer one is folded behind its title
WORDS = (  # markup
    "ε bounds what can be learnt of one person: nothing that is released changes anybody's odds "
    "about a person's answer by more than a factor of e<sup>ε</sup>, which is 2.7 at ε 1, or, "
    "where a δ is named, with about that probability only. n is the number of people. Devices "
    "randomize their answers before they send them; a trusted server sees them all, and adds noise "
    "to what it publishes."
)


def page(study: Study, report: Report, drawn: Sequence[Drawn], record: str, again: str) -> str:
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
        f"<figure>{_wide(drawing, f'Figure: {drawn.name}')}"
        f"<figcaption>{escape(drawn.caption)}</figcaption></figure>"
    )


def _files(drawn: Drawn) -> str:
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
