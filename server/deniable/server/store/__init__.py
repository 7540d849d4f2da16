"""The store: surveys, envelopes, tallies, counters and tokens; the only part that runs SQL.

`protocol` states what the server asks of a store and `records` what it holds. `sql_store` has what
both stores share; `sqlite/` is the store of a single node, `postgres/` that of several. A group of
envelopes goes through `Store.transaction`, and comes back as counts from `Store.tallies`.
"""

from pathlib import Path

from deniable.server.store.postgres.database_address import Database
from deniable.server.store.protocol import (
    NO_SURVEY,
    Damaged,
    Store,
    StoreLost,
    StoreReader,
    Transaction,
)
from deniable.server.store.records import (
    Annotation,
    Cells,
    Kept,
    PublicPage,
    PublishedSurvey,
    Purged,
    RoundTally,
    State,
    SurveyRow,
    Token,
    Unsettled,
    Upload,
    UploadKey,
)
from deniable.server.store.register_chain import Event, RegisterEntry, first_fault, next_entry
from deniable.server.store.sqlite.sqlite_database import FILE, create_folder, is_begun
from deniable.server.store.sqlite.sqlite_store import SqliteStore

Place = Path | Database

__all__ = [
    "FILE",
    "NO_SURVEY",
    "Annotation",
    "Cells",
    "Damaged",
    "Database",
    "Event",
    "Kept",
    "Place",
    "PublicPage",
    "PublishedSurvey",
    "Purged",
    "RegisterEntry",
    "RoundTally",
    "SqliteStore",
    "State",
    "Store",
    "StoreLost",
    "StoreReader",
    "SurveyRow",
    "Token",
    "Transaction",
    "Unsettled",
    "Upload",
    "UploadKey",
    "create_folder",
    "create_store",
    "first_fault",
    "is_begun",
    "next_entry",
    "open_store",
]


def create_store(place: Place) -> Store:
    """Open a store, and make it if it is not there."""
    if isinstance(place, Path):
        return SqliteStore.create(place)
    from deniable.server.store.postgres.postgres_store import PostgresStore

    return PostgresStore.create(place)


def open_store(place: Place, node: str = "") -> Store:
    """Open a store that must be there. `node` names who counts, where several servers do."""
    if isinstance(place, Path):
        return SqliteStore.open(place)
    from deniable.server.store.postgres.postgres_store import PostgresStore

    return PostgresStore.open(place, node)
