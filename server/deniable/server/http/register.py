"""The register over HTTP: anyone reads what has become of every survey there ever was."""

from __future__ import annotations

from typing import Annotated

from flask import Blueprint, Response, request
from msgspec import Meta, Struct

from deniable.server.http.context import parts
from deniable.server.http.messages import HttpError, answer
from deniable.server.results.document import Count, SurveyId
from deniable.server.store import Event, RegisterEntry

MOST_ENTRIES = 1_000  # in an answer
MOST_DIGITS = 9
NOTE = (
    "Each head is a hash of all entries up to it. Alone it detects nothing: whoever runs this "
    "server can show everybody another register. Keep heads elsewhere, and compare."
)

blueprint = Blueprint("register", __name__)
Hex = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One event of one survey; nothing says when it was."""

    number: Count
    event: Event
    survey: SurveyId
    key: Hex
    head: Hex


class Register(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entries in order; where there are `more`, ask for those `after` the last one's number."""

    entries: tuple[Entry, ...]
    more: bool
    note: str


@blueprint.get("/v1/register")
def show_register() -> Response:
    found = parts().store.register(_after(), MOST_ENTRIES + 1)
    entries = tuple(entry_of(each) for each in found[:MOST_ENTRIES])
    return answer(Register(entries=entries, more=len(found) > MOST_ENTRIES, note=NOTE))


def entry_of(each: RegisterEntry) -> Entry:
    return Entry(
        number=each.number, event=each.event, survey=each.survey, key=each.key, head=each.head
    )


def _after() -> int:
    text = request.args.get("after", "0")
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise HttpError(400, "after must be a whole number, like ?after=1000")
    return int(text)
