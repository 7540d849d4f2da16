"""The store: surveys, envelopes, tallies, counters and tokens; the only part that speaks SQL.

`protocol.py` says what the server asks of it, `records.py` what it holds; `sqlite/` is one for a
single node, `postgres/` one for several; `sql/` is what both have.
"""

from deniable.server.store.opening import Place, create_store, open_store
from deniable.server.store.postgres.address import Database
from deniable.server.store.protocol import NO_SURVEY, Damaged, Store, StoreLost, Transaction
from deniable.server.store.records import (
    Annotation,
    Cells,
    Kept,
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
from deniable.server.store.register import RegisterEntry, first_fault, next_entry
from deniable.server.store.signed import check_signed
from deniable.server.store.sqlite.backup import back_up, restore
from deniable.server.store.sqlite.database import FILE, create_folder, is_begun
from deniable.server.store.sqlite.inspection import Inspection, KeptTally, check_tables
from deniable.server.store.sqlite.mending import (
    asides,
    damaged_files,
    set_aside,
    wants_room,
)
from deniable.server.store.sqlite.migration import migrate
from deniable.server.store.sqlite.store import SqliteStore

__all__ = [
    "FILE",
    "NO_SURVEY",
    "Annotation",
    "Cells",
    "Damaged",
    "Database",
    "Inspection",
    "Kept",
    "KeptTally",
    "Place",
    "PublishedSurvey",
    "Purged",
    "RegisterEntry",
    "RoundTally",
    "SqliteStore",
    "State",
    "Store",
    "StoreLost",
    "SurveyRow",
    "Token",
    "Transaction",
    "Unsettled",
    "Upload",
    "UploadKey",
    "asides",
    "back_up",
    "check_signed",
    "check_tables",
    "create_folder",
    "create_store",
    "damaged_files",
    "first_fault",
    "is_begun",
    "migrate",
    "next_entry",
    "open_store",
    "restore",
    "set_aside",
    "wants_room",
]
