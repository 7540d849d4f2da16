"""Protocol of a store: the operations that the server needs, and the errors they raise.

To write another store, implement `Store` and `Transaction`, add the class to `STORES`, and run
`tests/contract/test_stores.py` on it. These rules hold for every method:

- It may be called from any thread, while other processes use the same store.
- When it returns, its writes are durable: they survive a power cut.
- It raises StoreUnusable for a failure that may be retried, StoreLost if the state of the disk is
  unknown, and Damaged if data is not what was written. It never returns damaged data or adds to it.
- Once `forget_order` has returned True, nothing in the store reveals in which order, or when,
  envelopes arrived.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, Self

from deniable.shared.errors import StoreUnusable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import date, datetime

    from deniable.server.store.records import (
        Annotation,
        AuditEntry,
        Crowd,
        Epoch,
        Kept,
        PublicPage,
        Purged,
        Released,
        RoundTally,
        Share,
        SurveyRow,
        Token,
        Unsettled,
        Upload,
        UploadKey,
    )
    from deniable.server.store.register_chain import RegisterEntry

COMMAND = "command"  # actor in the audit log for commands on the store; no token has this name
SERVER = "server"  # actor in the audit log for a survey that reached `close_at`
NO_SURVEY = 0  # the sequence under which reports of unpublished surveys are counted


class StoreLost(StoreUnusable):
    """Raised if the disk itself fails: what it contains is unknown until the next start."""


class Damaged(StoreUnusable):
    """Raised if data is not what was written."""


class Transaction(Protocol):
    """Group of envelopes that are stored and counted completely or not at all."""

    def is_sealed(self, sequence: int, number: int) -> bool:
        """Return whether a round is sealed, so that a duplicate would be counted again."""

    def insert(self, uploads: Sequence[Upload]) -> set[UploadKey]:
        """Store the uploads that are new, and return their keys. Keys in `uploads` are distinct."""

    def stored(self, uploads: Sequence[Upload]) -> set[UploadKey]:
        """Return the keys of the uploads, to surveys by invitation, that are already stored.

        Until the transaction ends, no other node stores or spends anything for such a survey.
        """

    def spend(self, sequence: int, codes: Sequence[bytes]) -> Mapping[bytes, bool]:
        """Spend invitations by their hashes. Return, for each that exists, whether it was unspent.

        Call `stored` first.
        """

    def count_batches(
        self, sequence: int, number: int, counts: Mapping[tuple[bytes, bytes], int]
    ) -> None:
        """Add numbers of reports of a round, by (relay's batch, hashes of the reports' labels)."""

    def add(self, sequence: int, tally: RoundTally) -> None:
        """Add counts, including those by label value, to the tally of a round."""


class StoreReader(Protocol):
    """Reading half of a store."""

    def surveys_mark(self) -> int:
        """Return the length of the register, which grows with every change to a survey."""

    def surveys(self, after: int = 0) -> list[SurveyRow]:
        """Return the surveys published after this sequence, in the order of publication."""

    def survey_states(self) -> Mapping[int, date | None]:
        """Return the day on which each survey was closed, or None, by its sequence."""

    def epochs(self) -> Mapping[int, tuple[Epoch, ...]]:
        """Return the epochs of surveys that have any, by the survey's sequence."""

    def closings(self) -> Mapping[int, datetime]:
        """Return when the most recently closed surveys were closed, by their sequence."""

    def register(self, after: int = 0, most: int | None = None) -> list[RegisterEntry]:
        """Return at most `most` of the register's entries after this number, in order."""

    def enrolled_keys(self) -> frozenset[str]:
        """Return the public keys whose surveys may be published over HTTP."""

    def retired_keys(self) -> frozenset[str]:
        """Return the keys that can never be enrolled again."""

    def tallies(
        self, sequence: int, first: int | None = None, last: int | None = None
    ) -> list[RoundTally]:
        """Return the counts of those rounds from `first` to `last` that have reports."""

    def released(
        self, sequence: int, first: int | None = None, last: int | None = None
    ) -> list[RoundTally]:
        """Return the released counts of rounds; none of a round with a damaged part."""

    def report_totals(self, unfinished: Mapping[int, range] | None = None) -> Mapping[int, int]:
        """Return the number of reports by survey sequence, for surveys that have any.

        Of the `unfinished` rounds, by sequence, only released reports count.
        """

    def unsealed_rounds(self) -> Mapping[int, Sequence[int]]:
        """Return the rounds whose envelopes are still kept, by survey sequence."""

    def annotations(self, sequence: int) -> list[Annotation]:
        """Return a survey's annotations in the order of their days."""

    def counters(self, sequence: int) -> Mapping[str, int]:
        """Return a survey's reports by outcome: accepted, duplicates, or a refusal's code."""

    def crowds(self, sequence: int) -> Mapping[int, Crowd]:
        """Return what relays have stated about the rounds of a survey."""

    def public_page(self, path: str) -> PublicPage | None:
        """Return the page that is published at exactly this path."""

    def shares(self) -> list[Share]:
        """Return all shared pages, including expired ones, the first to expire first."""

    def shared_page(self, path: str, today: date) -> bytes | None:
        """Return the page that is shared at exactly this path until today or later."""

    def valid_token(self, token: str, now: datetime) -> Token | None:
        """Return the token with this text, or None if it is unknown or has expired."""

    def tokens(self) -> list[Token]:
        """Return all tokens, including expired ones, in the order of creation."""

    def audit(self) -> list[AuditEntry]:
        """Return the actions, newest day first; within a day, their order is not stored."""

    def alert_states(self) -> Mapping[tuple[int, str], str]:
        """Return the announced state of each alert, by survey sequence and subject."""

    def latest_day(self) -> date | None:
        """Return the latest day on which a server ran."""


class Store(StoreReader, AbstractContextManager["Store"], Protocol):
    """Store of surveys, reports and everything else that servers keep."""

    @classmethod
    def create(cls, place: Any) -> Self:  # Any: each store has its own type of place
        """Open the store at a place, and create it if it does not exist."""

    @classmethod
    def open(cls, place: Any, node: str = "") -> Self:  # Any: each store has its own type
        """Open an existing store. `node` names this server if several servers share the store."""

    @property
    def option(self) -> str:
        """Command-line option that names this store: `--data DIR` or `--store URL`."""

    def close(self) -> None: ...

    def snapshot(self) -> AbstractContextManager[StoreReader]:
        """Return a read-only snapshot. Close it soon: it can delay `forget_order`."""

    def check_writable(self) -> None:
        """Raise StoreUnusable if no write transaction can begin or the disk is full."""

    def failover_risk(self) -> str | None:
        """Return why a fail-over can lose acknowledged reports, or None if it cannot."""

    # Surveys and keys

    # Each of these methods writes its audit entry in the same transaction; `by` is the actor.

    def publish(self, document: bytes, signature: str, key: str, by: str = COMMAND) -> str:
        """Store a verified survey, and return its id. Publishing it again changes nothing."""

    def close_survey(self, sequence: int, now: datetime, by: str = COMMAND) -> None: ...

    def reconcile(self, sequence: int, epochs: Sequence[Epoch], by: str = COMMAND) -> None:
        """Replace the epochs of a survey's rounds."""

    def delete_survey(self, sequence: int) -> None:
        """Delete a survey and all its data permanently, except its entries in the register."""

    def enrol_key(self, key: str) -> None:
        """Enrol a public key; raise Refused if it is retired."""

    def retire_key(self, key: str) -> None: ...

    # Reports

    def transaction(self, *, later: bool = False) -> AbstractContextManager[Transaction]:
        """Return a transaction whose envelopes are on disk after the block.

        With `later`, the envelopes may reach the tables later, together with other groups. Reads
        of this object include them; other processes may see them late.
        """

    def unsettled(self) -> Sequence[Unsettled]:
        """Return the acknowledged envelopes of interrupted `later` transactions.

        They may not be in the tables. Each call returns them until a transaction stores them.
        """

    def envelopes(self, sequence: int, number: int) -> Iterator[Kept]:
        """Yield the envelopes of a sealed or ended round, in an order that reveals nothing."""

    def release(
        self, sequence: int, number: int, change: Callable[[RoundTally, Released], Released]
    ) -> None:
        """Replace the parts that `change` returns, given a round's tally and its released parts.

        No other process releases parts of the round meanwhile. If the round has no reports, or any
        row of it is damaged, nothing is called or changed.
        """

    def seal(self, sequence: int, rounds: Sequence[int]) -> None:
        """Accept no further reports in these rounds, so that their envelopes may be deleted."""

    def purge(self, most: int) -> Purged:
        """Permanently delete envelopes of sealed rounds, at most `most` buckets."""

    def forget_order(self) -> bool:
        """Remove every trace of the order of arrival and of deleted data.

        If a reader delays this, return False without waiting; call it again later.
        """

    def count_dropped(self, sequence: int, number: int, batch: bytes, dropped: int) -> None:
        """Store how many envelopes a relay dropped, once for each batch."""

    def invite(self, sequence: int, codes: Collection[bytes], by: str = COMMAND) -> None:
        """Store new, unspent invitations: the SHA-256 hashes of their codes."""

    # Everything else

    def annotate(self, sequence: int, annotation: Annotation) -> None:
        """Store an annotation if it does not exist."""

    def remove_annotation(self, sequence: int, annotation: Annotation) -> bool:
        """Remove an annotation, and return whether it existed."""

    def register_page(self, survey: str, digest: str) -> None:
        """Register the digest of the list of files of a survey's respondent page from now on."""

    def replace_public_pages(self, folder: str, pages: Mapping[str, PublicPage]) -> None:
        """Replace all pages whose paths begin with `folder`, and write only those that differ."""

    def share(self, share: Share) -> None:
        """Store a share, whose page `set_shared_page` adds, with its entry in the audit log."""

    def set_shared_page(self, path: str, page: bytes) -> None:
        """Replace the page of a share, if it still exists."""

    def revoke_share(self, path: str, by: str) -> bool:
        """Delete a share with its page, and return whether it existed."""

    def purge_shares(self, before: date) -> None:
        """Delete the shares that expired on earlier days."""

    def add_counters(self, counts: Mapping[tuple[int, str], int]) -> None:
        """Add numbers of reports, by (survey's sequence, outcome)."""

    def add_token(
        self,
        token: str,
        role: str,
        now: datetime,
        expires: datetime,
        name: str = "",
        by: str = COMMAND,
        *,
        label: str = "",
        limit: int = 0,
    ) -> None:
        """Store a token; raise Refused if another token has its name."""

    def revoke_token(self, identifier: str, by: str = COMMAND) -> None:
        """Revoke the tokens whose ids begin with `identifier`.

        A token with a label expires and loses its name, but still binds its label until it is
        revoked once more.
        """

    def note_use(self, identifier: str, day: date) -> None:
        """Store the last day on which a token was used."""

    def record_sign_in(self, by: str) -> None:
        """Add a sign-in to the audit log, unless the day already has one."""

    def purge_audit(self, before: date) -> None:
        """Delete the audit entries of earlier days."""

    def change_alert(self, sequence: int, subject: str, before: str, after: str) -> bool:
        """Replace an alert's state; return False if it is not `before` (empty: no state)."""

    def keep_day(self, day: date) -> None:
        """Store the latest day on which a server ran."""
