"""The write-ahead log, held against its own sums before SQLite reads it [1].

SQLite takes the frames up to the first whose sum is wrong, which may be the end of a write that the
power has cut, and forgets the others. But each commit is synced before the next begins: so a commit
at or behind that frame, and a frame that goes on from it, prove that it was whole once.
Each frame's sum begins with that of the frame before it: one that goes on from another was written
when that was there, which what is left of an earlier cut was not. A commit of the first page alone
proves nothing: it is not synced (line.py). Frames with other salts are what a log had before it was
begun anew.

A sum has 64 bits, so that a frame of which one bit was turned can be put right.

[1] SQLite, "WAL-mode File Format", https://sqlite.org/walformat.html
"""

from __future__ import annotations

import os
import struct
import sys
from dataclasses import dataclass
from io import BytesIO
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
AT_ONCE = 1_024  # frames whose sums are made together
PAGE_SIZE = struct.Struct(">H")  # at 16 of the file
LARGEST_PAGE = 65_536  # is said by 1


@dataclass(frozen=True)
class Fault:
    frame: int  # the first that is not whole; -1: the head
    commits: int  # that may lie behind it
    certain: bool  # else the end of a write that was cut off looks the same


def fault_of(file: Path) -> Fault | None:
    """Of the log of this database, and where a server writes it, only what stays."""
    first = _found(file)
    if first is None:
        return None
    again = _found(file)
    same = again is not None and (first[0], first[1].frame) == (again[0], again[1].frame)
    return again[1] if again is not None and same else None


def mended(file: Path) -> bytes | None:
    """The log with one bit put right in the first place that is not whole, if that makes it so."""
    log, content = _Log.of(file), bytearray(log_of(file).read_bytes())
    if log is None or (fault := _fault(log)) is None:
        return None
    start = 0 if fault.frame < 0 else log.offset(fault.frame)
    damaged = bytes(content[log.offset(max(0, fault.frame)) :][: log.frame_bytes])
    bit = log.bit_of_head(damaged) if fault.frame < 0 else log.bit_of(fault.frame, damaged)
    if bit is None:
        return None
    content[start + bit // 8] ^= 1 << bit % 8
    return bytes(content)


def whole_part(file: Path) -> bytes:
    """The frames before the first that is not whole."""
    log, content = _Log.of(file), log_of(file).read_bytes()
    if log is None or (fault := _fault(log)) is None:
        return content
    return b"" if fault.frame < 0 else content[: log.offset(fault.frame)]


def log_of(file: Path) -> Path:
    return file.with_name(f"{file.name}-wal")


def _found(file: Path) -> tuple[bytes, Fault] | None:
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
    """What its frames say, read to the end without keeping their pages: where somebody reads the
    database for long it grows large."""

    def __init__(self, head: bytes, page: int, frames: IO[bytes]) -> None:
        import numpy as np

        self.head, self.frame_bytes = head, FRAME_HEAD + page
        stored = HEAD.unpack(head)
        self._order = _order(stored[0])
        made = _sums_of(head[: SUMMED * 3], (0, 0), self._order)
        self.head_is_whole = made == stored[6:] and stored[0] | 1 == MAGIC | 1
        # What the first frame goes on from: of a head that is not whole, what its sum should be too
        self._seeds = [stored[6:]] if self.head_is_whole else [stored[6:], made]
        fields: list[Words] = []
        linked: list[Flags] = []
        before = np.array(self._seeds[:1], np.uint32)
        for some in self._blocks(frames):
            fields.append(some[:, :FRAME_HEAD].copy().view(">u4").astype(np.uint32))
            sums = fields[-1][:, 4:]
            linked.append(self._match(some, np.concatenate([before, sums[:-1]])))
            if len(linked) == 1:
                seeds = np.array(self._seeds, np.uint32)[:, None]
                linked[0][0] = any(self._match(some[:1], seed)[0] for seed in seeds)
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
        """None without a frame."""
        try:
            with log_of(file).open("rb") as log, file.open("rb") as database:
                (page,) = PAGE_SIZE.unpack(database.read(18)[16:])
                page = LARGEST_PAGE if page == 1 else page
                too_short = os.fstat(log.fileno()).st_size < HEAD.size + FRAME_HEAD + page
                if page < 512 or page % 512 or too_short:
                    return None
                return cls(log.read(HEAD.size), page, log)
        except (FileNotFoundError, struct.error, EOFError):
            return None

    def offset(self, frame: int) -> int:
        return HEAD.size + frame * self.frame_bytes

    def own(self) -> Flags:
        """Whose salts are the log's."""
        found: Flags = (self._fields[:, 2:4] == self._salts).all(axis=1) & (self.pages != 0)
        return found

    def near(self) -> Flags:
        """The same, also where one salt is damaged: of an older log both are others."""
        found: Flags = (self._fields[:, 2:4] == self._salts).any(axis=1)
        return found

    def bit_of_head(self, first: bytes) -> int | None:
        """Which one bit of the head to turn, so that it is whole and the first frame goes on."""
        for bit in range(HEAD.size * 8):
            head = bytearray(self.head)
            head[bit // 8] ^= 1 << bit % 8
            log = _Log(bytes(head), self.frame_bytes - FRAME_HEAD, BytesIO(first))
            if log.head_is_whole and bool((log.linked & log.own())[0]):
                return bit
        return None

    def bit_of(self, frame: int, damaged: bytes) -> int | None:
        """Which one bit of a frame to turn, so that it is whole."""
        import numpy as np

        before = self._fields[frame - 1, 4:] if frame else np.array(self._seeds[0], np.uint32)
        for start in range(0, len(damaged) * 8, AT_ONCE):
            bits = np.arange(start, min(start + AT_ONCE, len(damaged) * 8))
            turned = np.tile(np.frombuffer(damaged, np.uint8), (len(bits), 1))
            turned[np.arange(len(bits)), bits // 8] ^= (1 << bits % 8).astype(np.uint8)
            salts = turned[:, 8:16].copy().view(">u4") == self._salts
            whole = self._match(turned, np.tile(before, (len(bits), 1))) & salts.all(axis=1)
            if whole.any():
                return int(bits[whole.argmax()])
        return None

    def _blocks(self, frames: IO[bytes]) -> Iterator[Bytes]:
        """Whole frames, some at once, each in a row."""
        import numpy as np

        while number := len(read := frames.read(AT_ONCE * self.frame_bytes)) // self.frame_bytes:
            raw = np.frombuffer(read, np.uint8, number * self.frame_bytes)
            yield raw.reshape(number, self.frame_bytes)

    def _match(self, frames: Bytes, seeds: Words) -> Flags:
        """Whose sums are what goes on from these."""
        import numpy as np

        summed = np.concatenate([frames[:, :SUMMED], frames[:, FRAME_HEAD:]], axis=1)
        words = np.ascontiguousarray(summed.view(f"{self._order}u4").astype(np.uint32).T)
        one, other = seeds[:, 0].copy(), seeds[:, 1].copy()
        for place in range(0, len(words), 2):
            one += words[place] + other
            other += words[place + 1] + one
        stored = frames[:, 16:FRAME_HEAD].copy().view(">u4")
        found: Flags = (stored[:, 0] == one) & (stored[:, 1] == other)
        return found


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
