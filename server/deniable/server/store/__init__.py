"""The store: surveys, envelopes, tallies, counters and tokens. No other package runs SQL.

`protocol` defines the interface, and `records` defines the data types. `STORES` lists the
implementations: `sqlite/` for one node and `postgres/` for several, both derived from `sql_store`.
Groups of envelopes enter through `Store.transaction`; `Store.tallies` returns the counts.
"""

from importlib import import_module
from pathlib import Path

from deniable.server.store.label_counts import NO_LABELS, OTHER, LabelCounts, LabelValue
from deniable.server.store.postgres.database_address import Database
from deniable.server.store.protocol import (
    COMMAND,
    NO_SURVEY,
    SERVER,
    Damaged,
    Store,
    StoreLost,
    StoreReader,
    Transaction,
)
from deniable.server.store.records import (
    Annotation,
    AuditEntry,
    Cells,
    Crowd,
    Epoch,
    Kept,
    LabelCrowds,
    PublicPage,
    PublishedSurvey,
    Purged,
    RoundState,
    RoundTally,
    Share,
    State,
    SurveyRow,
    Token,
    Unsettled,
    Upload,
    UploadKey,
    named_surveys,
)
from deniable.server.store.register_chain import Event, RegisterEntry, first_fault, next_entry
from deniable.server.store.sqlite.sqlite_database import FILE, create_folder, is_begun
from deniable.server.store.sqlite.sqlite_store import SqliteStore

Place = Path | Database
STORES: dict[type, str] = {  # import paths of the store classes, by type of place
    Path: "deniable.server.store.sqlite.sqlite_store:SqliteStore",
    Database: "deniable.server.store.postgres.postgres_store:PostgresStore",
}

__all__ = [
    "COMMAND", "FILE", "NO_LABELS", "NO_SURVEY", "OTHER", "SERVER", "STORES", "Annotation",
    "AuditEntry", "Cells", "Crowd", "Damaged", "Database", "Epoch", "Event", "Kept", "LabelCounts",
    "LabelCrowds", "LabelValue", "Place", "PublicPage", "PublishedSurvey", "Purged",
    "RegisterEntry", "RoundState", "RoundTally", "Share", "SqliteStore", "State", "Store",
    "StoreLost", "StoreReader", "SurveyRow",
    "Token", "Transaction", "Unsettled", "Upload", "UploadKey", "create_folder", "create_store",
    "first_fault", "is_begun", "named_surveys", "next_entry", "open_store",
]  # fmt: skip


def create_store(place: Place) -> Store:
    """Open the store at a place; create it if it does not exist."""
    return _store_class(place).create(place)


def open_store(place: Place, node: str = "") -> Store:
    """Open an existing store. `node` names this server if several servers share the store."""
    return _store_class(place).open(place, node)


def _store_class(place: Place) -> type[Store]:
    """Import and return the class of the store at a place."""
    path = next(path for kind, path in STORES.items() if isinstance(place, kind))
    module, _, name = path.partition(":")
    store: type[Store] = getattr(import_module(module), name)
    return store
