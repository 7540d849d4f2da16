"""The redo file: acknowledged envelopes that are not yet in the tables, in one write and one sync.

If the transaction that holds them fails, the next one reads them from this file. An envelope that
reached the tables is then a duplicate, so it counts once.

The file has two halves, and at any moment one of them is intact. Each group writes all pending
envelopes to the other half, in the order of their keys, so that the file does not show which group
an envelope belongs to. Once that half is on disk, the group zeroes the first one. A half consists
of 512-byte sectors, each with a checksum. A disk writes a sector completely or not at all, so after
a kill or a power cut each sector is all zeros or as it was written. Any other content is damage.

A half starts with the length of its content (u32) and the content's digest (16). The content starts
with the number of reports that the tables had stored before (u64). Then, for each survey and round:

    survey id (32) · round (u32) · length (u32)

followed by the envelopes, each as id (16) · reports - 1 (u16) · length (u32) · payload.
"""

from __future__ import annotations

import errno
import os
import struct
import time
from bisect import insort
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

from deniable.server.disk import PRIVATE_FILE, sync
from deniable.server.store.protocol import Damaged, StoreLost
from deniable.server.store.records import Kept, Unsettled, Upload
from deniable.server.store.sqlite.sqlite_database import REPAIR
from deniable.shared.errors import StoreUnusable

FILE = "deniable.redo"
HALF_BYTES = 2**18
FILE_BYTES = 2 * HALF_BYTES
PAGE_BYTES = 4_096  # size of a page in the kernel's cache
SECTOR_BYTES = 512
_SUM = struct.Struct("<I")
SECTOR_ROOM = SECTOR_BYTES - _SUM.size
ZEROS = bytes(SECTOR_BYTES)
MAX_CONTENT_BYTES = HALF_BYTES // SECTOR_BYTES * SECTOR_ROOM
REREAD_SECONDS = 0.01  # longer than a write takes
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_HEAD = struct.Struct("<I16s")
_STORED = struct.Struct("<Q")
_ROUND = struct.Struct("<32sII")
_ENVELOPE = struct.Struct("<16sHI")
Round = tuple[str, int]  # a survey's id, and the number of a round
Key = tuple[str, int, bytes]  # survey's id, round, envelope's id


class RedoFile:
    """Redo file, for use by one thread at a time."""

    def __init__(self, file: Path) -> None:
        if offsets := damaged_sectors(file):
            raise Damaged(
                f"a disk has damaged {file} in {len(offsets)} places: "
                f"{REPAIR.format(data=file.parent)}"
            )
        self._file = file
        self._handle: int | None = None
        self._half = 0  # the intact half
        self._used = [HALF_BYTES, HALF_BYTES]  # for each half: bytes that may not be zero
        self.pending: dict[Round, list[bytes]] = {}  # envelopes, packed as in the file
        # Skip an incomplete half, which was never acknowledged. Both halves may hold an envelope.
        self._lost: dict[Key, Unsettled] = {}
        self._stored = 0  # number of reports in the tables before those of this file
        self._owed = 0  # number of reports in this file
        contents = filter(None, map(_intact_content, _halves(_content(file))))
        for content in sorted(contents, key=lambda part: (_STORED.unpack_from(part), len(part))):
            rows = _unpack(content)
            self._lost |= rows
            (self._stored,) = _STORED.unpack_from(content)  # the last half has all pending reports
            self._owed = sum(row.kept.reports for row in rows.values())

    @property
    def lost(self) -> Sequence[Unsettled]:
        """Envelopes of failed transactions, unless they are pending again."""
        return [*self._lost.values()]

    def total(self, stored: int) -> int:
        """Return the number of reports in this file and in the tables, which have `stored` reports.

        If the tables have stored more than this file notes, they hold its reports too.
        """
        if stored > self._stored:
            return max(stored, self._stored + self._owed)
        return stored + self._owed

    def keep(self, uploads: Sequence[Upload], stored: int) -> bool:
        """Write uploads and all pending envelopes to disk; return False if the file is full.

        The tables have stored this many reports, without the pending ones.
        """
        grown = {key: [*envelopes] for key, envelopes in self.pending.items()}
        for upload in uploads:
            members = grown.setdefault((upload.survey.id, upload.round), [])
            head = _ENVELOPE.pack(upload.id, upload.count - 1, len(upload.payload))
            insort(members, head + upload.payload)
        content = _pack(grown, stored)
        self.begin()
        if _HEAD.size + len(content) > MAX_CONTENT_BYTES:
            return False
        try:
            self._write(content)
        except OSError as error:
            raise _store_error(error) from error
        self.pending, self._stored = grown, stored
        for upload in uploads:
            if self._lost.pop((upload.survey.id, upload.round, upload.id), None) is None:
                self._owed += upload.count
        return True

    def begin(self) -> None:
        """Open the file for writing, at its full length, so that a sync writes only content."""
        if self._handle is None:
            try:
                handle = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
                try:
                    size = os.fstat(handle).st_size
                    if size < FILE_BYTES:
                        # The kernel caches each write as one unit, and rewrites the whole unit
                        # after any change in it. Therefore write single pages.
                        for start in range(size, FILE_BYTES, PAGE_BYTES):
                            _put(handle, bytes(min(PAGE_BYTES, FILE_BYTES - start)), start)
                        os.fsync(handle)
                        sync(self._file.parent)
                except OSError:
                    os.close(handle)
                    raise
            except OSError as error:
                raise _store_error(error) from error
            self._handle = handle

    def settle(self) -> None:
        """Clear the file: all its envelopes are on disk in the tables."""
        self.pending, self._lost, self._owed = {}, {}, 0
        try:
            self._zero(0)
            self._zero(1)
        except OSError as error:
            if error.errno not in NO_ROOM:  # on a full disk, the next write overwrites the content
                raise _store_error(error) from error

    def lose(self) -> None:
        """Mark the pending envelopes as lost: their transaction has been rolled back."""
        self._lost |= _unpack(_pack(self.pending, self._stored))
        self.pending = {}

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _write(self, content: bytes) -> None:
        assert self._handle is not None
        half = 1 - self._half
        sectors = _sectors(content)
        self._used[half] = max(self._used[half], len(sectors))
        _put(self._handle, sectors, half * HALF_BYTES)
        os.fdatasync(self._handle)
        self._half = half
        self._zero(1 - half)

    def _zero(self, half: int) -> None:
        if self._handle is not None and self._used[half]:
            _put(self._handle, bytes(self._used[half]), half * HALF_BYTES)
            self._used[half] = 0


def damaged_sectors(file: Path) -> list[int]:
    """Return the offsets of damaged sectors; read twice, since a server may be writing."""
    if not (offsets := _damaged(content := _content(file))):
        return []
    time.sleep(REREAD_SECONDS)
    again = _content(file)
    still = set(_damaged(again))
    return [at for at in offsets if at in still and _sector(again, at) == _sector(content, at)]


def without_damage(file: Path) -> tuple[bytes, int]:
    """Return the file's content with damaged halves zeroed, and the number of bytes lost.

    Nothing is lost if the other half holds everything that was acknowledged.
    """
    content = _content(file)
    damaged = {offset // HALF_BYTES for offset in _damaged(content)}
    halves = _halves(content)
    kept = [_intact_content(half) for half in halves]
    lost = sum(
        max(0, _stated_bytes(half) - max(map(len, kept)))
        for number, half in enumerate(halves)
        if number in damaged and not kept[number]
    )
    return b"".join(_sectors(part).ljust(HALF_BYTES, b"\0") for part in kept), lost


def _store_error(error: OSError) -> StoreUnusable:
    kind = StoreUnusable if error.errno in NO_ROOM else StoreLost
    return kind(f"the store could not write reports: {error.strerror}")


def _put(handle: int, content: bytes, offset: int) -> None:
    if os.pwrite(handle, content, offset) < len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _pack(pending: dict[Round, list[bytes]], stored: int) -> bytes:
    parts = [_STORED.pack(stored)]
    for (survey, number), envelopes in sorted(pending.items()):
        packed = b"".join(envelopes)
        parts += (_ROUND.pack(bytes.fromhex(survey), number, len(packed)), packed)
    return b"".join(parts)


def _sectors(content: bytes) -> bytes:
    """Return the sectors of a half with this content; empty content has none."""
    stored = _HEAD.pack(len(content), _digest(content)) + content if content else b""
    parts: list[bytes] = []
    for start in range(0, len(stored), SECTOR_ROOM):
        part = stored[start : start + SECTOR_ROOM].ljust(SECTOR_ROOM, b"\0")
        parts += (part, _SUM.pack(crc32(part)))
    return b"".join(parts)


def _intact_content(half: bytes) -> bytes:
    """Return the content of a half; empty if the half is not intact."""
    starts = range(0, len(half), SECTOR_BYTES)
    stored = b"".join(half[start : start + SECTOR_ROOM] for start in starts)
    if len(stored) < _HEAD.size:
        return b""
    length, digest = _HEAD.unpack_from(stored)
    content = stored[_HEAD.size : _HEAD.size + length]
    return content if _digest(content) == digest else b""


def _stated_bytes(half: bytes) -> int:
    """Return the length in a half's head; if the head is damaged, that without trailing zeros."""
    if not _is_whole(half[:SECTOR_BYTES]):
        return len(half.rstrip(b"\0"))
    return int(_HEAD.unpack_from(half)[0])


def _halves(content: bytes) -> tuple[bytes, bytes]:
    return content[:HALF_BYTES], content[HALF_BYTES:FILE_BYTES]


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def _damaged(content: bytes) -> list[int]:
    """Return the offsets of damaged sectors and, if the file is too short, of its end."""
    if content == bytes(len(content)):
        return []
    starts = range(0, len(content), SECTOR_BYTES)
    offsets = [start for start in starts if not _is_whole(_sector(content, start))]
    return offsets if len(content) >= FILE_BYTES else [*offsets, len(content)]


def _sector(content: bytes, offset: int) -> bytes:
    return content[offset : offset + SECTOR_BYTES]


def _is_whole(sector: bytes) -> bool:
    """Return whether a sector is as it was written, or all zeros."""
    return sector in (ZEROS, sector[:SECTOR_ROOM] + _SUM.pack(crc32(sector[:SECTOR_ROOM])))


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


def _unpack(content: bytes) -> dict[Key, Unsettled]:
    envelopes: dict[Key, Unsettled] = {}
    start = _STORED.size
    while start < len(content):
        survey, number, length = _ROUND.unpack_from(content, start)
        start += _ROUND.size
        end = start + length
        while start < end:
            identifier, more, size = _ENVELOPE.unpack_from(content, start)
            start += _ENVELOPE.size
            kept = Kept(identifier, more + 1, content[start : start + size])
            envelopes[survey.hex(), number, identifier] = Unsettled(survey.hex(), number, kept)
            start += size
    return envelopes
