"""What listing verbs show of a store: surveys, keys and tokens.

A data folder is read by SQLite alone, as the store's libraries take longer to load than all the
rest. Whatever is not plain, an older schema, a damaged file, a database elsewhere, is left to the
store, which says what is wrong.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.server.surveys.clock import State, state_of
from deniable.shared.errors import StoreUnusable
from deniable.shared.survey.periods import PERIODS

if TYPE_CHECKING:
    from deniable.server.store import Place, Store
    from deniable.shared.survey.document import Survey

FILE, SCHEMA = "deniable.sqlite3", "6"  # of which the columns below are
ID_DIGITS = 12  # of a token's hash

_TOKENS = "SELECT hash, role, created, expires FROM tokens ORDER BY created, hash"
_SURVEYS = "SELECT id, document, key, closed FROM surveys ORDER BY sequence"


@dataclass(frozen=True)
class ListedToken:
    id: str
    role: str
    created: datetime
    expires: datetime


@dataclass(frozen=True)
class ListedSurvey:
    id: str
    document: bytes
    key: str
    closed: bool

    @cached_property
    def said(self) -> Mapping[str, str]:
        """Name, first and last day and the like, as the document has them: it was read strictly
        when it was published, and is not proved again to be listed."""
        from hashlib import sha256

        if sha256(self.document).hexdigest() != self.id:
            raise StoreUnusable(
                f"survey {self.id[:12]} is not what was published: a disk has damaged it; "
                "`deniable doctor` says more"
            )
        said: Mapping[str, str] = json.loads(self.document)["survey"]
        return said

    def state(self, now: datetime) -> State:
        opens, closes = (date.fromisoformat(self.said[key]) for key in ("opens", "closes"))
        return state_of(self.closed, PERIODS[self.said["round"]], opens, closes, now)

    @cached_property
    def survey(self) -> Survey:
        from deniable.shared.survey.document import parse_document

        return parse_document(self.document)


@dataclass(frozen=True)
class Glance:
    surveys: Sequence[ListedSurvey]  # in the order of publication
    enrolled: frozenset[str]
    retired: frozenset[str]
    tokens: Sequence[ListedToken]


def glance(place: Place) -> Glance:
    found = _by_sqlite(place / FILE) if isinstance(place, Path) else None
    return found or _by_store(place)


def _by_sqlite(file: Path) -> Glance | None:
    """All at one moment; None where there is anything that the store should look at."""
    if not file.is_file():
        return None
    try:
        address = f"{file.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as db:
            db.execute("BEGIN")
            if db.execute("SELECT value FROM about WHERE key = 'schema'").fetchone() != (SCHEMA,):
                return None
            return Glance(
                [
                    ListedSurvey(i, d, key, bool(closed))
                    for i, d, key, closed in db.execute(_SURVEYS)
                ],
                _texts(db.execute("SELECT key FROM keys")),
                _texts(db.execute("SELECT key FROM retired_keys")),
                [
                    ListedToken(digest[:ID_DIGITS], role, _moment(created), _moment(expires))
                    for digest, role, created, expires in db.execute(_TOKENS)
                ],
            )
    except (sqlite3.Error, ValueError):
        return None


def _texts(rows: Iterable[tuple[str]]) -> frozenset[str]:
    return frozenset(text for (text,) in rows)


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _by_store(place: Place) -> Glance:
    from deniable.server.store import open_store

    with open_store(place) as store:
        return of_store(store)


def of_store(store: Store) -> Glance:
    return Glance(
        [ListedSurvey(each.id, each.document, each.key, each.closed) for each in store.surveys()],
        store.enrolled_keys(),
        store.retired_keys(),
        [ListedToken(each.id, each.role, each.created, each.expires) for each in store.tokens()],
    )
