"""Content in sectors, each with a sum of its own.

A disk writes a sector of 512 bytes whole or not at all. So whatever a kill or a power cut leaves,
each sector is all zeros or one that was written: any other is one that the disk has damaged.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from zlib import crc32

SIZE = 512
_SUM = struct.Struct("<I")
ROOM = SIZE - _SUM.size


def in_sectors(content: bytes) -> bytes:
    parts: list[bytes] = []
    for start in range(0, len(content), ROOM):
        part = content[start : start + ROOM].ljust(ROOM, b"\0")
        parts += (part, _SUM.pack(crc32(part)))
    return b"".join(parts)


def out_of_sectors(stored: bytes) -> bytes:
    return b"".join(stored[start : start + ROOM] for start in range(0, len(stored), SIZE))


def written(stored: bytes) -> bytes:
    """Up to the first sector of zeros, which a write that was cut off has not reached."""
    for start in range(0, len(stored), SIZE):
        if not any(stored[start : start + SIZE]):
            return stored[:start]
    return stored


def damaged(stored: bytes) -> Iterator[int]:
    """The places of the sectors that nobody has written so."""
    if stored == bytes(len(stored)):
        return
    for start in range(0, len(stored), SIZE):
        sector = stored[start : start + SIZE]
        if sector != bytes(len(sector)) and not _is_whole(sector):
            yield start


def mended(sector: bytes) -> bytes | None:
    """With one bit put right, if that makes it whole; a sum of 32 bits says that of one only."""
    number = int.from_bytes(sector, "little")
    if number.bit_count() == 1:
        return bytes(len(sector))
    for bit in range(8 * len(sector)):
        turned = (number ^ 1 << bit).to_bytes(len(sector), "little")
        if _is_whole(turned):
            return turned
    return None


def _is_whole(sector: bytes) -> bool:
    return _SUM.pack(crc32(sector[:ROOM])) == sector[ROOM:]
