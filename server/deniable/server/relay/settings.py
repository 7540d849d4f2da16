"""What whoever runs a relay may choose."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from deniable.shared.sealed_envelope import BATCH

DAY_SECONDS = 86_400.0
MOST_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Settings:
    """Goes to the worker, however it is started."""

    server: str  # the aggregator
    token: str = field(repr=False)  # an app's, for bodies of many envelopes
    folder: Path
    batch: int = BATCH  # so many envelopes at least leave together,
    longest_seconds: float = DAY_SECONDS  # or as many as there are after so long
    most_bytes: int = MOST_BYTES  # held at once
