"""The store: surveys, envelopes, tallies, counters and tokens; the only part that speaks SQL.

`protocol.py` says what the server asks of it, `records.py` what it holds; `sqlite/` is one.
"""

from pathlib import Path

from deniable.server.store.protocol import NO_SURVEY, Store, StoreLost, Transaction
from deniable.server.store.records import (
    Cells,
    PublishedSurvey,
    RoundTally,
    State,
    SurveyRow,
    Token,
    Upload,
    UploadKey,
)
from deniable.server.store.sqlite.backup import back_up, restore
from deniable.server.store.sqlite.database import FILE, create_folder
from deniable.server.store.sqlite.migration import migrate
from deniable.server.store.sqlite.store import SqliteStore

__all__ = [
    "FILE",
    "NO_SURVEY",
    "Cells",
    "PublishedSurvey",
    "RoundTally",
    "SqliteStore",
    "State",
    "Store",
    "StoreLost",
    "SurveyRow",
    "Token",
    "Transaction",
    "Upload",
    "UploadKey",
    "back_up",
    "create_folder",
    "create_store",
    "migrate",
    "open_store",
    "restore",
]


def create_store(data: Path) -> Store:
    """The store of a data folder, made if it is not there."""
    return SqliteStore.create(data)


def open_store(data: Path) -> Store:
    """The store of a data folder that must be there; StoreUnusable says why it cannot be."""
    return SqliteStore.open(data)
