"""What an install keeps on disk, in one SQLite file. Nobody else in the client speaks SQL.

A function here takes the transaction that the caller has begun (`State.transaction`), so that the
caller decides what reaches the disk together. Whatever belongs to a person is found by the bytes
that stand for that person (people.py).
"""

from __future__ import annotations

from sqlite3 import Connection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deniable.client.state.ledger import Ledger

__all__ = ["Transaction"]


class Transaction(Connection):
    """A connection amid a transaction, with what is known for as long as it is open."""

    erased = True  # whether the -wal file may hold what was deleted: a killed process may leave it
    data_version = -1  # changes when another connection has written

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type] # as SQLite passes them on
        self.verified: dict[bytes, Ledger] = {}
