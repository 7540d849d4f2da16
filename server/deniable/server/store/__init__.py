"""The store: surveys, envelopes, tallies, counters and tokens; the only part that speaks SQL."""

from deniable.server.store.backup import back_up, restore
from deniable.server.store.database import FILE, StoreLost, create_folder
from deniable.server.store.records import (
    Cells,
    PublishedSurvey,
    RoundTally,
    Token,
    Upload,
)
from deniable.server.store.reports import Recording
from deniable.server.store.store import Store

__all__ = [
    "FILE",
    "Cells",
    "PublishedSurvey",
    "Recording",
    "RoundTally",
    "Store",
    "StoreLost",
    "Token",
    "Upload",
    "back_up",
    "create_folder",
    "restore",
]
