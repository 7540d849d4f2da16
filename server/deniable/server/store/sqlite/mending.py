"""Files of a data folder that a disk has damaged: set aside, with what is whole kept in place."""

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
from deniable.server.store.sqlite import log, redo
from deniable.server.store.sqlite.database import FILE
from deniable.shared.errors import StoreUnusable

NAMES = (f"{FILE}-wal", redo.FILE)
FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
KEPT = "{found}: nothing is lost. What it was: {aside}"
NOT_KNOWN = (
    "{found}: what was acknowledged with it, and when it was set aside had come into no table, is "
    "lost; what of it is sent again counts. What it was: {aside}"
)
WITH_DATABASE = (
    "{aside}, and {database}, since the database may need what is left out: the next lines say "
    "whether what is left of it is whole"
)
NO_COPY = "{name} is as it was: no copy could be made, which takes up to {size:,} bytes: {error}"
MOST_BITS = 64  # that are looked for
HEAD = 100  # bytes of a database
PIECE = 2**20


def damaged_files(data: Path) -> Iterator[tuple[str, str]]:
    """Each with what is known to be wrong with it. Nothing is opened by SQLite."""
    fault = log.fault_of(data / FILE)
    if fault is not None and fault.certain:
        says = f"damaged, with {fault.commits} commits at or behind that place"
        yield f"{FILE}-wal", says
    if places := redo.damage_of(data / redo.FILE):
        yield redo.FILE, f"damaged in {len(places)} places"


def set_aside(data: Path) -> Iterator[tuple[str, str, bool]]:
    """The same files, what is kept of each, and whether that is all. The folder is nobody else's:
    its lock is held."""
    work = _unfinished(data / FILE)
    for each in (work, log.log_of(work), *(_unfinished(data / name) for name in NAMES)):
        each.unlink(missing_ok=True)
    for name, _ in list(damaged_files(data)):
        yield name, *_set_aside(data / name)


def asides(data: Path) -> list[str]:
    """Files that were set aside, and are there still."""
    found = (each for name in (FILE, *NAMES) for each in data.glob(f"{name}.damaged*"))
    return sorted(each.name for each in found)


def wants_room(error: BaseException | None) -> bool:
    """Nothing is damaged: a disk is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (*redo.NO_ROOM, errno.EFBIG):
            return True
        if getattr(error, "sqlite_errorcode", None) in FULL:
            return True
        error = error.__cause__
    return False


def _set_aside(file: Path) -> tuple[str, bool]:
    """Nothing is changed before all that it was lies beside it."""
    made: list[Path] = []
    unfinished, database = _unfinished(file), file.with_name(FILE)
    is_log = file.name != redo.FILE
    try:
        made.append(_copied(file))
        content, right, lost = _mended_log(database) if is_log else _mended_redo(file)
        if lost and is_log:
            made.append(_copied(database))
        _write(unfinished, content)
    except OSError as error:
        for each in (*made, unfinished):
            each.unlink(missing_ok=True)
        raise _no_copy(file, error) from error
    unfinished.replace(file)
    sync(file.parent)
    if not lost:
        return KEPT.format(found=_bits(right), aside=made[0].name), True
    aside, *more = (each.name for each in made)
    words = WITH_DATABASE.format(aside=aside, database=more[0]) if more else aside
    return NOT_KNOWN.format(found=lost, aside=words), False


def _bits(right: int) -> str:
    if right == 0:
        return "what is damaged of it held nothing that counts"
    if right == 1:
        return "one bit of it was turned, and is put right"
    return f"{right} bits of it were turned, and are put right"


def _no_copy(file: Path, error: OSError) -> StoreUnusable:
    size = 2 * file.stat().st_size
    if file.name != redo.FILE:
        size += file.with_name(FILE).stat().st_size
    return StoreUnusable(NO_COPY.format(name=file.name, size=size, error=error.strerror))


def _mended_redo(file: Path) -> tuple[bytes, int, str]:
    content, right, lost = redo.mended(file)
    return content, right, f"{lost:,} bytes of it cannot be read" if lost else ""


def _mended_log(database: Path) -> tuple[bytes, int, str]:
    """What is whole of it, how many bits were put right, and what is not whole. It is worked on
    beside the file, with a head of the database, which says how large its pages are."""
    work = _unfinished(database)
    try:
        with database.open("rb") as opened:
            _write(work, opened.read(HEAD))
        _write(log.log_of(work), log.log_of(database).read_bytes())
        for right in range(MOST_BITS):
            fault = log.fault_of(work)
            if fault is None or not fault.certain:
                return log.log_of(work).read_bytes(), right, ""
            mended = log.mended(work)
            if mended is None:
                break
            log.log_of(work).write_bytes(mended)
        fault = log.fault_of(work)
        commits = 0 if fault is None else fault.commits
        said = f"{commits} commits at or behind a damaged place are left out"
        return log.whole_part(work), 0, said
    finally:
        work.unlink(missing_ok=True)
        log.log_of(work).unlink(missing_ok=True)


def _copied(file: Path) -> Path:
    """Under a name that is not there yet."""
    names = (f"{file.name}.damaged{number or ''}" for number in count())
    made = next(path for name in names if not (path := file.with_name(name)).exists())
    try:
        with file.open("rb") as source, _private(made) as target:
            shutil.copyfileobj(source, target, PIECE)
            _finish(target)
        sync(made.parent)
    except OSError:
        made.unlink(missing_ok=True)
        raise
    return made


def _unfinished(file: Path) -> Path:
    return file.with_name(f"{file.name}.unfinished")


def _write(file: Path, content: bytes) -> None:
    with _private(file) as made:
        made.write(content)
        _finish(made)
    sync(file.parent)


def _private(file: Path) -> BinaryIO:
    """One that is not there yet."""
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb")


def _finish(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
