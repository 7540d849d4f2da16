"""Disk after a power cut: synced data is there; unsynced data may be in any state.

Each operation after a file's last sync is kept, dropped, or torn at sectors of 512 bytes or at
pages, independently of the others. A later operation may therefore survive without an earlier one.
An added or removed file name is equally uncertain until its folder is synced.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

HEAD = struct.Struct("<cIQI")
FOLDER = ""  # the folder itself, in syncs
SECTOR, PAGE = 512, 4_096
Loss = Literal["all", "none", "operations", "sectors", "pages", "the-last"]
LOSSES: tuple[Loss, ...] = ("all", "none", "operations", "sectors", "pages", "the-last")


class Operation(NamedTuple):
    kind: str  # as in recorder.c
    name: str
    offset: int
    data: bytes


def recorded(log: Path) -> Iterator[Operation]:
    """Read operations up to the last complete one; the process may have died during the next."""
    content, start = log.read_bytes(), 0
    while start + HEAD.size <= len(content):
        kind, letters, offset, length = HEAD.unpack_from(content, start)
        start += HEAD.size
        name = content[start : start + letters].decode()
        start += letters + length
        if start <= len(content):
            yield Operation(kind.decode(), name, offset, content[start - length : start])


@dataclass
class File:
    synced: bytearray = field(default_factory=bytearray)
    since: list[Operation] = field(default_factory=list)

    def sync(self) -> None:
        for operation in self.since:
            apply(self.synced, operation)
        self.since.clear()

    def after(self, loss: Loss, chance: random.Random) -> bytes:
        """Return the file's content after a power cut at this moment."""
        content = bytearray(self.synced)
        for number, operation in enumerate(self.since):
            for part in kept(operation, loss, chance, last=number == len(self.since) - 1):
                apply(content, part)
        return bytes(content)


class Disk:
    """Disk that holds one folder, initially completely synced."""

    def __init__(self, folder: Path) -> None:
        self.files = {path.name: File(bytearray(path.read_bytes())) for path in folder.iterdir()}
        self.synced = dict(self.files)  # files as of the folder's last sync

    def do(self, operation: Operation) -> None:
        if operation.name == FOLDER:
            self.synced = dict(self.files)
        elif operation.kind == "O":
            self.files.setdefault(operation.name, File())
        elif operation.kind == "U":
            del self.files[operation.name]
        elif operation.kind == "S":
            self.files[operation.name].sync()
        else:
            self.files[operation.name].since.append(operation)

    def cut(self, target: Path, loss: Loss, chance: random.Random) -> None:
        """Write the state after a power cut to a new folder."""
        target.mkdir()
        there = {"all": self.synced, "none": self.files}.get(loss)
        if there is None:
            there = {
                name: file
                for name in sorted(self.synced.keys() | self.files.keys())
                if (file := chance.choice((self.synced, self.files)).get(name)) is not None
            }
        for name, file in there.items():
            (target / name).write_bytes(file.after(loss, chance))


def apply(content: bytearray, operation: Operation) -> None:
    start = operation.offset
    if len(content) < start:
        content.extend(bytes(start - len(content)))
    if operation.kind == "T":
        del content[start:]
    else:
        content[start : start + len(operation.data)] = operation.data


def kept(
    operation: Operation, loss: Loss, chance: random.Random, *, last: bool
) -> Iterator[Operation]:
    """Yield the parts of an operation that reached the disk."""
    if loss == "all":
        return
    if loss == "none" or (loss == "the-last" and not last):
        yield operation
    elif loss == "operations" or operation.kind == "T":
        if chance.random() < 0.5:
            yield operation
    else:
        size = PAGE if loss == "pages" else SECTOR
        for part in torn(operation, size):
            if chance.random() < 0.5:
                yield part


def torn(operation: Operation, size: int) -> Iterator[Operation]:
    """Split an operation at the boundaries of units of this size on the disk."""
    start, end = operation.offset, operation.offset + len(operation.data)
    while start < end:
        stop = min(end, start // size * size + size)
        data = operation.data[start - operation.offset : stop - operation.offset]
        yield operation._replace(offset=start, data=data)
        start = stop
