"""Detection of the damaged files in a data folder, which `doctor --repair` sets aside.

The intact part of a file stays in place, the original is kept next to it, and a message states what
is lost. The operator then restores a backup or recounts the remaining envelopes.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from deniable.server.disk import sync, write_new
from deniable.server.store.sqlite import redo_file, wal_check
from deniable.server.store.sqlite.sqlite_database import FILE
from deniable.shared.errors import StoreUnusable, quantity

NAMES = (f"{FILE}-wal", redo_file.FILE)
FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
NOTHING_LOST = "the damaged part held no needed data, so nothing is lost. Original file: {}"
LOST = (
    "{what}: reports that were acknowledged but not yet in the tables are lost; they count if "
    "they are sent again. Original file: {aside}"
)
WITH_DATABASE = (
    "{aside}, and {database}, since the database may need the part left out; the checks below show "
    "whether the database is otherwise intact"
)
NO_COPY = "{name} is unchanged: a copy needs up to {size:,} bytes and could not be made: {error}"


def damaged_files(data: Path) -> Iterator[tuple[str, str]]:
    """Yield (file name, description of the damage), without SQLite, which may change a file."""
    fault = wal_check.fault_of(data / FILE)
    if fault is not None and fault.certain:
        yield f"{FILE}-wal", f"damaged, with {fault.commits} commits at or after the damage"
    if offsets := redo_file.damaged_sectors(data / redo_file.FILE):
        yield redo_file.FILE, f"damaged in {len(offsets)} places"


def set_aside(data: Path) -> Iterator[tuple[str, str, bool]]:
    """Set damaged files aside; the caller holds the lock of the data folder.

    Yield (file name, description of the loss, whether nothing is lost).
    """
    for name in NAMES:
        _unfinished(data / name).unlink(missing_ok=True)
    for name, _ in list(damaged_files(data)):
        yield name, *_set_aside(data / name)


def asides(data: Path) -> list[str]:
    """Return the names of existing files that have been set aside."""
    files = (file for name in (FILE, *NAMES) for file in data.glob(f"{name}.damaged*"))
    return sorted(file.name for file in files)


def is_disk_full(error: BaseException | None) -> bool:
    """Return whether an error means only that the disk is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (*redo_file.NO_ROOM, errno.EFBIG):
            return True
        if getattr(error, "sqlite_errorcode", None) in FULL:
            return True
        error = error.__cause__
    return False


def _set_aside(file: Path) -> tuple[str, bool]:
    """Set a file aside, after copying each file that will be changed."""
    database, is_log = file.with_name(FILE), file.name != redo_file.FILE
    content, lost = _whole_part(file)
    copies: list[Path] = []
    try:
        for changed in [file, database] if lost and is_log else [file]:
            names = (f"{changed.name}.damaged{number or ''}" for number in count())
            free = next(path for name in names if not (path := file.with_name(name)).exists())
            with changed.open("rb") as source:
                write_new(free, source)
            copies.append(free)
            sync(file.parent)
        write_new(_unfinished(file), content)
    except OSError as error:
        for copy in copies:
            copy.unlink(missing_ok=True)
        size = 2 * file.stat().st_size + (database.stat().st_size if is_log else 0)
        says = NO_COPY.format(name=file.name, size=size, error=error.strerror)
        raise StoreUnusable(says) from error
    _unfinished(file).replace(file)
    sync(file.parent)
    aside, *more = (copy.name for copy in copies)
    if not lost:
        return NOTHING_LOST.format(aside), True
    words = WITH_DATABASE.format(aside=aside, database=more[0]) if more else aside
    return LOST.format(what=lost, aside=words), False


def _whole_part(file: Path) -> tuple[bytes, str]:
    """Return the intact content of a file, and a description of what is lost."""
    if file.name == redo_file.FILE:
        content, bytes_lost = redo_file.without_damage(file)
        return content, f"{quantity(bytes_lost, 'byte')} cannot be read" if bytes_lost else ""
    fault = wal_check.fault_of(file.with_name(FILE))
    assert fault is not None  # `damaged_files` found it, and the lock keeps servers away
    content = file.read_bytes()[: fault.whole_bytes]
    return content, f"{fault.commits} commits at or after the damage are left out"


def _unfinished(file: Path) -> Path:
    return file.with_name(f"{file.name}.unfinished")
