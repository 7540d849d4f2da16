"""A report by hand, and one that is tried: drawn as a client draws them, of made-up answers.

What is tried goes the way of every report, packed, sealed where the survey wants it, read again and
admitted, to where it would be written; and ends there. So nothing is counted, stored or remembered,
neither as a report nor as a duplicate nor among the refused.
"""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from deniable.server.http.context import Parts, parts
from deniable.server.http.envelopes import Sent, decide
from deniable.server.http.messages import JSON, HttpError
from deniable.server.http.operations import readiness
from deniable.server.store import PublishedSurvey, Upload
from deniable.shared.envelope import CONTENT_TYPE, Envelope, encode_report, json_envelope
from deniable.shared.privacy.randomness import kernel_draw
from deniable.shared.sealed_envelope import SEALED_TYPE, seal

ID_BYTES = 16
MOST_SHOWN = 600  # bytes of a report


@dataclass(frozen=True)
class Tried:
    """A report that was not sent, and what would have become of it."""

    taken: bool
    problem: str  # why not
    size: int  # bytes of the body
    said: Sequence[tuple[str, str]]  # each question that is answered, and what is reported
    sealed: bool


def try_report(here: Parts, published: PublishedSurvey) -> Tried:
    symbols, envelope = _drawn(published, here)
    survey = published.survey
    body = seal(envelope, survey.sealed_to).pack() if survey.sealed_to else envelope.pack()
    kind = SEALED_TYPE if survey.sealed_to else CONTENT_TYPE
    problem = ""
    try:
        (decision,) = decide(here, Sent(kind, None, body))
        if not isinstance(decision, Upload):
            problem = f"{decision.detail} ({decision.code})"
        else:
            problem = readiness(here) or ""
    except HttpError as error:
        problem = error.detail
    said = [
        (question.title, question.describe(symbol))
        for question, symbol in zip(survey.questions, symbols, strict=True)
        if symbol is not None
    ]
    return Tried(not problem, problem, len(body), said, survey.sealed_to is not None)


def by_hand(published: PublishedSurvey, url: str) -> str | None:
    """For a shell: one report, which counts. None where it is sealed, or too long to be read."""
    if published.survey.sealed_to or published.survey.report_size > MOST_SHOWN:
        return None
    _, envelope = _drawn(published, parts())
    body = json.dumps({"envelopes": [json_envelope(published.survey, envelope)]})
    address = shlex.quote(f"{url}/v1/envelopes")
    return f"curl -s {address} -H 'Content-Type: {JSON}' \\\n  -d {shlex.quote(body)}"


def _drawn(published: PublishedSurvey, here: Parts) -> tuple[Sequence[int | None], Envelope]:
    """Of the examples that pages show, which are nobody's answers, under an id that is nobody's."""
    survey = published.survey
    answers = {question.name: question.example for question in survey.questions}
    symbols = survey.report(answers, kernel_draw).symbols
    number = min(
        max(survey.round_of(here.clock.now().date()), survey.first_round), survey.last_round
    )
    payload = encode_report(survey, symbols)
    return symbols, Envelope(published.id, number, secrets.token_bytes(ID_BYTES), 1, payload)
