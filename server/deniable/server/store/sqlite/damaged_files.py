"""Files of a data folder that a disk has damaged: found, and set aside for `doctor --repair`.

Nothing is repaired. What is whole stays in place, the file as it was is kept next to it, and the
message says what is lost: restore a backup, or count the remaining envelopes again.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import BinaryIO

from deniable.server.disk import PRIVATE_FILE, sync
from deniable.server.store.sqlite import redo_file, wal_check
from deniable.server.store.sqlite.sqlite_database import FILE
from deniable.shared.errors import StoreUnusable

NAMES = (f"{FILE}-wal", redo_file.FILE)
FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
HELD_NOTHING = "the damaged part held nothing that counts: nothing is lost. The file as it was: {}"
LOST = (
    "{what}: reports acknowledged there that had not reached the tables are lost, and count if "
    "they are sent again. The file as it was: {aside}"
)
WITH_DATABASE = (
    "{aside}, and {database}, since the database may need what is left out: the next lines tell "
    "whether the rest of it is whole"
)
NO_COPY = "{name} is as it was: no copy could be made, which takes up to {size:,} bytes: {error}"
COPIED_AT_ONCE = 2**20


def damaged_files(data: Path) -> Iterator[tuple[str, str]]:
    """Yield each damaged file with what is known of the damage. SQLite opens nothing."""
    fault = wal_check.fault_of(data / FILE)
    if fault is not None and fault.certain:
        yield f"{FILE}-wal", f"damaged, with {fault.commits} commits at or behind that place"
    if places := redo_file.damaged_sectors(data / redo_file.FILE):
        yield redo_file.FILE, f"damaged in {len(places)} places"


def set_aside(data: Path) -> Iterator[tuple[str, str, bool]]:
    """Set the damaged files aside; the folder's lock must be held.

    Yield each with what is kept of it, and whether that is all.
    """
    for name in NAMES:
        _unfinished(data / name).unlink(missing_ok=True)
    for name, _ in list(damaged_files(data)):
        yield name, *_set_aside(data / name)


def asides(data: Path) -> list[str]:
    """Return the files that were set aside and are still there."""
    files = (file for name in (FILE, *NAMES) for file in data.glob(f"{name}.damaged*"))
    return sorted(file.name for file in files)


def wants_room(error: BaseException | None) -> bool:
    """Return whether an error only means that a disk is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (*redo_file.NO_ROOM, errno.EFBIG):
            return True
        if getattr(error, "sqlite_errorcode", None) in FULL:
            return True
        error = error.__cause__
    return False


def _set_aside(file: Path) -> tuple[str, bool]:
    """Change nothing before a copy of all that changes lies next to it."""
    database, is_log = file.with_name(FILE), file.name != redo_file.FILE
    content, lost = _whole_part(file)
    made: list[Path] = []
    try:
        made.append(_copied(file))
        if lost and is_log:
            made.append(_copied(database))
        with _private(_unfinished(file)) as target:
            target.write(content)
            _finish(target)
    except OSError as error:
        for copy in (*made, _unfinished(file)):
            copy.unlink(missing_ok=True)
        size = 2 * file.stat().st_size + (database.stat().st_size if is_log else 0)
        says = NO_COPY.format(name=file.name, size=size, error=error.strerror)
        raise StoreUnusable(says) from error
    _unfinished(file).replace(file)
    sync(file.parent)
    aside, *more = (copy.name for copy in made)
    if not lost:
        return HELD_NOTHING.format(aside), True
    words = WITH_DATABASE.format(aside=aside, database=more[0]) if more else aside
    return LOST.format(what=lost, aside=words), False


def _whole_part(file: Path) -> tuple[bytes, str]:
    """Return what is whole of a file, and describe what is not."""
    if file.name == redo_file.FILE:
        content, bytes_lost = redo_file.without_damage(file)
        return content, f"{bytes_lost:,} bytes of it cannot be read" if bytes_lost else ""
    fault = wal_check.fault_of(file.with_name(FILE))
    commits = 0 if fault is None else fault.commits
    whole = wal_check.whole_part(file.with_name(FILE))
    return whole, f"{commits} commits at or behind a damaged place are left out"


def _copied(file: Path) -> Path:
    """Copy a file to a name that is not there yet."""
    names = (f"{file.name}.damaged{number or ''}" for number in count())
    made = next(path for name in names if not (path := file.with_name(name)).exists())
    try:
        with file.open("rb") as source, _private(made) as target:
            shutil.copyfileobj(source, target, COPIED_AT_ONCE)
            _finish(target)
        sync(made.parent)
    except OSError:
        made.unlink(missing_ok=True)
        raise
    return made


def _unfinished(file: Path) -> Path:
    return file.with_name(f"{file.name}.unfinished")


def _private(file: Path) -> BinaryIO:
    """Create a file for its owner only."""
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb")


def _finish(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
