"""One entry of the server's list: what it claims, and whether that is true."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

from deniable.client.escaping import escaped
from deniable.client.net.transport import Reply, Unreachable
from deniable.client.policy import Policy
from deniable.client.state.surveys import ListedSurvey
from deniable.shared.errors import DeniableError, UntrustedSurvey
from deniable.shared.survey.keys import verify

if TYPE_CHECKING:
    from deniable.shared.survey.document import Survey

MOST_LISTED = 1_000
MOST_STRINGS, MOST_BETWEEN = 100_000, 2**20  # of a list: how many, and bytes outside of them
ID = re.compile(r"[0-9a-f]{64}")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # one without an end goes to the end


def verified(listed: ListedSurvey, policy: Policy) -> Survey:
    """The survey, if the app may answer it at all; else an error that says why not."""
    from deniable.shared.survey.document import parse_document, survey_id

    document = listed.document or b""
    if survey_id(document) != listed.id:
        raise UntrustedSurvey("the survey's id is not the hash of its document")
    verify(document, listed.signature, listed.key, policy.keys)
    if not policy.allows(listed.id):
        raise UntrustedSurvey("the app's policy pins other surveys, and not this one")
    survey = parse_document(document)
    for question in survey.questions:
        if not question.mechanism.is_private():
            raise UntrustedSurvey(
                f"question {question.name!r} has probabilities that its ε does not cover"
            )
    return survey


def read_shipped(entry: bytes | str, policy: Policy) -> tuple[str, Survey]:
    """A survey that ships with the app, as the server lists it, and its id; else an error."""
    try:
        listed = _read(json.loads(entry), 0, policy)
    except (ValueError, RecursionError):
        listed = None
    if listed is None:
        raise UntrustedSurvey(
            "that is no survey with its signature; take one that "
            "`deniable survey show NAME --json` has printed"
        )
    if listed.problem is not None:
        raise UntrustedSurvey(listed.problem)
    return listed.id, verified(listed, policy)


def read_list(reply: Reply, policy: Policy) -> list[ListedSurvey]:
    """Every entry that can be read, each checked on its own: a bad one hides no other."""
    if reply.status != 200:
        raise Unreachable(f"the server answered with status {reply.status}", True, "status")
    if not _is_small(reply.body):
        raise Unreachable("the server's list of surveys is too large", True, "too-large")
    try:
        entries = json.loads(reply.body)["surveys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        entries = None
    if not isinstance(entries, list):
        raise Unreachable("what came is no list of surveys: another page's?", True, "list")
    read = (_read(entry, position, policy) for position, entry in enumerate(entries[:MOST_LISTED]))
    return [each for each in read if each is not None]


def _is_small(body: bytes) -> bool:
    """Whether it takes little more memory than its bytes: documents are long strings, but a reply
    of brackets alone would take twenty times its size."""
    between = len(body)
    for number, string in enumerate(_STRING.finditer(body)):
        between -= len(string[0])
        if number >= MOST_STRINGS:
            return False
    return between <= MOST_BETWEEN


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
    """The name that a survey gives itself, only to say why it is refused."""
    try:
        name = str(json.loads(text)["survey"]["name"])[:64]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return name.encode("utf-8", "replace").decode()
