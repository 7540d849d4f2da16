"""Each survey's own random key on this device: what makes the id of an envelope.

With it, ids of different rounds and surveys cannot be linked; without it, nobody can tell any more
which envelopes came from here. So it is destroyed once no report of the survey is taken.
"""

from __future__ import annotations

import os
import sqlite3

KEY_BYTES = 32


def survey_key(db: sqlite3.Connection, survey: str, until: int) -> bytes:
    """The key of this survey, made on first use."""
    db.execute(
        "INSERT OR IGNORE INTO survey_keys VALUES (?, ?, ?)", (survey, os.urandom(KEY_BYTES), until)
    )
    row = db.execute("SELECT key FROM survey_keys WHERE survey = ?", (survey,)).fetchone()
    key = bytes(row[0])
    if len(key) != KEY_BYTES:
        raise ValueError("not as it was written")
    return key


def destroy_keys(db: sqlite3.Connection, now: int) -> None:
    """Delete the keys that have passed their time; in the database they are overwritten."""
    db.execute("DELETE FROM survey_keys WHERE until <= ?", (now,))
