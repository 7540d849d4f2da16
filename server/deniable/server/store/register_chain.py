"""The register: the history of every survey ever published, as a hash chain.

Each entry's head is the SHA-256 of the previous head and the entry's content, as lines of text:

    deniable register v1
    <the previous head, in hex; 64 zeros for the first entry>
    <published, page, reconciled, closed or deleted>
    <the survey's id, in hex>
    <the public key that signed it, in hex; for a page, the SHA-256 of the list of its files>

The event `page` records the files of the survey's page at `/ask/` from then on.

Anyone who has kept a later head therefore notices if an entry is changed, left out or moved.
Without such a head, a reader cannot detect any change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Event = Literal["published", "page", "reconciled", "closed", "deleted"]
BEGIN = "0" * 64


@dataclass(frozen=True)
class RegisterEntry:
    number: int  # from 1, without gaps
    event: Event
    survey: str  # the id, which is the document's hash; it remains after the survey is deleted
    key: str  # for a page, the SHA-256 of the list of its files
    head: str


def next_entry(before: RegisterEntry | None, event: Event, survey: str, key: str) -> RegisterEntry:
    number, head = (1, BEGIN) if before is None else (before.number + 1, before.head)
    return RegisterEntry(number, event, survey, key, head_after(head, event, survey, key))


def head_after(before: str, event: str, survey: str, key: str) -> str:
    """Return the register's head after an event.

    >>> head_after(BEGIN, "published", "11" * 32, "22" * 32)[:16]
    '97816ad08a716daa'
    """
    lines = ("deniable register v1", before, event, survey, key)
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def first_fault(
    entries: Iterable[RegisterEntry], before: RegisterEntry | None = None
) -> str | None:
    """Describe the first entry that does not follow from its predecessor, or return None."""
    for entry in entries:
        if entry != next_entry(before, entry.event, entry.survey, entry.key):
            return f"entry {entry.number} does not follow from the entries before it"
        before = entry
    return None
