"""The store: surveys, envelopes, tallies, counters and tokens. No other package runs SQL.

`protocol` defines the interface, `records` the data types, and `STORES` lists the implementations:
`sqlite/` for a single node and `postgres/` for several, with `sql_store` as their common base.
Groups of envelopes go in through `Store.transaction`; counts come out of `Store.tallies`.
"""

from importlib import import_module
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
STORES: dict[type, str] = {  # store classes by the type of their places
    Path: "deniable.server.store.sqlite.sqlite_store:SqliteStore",
    Database: "deniable.server.store.postgres.postgres_store:PostgresStore",
}

__all__ = [
    "FILE",
    "NO_SURVEY",
    "STORES",
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
    """Open a store, and create it if it does not exist."""
    return _store_class(place).create(place)


def open_store(place: Place, node: str = "") -> Store:
    """Open an existing store. `node` names this server where several count into one store."""
    return _store_class(place).open(place, node)


def _store_class(place: Place) -> type[Store]:
    """Return the class of the store at a place, imported on first use."""
    module, _, name = STORES[next(kind for kind in STORES if isinstance(place, kind))].partition(
        ":"
    )
    store: type[Store] = getattr(import_module(module), name)
    return store
