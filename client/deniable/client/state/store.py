"""Protocol of a state: the operations that the rest of the client needs from it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.client.fork_safety import ForkAware
from deniable.client.state import Transaction
from deniable.client.state.ledger import Consents, Identity
from deniable.shared.errors import InvalidPolicy, StoreUnusable, installation

if TYPE_CHECKING:
    from deniable.client.state.drafts import DraftFile

SCHEMES = ("postgresql://", "postgres://")
Now = Callable[[], datetime]
Write = Callable[[Transaction], object]  # what a later transaction has to do

system_time: Now = partial(datetime.now, UTC)

# errors of a call that cannot use the state because of the disk, the system or a folder's owner
UNUSABLE = (StoreUnusable, OSError, ImportError)


class StateBlocked(StoreUnusable):
    """Raised if the state is locked, full, read-only or out of reach. Nothing is damaged."""


class State(ForkAware):
    """State of one install, or of all people of a web app.

    address    its location, as shown to people; without a password
    folder     the folder, if it is on this machine
    is_shared  whether several machines use it, in a database that keeps old versions of rows
    drafts     the file of reports that may still change, unless it is shared
    queued     the numbers of reports that this process has queued, if it is shared
    now        the clock that it trusts
    """

    address: str
    folder: Path | None = None
    drafts: DraftFile
    is_shared = False
    queued: Iterable[int] = ()

    def __init__(self, now: Now = system_time) -> None:
        self.now = now
        self.consents = Consents()
        self._postponed: list[tuple[Identity, Write]] = []
        super().__init__()

    @property
    def begun(self) -> bool:
        """True once anything has been stored, or if that cannot be known."""
        raise NotImplementedError

    @property
    def can_begin(self) -> bool:
        """True if a first choice can be stored."""
        raise NotImplementedError

    def transaction(
        self, create: bool = False, durable: bool = True
    ) -> AbstractContextManager[Transaction]:
        """Commit the block completely or not at all. Unless durable, a power cut may undo it."""
        raise NotImplementedError

    def read(self) -> AbstractContextManager[Transaction]:
        """Let the block read one snapshot. This does not wait for writers, and writes nothing."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections. They open again when they are needed."""
        raise NotImplementedError

    def destroy(self) -> bool:
        """Delete an unreadable state without refilling a budget; return whether that was done."""
        return False

    def note_charges(self, charges: int) -> None:
        """Record outside the database that this many charges are on disk."""

    def postpone(self, identity: Identity, write: Write) -> None:
        """Keep a report in memory while others hold the database; the uploader writes it later.

        The report was charged, so giving up would lose it. It is dropped if its owner withdraws.
        """
        self._postponed.append((identity, write))

    def write_postponed(self) -> None:
        """Write the reports that waited for the database; raise StoreUnusable if it is held."""
        if postponed := self._postponed.copy():
            with self.transaction(durable=False) as db:
                for entry in postponed:
                    if entry in self._postponed:
                        entry[1](db)
            self._forget_postponed(postponed)

    def drop_postponed(self, identity: Identity) -> None:
        self._forget_postponed([entry for entry in self._postponed if entry[0] == identity])

    def _forget_postponed(self, entries: list[tuple[Identity, Write]]) -> None:
        for entry in entries:
            with suppress(ValueError):  # another thread was faster
                self._postponed.remove(entry)


def open_state(
    place: str | os.PathLike[str], key: str | None = None, now: Now | None = None
) -> State:
    """Return the state in a folder, or in the PostgreSQL database of an address."""
    if isinstance(place, str) and place.startswith(SCHEMES):
        try:
            from deniable.client.state.postgres_state import PostgresState
        except ModuleNotFoundError:
            fix = installation("postgres-state")
            raise InvalidPolicy(
                f"state: PostgreSQL needs psycopg, which is not installed; {fix}"
            ) from None
        return PostgresState(place, key, now)
    if key is not None:
        raise InvalidPolicy("state_key: a folder keeps its own key; leave state_key out")
    from deniable.client.state.database import SqliteState

    return SqliteState(place, now or system_time)
