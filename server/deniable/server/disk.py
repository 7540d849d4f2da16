"""Durable writes of private files and folders."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import BinaryIO

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
COPY_BYTES = 2**20  # read at a time


def sync(path: Path) -> None:
    """Sync a file's content, or a folder's list of names, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def create_private(path: Path) -> BinaryIO:
    """Create a file that only its owner can access; raise FileExistsError if it exists."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb")


def write_new(path: Path, content: bytes | BinaryIO) -> None:
    """Write a new private file durably and completely, or not at all."""
    try:
        with create_private(path) as file:
            if isinstance(content, bytes):
                file.write(content)
            else:
                shutil.copyfileobj(content, file, COPY_BYTES)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise
    except OSError:
        path.unlink(missing_ok=True)
        raise
