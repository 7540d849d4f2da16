"""The marker: a file beside the database that remembers how many charges were made with it.

It is made once the schema is on disk, and before the first charge: whenever the device dies, either
there is nothing to lose yet, or a marker that tells. It holds one byte for each charge, so that a
database that has vanished, or has gone back to an earlier day, is noticed: nothing is spent again.
It is never made shorter, and never deleted.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

WINDOWS: bool = sys.platform.startswith("win")


class Marker:
    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        return self.path.exists()

    @property
    def charges(self) -> int | None:
        """How many charges were noted; None where no ledger was ever begun."""
        return self.path.stat().st_size if self.exists else None

    def make(self) -> None:
        """On disk when this returns, and so is its name in the folder."""
        marker = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.fsync(marker)
        os.close(marker)
        sync_folder(self.path.parent)

    def note(self, charges: int) -> None:
        """Make it this long at least, once so many charges are on disk."""
        with suppress(OSError):  # the next transaction makes up for it
            marker = os.open(self.path, os.O_WRONLY)
            try:
                os.lseek(marker, charges - 1, os.SEEK_SET)
                os.write(marker, b".")
            finally:
                os.close(marker)


def sync_folder(path: Path) -> None:
    """The names in this folder are on disk when this returns. Windows cannot open a folder: there
    the file system's own journal keeps names."""
    if WINDOWS:
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
