"""Beginnings of a text: which one each group reports, and its bucket, by a public hash.

A text of `length` bytes is 2 length hex digits; shorter ones are filled with zeros. Group 0 hashes
the first four digits, the next group one more, and so on up to all of them; then come FINAL groups
that hash all digits, each in its own way. From one beginning to the next there are sixteen ways, so
unlisted texts are found digit by digit (server/estimation/text_search.py).

    bucket(digits) = word number <last digit> of SHA-256(head of the group, all digits but the last)

where words are the sixteen little-endian pairs of bytes, modulo the number of buckets, a power of
two. So one SHA-256 gives the buckets of all sixteen continuations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

FIRST = 4  # digits of the shortest beginning: their few values are gone through one by one
FINAL = 6
HEAD_BYTES = 16


@dataclass(frozen=True)
class Beginnings:
    salt: str
    length: int
    buckets: int

    @cached_property
    def digits(self) -> tuple[int, ...]:
        """The number of digits that each group hashes."""
        every = 2 * self.length
        return (*range(FIRST, every + 1), *(every for _ in range(FINAL)))

    @property
    def groups(self) -> int:
        return len(self.digits)

    @cached_property
    def heads(self) -> tuple[bytes, ...]:
        salted = b"deniable text v1\0" + self.salt.encode() + b"\0"
        return tuple(
            sha256(salted + bytes([group])).digest()[:HEAD_BYTES] for group in range(self.groups)
        )

    def of(self, text: bytes) -> tuple[int, ...]:
        """Return the bucket in each group of a text that has been filled to its length."""
        digits = text.hex()
        return tuple(
            self._bucket(head, digits[: count - 1].encode(), int(digits[count - 1], 16))
            for head, count in zip(self.heads, self.digits, strict=True)
        )

    def words(self, group: int, beginnings: Sequence[bytes]) -> bytes:
        """Return, for each beginning, the sixteen words that its continuations are hashed to."""
        head = self.heads[group]
        return b"".join(sha256(head + each).digest() for each in beginnings)

    def _bucket(self, head: bytes, beginning: bytes, digit: int) -> int:
        low, high = sha256(head + beginning).digest()[2 * digit : 2 * digit + 2]
        return (high << 8 | low) % self.buckets
