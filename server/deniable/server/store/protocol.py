"""The protocol of a store: everything that the server asks of it, and the errors it raises.

To write another store, implement `Store` and `Transaction`, and run
`tests/server/test_store_contract.py` on it. These rules hold for every method:

- It may be called from any thread, while other processes use the same store.
- What it wrote is durable when it returns, also after a power cut.
- It raises StoreUnusable if something could not be done and may be tried again; StoreLost if the
  state of the disk is unknown; Damaged if data is not what was written. Damaged data is never
  returned, and nothing is added to it.
- Nothing that it stores tells the order or the time of arrival of envelopes, once `forget_order`
  has returned True.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from deniable.shared.errors import StoreUnusable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import date, datetime
    from types import TracebackType
    from typing import Self

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
    """Reading or writing the disk itself failed: what is on it is unknown until the next start."""


class Damaged(StoreUnusable):
    """Data is not what was written: it is not shown, and nothing is added to it."""


class Transaction(Protocol):
    """A group of envelopes that is stored and counted as a whole, or not at all."""

    def is_sealed(self, sequence: int, number: int) -> bool:
        """Return whether a round is sealed: then a repeated envelope would go unnoticed."""
        ...

    def insert(self, uploads: Sequence[Upload]) -> set[UploadKey]:
        """Keep the uploads that are not there yet, and return their keys. Each key comes once."""
        ...

    def add(self, sequence: int, number: int, reports: int, cells: Cells) -> None:
        """Add counts to the tally of a round."""
        ...


class StoreReader(Protocol):
    """The reading half of a store."""

    def surveys_mark(self) -> int:
        """Return the length of the register: every change of a survey makes it longer."""
        ...

    def surveys(self, after: int = 0) -> list[SurveyRow]:
        """Return the surveys published after this sequence, in the order of publication."""
        ...

    def survey_states(self) -> Mapping[int, bool]:
        """Return whether each survey is closed, by its sequence."""
        ...

    def register(self, after: int = 0, most: int | None = None) -> list[RegisterEntry]:
        """Return the entries after this number, in order: the history of all surveys."""
        ...

    def enrolled_keys(self) -> frozenset[str]:
        """Return the public keys whose surveys may be published over HTTP."""
        ...

    def retired_keys(self) -> frozenset[str]:
        """Return the keys that are never enrolled again."""
        ...

    def tallies(
        self, sequence: int, first: int | None = None, last: int | None = None
    ) -> list[RoundTally]:
        """Return the counts of a survey's rounds that have reports, in order.

        `first` and `last` limit the rounds.
        """
        ...

    def report_totals(self) -> Mapping[int, int]:
        """Return the number of counted reports of each survey that has any, by its sequence."""
        ...

    def unsealed_rounds(self) -> Mapping[int, Sequence[int]]:
        """Return the rounds whose envelopes are still kept, by the survey's sequence."""
        ...

    def annotations(self, sequence: int) -> list[Annotation]:
        """Return a survey's annotations in the order of their days."""
        ...

    def counters(self, sequence: int) -> Mapping[str, int]:
        """Return a survey's reports by outcome: accepted, duplicates, or the code of a refusal."""
        ...

    def role_of(self, token: str, now: datetime) -> str | None:
        """Return the role of a token that is known and has not expired."""
        ...

    def tokens(self) -> list[Token]: ...

    def latest_day(self) -> date | None:
        """Return the latest day on which a server is known to have run."""
        ...


class Store(StoreReader, Protocol):
    """A store: surveys, reports and all else that servers keep."""

    @property
    def option(self) -> str:
        """The option that names this store to a command: `--data DIR` or `--store URL`."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def snapshot(self) -> AbstractContextManager[StoreReader]:
        """Return a reader of one moment that cannot write.

        Keep it short: while it is open, `forget_order` may have to wait for it.
        """
        ...

    def check_writable(self) -> None:
        """Return only if a transaction that writes can begin, and there is room for it."""
        ...

    # Surveys and keys

    def publish(self, document: bytes, signature: str, key: str) -> str:
        """Keep a survey that has been verified, and return its id.

        Publishing the same document again changes nothing.
        """
        ...

    def close_survey(self, sequence: int) -> None: ...

    def delete_survey(self, sequence: int) -> None:
        """Delete a survey permanently, with its tallies, counters and remaining envelopes.

        Its entries in the register stay.
        """
        ...

    def enrol_key(self, key: str) -> None:
        """Enrol a public key; Refused if it is retired."""
        ...

    def retire_key(self, key: str) -> None: ...

    # Reports

    def transaction(self, *, later: bool = False) -> AbstractContextManager[Transaction]:
        """Return a transaction that is on disk after the block.

        With `later`, its rows may reach the tables a moment later, together with other groups: for
        groups that no other process waits for.
        """
        ...

    def unsettled(self) -> Sequence[Unsettled]:
        """Return the acknowledged envelopes of `later` transactions that were cut off.

        Their rows may not have reached the tables. They stay here until a transaction has brought
        them there.
        """
        ...

    def envelopes(self, sequence: int, number: int) -> Iterator[Kept]:
        """Yield the envelopes of a sealed or ended round, in an order that tells nothing.

        Damaged if not all of them can be read.
        """
        ...

    def seal(self, sequence: int, rounds: Sequence[int]) -> None:
        """Count nothing more in these rounds: their envelopes may be deleted; tallies stay."""
        ...

    def purge(self, most: int) -> Purged:
        """Delete envelopes of sealed rounds permanently, up to `most` buckets of them."""
        ...

    def forget_order(self) -> bool:
        """Remove every trace of the order of arrival, and of what was deleted.

        It never waits: False if a reader delays it, and then it must be called again.
        """
        ...

    # Everything else

    def annotate(self, sequence: int, annotation: Annotation) -> None:
        """Keep an annotation, once."""
        ...

    def remove_annotation(self, sequence: int, annotation: Annotation) -> bool:
        """Remove an annotation, and return whether it was there."""
        ...

    # Public pages

    def public_page(self, path: str) -> PublicPage | None:
        """Return the page that is published at exactly this path."""
        ...

    def replace_public_pages(self, folder: str, pages: Mapping[str, PublicPage]) -> None:
        """Make these all the pages whose paths begin so; write only what is not so already."""
        ...

    def add_counters(self, counts: Mapping[tuple[int, str], int]) -> None:
        """Add numbers of reports, by a survey's sequence and their outcome."""
        ...

    def add_token(self, token: str, role: str, now: datetime, expires: datetime) -> None: ...

    def revoke_token(self, identifier: str) -> None: ...

    def keep_day(self, day: date) -> None:
        """Keep the latest day on which a server ran."""
        ...
