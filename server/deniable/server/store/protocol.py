"""Protocol of a store: the operations that the server needs, and the errors they raise.

To write another store, implement `Store` and `Transaction`, add the class to `STORES`, and run
`tests/contract/test_stores.py` on it. These rules hold for every method:

- It may be called from any thread, while other processes use the same store.
- Its writes are durable when it returns, even after a power cut.
- It raises StoreUnusable for a failure that may be retried, StoreLost if the state of the disk is
  unknown, and Damaged if data is not what was written. Damaged data is never returned, and nothing
  is added to it.
- Once `forget_order` has returned True, nothing in the store reveals the order or the time in which
  envelopes arrived.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, Self

from deniable.shared.errors import StoreUnusable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date, datetime

    from deniable.server.store.records import (
        Annotation,
        Cells,
        Kept,
        PublicPage,
        Purged,
        RoundTally,
        SurveyRow,
        Token,
        Unsettled,
        Upload,
        UploadKey,
    )
    from deniable.server.store.register_chain import RegisterEntry

NO_SURVEY = 0  # the sequence under which reports of unpublished surveys are counted


class StoreLost(StoreUnusable):
    """Raised if the disk itself fails: its contents are unknown until the next start."""


class Damaged(StoreUnusable):
    """Raised if data is not what was written. It is not shown, and nothing is added to it."""


class Transaction(Protocol):
    """Group of envelopes that is stored and counted completely or not at all."""

    def is_sealed(self, sequence: int, number: int) -> bool:
        """Return whether a round is sealed; repeated envelopes would then go unnoticed."""

    def insert(self, uploads: Sequence[Upload]) -> set[UploadKey]:
        """Store the uploads that are new, and return their keys. `uploads` repeats no key."""

    def add(self, sequence: int, number: int, reports: int, cells: Cells) -> None:
        """Add counts to the tally of a round."""


class StoreReader(Protocol):
    """The reading half of a store."""

    def surveys_mark(self) -> int:
        """Return the length of the register, which grows with every change to a survey."""

    def surveys(self, after: int = 0) -> list[SurveyRow]:
        """Return the surveys published after this sequence, in the order of publication."""

    def survey_states(self) -> Mapping[int, bool]:
        """Return whether each survey is closed, by its sequence."""

    def register(self, after: int = 0, most: int | None = None) -> list[RegisterEntry]:
        """Return the register's entries after this number, in order: the history of all surveys."""

    def enrolled_keys(self) -> frozenset[str]:
        """Return the public keys whose surveys may be published over HTTP."""

    def retired_keys(self) -> frozenset[str]:
        """Return the keys that can never be enrolled again."""

    def tallies(
        self, sequence: int, first: int | None = None, last: int | None = None
    ) -> list[RoundTally]:
        """Return the counts of a survey's rounds that have reports, from `first` to `last`."""

    def report_totals(self) -> Mapping[int, int]:
        """Return the number of counted reports of each survey that has any, by its sequence."""

    def unsealed_rounds(self) -> Mapping[int, Sequence[int]]:
        """Return the rounds whose envelopes are still kept, by the survey's sequence."""

    def annotations(self, sequence: int) -> list[Annotation]:
        """Return a survey's annotations in the order of their days."""

    def counters(self, sequence: int) -> Mapping[str, int]:
        """Return a survey's reports by outcome: accepted, duplicates, or the code of a refusal."""

    def public_page(self, path: str) -> PublicPage | None:
        """Return the page that is published at exactly this path."""

    def role_of(self, token: str, now: datetime) -> str | None:
        """Return the role of a token, or None if it is unknown or has expired."""

    def tokens(self) -> list[Token]:
        """Return all tokens, including expired ones, in the order of creation."""

    def latest_day(self) -> date | None:
        """Return the latest day on which a server ran."""


class Store(StoreReader, AbstractContextManager["Store"], Protocol):
    """Store of surveys, reports and everything else that servers keep; a context manager."""

    @classmethod
    def create(cls, place: Any) -> Self:  # Any: the type of a place depends on the store
        """Open the store at a place, and create it if it does not exist."""

    @classmethod
    def open(cls, place: Any, node: str = "") -> Self:  # Any: the same
        """Open an existing store. `node` names this server where several count into one store."""

    @property
    def option(self) -> str:
        """Command-line option that names this store: `--data DIR` or `--store URL`."""

    def close(self) -> None: ...

    def snapshot(self) -> AbstractContextManager[StoreReader]:
        """Return a read-only snapshot.

        Close it soon: `forget_order` may have to wait for it.
        """

    def check_writable(self) -> None:
        """Raise StoreUnusable unless a write transaction can begin and there is room for it."""

    # Surveys and keys

    def publish(self, document: bytes, signature: str, key: str) -> str:
        """Store a survey that has been verified, and return its id.

        Publishing the same document again changes nothing.
        """

    def close_survey(self, sequence: int) -> None: ...

    def delete_survey(self, sequence: int) -> None:
        """Delete a survey permanently, with its tallies, counters and remaining envelopes.

        Its entries in the register remain.
        """

    def enrol_key(self, key: str) -> None:
        """Enrol a public key; raise Refused if it is retired."""

    def retire_key(self, key: str) -> None: ...

    # Reports

    def transaction(self, *, later: bool = False) -> AbstractContextManager[Transaction]:
        """Return a transaction that is on disk after the block.

        With `later`, its rows may reach the tables a moment later, together with other groups'.
        Use it when no other process waits for them; this store's own reads see them already.
        """

    def unsettled(self) -> Sequence[Unsettled]:
        """Return the acknowledged envelopes of interrupted `later` transactions.

        Their rows may not be in the tables. They are returned until a transaction has stored them.
        """

    def envelopes(self, sequence: int, number: int) -> Iterator[Kept]:
        """Yield the envelopes of a sealed or ended round, in an order that reveals nothing.

        Raise Damaged if any of them cannot be read.
        """

    def seal(self, sequence: int, rounds: Sequence[int]) -> None:
        """Stop counting in these rounds. Their envelopes may then be deleted; tallies remain."""

    def purge(self, most: int) -> Purged:
        """Delete envelopes of sealed rounds permanently, up to `most` buckets of them."""

    def forget_order(self) -> bool:
        """Remove every trace of the order of arrival and of deleted data.

        It never waits: it returns False if a reader delays it, and must then be called again.
        """

    # Everything else

    def annotate(self, sequence: int, annotation: Annotation) -> None:
        """Store an annotation; do nothing if it exists."""

    def remove_annotation(self, sequence: int, annotation: Annotation) -> bool:
        """Remove an annotation, and return whether it existed."""

    def replace_public_pages(self, folder: str, pages: Mapping[str, PublicPage]) -> None:
        """Replace all pages whose paths begin with `folder`; write only those that differ."""

    def add_counters(self, counts: Mapping[tuple[int, str], int]) -> None:
        """Add numbers of reports, by (survey's sequence, outcome)."""

    def add_token(self, token: str, role: str, now: datetime, expires: datetime) -> None: ...

    def revoke_token(self, identifier: str) -> None:
        """Revoke the tokens whose ids begin with `identifier`."""

    def keep_day(self, day: date) -> None:
        """Store the latest day on which a server ran."""
