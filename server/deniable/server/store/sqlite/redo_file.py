"""The redo file: acknowledged envelopes that are not yet in the tables. One write and one sync.

If the transaction that holds them does not end well, they are taken again from here: an envelope
that is in the tables already is then a duplicate, and counts once.

The file has two halves, of which one is whole at any moment. A group writes all that is pending to
the other half, in the order of keys, so that the file does not show which group an envelope came
with; then, once that is on disk, it writes zeros to the first. A half consists of sectors of 512
bytes, each with a sum. A disk writes a sector whole or not at all: so each is all zeros or as it
was written, whatever a kill or a power cut leaves, and any other sector is damage.

A half begins with the length of its content (u32) and a digest (16). Its content is, for each
survey and round,

    survey id (32) · round (u32) · length (u32)

and then its envelopes, each as id (16) · reports - 1 (u16) · length (u32) · payload.
"""

from __future__ import annotations

import errno
import os
import struct
import time
from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
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
SECTOR_BYTES = 512
_SUM = struct.Struct("<I")
SECTOR_ROOM = SECTOR_BYTES - _SUM.size
ZEROS = bytes(SECTOR_BYTES)
MAX_CONTENT_BYTES = HALF_BYTES // SECTOR_BYTES * SECTOR_ROOM
REREAD_SECONDS = 0.01  # longer than a server takes to write what was read half written
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_HEAD = struct.Struct("<I16s")
_ROUND = struct.Struct("<32sII")
_ENVELOPE = struct.Struct("<16sHI")
Round = tuple[str, int]  # a survey's id, and the number of a round
Key = tuple[str, int, bytes]  # and an envelope's id


class RedoFile:
    """Redo file, for use by one thread at a time."""

    def __init__(self, file: Path) -> None:
        if places := damaged_sectors(file):
            raise Damaged(
                f"a disk has damaged {file} in {len(places)} places: "
                f"{REPAIR.format(data=file.parent)}"
            )
        self._file = file
        self._handle: int | None = None
        self._half = 0  # the half that is whole
        self._used = [HALF_BYTES, HALF_BYTES]  # bytes of each half that may not be zero
        self._pending: dict[Round, list[bytes]] = {}  # envelopes as they are written
        self._lost = _by_key(_kept_in(file))

    @property
    def pending(self) -> bool:
        return bool(self._pending)

    @property
    def lost(self) -> Sequence[Unsettled]:
        """The envelopes of transactions that did not end well, and that are not pending again."""
        return [*self._lost.values()]

    def keep(self, uploads: Sequence[Upload]) -> bool:
        """Bring uploads to the disk, with all that is pending; False if there is no room here."""
        grown = {key: [*envelopes] for key, envelopes in self._pending.items()}
        for upload in uploads:
            members = grown.setdefault((upload.survey.id, upload.round), [])
            head = _ENVELOPE.pack(upload.id, upload.count - 1, len(upload.payload))
            insort(members, head + upload.payload)
        content = _packed(grown)
        self.begin()
        if _HEAD.size + len(content) > MAX_CONTENT_BYTES:
            return False
        try:
            self._write(content)
        except OSError as error:
            raise _ours(error) from error
        self._pending = grown
        for upload in uploads:
            self._lost.pop((upload.survey.id, upload.round, upload.id), None)
        return True

    def begin(self) -> None:
        """Open the file at its full length, so that a sync has nothing to write but content.

        From now on this process overwrites what it finds there.
        """
        if self._handle is not None:
            return
        try:
            handle = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
            try:
                size = os.fstat(handle).st_size
                if size < FILE_BYTES:
                    _put(handle, bytes(FILE_BYTES - size), size)
                    os.fsync(handle)
                    sync(self._file.parent)
            except OSError:
                os.close(handle)
                raise
        except OSError as error:
            raise _ours(error) from error
        self._handle = handle

    def settle(self) -> None:
        """Forget all that is pending: it is on disk in the tables."""
        self._pending, self._lost = {}, {}
        try:
            self._forget(0)
            self._forget(1)
        except OSError as error:
            if error.errno not in NO_ROOM:  # else it is overwritten the next time
                raise _ours(error) from error

    def lose(self) -> None:
        """Note all that is pending as lost: its transaction has been undone."""
        self._lost |= _by_key(_unpacked(_packed(self._pending)))
        self._pending = {}

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _write(self, content: bytes) -> None:
        assert self._handle is not None
        half = 1 - self._half
        written = _half_of(content)
        self._used[half] = max(self._used[half], len(written))
        _put(self._handle, written, half * HALF_BYTES)
        os.fdatasync(self._handle)
        self._half = half
        self._forget(1 - half)

    def _forget(self, half: int) -> None:
        if self._handle is not None and self._used[half]:
            _put(self._handle, bytes(self._used[half]), half * HALF_BYTES)
            self._used[half] = 0


def damaged_sectors(file: Path) -> list[int]:
    """Return the places of damaged sectors. What a server is just writing is read again."""
    if not (places := _damaged(content := _content(file))):
        return []
    time.sleep(REREAD_SECONDS)
    again = _content(file)
    still = set(_damaged(again))
    return [p for p in places if p in still and _sector(again, p) == _sector(content, p)]


def without_damage(file: Path) -> tuple[bytes, int]:
    """Return the file with zeros in each half that is not whole, and the bytes lost by it.

    Nothing is lost if the other half holds all that was acknowledged.
    """
    content = _content(file)
    damaged = {place // HALF_BYTES for place in _damaged(content)}
    halves = content[:HALF_BYTES], content[HALF_BYTES:FILE_BYTES]
    kept = [_whole_content(half) for half in halves]
    most = max(map(len, kept))
    lost = sum(
        max(0, _stated_bytes(half) - most)
        for number, half in enumerate(halves)
        if number in damaged and not kept[number]
    )
    return b"".join(_half_of(part).ljust(HALF_BYTES, b"\0") for part in kept), lost


def _ours(error: OSError) -> StoreUnusable:
    kind = StoreUnusable if error.errno in NO_ROOM else StoreLost
    return kind(f"the store could not write reports: {error.strerror}")


def _put(handle: int, content: bytes, offset: int) -> None:
    if os.pwrite(handle, content, offset) < len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _packed(pending: dict[Round, list[bytes]]) -> bytes:
    parts: list[bytes] = []
    for (survey, number), envelopes in sorted(pending.items()):
        packed = b"".join(envelopes)
        parts += (_ROUND.pack(bytes.fromhex(survey), number, len(packed)), packed)
    return b"".join(parts)


def _half_of(content: bytes) -> bytes:
    """Return the sectors of a half with this content; none if it is empty."""
    stored = _HEAD.pack(len(content), _digest(content)) + content if content else b""
    parts: list[bytes] = []
    for start in range(0, len(stored), SECTOR_ROOM):
        part = stored[start : start + SECTOR_ROOM].ljust(SECTOR_ROOM, b"\0")
        parts += (part, _SUM.pack(crc32(part)))
    return b"".join(parts)


def _whole_content(half: bytes) -> bytes:
    """Return the content of a half; empty if it is not whole."""
    starts = range(0, len(half), SECTOR_BYTES)
    stored = b"".join(half[start : start + SECTOR_ROOM] for start in starts)
    if len(stored) < _HEAD.size:
        return b""
    length, digest = _HEAD.unpack_from(stored)
    content = stored[_HEAD.size : _HEAD.size + length]
    return content if _digest(content) == digest else b""


def _stated_bytes(half: bytes) -> int:
    """Return how many bytes of content were written to a half, as far as its head can be read."""
    first = half[:SECTOR_BYTES]
    if first != ZEROS and not _is_whole(first):
        return len(half.rstrip(b"\0"))
    return int(_HEAD.unpack_from(first)[0])


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def _kept_in(file: Path) -> Iterator[Unsettled]:
    """Yield the envelopes of both halves.

    A half that is not whole was never acknowledged, and the older one repeats envelopes of the
    newer one.
    """
    content = _content(file)
    for half in (content[:HALF_BYTES], content[HALF_BYTES:FILE_BYTES]):
        yield from _unpacked(_whole_content(half))


def _damaged(content: bytes) -> list[int]:
    """Return the places of sectors that are not as they were written, and of a missing end."""
    if content == bytes(len(content)):
        return []
    places = [
        start
        for start in range(0, len(content), SECTOR_BYTES)
        if (sector := _sector(content, start)) != ZEROS and not _is_whole(sector)
    ]
    return places if len(content) >= FILE_BYTES else [*places, len(content)]


def _sector(content: bytes, place: int) -> bytes:
    return content[place : place + SECTOR_BYTES]


def _is_whole(sector: bytes) -> bool:
    return _SUM.pack(crc32(sector[:SECTOR_ROOM])) == sector[SECTOR_ROOM:]


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


def _by_key(envelopes: Iterable[Unsettled]) -> dict[Key, Unsettled]:
    return {(kept.survey, kept.round, kept.kept.id): kept for kept in envelopes}


def _unpacked(content: bytes) -> Iterator[Unsettled]:
    start = 0
    while start < len(content):
        survey, number, length = _ROUND.unpack_from(content, start)
        start += _ROUND.size
        end = start + length
        while start < end:
            identifier, more, size = _ENVELOPE.unpack_from(content, start)
            start += _ENVELOPE.size
            payload = content[start : start + size]
            yield Unsettled(survey.hex(), number, Kept(identifier, more + 1, payload))
            start += size
