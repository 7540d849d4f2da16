"""The server's list of surveys, as it was last fetched and judged. Only a copy: whatever of it
cannot be read is fetched again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Any

from deniable.client.state import Transaction
from deniable.client.state.settings import read_setting, write_setting


@dataclass(frozen=True)
class ListedSurvey:
    """In the order of the table's columns. With a problem, the document is not kept."""

    id: str
    position: int
    name: str
    state: str
    document: bytes | None
    signature: str
    key: str
    problem: str | None = None


@dataclass(frozen=True)
class KeptList:
    surveys: tuple[ListedSurvey, ...] = ()
    fetched: int | None = None  # seconds since 1970; None: there is no list

    def is_fresh(self, now: datetime, seconds: int) -> bool:
        """Fetched less than so many seconds ago; a clock set back makes it stale too."""
        return self.fetched is not None and 0 <= now.timestamp() - self.fetched < seconds


def keep_list(db: Transaction, surveys: Sequence[ListedSurvey], policy: str, now: datetime) -> None:
    """Instead of the list before. `policy` is the fingerprint of the one that judged it."""
    db.execute("DELETE FROM surveys")
    for each in surveys:
        db.execute("INSERT OR REPLACE INTO surveys VALUES (?, ?, ?, ?, ?, ?, ?, ?)", astuple(each))
    write_setting(db, "fetched", f"{int(now.timestamp())} {policy}")


def kept_list(db: Transaction, policy: str) -> KeptList:
    """The list on disk. One that was judged by another policy counts as none."""
    fetched, _, judged_by = (read_setting(db, "fetched") or "").partition(" ")
    if judged_by != policy:
        return KeptList()
    rows = db.execute("SELECT * FROM surveys ORDER BY listed").fetchall()
    try:
        return KeptList(tuple(_survey(row) for row in rows), int(fetched))
    except ValueError:
        return KeptList()


def _survey(row: tuple[Any, ...]) -> ListedSurvey:  # Any: SQLite's kinds of value
    """ValueError if a value is not of the kind that was written."""
    listed = ListedSurvey(*row)
    texts = (listed.id, listed.name, listed.state, listed.signature, listed.key)
    if not (
        all(isinstance(text, str) for text in texts)
        and isinstance(row[1], int)
        and isinstance(row[4], bytes | None)
    ):
        raise ValueError("not as it was written")
    return listed
