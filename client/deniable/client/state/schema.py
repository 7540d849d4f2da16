"""The state's tables. Times are whole seconds since 1970; days are ISO text."""

from __future__ import annotations

from dataclasses import dataclass

from deniable.client.state import Transaction

VERSION = 1
APPLICATION = 0x444E424C  # "DNBL": tells our file from any other SQLite file


@dataclass(frozen=True)
class Table:
    name: str
    columns: str
    kept: str = ""  # why `forget()` keeps its rows; it deletes those of every other table


TABLES = (
    # Single values: see settings.py.
    Table("settings", "name TEXT PRIMARY KEY, value TEXT NOT NULL"),
    # The ledger. One row for each survey and round that was paid for, never deleted.
    # costs: {question: billionths of ε}; seal: a hash over this row and the seal before it.
    Table(
        "charges",
        """
        number INTEGER PRIMARY KEY,
        survey TEXT NOT NULL,
        round INTEGER NOT NULL,
        costs TEXT NOT NULL,
        seal TEXT NOT NULL,
        UNIQUE (survey, round)""",
        kept="erasing it would refill the budget, and anyone could be asked again and again",
    ),
    # Each survey's own random key, until the survey's grace is over.
    Table(
        "survey_keys",
        """
        survey TEXT PRIMARY KEY,
        key BLOB NOT NULL,
        until INTEGER NOT NULL""",
    ),
    # Envelopes to send, until their round's grace is over. Numbers are never used twice.
    Table(
        "outbox",
        """
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        survey TEXT NOT NULL,
        round INTEGER NOT NULL,
        envelope BLOB NOT NULL,
        until INTEGER NOT NULL,
        UNIQUE (survey, round)""",
    ),
    # The server's list as last fetched. A survey that is not to be answered has a problem
    # and no document.
    Table(
        "surveys",
        """
        id TEXT PRIMARY KEY,
        listed INTEGER NOT NULL,
        name TEXT NOT NULL,
        state TEXT NOT NULL,
        document BLOB,
        signature TEXT NOT NULL,
        key TEXT NOT NULL,
        problem TEXT""",
    ),
    # What left this device, or waits to. said: what the report says, question by question;
    # verdict: what became of it (history.Delivery).
    Table(
        "history",
        """
        number INTEGER PRIMARY KEY,
        survey TEXT NOT NULL,
        name TEXT NOT NULL,
        round INTEGER NOT NULL,
        day TEXT NOT NULL,
        said TEXT NOT NULL,
        verdict TEXT NOT NULL,
        detail TEXT NOT NULL,
        UNIQUE (survey, round)""",
    ),
)


def create(db: Transaction) -> None:
    for table in TABLES:
        db.execute(f"CREATE TABLE {table.name} ({table.columns})")
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")


def erase(db: Transaction) -> None:
    """Delete every row of every table but those that say why they are kept."""
    for table in TABLES:
        if not table.kept:
            db.execute(f"DELETE FROM {table.name}")  # noqa: S608 - names from the table above
