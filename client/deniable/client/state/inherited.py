"""What a fork in C leaves of SQLite in the child: the memory of locks that the child does not hold.

A connection in WAL mode holds two locks from its first to its last moment, shared: one on the
database, without which the last connection to close deletes the -wal file, and one on the -shm
file, without which the first one to open empties it. Both belong to a process. A child that was
forked behind Python's back (os.fork closes connections first) inherits SQLite's belief that it
holds them, shared by all its connections to that file: it would write charges to a file that its
parent has deleted. So it takes both locks itself, before it opens a connection, and keeps them
until it ends. They are taken as SQLite does, with fcntl, where SQLite has them [1, 2].

Where the parent was faster, and has closed the last connection before, there is nothing left to
lock: such a child stays without state, and makes no report.

[1] SQLite, os.h: PENDING_BYTE 0x40000000; the shared range is the 510 bytes from two beyond it.
[2] SQLite, os_unix.c: UNIX_SHM_DMS, one byte beyond the eight locks that are at 120 in the -shm.
"""

from __future__ import annotations

import os
from pathlib import Path

from deniable.client.state import Transaction
from deniable.shared.errors import StoreUnusable

SHARED_FIRST, SHARED_SIZE = 0x40000002, 510
SHM_IN_USE = 128

Files = tuple[int, int, int]  # numbers of the database, the -wal and the -shm file

_left: list[tuple[Transaction, Path, Files]] = []  # never closed: that would be the parent's to do
_kept: dict[Path, tuple[int, list[int]]] = {}  # the locks' process and its open files


def files(database: Path) -> Files | None:
    """Which files a connection in WAL mode has open; None in any other mode."""
    try:
        names = (database, f"{database}-wal", f"{database}-shm")
        first, second, third = (Path(name).stat().st_ino for name in names)
    except FileNotFoundError:
        return None
    return first, second, third


def leave(connection: Transaction, database: Path, opened: Files | None) -> None:
    """To be called in the child, for a connection that its parent has opened."""
    _left.append((connection, database, opened or (0, 0, 0)))


def take_locks(database: Path) -> None:
    """What a child must hold before it connects; in any other process, nothing."""
    opened = next((f for _, path, f in reversed(_left) if path == database and f[1]), None)
    if opened is None:
        return
    if files(database) == opened and _kept.get(database, (0, []))[0] != os.getpid():
        _kept[database] = (
            os.getpid(),
            [
                _locked(str(database), SHARED_FIRST, SHARED_SIZE),
                _locked(f"{database}-shm", SHM_IN_USE, 1),
            ],
        )
    if files(database) != opened:  # also between the first look and the locks
        raise StoreUnusable(
            f"{database} was closed by the process that this one was forked from; start it anew"
        )


def _locked(name: str, first: int, size: int) -> int:
    import fcntl

    try:
        file = os.open(name, os.O_RDWR)
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, size, first)
    except OSError:
        raise StoreUnusable(f"{name} is in use at a fork; try again") from None
    return file
