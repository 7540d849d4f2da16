"""Each server's list of surveys, as it was last fetched and judged. Only a copy: whatever of it
cannot be read is fetched again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Any

from deniable.client.state import Transaction


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
    closes: datetime | None = None  # the end of its own days; not a column


@dataclass(frozen=True)
class KeptList:
    surveys: tuple[ListedSurvey, ...] = ()
    fetched: int | None = None  # seconds since 1970; None: there is no list

    def is_fresh(self, now: datetime, seconds: int) -> bool:
        """Fetched less than so many seconds ago; a clock set back makes it stale too."""
        return self.fetched is not None and 0 <= now.timestamp() - self.fetched < seconds


def keep_list(
    db: Transaction, server: str, surveys: Sequence[ListedSurvey], policy: str, now: datetime
) -> None:
    """Instead of this server's list before. `policy` is the fingerprint of the one that judged."""
    _remember_closed(db, surveys, now)
    for table in ("surveys", "lists"):
        db.execute(f"DELETE FROM {table} WHERE server IN (?, '')", (server,))  # noqa: S608 - see above
    for each in surveys:
        row = (server, *astuple(each)[:-1])
        db.execute("INSERT OR REPLACE INTO surveys VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    db.execute("INSERT INTO lists VALUES (?, ?, ?)", (server, int(now.timestamp()), policy))


def kept_list(db: Transaction, server: str, policy: str) -> KeptList:
    """Return the server's list on disk, or one of version 1, which did not say whose it was.

    One that was judged by another policy counts as none.
    """
    held = db.execute(
        "SELECT server, fetched FROM lists WHERE server IN (?, '') AND policy = ?"
        " ORDER BY server DESC",
        (server, policy),
    ).fetchone()
    if held is None:
        return KeptList()
    query = (
        "SELECT id, listed, name, iif(survey IS NULL, state, 'closed'), document, signature, key,"
        " problem FROM surveys LEFT JOIN closed ON survey = id WHERE server = ? ORDER BY listed"
    )
    try:
        rows = db.execute(query, held[:1]).fetchall()
        return KeptList(tuple(_survey(row) for row in rows), int(held[1]))
    except ValueError:
        return KeptList()


def _remember_closed(db: Transaction, surveys: Sequence[ListedSurvey], now: datetime) -> None:
    """The state is not signed, so closed is closed: a later list, true or not, does not reopen."""
    db.execute("DELETE FROM closed WHERE until <= ?", (int(now.timestamp()),))
    for each in surveys:
        if each.state == "closed" and each.closes is not None and each.closes > now:
            until = int(each.closes.timestamp())
            db.execute("INSERT OR IGNORE INTO closed VALUES (?, ?)", (each.id, until))


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
