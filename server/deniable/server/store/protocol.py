"""What the server asks of a store, whatever keeps it.

Every method may be called from any thread, and other processes may use the same store. What a
method wrote is durable when it returns. StoreUnusable says what could not be done; StoreLost that
nobody knows what is on the disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date, datetime
from types import TracebackType
from typing import Protocol, Self

from deniable.server.store.records import (
    Annotation,
    Cells,
    Kept,
    Purged,
    RoundTally,
    SurveyRow,
    Token,
    Unsettled,
    Upload,
    UploadKey,
)
from deniable.server.store.register import RegisterEntry
from deniable.shared.errors import StoreUnusable

NO_SURVEY = 0  # the sequence under which reports are counted for a survey not published here


class StoreLost(StoreUnusable):
    """Reading or writing the disk itself failed: what is on it is unknown until the next start."""


class Damaged(StoreUnusable):
    """What is read is not what was written: nothing is shown of it, and nothing added to it."""


class Transaction(Protocol):
    """In which envelopes are taken and counted. All of it becomes true, or nothing."""

    def is_sealed(self, sequence: int, number: int) -> bool:
        """Whether the round's envelopes are purged, so that a repeated one would go unnoticed."""
        ...

    def insert(self, uploads: Sequence[Upload]) -> set[UploadKey]:
        """Keep those that are not there yet, and say which they are. Each key at most once."""
        ...

    def add(self, sequence: int, number: int, reports: int, cells: Cells) -> None:
        """Add counts to the tally of a round."""
        ...


class Store(Protocol):
    @property
    def option(self) -> str:
        """What says to a command that it is this store: `--data DIR` or `--store URL`."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    # Surveys

    def surveys_mark(self) -> int:
        """How long the register is: every change of a survey makes it longer."""
        ...

    def surveys(self, after: int = 0) -> list[SurveyRow]:
        """Those published after this sequence, in the order of publication."""
        ...

    def survey_states(self) -> Mapping[int, bool]:
        """Whether each is closed, by its sequence."""
        ...

    def publish(self, document: bytes, signature: str, key: str) -> str:
        """Keep a survey that has been verified; the same again changes nothing. Its id."""
        ...

    def close_survey(self, sequence: int) -> None: ...

    def delete_survey(self, sequence: int) -> None:
        """Delete it for good, with its tallies, its counters and what is left of its envelopes. Its
        entries in the register stay."""
        ...

    def register(self, after: int = 0, most: int | None = None) -> list[RegisterEntry]:
        """The entries after this number, in order: what became of all surveys there ever were."""
        ...

    def enrolled_keys(self) -> frozenset[str]:
        """The public keys whose surveys may be published over HTTP."""
        ...

    def enrol_key(self, key: str) -> None:
        """Refused, if it is retired."""
        ...

    def retired_keys(self) -> frozenset[str]:
        """Those that are never enrolled again."""
        ...

    def retire_key(self, key: str) -> None: ...

    # Reports

    def transaction(self, *, later: bool = False) -> AbstractContextManager[Transaction]:
        """After the block all of it is on disk, or nothing. `later`: that nobody waits for, outside
        of this process, may come into the tables a moment later, with other groups."""
        ...

    def unsettled(self) -> Sequence[Unsettled]:
        """What was acknowledged by a transaction that was to come into the tables later, and had
        not when it was cut off. It is here until a transaction has brought it there."""
        ...

    def tallies(
        self, sequence: int, first: int | None = None, last: int | None = None
    ) -> list[RoundTally]:
        """The counts of every round of a survey that has reports, in order; or of some rounds."""
        ...

    def report_totals(self) -> Mapping[int, int]:
        """How many reports are counted for each survey that has any, by its sequence."""
        ...

    def unsealed_rounds(self) -> Mapping[int, Sequence[int]]:
        """Of each survey the rounds whose envelopes are still kept, by its sequence."""
        ...

    def envelopes(self, sequence: int, number: int) -> Iterator[Kept]:
        """Those of a round that takes no more, in an order that tells nothing, some at a time.
        Damaged says that not all of them can be read."""
        ...

    def seal(self, sequence: int, rounds: Sequence[int]) -> None:
        """Count nothing more in these rounds: their envelopes may be deleted; tallies stay."""
        ...

    def purge(self, most: int) -> Purged:
        """Delete envelopes of sealed rounds for good, as many as so many buckets hold."""
        ...

    def forget_order(self) -> bool:
        """Leave no trace of what was written together, or after what, and of what was deleted.
        Never waits: whether it is done; while somebody reads, it is not."""
        ...

    # Annotations

    def annotations(self, sequence: int) -> list[Annotation]:
        """Those of a survey, in the order of their days."""
        ...

    def annotate(self, sequence: int, annotation: Annotation) -> None:
        """Once, however often it is said."""
        ...

    def remove_annotation(self, sequence: int, annotation: Annotation) -> bool:
        """Whether it was there."""
        ...

    # Counters

    def counters(self, sequence: int) -> Mapping[str, int]:
        """Reports of a survey by outcome: accepted, duplicates, and the codes of refusals."""
        ...

    def add_counters(self, counts: Mapping[tuple[int, str], int]) -> None:
        """By sequence and outcome."""
        ...

    # Tokens

    def add_token(self, token: str, role: str, now: datetime, expires: datetime) -> None: ...

    def role_of(self, token: str, now: datetime) -> str | None:
        """The role of a token that is known and has not ended."""
        ...

    def tokens(self) -> list[Token]: ...

    def revoke_token(self, identifier: str) -> None: ...

    # The calendar

    def latest_day(self) -> date | None:
        """The latest day on which a server is known to have run."""
        ...

    def keep_day(self, day: date) -> None: ...

    # Health

    def check_writable(self) -> None:
        """Return only if a transaction that writes can begin, and there is room for it."""
        ...
