"""The public list: every survey that people can still answer, or whose reports are still accepted.

Clients fetch the whole list, so a request does not reveal which survey a client answers. The list
must stay small enough for every client: finished surveys are removed, and a survey that would make
the list too large cannot be published. A closed survey stays listed until its grace ends, so that
clients learn that it is closed.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from deniable.server.store import PublishedSurvey
from deniable.shared.errors import InvalidSurvey, Refused

MAX_PUBLISHED_BYTES = 256 * 2**10  # limit per document: about 9,000 options of 20 letters
MAX_LIST_BYTES = 8 * 2**20  # clients accept four times as much
MAX_LISTED = 1_000  # clients accept this many
FOREVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Listing:
    """Public list, valid until the next survey is removed from it."""

    body: bytes
    surveys: int
    since: datetime
    until: datetime

    @cached_property
    def compressed(self) -> bytes:
        """Body in gzip, for clients that accept it: the same bytes for everyone."""
        return gzip.compress(self.body, mtime=0)

    def holds(self, now: datetime) -> bool:
        return self.since <= now < self.until


NOTHING = Listing(b"", 0, FOREVER, FOREVER)  # valid at no time


def listing(surveys: Iterable[tuple[PublishedSurvey, str]], now: datetime) -> Listing:
    """Return the list at this time, from (survey, JSON entry) in the order of publication."""
    ends = [
        (published.survey.taken_until(published.survey.last_round), e) for published, e in surveys
    ]
    entries = [entry for end, entry in ends if end > now]
    return Listing(
        body=f'{{"surveys": [{", ".join(entries)}]}}'.encode(),
        surveys=len(entries),
        since=max((end for end, _ in ends if end <= now), default=datetime.min.replace(tzinfo=UTC)),
        until=min((end for end, _ in ends if end > now), default=FOREVER),
    )


def check_size(document: bytes) -> None:
    """Raise InvalidSurvey if a document is too large for some clients."""
    if len(document) > MAX_PUBLISHED_BYTES:
        raise InvalidSurvey(
            "document",
            f"has {len(document):,} bytes, more than {MAX_PUBLISHED_BYTES:,}, and every client "
            "fetches it; offer fewer or shorter options, or use coarser grids",
        )


def check_room(entry: str, listed: Listing, replaces: str = "") -> None:
    """Raise Refused if one more entry, or a longer one, makes the list too large for clients."""
    surveys, size = listed.surveys + (not replaces), len(listed.body) + len(entry.encode()) + 2
    size -= len(replaces.encode())
    if surveys > MAX_LISTED or size > MAX_LIST_BYTES:
        raise Refused(
            f"the public list would have {surveys:,} surveys and {size:,} bytes; at most "
            f"{MAX_LISTED:,} and {MAX_LIST_BYTES:,} are allowed. Wait until the grace of other "
            "surveys ends, use longer surveys instead of new ones, or serve another data folder"
        )
