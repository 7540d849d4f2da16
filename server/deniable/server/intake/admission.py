"""Admission of an envelope: it checks the survey, round, size and payload, in this order.

A refusal has a code for programs and a detail for people. Neither repeats any part of the payload.

    unknown-survey   not published here             early, late   outside the time of its round
    closed           closed by the operator         too-many      too many reports in one envelope
    bad-payload      not a payload that a client of this survey sends
    invitation-…     with no invitation code, an unknown one, or one that is spent
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from deniable.server.intake.tally import check, tally
from deniable.server.store import Cells, PublishedSurvey, Upload
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.envelope import Envelope, NamedReports
from deniable.shared.errors import EnvelopeCode, InvalidEnvelope
from deniable.shared.survey.document import Survey

CELL_BYTES = 8


@dataclass(frozen=True, slots=True)
class Refusal:
    survey: PublishedSurvey | None  # None if it is not published here
    count: int  # number of refused reports, at most as many as the payload can hold
    code: EnvelopeCode
    detail: str


def admit(
    envelope: Envelope | NamedReports,
    catalogue: Catalogue,
    now: datetime,
    most: int,
    opened_by: str | None = None,
    invitation: bytes = b"",
) -> Upload | Refusal:
    """Return the upload to write, or the refusal of an envelope.

    `most` is the maximum number of reports in an envelope. `opened_by` is the public half of the
    key that unsealed the envelope, and `invitation` the hash of the code that came with it.
    """
    published = catalogue.get(envelope.survey)
    if published is None:
        return Refusal(None, 1, "unknown-survey", "no survey with this id is published here")
    try:
        _check_seal(published.survey, opened_by)
        upload = _upload(published, envelope, now, most)
        _check_invitation(published.survey, invitation)
        return replace(upload, invitation=invitation) if invitation else upload
    except InvalidEnvelope as error:
        reports = _reports(published.survey, envelope)
        return Refusal(published, reports, cast(EnvelopeCode, error.code), error.detail)


def _check_seal(survey: Survey, opened_by: str | None) -> None:
    if opened_by != survey.sealed_to:
        sealed = survey.sealed_to is not None
        how = "must be sealed to the key in its document" if sealed else "must not be sealed"
        raise InvalidEnvelope("bad-payload", f"reports of this survey {how}")


def _check_invitation(survey: Survey, invitation: bytes) -> None:
    """Refuse a missing code, or one for a survey without invitations; the commit checks others."""
    if survey.by_invitation and not invitation:
        raise InvalidEnvelope("invitation-missing", "this survey needs an invitation code")
    if invitation and not survey.by_invitation:
        raise InvalidEnvelope("invitation-unknown", "this survey has no invitations")


def _upload(
    published: PublishedSurvey, envelope: Envelope | NamedReports, now: datetime, most: int
) -> Upload:
    if published.closed:
        raise InvalidEnvelope("closed", "the survey is closed")
    _check_round(published.survey, envelope.round, now)
    count = len(envelope.reports) if isinstance(envelope, NamedReports) else envelope.count
    if count > most:
        why = " without an app token" if most == 1 else ""
        raise InvalidEnvelope("too-many", f"{count} reports in one envelope; at most {most}{why}")
    if isinstance(envelope, NamedReports):
        envelope = envelope.envelope(published.survey)
    cells = _checked(published.survey, envelope.payload, count)
    return Upload(published, envelope.round, envelope.id, count, envelope.payload, cells)


def _check_round(survey: Survey, number: int, now: datetime) -> None:
    """Refuse a round that is over, has not begun, or does not belong to the survey."""
    first, last = survey.first_round, survey.last_round
    if number < first or (number <= last and now >= survey.taken_until(number)):
        raise InvalidEnvelope("late", f"reports of round {number} are no longer accepted")
    if number > last or now < survey.taken_from(number):
        raise InvalidEnvelope("early", f"round {number} has not begun; the latest round is {last}")


def _checked(survey: Survey, payload: bytes, count: int) -> Cells | None:
    """Check a payload; return the counts of a large one, which checking computes anyway.

    If the counts would need more memory than the payload, return None: the commit then counts the
    payloads of its group together.
    """
    if len(payload) < CELL_BYTES * sum(question.mechanism.cells for question in survey.questions):
        check(survey, payload, count)
        return None
    return tally(survey, payload, count)


def _reports(survey: Survey, envelope: Envelope | NamedReports) -> int:
    if isinstance(envelope, NamedReports):
        return max(1, len(envelope.reports))
    return max(1, min(envelope.count, len(envelope.payload) // survey.report_size))
