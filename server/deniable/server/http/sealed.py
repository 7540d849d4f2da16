"""Sealed reports: opened here, by the keys that the operator has given this process.

unknown mark        refused, unless a survey that takes reports names a key that is missing here
cannot be opened    refused, after some 35 µs of work; what is too long is refused before
opened              admitted as any other envelope, if its survey names the key that opened it
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from deniable.server.http.context import Parts
from deniable.server.http.messages import HttpError
from deniable.server.intake.admission import Refusal, admit
from deniable.server.store import PublishedSurvey, Upload
from deniable.shared.errors import InvalidEnvelope
from deniable.shared.sealed_envelope import UNREADABLE, SealedEnvelope, unseal
from deniable.shared.survey.keys import mark_of

MISSING = "the key to open this is not here now; send the same body again later"
MISSING_SECONDS = 60
INSIDE = 1  # report in a sealed envelope: who passes it on with a token cannot see how many


def decide_sealed(
    here: Parts, envelopes: Sequence[SealedEnvelope], now: datetime
) -> list[Upload | Refusal]:
    """What is to become of each."""
    if not {each.mark for each in envelopes} <= here.sealing.keys():
        _refuse_if_a_key_is_missing(here, {each.mark for each in envelopes}, now)
    return [_decide(here, each, now) for each in envelopes]


def _decide(here: Parts, sealed: SealedEnvelope, now: datetime) -> Upload | Refusal:
    key = here.sealing.get(sealed.mark)
    if key is None:
        return Refusal(None, 1, "bad-payload", UNREADABLE)
    try:
        opened = unseal(sealed, key)
    except InvalidEnvelope as error:
        return Refusal(None, 1, "bad-payload", error.detail)
    return admit(opened, here.catalogue, now, INSIDE, sealed.mark)


def _refuse_if_a_key_is_missing(here: Parts, marks: set[bytes], now: datetime) -> None:
    """Whoever sent it keeps it, until the key is here."""
    if any(mark in marks for mark, _ in missing_keys(here, now)):
        raise HttpError(503, MISSING, retry_after=MISSING_SECONDS)


def missing_keys(here: Parts, now: datetime) -> Iterable[tuple[bytes, PublishedSurvey]]:
    """The marks of keys that are not here, and the surveys that take reports sealed to them."""
    for each in here.catalogue.surveys():
        if (public := each.survey.sealed_to) and not each.closed:
            taken = now < each.survey.taken_until(each.survey.last_round)
            if taken and (mark := mark_of(public)) not in here.sealing:
                yield mark, each
