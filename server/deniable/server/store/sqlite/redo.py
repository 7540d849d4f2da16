"""What is acknowledged and not yet in the tables, in a small file of its own: one write, one sync.

Under load several groups share a transaction. What each has brought is on disk here before it is
answered, and is taken again from here if the transaction does not come to its end: an envelope that
is in the tables already is then a repeated one, and counts once.

The file has two halves, of which one is whole at any moment: a group writes all that is pending to
the other half, in the order of keys, so that nothing tells which group an envelope came with; and
once that is on disk, zeros to the first. A half is kept in sectors with sums (sectors.py), since
one that is not whole may just as well be one that was never acknowledged: a sector that is not
whole is damage. It begins with the length of its content (u32) and a digest (16); it holds, of
each survey and round,

    survey id (32) · round (u32) · length (u32)

and then its envelopes, each as id (16) · reports - 1 (u16) · length (u32) · payload.

Its length tells it from a file that was written before there were sums. What is in such a one comes
into the tables first; then it is made longer.
"""

from __future__ import annotations

import errno
import os
import struct
import time
from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from deniable.server.disk import PRIVATE_FILE, sync
from deniable.server.store.protocol import Damaged, StoreLost
from deniable.server.store.records import Kept, Unsettled, Upload
from deniable.server.store.sqlite import sectors
from deniable.server.store.sqlite.database import REPAIR
from deniable.shared.errors import StoreUnusable

FILE = "deniable.redo"
HALF = 2**18
LENGTH = 2 * HALF + sectors.SIZE
MOST_BYTES = HALF // sectors.SIZE * sectors.ROOM
PAUSE_SECONDS = 0.01  # longer than a server takes to write what was read half written
PIECE = 4_096
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_HEAD = struct.Struct("<I16s")
_ROUND = struct.Struct("<32sII")
_ENVELOPE = struct.Struct("<16sHI")
Round = tuple[str, int]  # a survey's id, and the number of a round
Key = tuple[str, int, bytes]  # and an envelope's id


class Redo:
    """For one thread at a time."""

    def __init__(self, file: Path) -> None:
        if places := damage_of(file):
            raise Damaged(
                f"a disk has damaged {file} in {len(places)} places: "
                f"{REPAIR.format(data=file.parent)}"
            )
        self._file = file
        self._older = False
        self._handle: int | None = None
        self._half = 0  # that is whole
        self._used = [HALF, HALF]  # bytes of either that may not be zero
        self._pending: dict[Round, list[bytes]] = {}  # envelopes as they are written
        self._lost = _by_key(_kept_in(file))

    @property
    def pending(self) -> bool:
        return bool(self._pending)

    @property
    def lost(self) -> Sequence[Unsettled]:
        """What was pending in a transaction that did not end well, and is not pending again."""
        return [*self._lost.values()]

    def keep(self, uploads: Sequence[Upload]) -> bool:
        """Bring them to the disk, with all that is pending; False: there is no room here."""
        grown = {of: [*envelopes] for of, envelopes in self._pending.items()}
        for each in uploads:
            members = grown.setdefault((each.survey.id, each.round), [])
            insort(
                members, _ENVELOPE.pack(each.id, each.count - 1, len(each.payload)) + each.payload
            )
        content = _packed(grown)
        self.begin()
        if self._older or _HEAD.size + len(content) > MOST_BYTES:
            return False
        try:
            self._write(content)
        except OSError as error:
            raise _ours(error) from error
        self._pending = grown
        for each in uploads:
            self._lost.pop((each.survey.id, each.round, each.id), None)
        return True

    def begin(self) -> None:
        """From now on the file is this process's, which overwrites what it finds there."""
        try:
            self._opened()
        except OSError as error:
            raise _ours(error) from error

    def settle(self) -> None:
        """All that is pending is in the tables, and on disk there."""
        self._pending, self._lost = {}, {}
        try:
            self._forget(0)
            self._forget(1)
            if self._handle is not None and self._older:
                self._fill(self._handle)
        except OSError as error:
            if error.errno not in NO_ROOM:  # else it is overwritten the next time
                raise _ours(error) from error

    def lose(self) -> None:
        """It is not: its transaction has been undone."""
        self._lost |= _by_key(_unpacked(_packed(self._pending)))
        self._pending = {}

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _write(self, content: bytes) -> None:
        handle, other = self._opened(), 1 - self._half
        written = sectors.in_sectors(_HEAD.pack(len(content), _digest(content)) + content)
        self._used[other] = max(self._used[other], len(written))
        _put(handle, written, other * HALF)
        os.fdatasync(handle)
        self._half = other
        self._forget(1 - other)

    def _forget(self, half: int) -> None:
        if self._handle is not None and self._used[half]:
            _put(self._handle, bytes(self._used[half]), half * HALF)
            self._used[half] = 0

    def _opened(self) -> int:
        """At its full length, so that a sync has nothing to write but the content."""
        if self._handle is None:
            handle = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
            try:
                self._older = 0 < os.fstat(handle).st_size < LENGTH
                if not self._older or not any(_kept_in(self._file)):
                    self._fill(handle)
            except OSError:
                os.close(handle)
                raise
            self._handle = handle
        return self._handle

    def _fill(self, handle: int) -> None:
        """What is left in a shorter one has no sums: it is gone before the file is as long."""
        size = os.fstat(handle).st_size
        for begin, end in ((0, size), (size, LENGTH)) if size < LENGTH else ():
            for start in range(begin, end, PIECE):
                _put(handle, bytes(min(PIECE, end - start)), start)  # written as one, read as one
            os.fsync(handle)
        sync(self._file.parent)
        self._older = False


def _ours(error: OSError) -> StoreUnusable:
    kind = StoreUnusable if error.errno in NO_ROOM else StoreLost
    return kind(f"the store could not write reports: {error.strerror}")


def _put(handle: int, content: bytes, offset: int) -> None:
    if os.pwrite(handle, content, offset) < len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def _packed(pending: dict[Round, list[bytes]]) -> bytes:
    parts: list[bytes] = []
    for (survey, number), envelopes in sorted(pending.items()):
        packed = b"".join(envelopes)
        parts += (_ROUND.pack(bytes.fromhex(survey), number, len(packed)), packed)
    return b"".join(parts)


def _kept_in(file: Path) -> Iterator[Unsettled]:
    """Of both halves: what is not whole was never acknowledged, and what is older is repeated."""
    content = _content(file)
    for half in (content[:HALF], content[HALF : 2 * HALF]):
        plain = sectors.out_of_sectors(half) if len(content) >= LENGTH else half
        if len(plain) >= _HEAD.size:
            length, digest = _HEAD.unpack_from(plain)
            part = plain[_HEAD.size : _HEAD.size + length]
            if length and _digest(part) == digest:
                yield from _unpacked(part)


def damage_of(file: Path) -> list[int]:
    """The places of sectors that a disk has damaged; of an older file nobody can tell."""
    if not (places := _damaged(content := _content(file))):
        return []
    time.sleep(PAUSE_SECONDS)
    again = _content(file)
    stay = {place for place in _damaged(again) if _sector(again, place) == _sector(content, place)}
    return [place for place in places if place in stay]


def mended(file: Path) -> tuple[bytes, int, int]:
    """The whole file with damaged sectors put right, or with zeros from the first that cannot be to
    the end of its half; how many were put right, and how many bytes of content may be lost."""
    content, right = bytearray(_content(file)), 0
    cuts: dict[int, int] = {}  # of each half, and of what is behind both
    for place in _damaged(bytes(content)):
        if place // HALF not in cuts:
            sector = sectors.mended(_sector(content, place))
            if sector is None:
                cuts[place // HALF] = place
            else:
                content[place : place + sectors.SIZE] = sector
                right += 1
    content[2 * HALF :] = bytes(sectors.SIZE)
    kept = [_whole_content(bytes(content[start : start + HALF])) for start in (HALF, 0)]
    lost = sum(_shortened(content, place, kept[half]) for half, place in cuts.items() if half < 2)
    return bytes(content), right, lost


def _shortened(content: bytearray, place: int, other: bytes) -> int:
    """Keep what lies in a half before a place; how many bytes may have been lost behind it.

    Where the other half is whole, nothing of this one is kept: a power cut leaves sectors of two
    writes in the one that is being written, and all but the last group is in the other.
    """
    start = place // HALF * HALF
    before = bytes(content[start:place])
    length = _HEAD.unpack_from(before)[0] if before else MOST_BYTES
    kept = b"" if other else _packed_again(before, length)
    head = _HEAD.pack(len(kept), _digest(kept))
    written = sectors.in_sectors(head + kept) if kept else b""
    content[start : start + HALF] = written.ljust(HALF, b"\0")
    return max(0, int(length) - len(other or kept))


def _whole_content(half: bytes) -> bytes:
    plain = sectors.out_of_sectors(half)
    length, digest = _HEAD.unpack_from(plain)
    part = plain[_HEAD.size : _HEAD.size + length]
    return part if _digest(part) == digest else b""


def _packed_again(stored: bytes, length: int) -> bytes:
    """The envelopes that are whole in the first sectors of a half."""
    plain = sectors.out_of_sectors(sectors.written(stored))
    pending: dict[Round, list[bytes]] = {}
    with suppress(struct.error):
        for survey, number, kept in _unpacked(plain[_HEAD.size : _HEAD.size + length]):
            whole = _ENVELOPE.pack(kept.id, kept.reports - 1, len(kept.payload)) + kept.payload
            pending.setdefault((survey, number), []).append(whole)
    return _packed(pending)


def _damaged(content: bytes) -> list[int]:
    return [*sectors.damaged(content)] if len(content) >= LENGTH else []


def _sector(content: bytes | bytearray, place: int) -> bytes:
    return bytes(content[place : place + sectors.SIZE])


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read()
    except FileNotFoundError:
        return b""


def _by_key(envelopes: Iterable[Unsettled]) -> dict[Key, Unsettled]:
    return {(each.survey, each.round, each.kept.id): each for each in envelopes}


def _unpacked(content: bytes) -> Iterator[Unsettled]:
    start = 0
    while start < len(content):
        survey, number, length = _ROUND.unpack_from(content, start)
        start += _ROUND.size
        end = start + length
        while start < end:
            identifier, more, size = _ENVELOPE.unpack_from(content, start)
            start += _ENVELOPE.size
            if start + size > len(content):
                return
            payload = content[start : start + size]
            yield Unsettled(survey.hex(), number, Kept(identifier, more + 1, payload))
            start += size
