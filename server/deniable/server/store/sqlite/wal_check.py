"""Check of the write-ahead log against its own checksums [1], before SQLite reads it.

SQLite replays the frames before the first wrong checksum and ignores the rest. The wrong frame may
be a write that a power cut interrupted. However, each commit is synced before the next one begins.
A commit at or after that frame, followed by a frame that continues it, therefore proves that the
frame was once intact and is now damaged. A frame continues another if its checksum starts from the
other's checksum, so it was written while the other was intact. Frames that remain from an earlier
power cut continue no other frame. A commit of only the first page proves nothing, because it is not
synced (`write_connection`). Frames with other salts remain from before the log was last emptied.

[1] SQLite, "WAL-mode File Format", https://sqlite.org/walformat.html
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Words = npt.NDArray[np.uint32]
    Bytes = npt.NDArray[np.uint8]
    Flags = npt.NDArray[np.bool_]

HEAD = struct.Struct(">8I")
FRAME_HEAD = 24  # page number, database size after a commit, two salts, two checksums
SUMMED = 8  # bytes of the head that the checksum covers, in addition to the page
MAGIC = 0x377F0682  # larger by one if checksums use big-endian words
FRAMES_PER_READ = 1_024  # their checksums are computed together
COVER_PAGE = b"\0\0\0\1"  # in the single frame that `write_connection` leaves in an emptied log
PAGE_SIZE = struct.Struct(">H")  # the field at offset 16 of the database
MAX_PAGE_BYTES = 65_536  # the field stores this size as 1


class Fault(NamedTuple):
    """First fault of a log."""

    frame: int  # the first faulty frame; -1: the log's head
    commits: int  # number of commits in or after that frame
    certain: bool  # True: damage; False: perhaps only an interrupted write
    head: bytes  # the head of the log
    whole_bytes: int  # number of intact bytes before the fault


def fault_of(file: Path) -> Fault | None:
    """Return the fault of a database's log; read twice, since a server may be writing."""
    first = _fault(file)
    again = _fault(file) if first else None
    is_same = first and again and (first.head, first.frame) == (again.head, again.frame)
    return again if is_same else None


def log_of(file: Path) -> Path:
    return file.with_name(f"{file.name}-wal")


def _fault(file: Path) -> Fault | None:
    """Return the log's fault. A log without frames, or with only the cover frame, has none."""
    try:
        with log_of(file).open("rb") as log, file.open("rb") as database:
            (page,) = PAGE_SIZE.unpack(database.read(18)[16:])
            page = MAX_PAGE_BYTES if page == 1 else page
            size, frame_bytes = os.fstat(log.fileno()).st_size, FRAME_HEAD + page
            if page < 512 or page % 512 or size < HEAD.size + frame_bytes:
                return None
            head = log.read(HEAD.size)
            if size == HEAD.size + frame_bytes and log.peek(4)[:4] == COVER_PAGE:
                return None
            return _fault_in(head, log, frame_bytes)
    except (FileNotFoundError, struct.error, EOFError):
        return None


def _fault_in(head: bytes, log: IO[bytes], frame_bytes: int) -> Fault | None:
    import numpy as np

    stored = np.array(HEAD.unpack(head), np.uint32)
    magic, order = int(stored[0]), _order(int(stored[0]))
    zeros = np.zeros((1, 2), np.uint32)
    made = _sums(np.frombuffer(head, np.uint8, 3 * SUMMED)[None], zeros, order)
    head_is_whole = magic | 1 == MAGIC | 1 and bool((made == stored[6:]).all())
    # The first frame continues the head's checksums, either as stored or as computed.
    fields, linked = _frames(log, frame_bytes, np.stack([stored[6:], made[0]]), order)
    pages, sizes, salts = fields[:, 0], fields[:, 1], fields[:, 2:4]
    same_salts = salts == (stored[4:6] if head_is_whole else salts[0])
    # Damage may change one salt; a frame of an older log differs in both.
    near = same_salts.any(axis=1)
    whole = linked & same_salts.all(axis=1) & (pages != 0)
    if head_is_whole and whole.all():
        return None
    frame = int(whole.argmin()) if head_is_whole else -1
    behind = max(frame, 0)
    commits = near & (sizes != 0)
    proofs = commits[:-1] & (pages[:-1] != 1) & near[1:] & linked[1:]
    certain = bool(proofs[behind:].any()) or (frame < 0 and bool(linked[0]))
    if not certain and (frame < 0 or not near[frame:].any()):
        return None  # no frames, or only frames of an older log
    whole_bytes = 0 if frame < 0 else HEAD.size + frame * frame_bytes
    return Fault(frame, int(commits[behind:].sum()), certain, head, whole_bytes)


def _frames(log: IO[bytes], frame_bytes: int, seeds: Words, order: str) -> tuple[Words, Flags]:
    """Return each frame's head, and whether its checksum continues the previous frame.

    Pages are not kept in memory, since a log can be large.
    """
    import numpy as np

    before = seeds[:1]
    fields: list[Words] = []
    linked: list[Flags] = []
    while number := len(read := log.read(FRAMES_PER_READ * frame_bytes)) // frame_bytes:
        block = np.frombuffer(read, np.uint8, number * frame_bytes).reshape(number, frame_bytes)
        fields.append(block[:, :FRAME_HEAD].copy().view(">u4").astype(np.uint32))
        stored = fields[-1][:, 4:]
        summed = np.concatenate([block[:, :SUMMED], block[:, FRAME_HEAD:]], axis=1)
        made = _sums(summed, np.concatenate([before, stored[:-1]]), order)
        linked.append((made == stored).all(axis=1))
        if len(linked) == 1:
            linked[0][0] |= (_sums(summed[:1], seeds[1:], order) == stored[:1]).all()
        before = stored[-1:]
    if not fields:
        raise EOFError("the log has been emptied meanwhile")
    return np.concatenate(fields), np.concatenate(linked)


def _sums(rows: Bytes, seeds: Words, order: str) -> Words:
    """Return the two checksums of each row, computed from its seeds."""
    import numpy as np

    words = np.ascontiguousarray(rows.view(f"{order}u4").astype(np.uint32).T)
    first, second = seeds[:, 0].copy(), seeds[:, 1].copy()
    for index in range(0, len(words), 2):
        first += words[index] + second
        second += words[index + 1] + first
    return np.stack([first, second], axis=1)


def _order(magic: int) -> str:
    if magic | 1 == MAGIC | 1:
        return ">" if magic & 1 else "<"
    return "<" if sys.byteorder == "little" else ">"
