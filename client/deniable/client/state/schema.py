"""The state's tables, created together. Times are whole seconds since 1970; days are ISO text.

In every table, `person` names the owner of a row (ledger.py): x'' is the install's own person.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from deniable.client.state import Transaction
from deniable.client.state.ledger import KEY_BYTES, OWN

VERSION = 4
APPLICATION = 0x444E424C  # "DNBL": marks the file as ours


class Table(NamedTuple):
    name: str
    columns: str
    kept: str = ""  # the reason why `forget()` keeps its rows; it empties every other table
    personal: bool = False  # whether each row belongs to a person
    options: str = ""


TABLES = (
    # A person's settings: see ledger.Setting.
    Table(
        "settings",
        "person BLOB NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (person, name)",
        personal=True,
        options="WITHOUT ROWID",
    ),
    # The key under which people are stored; one row, created with the tables.
    Table(
        "people_key",
        "key BLOB NOT NULL",
        kept="without it no ledger could be found again, and every budget would be refilled",
    ),
    # One row for each person, survey and round that was charged, never deleted. Rounds that share a
    # report have one row, under the first round.
    # quarter: that in which the round begins; name: the survey's; key: the one that signed it;
    # costs: {question: billionths of ε}; seal: a hash of this row and the person's previous seal.
    # Numbers count the charges of all people, without a gap.
    Table(
        "charges",
        """
        number INTEGER PRIMARY KEY, person BLOB NOT NULL, survey TEXT NOT NULL,
        round INTEGER NOT NULL, quarter TEXT NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL,
        costs TEXT NOT NULL, seal TEXT NOT NULL,
        UNIQUE (person, survey, round)""",
        kept="erasing it would refill the budget, and anyone could be asked again and again",
        personal=True,
    ),
    # The number of charges of each person, and the last one's seal.
    Table(
        "ledgers",
        "person BLOB PRIMARY KEY, charges INTEGER NOT NULL, seal TEXT NOT NULL",
        kept="without it the loss of a person's last charges would not be noticed",
        personal=True,
        options="WITHOUT ROWID",
    ),
    # A random key for each person and survey, until the survey's grace is over.
    Table(
        "survey_keys",
        """
        person BLOB NOT NULL, survey TEXT NOT NULL, key BLOB NOT NULL, until INTEGER NOT NULL,
        PRIMARY KEY (person, survey)""",
        personal=True,
    ),
    # The report of each span of rounds that share one, until the span is over.
    # first: the span's first round; drawn: the round in which the noise was drawn; used: the last
    # round that it was queued for.
    Table(
        "kept_reports",
        """
        person BLOB NOT NULL, survey TEXT NOT NULL, first INTEGER NOT NULL,
        drawn INTEGER NOT NULL, used INTEGER NOT NULL, payload BLOB NOT NULL,
        until INTEGER NOT NULL, PRIMARY KEY (person, survey, first)""",
        personal=True,
    ),
    # Envelopes to send, until their round's grace is over. Numbers are never used twice.
    # server: the address they were made for; tries: how often the envelope was sent;
    # due: it is not sent before (seconds since 1970), except by a flush; earliest: not even then.
    # kept: when an acknowledged envelope is deleted, if before the end of its grace period.
    # A draft has an empty envelope and a slot (drafts.py) until it is frozen.
    Table(
        "outbox",
        """
        number INTEGER PRIMARY KEY AUTOINCREMENT, person BLOB NOT NULL, survey TEXT NOT NULL,
        round INTEGER NOT NULL, envelope BLOB NOT NULL, until INTEGER NOT NULL,
        server TEXT NOT NULL, due REAL NOT NULL, tries INTEGER NOT NULL DEFAULT 0,
        earliest REAL NOT NULL DEFAULT 0, slot INTEGER, kept INTEGER,
        UNIQUE (person, survey, round)""",
        personal=True,
    ),
    # Acknowledged envelopes, kept until their round's grace period ends, in case the server loses
    # them. epoch: the last epoch of the round for which the server has acknowledged the report.
    Table(
        "acknowledged",
        """
        number INTEGER PRIMARY KEY, person BLOB NOT NULL, survey TEXT NOT NULL,
        round INTEGER NOT NULL, envelope BLOB NOT NULL, until INTEGER NOT NULL,
        server TEXT NOT NULL, epoch INTEGER NOT NULL, UNIQUE (person, survey, round)""",
        personal=True,
    ),
    # The slots of the file of drafts: the first byte, the number of bytes, and whether in use.
    Table(
        "slots",
        "slot INTEGER PRIMARY KEY, size INTEGER NOT NULL, used INTEGER NOT NULL",
        kept="a slot is zeroed after its report is deleted, and others hold the drafts of others",
    ),
    # The documents that a person's drafts are frozen with, until the survey's grace is over.
    Table(
        "draft_surveys",
        """
        person BLOB NOT NULL, survey TEXT NOT NULL, document BLOB NOT NULL, until INTEGER NOT NULL,
        PRIMARY KEY (person, survey)""",
        personal=True,
    ),
    # The time of the last fetch from each server, and the policy that judged the list.
    Table("lists", "server TEXT PRIMARY KEY, fetched INTEGER NOT NULL, policy TEXT NOT NULL"),
    # The listed surveys. One that may not be answered has a problem and no document.
    Table(
        "surveys",
        """
        server TEXT NOT NULL, id TEXT NOT NULL, listed INTEGER NOT NULL, name TEXT NOT NULL,
        state TEXT NOT NULL, document BLOB, signature TEXT NOT NULL, key TEXT NOT NULL,
        problem TEXT, PRIMARY KEY (server, id)""",
    ),
    # The epochs of the listed surveys' rounds, as the survey's key has signed them.
    Table(
        "epochs",
        """
        server TEXT NOT NULL, survey TEXT NOT NULL, round INTEGER NOT NULL, epoch INTEGER NOT NULL,
        PRIMARY KEY (server, survey, round)""",
    ),
    # Surveys that were listed as closed. No later list reopens them; kept until their last day.
    Table("closed", "survey TEXT PRIMARY KEY, until INTEGER NOT NULL"),
    # The reports of this device, sent or waiting. said: the report as text, question by question;
    # verdict: its fate (outbox.Delivery).
    Table(
        "history",
        """
        number INTEGER PRIMARY KEY, person BLOB NOT NULL, survey TEXT NOT NULL,
        name TEXT NOT NULL, round INTEGER NOT NULL, day TEXT NOT NULL, said TEXT NOT NULL,
        verdict TEXT NOT NULL, detail TEXT NOT NULL, UNIQUE (person, survey, round)""",
        personal=True,
    ),
)

# These keep the cost of each transaction independent of the number of people.
INDEXES = (
    "CREATE INDEX kept_reports_until ON kept_reports (until)",
    "CREATE INDEX survey_keys_until ON survey_keys (until)",
    "CREATE INDEX draft_surveys_until ON draft_surveys (until)",
    "CREATE INDEX outbox_until ON outbox (until)",
    "CREATE INDEX outbox_due ON outbox (due)",
    "CREATE INDEX outbox_slot ON outbox (slot) WHERE slot IS NOT NULL",
    "CREATE INDEX slots_free ON slots (size) WHERE NOT used",
    "CREATE INDEX acknowledged_until ON acknowledged (until)",
    "CREATE INDEX acknowledged_round ON acknowledged (survey, round, epoch)",
    "CREATE INDEX history_person ON history (person, number)",
)


def create(db: Transaction) -> None:
    for table in TABLES:
        db.execute(f"CREATE TABLE {table.name} ({table.columns}) {table.options}")
    for index in INDEXES:
        db.execute(index)
    db.execute("INSERT INTO people_key VALUES (?)", (os.urandom(KEY_BYTES),))
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")


def erase(db: Transaction, person: bytes) -> None:
    """Delete a person's rows; for the install's own person, also rows that belong to no person."""
    for table in TABLES:
        if table.personal and not table.kept:
            db.execute(f"DELETE FROM {table.name} WHERE person = ?", (person,))  # noqa: S608
        elif person == OWN and not table.kept:
            db.execute(f"DELETE FROM {table.name}")  # noqa: S608 - names from the table above
    db.erased = True
