"""Figures by themselves: as SVG, as CSV, and as the line of Python that reads the same numbers."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from flask import Response, render_template
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import NotFound

from deniable.server.pages.axes import Words
from deniable.server.pages.guards import pages
from deniable.server.pages.question_view import QuestionView
from deniable.server.pages.survey_page import SurveyPage, read_page
from deniable.server.results.table import records_text
from deniable.shared.errors import Refused

Record = Mapping[str, Any]  # Any: what a field of the results holds

STATIC = Path(__file__).parent / "static"
WIDTH = 720

blueprint = pages("figures")


@dataclass(frozen=True)
class Figure:
    """One of a question's."""

    name: str
    title: str
    python: str  # of `results`
    records: Callable[[], Iterable[Record]]


def figures_of(view: QuestionView, page: SurveyPage) -> list[Figure]:
    """Those that there are, by the round that the page shows."""
    name, title, period = view.question.name, view.question.title, page.period
    if not view.rows or period is None:
        return []
    estimate = f'results.estimate("{name}", round={period.round})'
    asked = [
        (view.chart, "round", page.period_name, estimate, lambda: _rows(view)),
        (view.trends, "trend", "over the rounds", f'results.over_rounds("{name}")',
         lambda: _rounds(view)),
        (view.change_chart, "change", f"change since {view.since}", f"{estimate}.change",
         lambda: map(msgspec.structs.asdict, view.differences)),
        (view.distribution, "distribution", f"share below each value, {page.period_name}",
         f"{estimate}.distribution", lambda: _points(view)),
    ]  # fmt: skip
    return [
        Figure(kind, f"{title} – {words}", line, made)
        for there, kind, words, line, made in asked
        if there
    ]


@blueprint.get("/surveys/<identifier>/figures/<question>/<name>.<any(svg, csv):form>")
def figure(identifier: str, question: str, name: str, form: str) -> ResponseReturnValue:
    try:
        page = read_page(identifier)
    except Refused:
        raise NotFound from None
    for view in page.questions:
        if view.question.name == question:
            for found in figures_of(view, page):
                if found.name == name:
                    return _csv(found) if form == "csv" else _svg(found, view, page)
    raise NotFound


def _csv(found: Figure) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{found.name}.csv"'}
    return Response(records_text(found.records()), mimetype="text/csv", headers=headers)


def _svg(found: Figure, view: QuestionView, page: SurveyPage) -> Response:
    """A page's policy allows no style of its own; this file's may have this one."""
    style = file_style()
    text = render_template(
        "figure.svg",
        figure=found,
        title=Words(found.title),
        view=view,
        page=page,
        style=style,
        width=WIDTH,
    )
    allowed = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{allowed}'"
    return Response(text, mimetype="image/svg+xml", headers={"Content-Security-Policy": policy})


@lru_cache(maxsize=1)
def file_style() -> str:
    """The light colours, written out: few programs that show SVG know variables."""
    sheet, chart = ((STATIC / name).read_text("utf-8") for name in ("style.css", "chart.css"))
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", sheet.split("}")[0]))
    wide = chart.split("@media")[0]
    return re.sub(r"var\(--([\w-]+)\)", lambda name: colours[name[1]], wide)


def _rows(view: QuestionView) -> Iterable[Record]:
    return map(msgspec.structs.asdict, view.result.rows)


def _rounds(view: QuestionView) -> Iterable[Record]:
    for number, result in view.rounds:
        for row in result.rows:
            if row.estimate is not None:
                yield {"round": number, **msgspec.structs.asdict(row)}


def _points(view: QuestionView) -> Iterable[Record]:
    return map(msgspec.structs.asdict, view.distribution.points if view.distribution else ())
