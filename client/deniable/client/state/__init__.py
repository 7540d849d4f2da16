"""The install's state in one SQLite file. No other package of the client uses SQL.

`database` opens the file and runs transactions; every other module takes the caller's transaction,
so that the caller decides what is written together. A report passes through `ledger` (consent and
charge) and `outbox`, which also schedules sending. `drafts` keeps the reports that may still
change, in a file of its own. `survey_cache` keeps lists.
"""

from __future__ import annotations

from sqlite3 import Connection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deniable.client.state.ledger import Ledger

__all__ = ["Transaction"]


class Transaction(Connection):
    """A connection inside a transaction, with what it has verified while it is open."""

    erased = True  # the -wal file may hold deleted rows: a killed process can leave them there
    data_version = -1  # changes when another connection writes

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type] # passed on to SQLite
        self.verified: dict[bytes, Ledger] = {}
