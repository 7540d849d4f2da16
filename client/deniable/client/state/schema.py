"""The state's tables. Times are whole seconds since 1970; days are ISO text.

In every table, `person` says whose a row is (people.py): x'' is the install's own person.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from deniable.client.state import Transaction
from deniable.client.state.people import KEY_BYTES, OWN

VERSION = 4
APPLICATION = 0x444E424C  # "DNBL": tells our file from any other SQLite file


@dataclass(frozen=True)
class Table:
    name: str
    columns: str
    kept: str = ""  # why `forget()` keeps its rows; it deletes those of every other table
    personal: bool = False  # whether each row belongs to a person
    options: str = ""


TABLES = (
    # Single values: see settings.py.
    Table(
        "settings",
        """
        person BLOB NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (person, name)""",
        personal=True,
        options="WITHOUT ROWID",
    ),
    # The key by which people are found; one row, made with the tables.
    Table(
        "people_key",
        "key BLOB NOT NULL",
        kept="without it nobody's ledger would be found again, and every budget would be refilled",
    ),
    # The ledgers. One row for each person, survey and round that was paid for, never deleted; of
    # rounds that share a report it is the first.
    # costs: {question: billionths of ε}; seal: a hash over this row and the person's seal before.
    # Numbers count the charges of all people, without a gap.
    Table(
        "charges",
        """
        number INTEGER PRIMARY KEY,
        person BLOB NOT NULL,
        survey TEXT NOT NULL,
        round INTEGER NOT NULL,
        costs TEXT NOT NULL,
        seal TEXT NOT NULL,
        UNIQUE (person, survey, round)""",
        kept="erasing it would refill the budget, and anyone could be asked again and again",
        personal=True,
    ),
    # How many charges each person has, and the last one's seal.
    Table(
        "ledgers",
        """
        person BLOB PRIMARY KEY,
        charges INTEGER NOT NULL,
        seal TEXT NOT NULL""",
        kept="without it the loss of a person's last charges would not be noticed",
        personal=True,
        options="WITHOUT ROWID",
    ),
    # For each person and survey a random key of its own, until the survey's grace is over.
    Table(
        "survey_keys",
        """
        person BLOB NOT NULL,
        survey TEXT NOT NULL,
        key BLOB NOT NULL,
        until INTEGER NOT NULL,
        PRIMARY KEY (person, survey)""",
        personal=True,
    ),
    # The report of each span of rounds that share one, by the span's first round, until the span
    # is over: the round it was drawn in, the last that it was used for, and its bytes on the wire.
    Table(
        "kept_reports",
        """
        person BLOB NOT NULL,
        survey TEXT NOT NULL,
        first INTEGER NOT NULL,
        drawn INTEGER NOT NULL,
        used INTEGER NOT NULL,
        payload BLOB NOT NULL,
        until INTEGER NOT NULL,
        PRIMARY KEY (person, survey, first)""",
        personal=True,
    ),
    # Envelopes to send, until their round's grace is over. Numbers are never used twice.
    # server: the address they were made for; '' in what version 1 left, which kept none.
    # due: not sent before, but by a flush (seconds since 1970); tries: how often it was sent.
    Table(
        "outbox",
        """
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        person BLOB NOT NULL,
        survey TEXT NOT NULL,
        round INTEGER NOT NULL,
        envelope BLOB NOT NULL,
        until INTEGER NOT NULL,
        server TEXT NOT NULL DEFAULT '',
        due REAL NOT NULL DEFAULT 0,
        tries INTEGER NOT NULL DEFAULT 0,
        UNIQUE (person, survey, round)""",
        personal=True,
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
        person BLOB NOT NULL,
        survey TEXT NOT NULL,
        name TEXT NOT NULL,
        round INTEGER NOT NULL,
        day TEXT NOT NULL,
        said TEXT NOT NULL,
        verdict TEXT NOT NULL,
        detail TEXT NOT NULL,
        UNIQUE (person, survey, round)""",
        personal=True,
    ),
)

# So that what is done in every transaction costs the same among many people.
INDEXES_OF_3 = (
    "CREATE INDEX survey_keys_until ON survey_keys (until)",
    "CREATE INDEX outbox_until ON outbox (until)",
    "CREATE INDEX outbox_due ON outbox (due)",
    "CREATE INDEX history_person ON history (person, number)",
)
INDEXES = ("CREATE INDEX kept_reports_until ON kept_reports (until)", *INDEXES_OF_3)


def _creation(name: str) -> str:
    (table,) = (table for table in TABLES if table.name == name)
    return f"CREATE TABLE {name} ({table.columns}) {table.options}"


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


# All that there was belongs to the install's own person. Seals and numbers stay as they are.
OWNED = {
    "settings": "x'', name, value",
    "charges": "number, x'', survey, round, costs, seal",
    "survey_keys": "x'', survey, key, until",
    "outbox": "number, x'', survey, round, envelope, until, server, due, tries",
    "history": "number, x'', survey, name, round, day, said, verdict, detail",
}


def _owned(table: str, columns: str) -> tuple[str, ...]:
    return (
        f"ALTER TABLE {table} RENAME TO {table}_2",
        _creation(table),
        f"INSERT INTO {table} SELECT {columns} FROM {table}_2",  # noqa: S608 - from the table above
        f"DELETE FROM sqlite_sequence WHERE name = '{table}'",  # noqa: S608 - goes on from the old
        f"UPDATE sqlite_sequence SET name = '{table}' WHERE name = '{table}_2'",  # noqa: S608
        f"DROP TABLE {table}_2",
    )


FROM_2_TO_3 = (
    *(statement for table, columns in OWNED.items() for statement in _owned(table, columns)),
    _creation("ledgers"),
    "INSERT INTO ledgers SELECT x'', number, seal FROM charges ORDER BY number DESC LIMIT 1",
    _creation("people_key"),
    *INDEXES_OF_3,
    "PRAGMA user_version = 3",
)

FROM_3_TO_4 = (_creation("kept_reports"), INDEXES[0], "PRAGMA user_version = 4")


def create(db: Transaction) -> None:
    for table in TABLES:
        db.execute(_creation(table.name))
    for index in INDEXES:
        db.execute(index)
    _make_key(db)
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")


def migrate(db: Transaction, version: int) -> None:
    """From an earlier version, in the transaction under way: wholly, or not at all."""
    for before, statements in ((1, FROM_1_TO_2), (2, FROM_2_TO_3), (3, FROM_3_TO_4)):
        for statement in statements if version <= before else ():
            db.execute(statement)
    if version < 3:
        _make_key(db)


def erase(db: Transaction, person: bytes) -> None:
    """Delete every row of a person from every table but those that say why they are kept; with
    the install's own person, also what belongs to nobody."""
    for table in TABLES:
        if table.personal and not table.kept:
            db.execute(f"DELETE FROM {table.name} WHERE person = ?", (person,))  # noqa: S608
        elif person == OWN and not table.kept:
            db.execute(f"DELETE FROM {table.name}")  # noqa: S608 - names from the table above
    db.erased = True


def _make_key(db: Transaction) -> None:
    db.execute("INSERT INTO people_key VALUES (?)", (os.urandom(KEY_BYTES),))
