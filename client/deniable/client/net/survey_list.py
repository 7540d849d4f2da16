"""The server's list of surveys, read and verified entry by entry."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

from deniable.client.diagnostics import escaped
from deniable.client.net.transport import Reply, Unreachable
from deniable.client.policy import Policy
from deniable.client.state.survey_cache import ListedSurvey
from deniable.shared.errors import DeniableError, UntrustedSurvey
from deniable.shared.survey.keys import verify

if TYPE_CHECKING:
    from deniable.shared.survey.document import Survey

MAX_LISTED = 1_000
MAX_STRINGS, MAX_BYTES_OUTSIDE_STRINGS = 100_000, 2**20
ID = re.compile(r"[0-9a-f]{64}")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # an unclosed one extends to the end


def verified(listed: ListedSurvey, policy: Policy) -> Survey:
    """Return the survey if the app may answer it; raise an error with the reason otherwise."""
    from deniable.shared.survey.document import parse_document, survey_id

    document = listed.document or b""
    if survey_id(document) != listed.id:
        raise UntrustedSurvey("the survey's id is not the hash of its document")
    verify(document, listed.signature, listed.key, policy.keys)
    if not policy.allows(listed.id):
        raise UntrustedSurvey("the app's policy allows only other surveys")
    survey = parse_document(document)
    for question in survey.questions:
        if not question.mechanism.is_private():
            raise UntrustedSurvey(
                f"question {question.name!r} has probabilities that its ε does not cover"
            )
    return survey


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
    for number, string in enumerate(_STRING.finditer(body)):
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
        survey = verified(claimed, policy)
    except DeniableError as error:
        return ListedSurvey(
            id_, position, _claimed_name(text), state, None, "", "", escaped(str(error))
        )
    closes = datetime.combine(survey.closes, time(), UTC) + timedelta(days=1)
    name = survey.name
    return ListedSurvey(id_, position, name, state, document, signature, key, None, closes)


def _claimed_name(text: str) -> str:
    """Return the name that a refused survey gives itself, to show with the reason."""
    try:
        name = str(json.loads(text)["survey"]["name"])[:64]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return name.encode("utf-8", "replace").decode()
