"""The state's tables. Times are whole seconds since 1970; days are ISO text."""

from __future__ import annotations

from dataclasses import dataclass

from deniable.client.state import Transaction

VERSION = 2
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
    # server: the address they were made for; '' in what version 1 left, which kept none.
    # due: not sent before, but by a flush (seconds since 1970); tries: how often it was sent.
    Table(
        "outbox",
        """
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        survey TEXT NOT NULL,
        round INTEGER NOT NULL,
        envelope BLOB NOT NULL,
        until INTEGER NOT NULL,
        server TEXT NOT NULL DEFAULT '',
        due REAL NOT NULL DEFAULT 0,
        tries INTEGER NOT NULL DEFAULT 0,
        UNIQUE (survey, round)""",
    ),
    # When each server's list was last fetched, and by which policy it was judged.
    Table("lists", "server TEXT PRIMARY KEY, fetched INTEGER NOT NULL, policy TEXT NOT NULL"),
    # What it listed. A survey that is not to be answered has a problem and no document.
    Table(
        "surveys",
        """
        server TEXT NOT NULL,
        id TEXT NOT NULL,
        listed INTEGER NOT NULL,
        name TEXT NOT NULL,
        state TEXT NOT NULL,
        document BLOB,
        signature TEXT NOT NULL,
        key TEXT NOT NULL,
        problem TEXT,
        PRIMARY KEY (server, id)""",
    ),
    # Surveys that were listed as closed: no list opens them again, until their own days are over.
    Table("closed", "survey TEXT PRIMARY KEY, until INTEGER NOT NULL"),
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


def _creation(name: str) -> str:
    (columns,) = (table.columns for table in TABLES if table.name == name)
    return f"CREATE TABLE {name} ({columns})"


FROM_1_TO_2 = (
    "ALTER TABLE outbox ADD COLUMN server TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE outbox ADD COLUMN due REAL NOT NULL DEFAULT 0",
    "ALTER TABLE outbox ADD COLUMN tries INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE surveys RENAME TO listed",
    _creation("lists"),
    _creation("surveys"),
    _creation("closed"),
    "INSERT INTO surveys SELECT '', * FROM listed",
    "DROP TABLE listed",
    """INSERT INTO lists SELECT '', CAST(value AS INTEGER), substr(value, instr(value, ' ') + 1)
       FROM settings WHERE name = 'fetched'""",
    "DELETE FROM settings WHERE name = 'fetched'",
    "PRAGMA user_version = 2",
)


def create(db: Transaction) -> None:
    for table in TABLES:
        db.execute(_creation(table.name))
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")


def migrate(db: Transaction) -> None:
    """From version 1, in the transaction under way: wholly, or not at all."""
    for statement in FROM_1_TO_2:
        db.execute(statement)


def erase(db: Transaction) -> None:
    """Delete every row of every table but those that say why they are kept."""
    for table in TABLES:
        if not table.kept:
            db.execute(f"DELETE FROM {table.name}")  # noqa: S608 - names from the table above
