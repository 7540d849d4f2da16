"""Files of a data folder that a disk has damaged: set aside, with what is whole kept in place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from deniable.server.disk import PRIVATE_FILE, sync
from deniable.server.store.sqlite import log, redo
from deniable.server.store.sqlite.database import FILE

KEPT = "one bit of it was turned, and is put right: nothing is lost. What it was: {aside}"
NOT_KNOWN = (
    "{lost}: what was acknowledged with it, and when it was set aside had come into no table, is "
    "lost; what of it is sent again counts. What it was: {aside}"
)
MOST_BITS = 64  # that are looked for


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
    for name, _ in list(damaged_files(data)):
        aside = _copied(data / name)
        if name == redo.FILE:
            content, lost = redo.mended(data / name)
            said = f"{lost:,} bytes of it cannot be read" if lost else ""
        else:
            content, said = _mended_log(data)
        _replace(data / name, content)
        words = NOT_KNOWN.format(lost=said, aside=aside) if said else KEPT.format(aside=aside)
        yield name, words, not said


def _mended_log(data: Path) -> tuple[bytes, str]:
    """What is whole of it, and what is not."""
    file = data / FILE
    for _ in range(MOST_BITS):
        fault = log.fault_of(file)
        if fault is None or not fault.certain:
            return log.log_of(file).read_bytes(), ""
        mended = log.mended(file)
        if mended is None:
            break
        _replace(log.log_of(file), mended)
    fault = log.fault_of(file)
    commits = 0 if fault is None else fault.commits
    return log.whole_part(file), f"{commits} commits at or behind a damaged place are left out"


def _copied(file: Path) -> str:
    """Under a name that is not there yet."""
    names = (f"{file.name}.damaged{number or ''}" for number in count())
    name = next(name for name in names if not file.with_name(name).exists())
    _write(file.with_name(name), file.read_bytes())
    return name


def _replace(file: Path, content: bytes) -> None:
    """At once: a power cut leaves the one or the other."""
    unfinished = file.with_name(f"{file.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    _write(unfinished, content)
    unfinished.replace(file)
    sync(file.parent)


def _write(file: Path, content: bytes) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb") as made:
        made.write(content)
        made.flush()
        os.fsync(made.fileno())
    sync(file.parent)
