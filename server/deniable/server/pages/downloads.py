"""Downloads of single figures, as SVG and as CSV."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

from flask import Response, render_template
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import NotFound

from deniable.server.pages.access import pages
from deniable.server.pages.charts import Words
from deniable.server.pages.question_view import FigureFile, QuestionView
from deniable.server.pages.survey_page import SurveyPage, read_page
from deniable.server.results.export import records_csv
from deniable.shared.errors import Refused

STATIC = Path(__file__).parent / "static"
WIDTH = 720

blueprint = pages("downloads")


@blueprint.get("/surveys/<identifier>/figures/<question>/<name>.<any(svg, csv):form>")
def figure(identifier: str, question: str, name: str, form: str) -> ResponseReturnValue:
    try:
        page = read_page(identifier)
    except Refused:
        raise NotFound from None
    for view in page.questions:
        for file in view.files() if view.question.name == question else ():
            if file.name == name:
                return _csv(file) if form == "csv" else _svg(file, view, page)
    raise NotFound


def _csv(file: FigureFile) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{file.name}.csv"'}
    return Response(records_csv(file.records()), mimetype="text/csv", headers=headers)


def _svg(file: FigureFile, view: QuestionView, page: SurveyPage) -> Response:
    """Pages may have no style of their own; this file may have this one."""
    style = file_style()
    text = render_template(
        "figure.svg",
        figure=file,
        title=Words(file.title),
        view=view,
        page=page,
        style=style,
        width=WIDTH,
    )
    allowed = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{allowed}'"
    return Response(text, mimetype="image/svg+xml", headers={"Content-Security-Policy": policy})


def file_style() -> str:
    """Return the chart's style with the light colours written out.

    Few programs that show SVG support variables.
    """
    sheet, chart = ((STATIC / name).read_text("utf-8") for name in ("style.css", "chart.css"))
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", sheet.split("}")[0]))
    wide = chart.split("@media")[0]
    return re.sub(r"var\(--([\w-]+)\)", lambda name: colours[name[1]], wide)
