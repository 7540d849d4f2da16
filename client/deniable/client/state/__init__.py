"""The state of an install or of a web app. No other package of the client uses SQL.

`store` is the protocol of a state; `database` keeps it in one SQLite file, and `postgres_state` in
a PostgreSQL database that many machines share. Both run transactions; every other module takes the
caller's transaction, so that the caller decides what is written together. A report passes through
`ledger` (consent and charge) and `outbox`, which also schedules sending. `drafts` keeps the reports
that may still change, in a file of its own. `survey_cache` keeps lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from datetime import date

    from deniable.client.state.ledger import Identity, Ledger

__all__ = ["Rows", "Transaction"]


class Rows(Protocol):
    """Result of a statement."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...  # Any: a database's kinds of value
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Transaction(Protocol):
    """Open transaction of a state. Its statements are SQL that both databases understand."""

    today: date  # UTC; where machines share the state, it never goes back
    unwritten: set[Identity]  # people whose withdrawal could not be stored
    erased: bool  # whether private rows were deleted
    numbered: str  # condition of the rows of the history that share their numbers
    reserving: str  # clause that selects only rows that no other transaction is taking
    normal_delay: float  # seconds: an envelope that is due for longer waited during a pause

    @property
    def verified(self) -> dict[bytes, Ledger]:
        """Ledgers that were verified, and that no other connection has changed since."""

    def execute(
        self,
        query: str,
        values: Sequence[Any] | Mapping[str, Any] = (),  # Any: see Rows
        /,
    ) -> Rows: ...

    def lock(self, person: bytes) -> None:
        """Keep other writing transactions from this person's rows until this one ends."""

    def people_key(self) -> bytes:
        """Return the key of the hashes under which people are stored."""

    def charges(self) -> int:
        """Return the number of charges of all people; 0 where no marker records them."""

    def expired(self, table: str) -> str:
        """Return the SQL condition of the expired rows that are deleted together."""

    def new_number(self) -> int | None:
        """Return the number for a new row of the outbox, or None to let the database choose it."""
