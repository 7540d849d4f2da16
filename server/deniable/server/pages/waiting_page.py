"""Survey page before there are results: how to send a report, a test report, and a plan.

The page refreshes when the first report arrives. The server packs a test report, seals it if the
survey requires that, and reads and checks it like any other report, but does not write it. No
counter includes it, not even as a duplicate or as rejected. Only intake has the keys that open
sealed reports, so such a report is checked before it is sealed.
"""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from flask import Response, jsonify, render_template, request
from flask.typing import ResponseReturnValue

from deniable.server.http.context import Parts, asked_for, parts, require
from deniable.server.http.messages import ASK_PAGES, JSON
from deniable.server.http.tokens import invitation_hash, new_invitation
from deniable.server.intake.admission import admit
from deniable.server.pages.access import for_operators, pages, refused
from deniable.server.pages.planner import PlannedQuestion
from deniable.server.pages.planner_form import read_form
from deniable.server.results.survey_estimates import shown_reports
from deniable.server.store import PublishedSurvey, Upload
from deniable.server.surveys.link_surveys import obstacle
from deniable.shared.envelope import Envelope, encode_report, json_envelope, parse_envelopes
from deniable.shared.errors import Refused
from deniable.shared.privacy.mechanism import kernel_draw
from deniable.shared.sealed_envelope import seal
from deniable.shared.survey.questions import question_document

ID_BYTES = 16
MAX_SHOWN_BYTES = 600  # maximum length of a report in a command to copy
MISSING_KEY = "the server lacks the key to open this; start the server with --sealing-key FILE"

blueprint = pages("waiting", public=("waiting_json",))


class TestReport(NamedTuple):
    """Test report, which was not sent, with the outcome that sending it would have."""

    problem: str  # why the server would reject it; empty if the server would accept it
    size: int  # bytes of the body
    symbols: Sequence[tuple[str, str]]  # each answered question with the reported value
    sealed: bool


@blueprint.get("/surveys/<identifier>/waiting.json")
@require("analyst")
def waiting_json(identifier: str) -> Response:
    """Return the state and the shown number of reports; the page reloads when one changes."""
    published = asked_for(identifier)
    state = published.state_at(parts().clock.now())
    reports, arrived = reports_so_far(published)
    return jsonify({"survey": published.id, "state": state, "reports": reports, "arrived": arrived})


@blueprint.post("/surveys/<identifier>/try")
@for_operators
def send_test_report(identifier: str) -> ResponseReturnValue:
    here = parts()
    try:
        published = here.catalogue.find(identifier)
    except Refused as error:
        return refused(str(error), 404)
    report = make_test_report(here, published)
    return render_template("test_report.html", published=published, report=report)


@blueprint.app_template_global()
def reports_so_far(published: PublishedSurvey) -> tuple[int, bool]:
    """Return the shown number of reports, and whether any report has arrived."""
    return shown_reports(parts().store, published, parts().clock.now())


@blueprint.app_template_global()
def invite_command(published: PublishedSurvey, url: str) -> str:
    """Return the command that prints links with invitation codes."""
    return f"deniable invite {published.name} --count 30 --url {url} {parts().store.option}"


@blueprint.app_template_global()
def ask_link(published: PublishedSurvey, url: str) -> str | None:
    """Return the link at which people answer a survey, or None if an app must ask it."""
    needs_code = published.survey.by_invitation or obstacle(published.survey)
    return None if needs_code else f"{url}{ASK_PAGES}{published.name}"


@blueprint.app_template_global()
def survey_plan(published: PublishedSurvey) -> PlannedQuestion:
    """Plan the question named in the address, or the first question."""
    questions = {question.name: question for question in published.survey.questions}
    first = published.survey.questions[0]
    chosen = questions.get(request.args.get("question", ""), first)
    form = read_form(request.args, question_document(chosen), published.survey.looks)
    return PlannedQuestion(form, published.survey)


def make_test_report(here: Parts, published: PublishedSurvey) -> TestReport:
    symbols, envelope = _drawn(published, here)
    survey, packed = published.survey, envelope.pack()
    body = seal(envelope, survey.sealed_to).pack() if survey.sealed_to else packed
    (read,) = parse_envelopes(packed, 1)
    code = invitation_hash(new_invitation()) if survey.by_invitation else b""
    now, opened_by = here.clock.now(), survey.sealed_to
    decision = admit(read, here.catalogue, now, 1, opened_by, code)
    if not isinstance(decision, Upload):
        problem = f"{decision.detail} ({decision.code})"
    elif survey.sealed_to and survey.sealed_to not in here.intake_status().sealing_keys:
        problem = MISSING_KEY
    else:
        problem = here.unready_reason() or ""
    described = [
        (question.title, question.describe(symbol))
        for question, symbol in zip(survey.questions, symbols, strict=True)
        if symbol is not None
    ]
    return TestReport(problem, len(body), described, survey.sealed_to is not None)


@blueprint.app_template_global()
def report_by_hand(published: PublishedSurvey, url: str) -> str | None:
    """Return a shell command that sends one report, which will be counted.

    Return None if the report is sealed, needs a code, or is too long to show.
    """
    survey = published.survey
    if survey.sealed_to or survey.by_invitation or survey.report_size > MAX_SHOWN_BYTES:
        return None
    _, envelope = _drawn(published, parts())
    body = json.dumps({"envelopes": [json_envelope(published.survey, envelope)]})
    address = shlex.quote(f"{url}/v1/envelopes")
    return f"curl -s {address} -H 'Content-Type: {JSON}' \\\n  -d {shlex.quote(body)}"


def _drawn(published: PublishedSurvey, here: Parts) -> tuple[Sequence[int | None], Envelope]:
    """Randomize the example answers of the pages, under a random id."""
    survey = published.survey
    answers = {question.name: question.example for question in survey.questions}
    symbols = survey.report(answers, kernel_draw).symbols
    today = survey.round_of(here.clock.now().date())
    number = min(max(today, survey.first_round), survey.last_round)
    payload = encode_report(survey, symbols, survey.example_labels)
    return symbols, Envelope(published.id, number, secrets.token_bytes(ID_BYTES), 1, payload)
