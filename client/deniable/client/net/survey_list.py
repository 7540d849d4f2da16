"""The server's list of surveys, read entry by entry.

Only documents with a valid signature of a trusted key are parsed and kept, and of these only those
that the app asks for are judged: proving that a survey is private can take a second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

from deniable.client.diagnostics import escaped
from deniable.client.net.transport import Reply, Unreachable
from deniable.client.policy import Policy
from deniable.client.state.survey_cache import ListedSurvey
from deniable.shared.errors import DeniableError, UntrustedSurvey
from deniable.shared.survey.keys import is_signed_epoch, verify

if TYPE_CHECKING:
    from deniable.shared.survey.document import Survey

MAX_LISTED = 1_000
MAX_EPOCHS = 400  # of a survey: one for each day of the longest grace period
MAX_ROUND = 2**32 - 1
MAX_STRINGS, MAX_BYTES_OUTSIDE_STRINGS = 100_000, 2**20
MAX_NAME_OFFSET = 1_000  # characters before and within the name of an unverified document
UNREADABLE = "the document cannot be read"
ID = re.compile(r"[0-9a-f]{64}")
_NAME = r'"name"\s*:\s*"([^"\\]{1,64})'  # compiled when first used, as below
_STRING = rb'(?s)"(?:[^"\\]++|\\.)*+"?'  # an unclosed one extends to the end


def verified(listed: ListedSurvey, policy: Policy) -> Survey:
    """Return the survey if the app may answer it; raise an error with the reason otherwise."""
    from deniable.shared.survey.document import parse_document

    document = _signed_document(listed, policy)
    try:
        survey = parse_document(document)
    except DeniableError:
        raise
    except Exception:  # noqa: BLE001 - a document must not stop the app, whatever is in it
        raise UntrustedSurvey(UNREADABLE) from None
    for question in survey.questions:
        if not question.mechanism.is_private():
            raise UntrustedSurvey(
                f"question {question.name!r} has probabilities that its ε does not cover"
            )
    return survey


def _signed_document(listed: ListedSurvey, policy: Policy) -> bytes:
    from deniable.shared.survey.document import survey_id

    document = listed.document or b""
    if survey_id(document) != listed.id:
        raise UntrustedSurvey("the survey's id is not the hash of its document")
    verify(document, listed.signature, listed.key, policy.keys)
    if not policy.allows(listed.id):
        raise UntrustedSurvey("the app's policy allows only other surveys")
    return document


def read_shipped(entry: bytes | str, policy: Policy) -> tuple[str, Survey]:
    """Return the id and the survey of an entry, in the list's format, that ships with the app."""
    try:
        listed = _read(json.loads(entry), 0, policy)
    except (ValueError, RecursionError):
        listed = None
    if listed is None:
        raise UntrustedSurvey(
            "that is not a signed survey; use the output of `deniable survey show NAME --json`"
        )
    if listed.problem is not None:
        raise UntrustedSurvey(listed.problem)
    return listed.id, verified(listed, policy)


def read_list(reply: Reply, policy: Policy) -> list[ListedSurvey]:
    """Read every entry and check each separately, so that a bad entry hides no other."""
    if reply.status != 200:
        raise Unreachable(f"the server answered with status {reply.status}", True, "status")
    if not _is_small(reply.body):
        raise Unreachable("the server's list of surveys is too large", True, "too-large")
    try:
        entries = json.loads(reply.body)["surveys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        entries = None
    if not isinstance(entries, list):
        raise Unreachable("the reply is not a list of surveys: is it another page?", True, "list")
    read = (_read(entry, position, policy) for position, entry in enumerate(entries[:MAX_LISTED]))
    return [listed for listed in read if listed is not None]


def _is_small(body: bytes) -> bool:
    """Return whether few bytes are outside strings: a parsed bracket takes twenty bytes or more."""
    outside = len(body)
    for number, string in enumerate(re.finditer(_STRING, body)):
        outside -= len(string[0])
        if number >= MAX_STRINGS:
            return False
    return outside <= MAX_BYTES_OUTSIDE_STRINGS


def _read(entry: object, position: int, policy: Policy) -> ListedSurvey | None:
    names = ("id", "document", "signature", "key", "state")
    if not isinstance(entry, Mapping) or not all(isinstance(entry.get(n), str) for n in names):
        return None
    id_, text, signature, key, state = (str(entry[name]) for name in names)
    if not ID.fullmatch(id_) or state not in ("open", "closed"):
        return None
    document = text.encode("utf-8", "replace")
    claimed = ListedSurvey(id_, position, "", state, document, signature, key)
    try:
        name, last_day = _headline(_signed_document(claimed, policy))
    except DeniableError as error:
        return ListedSurvey(
            id_, position, _claimed_name(text), state, None, "", "", escaped(str(error))
        )
    closes = datetime.combine(last_day, time(), UTC) + timedelta(days=1)
    epochs = tuple(_epochs(entry.get("epochs"), id_, key).items())
    return ListedSurvey(id_, position, name, state, document, signature, key, None, closes, epochs)


def _epochs(listed: object, survey: str, key: str) -> dict[int, int]:
    """Return the largest epoch of each round that the survey's key has signed."""
    epochs = dict[int, int]()
    for fields in listed[:MAX_EPOCHS] if isinstance(listed, list) else ():
        if not isinstance(fields, Mapping):
            continue
        round_, epoch, signature = (fields.get(name) for name in ("round", "epoch", "signature"))
        if type(round_) is not int or type(epoch) is not int or not isinstance(signature, str):
            continue
        if 0 <= round_ <= MAX_ROUND and is_signed_epoch(survey, round_, epoch, signature, key):
            epochs[round_] = max(epoch, epochs.get(round_, 0))
    return epochs


def _headline(document: bytes) -> tuple[str, date]:
    """Return the name and the last day of a signed survey, which is judged only when asked for."""
    try:
        if not _is_small(document):
            raise ValueError
        survey = json.loads(document)["survey"]
        name, closes = str(survey["name"]), date.fromisoformat(survey["closes"])
        name.encode()
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise UntrustedSurvey(UNREADABLE) from None
    return name, min(closes, date.max - timedelta(days=1))


def _claimed_name(text: str) -> str:
    """Return the name that a refused survey gives itself, without parsing it."""
    name = re.search(_NAME, text[:MAX_NAME_OFFSET])
    return name[1].encode("utf-8", "replace").decode() if name else ""
