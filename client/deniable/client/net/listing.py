"""One entry of the server's list: what it claims, and whether it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

from deniable.client.net.transport import Reply, Unreachable
from deniable.client.policy import Policy
from deniable.shared.errors import DeniableError, UntrustedSurvey
from deniable.shared.survey.signing import verify

if TYPE_CHECKING:
    from deniable.shared.survey.document import Survey

MOST_LISTED = 1_000
_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Listed:
    """In the order of the table's columns. With a problem, the document is not kept."""

    id: str
    position: int
    name: str
    state: str
    document: bytes | None
    signature: str
    key: str
    problem: str | None = None

    def row(self) -> tuple[Any, ...]:  # Any: SQLite's kinds of value
        return astuple(self)

    def verified(self, policy: Policy) -> Survey:
        """The survey, if the app may answer it at all; else an error that says why not."""
        from deniable.shared.survey.document import parse_document, survey_id

        document = self.document or b""
        if survey_id(document) != self.id:
            raise UntrustedSurvey("the survey's id is not the hash of its document")
        verify(document, self.signature, self.key, policy.keys)
        if not policy.allows(self.id):
            raise UntrustedSurvey("the survey is none of those that the app's policy pins")
        survey = parse_document(document)
        for question in survey.questions:
            if not question.mechanism.is_private():
                raise UntrustedSurvey(
                    f"question {question.name!r} gives away more than it declares"
                )
        return survey


def from_row(row: tuple[Any, ...]) -> Listed:  # Any: SQLite's kinds of value
    """As kept on disk; ValueError if a value is not of the kind that was written."""
    listed = Listed(*row)
    texts = (listed.id, listed.name, listed.state, listed.signature, listed.key)
    if not (
        all(isinstance(text, str) for text in texts)
        and isinstance(row[1], int)
        and isinstance(row[4], bytes | None)
    ):
        raise ValueError("not as it was written")
    return listed


def read_list(reply: Reply, policy: Policy) -> list[Listed]:
    """Every entry that can be read, each checked on its own: a bad one hides no other."""
    try:
        entries = json.loads(reply.body)["surveys"] if reply.status == 200 else None
    except (ValueError, KeyError, TypeError, RecursionError):
        entries = None
    if not isinstance(entries, list):
        raise Unreachable(f"the server's list of surveys cannot be read (status {reply.status})")
    read = (_read(entry, position, policy) for position, entry in enumerate(entries[:MOST_LISTED]))
    return [each for each in read if each is not None]


def _read(entry: object, position: int, policy: Policy) -> Listed | None:
    names = ("id", "document", "signature", "key", "state")
    if not isinstance(entry, Mapping) or not all(isinstance(entry.get(n), str) for n in names):
        return None
    id_, text, signature, key, state = (str(entry[name]) for name in names)
    if not _ID.fullmatch(id_) or state not in ("open", "closed"):
        return None
    document = text.encode("utf-8", "replace")
    claimed = Listed(id_, position, "", state, document, signature, key)
    try:
        survey = claimed.verified(policy)
    except DeniableError as error:
        return Listed(id_, position, _claimed_name(text), state, None, "", "", str(error))
    return Listed(id_, position, survey.name, state, document, signature, key)


def _claimed_name(text: str) -> str:
    """The name that a survey gives itself, only to say why it is refused."""
    try:
        name = str(json.loads(text)["survey"]["name"])[:64]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return name.encode("utf-8", "replace").decode()
