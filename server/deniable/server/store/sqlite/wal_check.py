"""Check of the write-ahead log against its own sums [1], before SQLite reads it.

SQLite takes the frames up to the first whose sum is wrong, which may be the end of a write that the
power has cut, and forgets the others. But each commit is synced before the next begins: so a commit
at or behind that frame, and a frame that continues it, prove that it was whole once.
Each frame's sum begins with that of the frame before it: one that continues another was written
when that was there, which the remains of an earlier cut were not. A commit of the first page alone
proves nothing: it is not synced (write_connection.py). Frames with other salts are left from
before the log was last emptied.

[1] SQLite, "WAL-mode File Format", https://sqlite.org/walformat.html
"""

from __future__ import annotations

import os
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    Words = npt.NDArray[np.uint32]
    Bytes = npt.NDArray[np.uint8]
    Flags = npt.NDArray[np.bool_]

HEAD = struct.Struct(">8I")
FRAME_HEAD = 24
SUMMED = 8  # bytes of that, and the page
MAGIC = 0x377F0682  # and one more where sums are of big-endian words
FRAMES_AT_ONCE = 1_024  # whose sums are made together
COVERED_PAGE = b"\0\0\0\1"  # of the one frame that write_connection.py leaves in an emptied log
PAGE_SIZE = struct.Struct(">H")  # at 16 of the file
MAX_PAGE_BYTES = 65_536  # is written as 1


@dataclass(frozen=True)
class Fault:
    """The first place of a log that is not whole."""

    frame: int  # the first that is not whole; -1: the head
    commits: int  # at or behind that place
    certain: bool  # damage; else the end of a write that was cut off looks the same


def fault_of(file: Path) -> Fault | None:
    """Return the fault of a database's log, if there is one.

    It is looked for twice, since a server may be writing the log.
    """
    first = _head_and_fault(file)
    again = None if first is None else _head_and_fault(file)
    if first is None or again is None:
        return None
    return again[1] if (first[0], first[1].frame) == (again[0], again[1].frame) else None


def whole_part(file: Path) -> bytes:
    """Return the log up to the first frame that is not whole."""
    log, content = _Log.of(file), log_of(file).read_bytes()
    if log is None or (fault := _fault(log)) is None:
        return content
    return b"" if fault.frame < 0 else content[: log.offset(fault.frame)]


def log_of(file: Path) -> Path:
    return file.with_name(f"{file.name}-wal")


def _head_and_fault(file: Path) -> tuple[bytes, Fault] | None:
    log = _Log.of(file)
    fault = None if log is None else _fault(log)
    return None if log is None or fault is None else (log.head, fault)


def _fault(log: _Log) -> Fault | None:
    linked, near = log.linked, log.near()
    whole = linked & log.own()
    if log.head_is_whole:
        if whole.all():
            return None
        frame = int(whole.argmin())
    else:
        frame = -1
    behind = max(frame, 0)
    commits = near & (log.sizes != 0)
    proofs = commits[:-1] & (log.pages[:-1] != 1) & near[1:] & linked[1:]
    certain = bool(proofs[behind:].any()) or (frame < 0 and bool(linked[0]))
    if not certain and (frame < 0 or not near[frame:].any()):
        return None  # the frames of a log before this one, or none
    return Fault(frame, int(commits[behind:].sum()), certain)


class _Log:
    """The fields of a log's frames. Their pages are not kept: a log may grow large."""

    def __init__(self, head: bytes, page: int, frames: IO[bytes]) -> None:
        import numpy as np

        self.head, self.frame_bytes = head, FRAME_HEAD + page
        stored = HEAD.unpack(head)
        self._order = _order(stored[0])
        made = _sums_of(head[: SUMMED * 3], (0, 0), self._order)
        self.head_is_whole = made == stored[6:] and stored[0] | 1 == MAGIC | 1
        # What the first frame may continue: of a head that is not whole, also what it should be.
        self._seeds = [stored[6:]] if self.head_is_whole else [stored[6:], made]
        fields: list[Words] = []
        linked: list[Flags] = []
        before = np.array(self._seeds[:1], np.uint32)
        for block in self._blocks(frames):
            fields.append(block[:, :FRAME_HEAD].copy().view(">u4").astype(np.uint32))
            sums = fields[-1][:, 4:]
            linked.append(self._match(block, np.concatenate([before, sums[:-1]])))
            if len(linked) == 1:
                seeds = np.array(self._seeds, np.uint32)[:, None]
                linked[0][0] = any(self._match(block[:1], seed)[0] for seed in seeds)
            before = sums[-1:]
        if not fields:
            raise EOFError("the log has been emptied meanwhile")
        self._fields: Words = np.concatenate(fields)
        self.linked: Flags = np.concatenate(linked)
        self.pages, self.sizes = self._fields[:, 0], self._fields[:, 1]
        salts = np.array(stored[4:6], np.uint32)
        self._salts = salts if self.head_is_whole else self._fields[0, 2:4]

    @classmethod
    def of(cls, file: Path) -> _Log | None:
        """Return a database's log; None without a frame, or with nothing but an unsynced cover."""
        try:
            with log_of(file).open("rb") as log, file.open("rb") as database:
                (page,) = PAGE_SIZE.unpack(database.read(18)[16:])
                page = MAX_PAGE_BYTES if page == 1 else page
                size, one_frame = os.fstat(log.fileno()).st_size, HEAD.size + FRAME_HEAD + page
                if page < 512 or page % 512 or size < one_frame:
                    return None
                head = log.read(HEAD.size)
                if size == one_frame and log.peek(4)[:4] == COVERED_PAGE:
                    return None
                return cls(head, page, log)
        except (FileNotFoundError, struct.error, EOFError):
            return None

    def offset(self, frame: int) -> int:
        return HEAD.size + frame * self.frame_bytes

    def own(self) -> Flags:
        """Return which frames have the log's salts."""
        own: Flags = (self._fields[:, 2:4] == self._salts).all(axis=1) & (self.pages != 0)
        return own

    def near(self) -> Flags:
        """Return the same, tolerating one damaged salt: in a frame of an older log both differ."""
        near: Flags = (self._fields[:, 2:4] == self._salts).any(axis=1)
        return near

    def _blocks(self, frames: IO[bytes]) -> Iterator[Bytes]:
        """Yield whole frames, many at a time, one per row."""
        import numpy as np

        while (
            number := len(read := frames.read(FRAMES_AT_ONCE * self.frame_bytes))
            // self.frame_bytes
        ):
            raw = np.frombuffer(read, np.uint8, number * self.frame_bytes)
            yield raw.reshape(number, self.frame_bytes)

    def _match(self, frames: Bytes, seeds: Words) -> Flags:
        """Return which frames have the sums that continue these."""
        import numpy as np

        summed = np.concatenate([frames[:, :SUMMED], frames[:, FRAME_HEAD:]], axis=1)
        words = np.ascontiguousarray(summed.view(f"{self._order}u4").astype(np.uint32).T)
        one, other = seeds[:, 0].copy(), seeds[:, 1].copy()
        for place in range(0, len(words), 2):
            one += words[place] + other
            other += words[place + 1] + one
        stored = frames[:, 16:FRAME_HEAD].copy().view(">u4")
        matches: Flags = (stored[:, 0] == one) & (stored[:, 1] == other)
        return matches


def _order(magic: int) -> str:
    if magic | 1 == MAGIC | 1:
        return ">" if magic & 1 else "<"
    return "<" if sys.byteorder == "little" else ">"


def _sums_of(content: bytes, seed: tuple[int, int], order: str) -> tuple[int, int]:
    one, other = seed
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for place in range(0, len(words), 2):
        one = (one + words[place] + other) & 0xFFFFFFFF
        other = (other + words[place + 1] + one) & 0xFFFFFFFF
    return one, other
