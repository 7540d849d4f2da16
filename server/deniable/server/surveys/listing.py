"""The public list: every survey that can still be answered, or whose reports are still taken.

Clients fetch it whole, so that a request does not tell which survey is meant. So it must stay
small enough for every client to read: what is over leaves it, and publishing refuses before it is
too large. A survey that its owner closed stays until its grace is over, so that clients learn it.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from deniable.server.store import PublishedSurvey
from deniable.shared.errors import InvalidSurvey, Refused

MOST_PUBLISHED_BYTES = 256 * 2**10  # of a document: some 9,000 options of 20 letters
MOST_LIST_BYTES = 8 * 2**20  # clients read four times as much
MOST_LISTED = 1_000  # clients read so many
EVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Listing:
    """What is sent from one moment until the next at which a survey is over."""

    body: bytes
    surveys: int
    since: datetime
    until: datetime

    @cached_property
    def compressed(self) -> bytes:
        """For who reads gzip: the same bytes for everybody, too."""
        return gzip.compress(self.body, mtime=0)

    def holds(self, now: datetime) -> bool:
        return self.since <= now < self.until


NOTHING = Listing(b"", 0, EVER, EVER)  # never holds


def listing(surveys: Iterable[tuple[PublishedSurvey, str]], now: datetime) -> Listing:
    """Of surveys, each with its entry, in the order of publication."""
    ends = [(listed_until(published), entry) for published, entry in surveys]
    entries = [entry for end, entry in ends if end > now]
    return Listing(
        body=f'{{"surveys": [{", ".join(entries)}]}}'.encode(),
        surveys=len(entries),
        since=max((end for end, _ in ends if end <= now), default=datetime.min.replace(tzinfo=UTC)),
        until=min((end for end, _ in ends if end > now), default=EVER),
    )


def listed_until(published: PublishedSurvey) -> datetime:
    survey = published.survey
    return survey.taken_until(survey.last_round)


def check_size(document: bytes) -> None:
    """Return only if every client reads a document of this size."""
    if len(document) > MOST_PUBLISHED_BYTES:
        raise InvalidSurvey(
            "document",
            f"has {len(document):,} bytes, and at most {MOST_PUBLISHED_BYTES:,} are published, "
            "since every client fetches it; offer fewer or shorter options, or use coarser grids",
        )


def check_room(entry: str, listed: Listing) -> None:
    """Return only if every client reads the list with one more entry."""
    surveys, size = listed.surveys + 1, len(listed.body) + len(entry.encode()) + 2
    if surveys > MOST_LISTED or size > MOST_LIST_BYTES:
        raise Refused(
            f"the public list would have {surveys:,} surveys and {size:,} bytes, and clients are "
            f"sure to read {MOST_LISTED:,} and {MOST_LIST_BYTES:,}; wait until the grace of others "
            "is over, let each last longer instead of publishing anew, or serve another data folder"
        )
