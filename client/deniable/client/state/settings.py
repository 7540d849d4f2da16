"""Settings: the single values of a person for which a table of their own would be too much."""

from typing import Literal

from deniable.client.state import Transaction

Setting = Literal[
    "consent",  # "yes" or "no"
    "dropped",  # how many reports were dropped because too many were waiting
]


def read_setting(db: Transaction, person: bytes, name: Setting) -> str | None:
    row = db.execute(
        "SELECT value FROM settings WHERE person = ? AND name = ?", (person, name)
    ).fetchone()
    return None if row is None else str(row[0])


def write_setting(db: Transaction, person: bytes, name: Setting, value: str) -> None:
    db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?, ?)", (person, name, value))


def anyone(db: Transaction, name: Setting, value: str) -> bool:
    """Whether any person's setting has this value."""
    query = "SELECT EXISTS (SELECT 1 FROM settings WHERE name = ? AND value = ?)"
    return bool(db.execute(query, (name, value)).fetchone()[0])
