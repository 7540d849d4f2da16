"""Settings: the single values for which a table of their own would be too much."""

from typing import Literal

from deniable.client.state import Transaction

Setting = Literal[
    "consent",  # "yes" or "no"
    "dropped",  # how many reports were dropped because too many were waiting
]


def read_setting(db: Transaction, name: Setting) -> str | None:
    row = db.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def write_setting(db: Transaction, name: Setting, value: str) -> None:
    db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))
