"""What every view of the server reaches: the store, the writer, the clock, and what they carry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from flask import current_app

from deniable.server.intake.metrics import Metrics
from deniable.server.intake.writer import Writer
from deniable.server.store import Store
from deniable.server.surveys.catalogue import Catalogue

EXTENSION = "deniable"


@dataclass(frozen=True)
class Parts:
    store: Store
    writer: Writer
    now: Callable[[], datetime]  # in UTC, with its time zone
    catalogue: Catalogue
    metrics: Metrics


def parts() -> Parts:
    """The parts of the application that handles this request."""
    return cast(Parts, current_app.extensions[EXTENSION])
