"""Questions with a line of text as the answer; the server finds the texts that many people give.

A report belongs to one group of the design, and names the bucket into which that group's public
hash puts a beginning of the text. A text of `length` bytes is 2 length hex digits; shorter texts
are padded with zeros. Group 0 hashes the first four digits, the next group one more, and so on up
to all digits. Then FINAL groups hash all digits, each with its own head. A beginning has sixteen
continuations, so the server finds texts digit by digit (server/estimation/frequent_texts.py).

    bucket(digits) = word number <last digit> of SHA-256(head of the group, all digits but the last)

Words are the sixteen little-endian pairs of bytes, modulo the number of buckets, a power of two. So
one SHA-256 gives the buckets of all sixteen continuations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Self

from deniable.shared.errors import quantity
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.group_design import GroupedDesign, Options
from deniable.shared.privacy.mechanisms import GROUPED, sizes, usual_mechanism
from deniable.shared.survey.kinds.base import PlanField, Question, mechanism_name
from deniable.shared.survey.reader import Reader

FIRST = 4  # number of digits of the shortest beginning, all values of which are tried
FINAL = 6
HEAD_BYTES = 16
MIN_TEXT_BYTES, MAX_TEXT_BYTES = 4, 32  # limits in bytes of UTF-8
MIN_BUCKETS, MAX_BUCKETS, BUCKETS = 1_024, 65_536, 4_096


@dataclass(frozen=True)
class Beginnings:
    salt: str
    length: int
    buckets: int

    @cached_property
    def digits(self) -> tuple[int, ...]:
        """Number of digits that each group hashes."""
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
        """Return the bucket in each group of a text that has been padded to `length` bytes."""
        digits = text.hex()
        return tuple(
            self._bucket(head, digits[: count - 1].encode(), int(digits[count - 1], 16))
            for head, count in zip(self.heads, self.digits, strict=True)
        )

    def words(self, group: int, beginnings: Sequence[bytes]) -> bytes:
        """Return the sixteen words of the continuations of each beginning."""
        head = self.heads[group]
        return b"".join(sha256(head + beginning).digest() for beginning in beginnings)

    def _bucket(self, head: bytes, beginning: bytes, digit: int) -> int:
        low, high = sha256(head + beginning).digest()[2 * digit : 2 * digit + 2]
        return (high << 8 | low) % self.buckets


@dataclass(frozen=True)
class Text(Question):
    kind = mechanism_kind = "text"
    form_label = "An open text"
    in_javascript = True
    statistic, estimation = "share", "texts"
    plan_fields = (PlanField("length", "Bytes that count", 8, "bytes of a text", 16),)
    size_option = "buckets"
    labels = ()  # texts are not known in advance
    axis = (0.0, 0.1)
    mechanism: GroupedDesign
    length: int
    salt: str

    @classmethod
    def parse(cls, reader: Reader, name: str, epsilon: Epsilon) -> Self:
        mechanism = mechanism_name(reader, "text")
        reader.take("length", int, "write how many bytes of a text count, like length = 16")
        length = reader.count("length", 0, MIN_TEXT_BYTES, MAX_TEXT_BYTES)
        buckets = _buckets(reader, mechanism)
        salt = reader.text("salt", "write any text") if "salt" in reader else name
        groups = Beginnings(salt, length, buckets).groups
        design = type(usual_mechanism(GROUPED, epsilon, buckets, mechanism))
        return cls(name, design(epsilon, buckets, groups, FINAL), length, salt)

    def fields(self) -> dict[str, Any]:
        return {"length": self.length, "buckets": self.mechanism.size, "salt": self.salt}

    @cached_property
    def beginnings(self) -> Beginnings:
        return Beginnings(self.salt, self.length, self.mechanism.size)

    @property
    def example(self) -> str:
        return "example"[: self.length]

    @property
    def remark(self) -> str | None:
        return (
            "texts that very many people give are shown exactly as written, and rare texts are not "
            "found; do not ask for anything that names a person"
        )

    def place(self, answer: object) -> Options | None:
        """Return the buckets of the text's first bytes; None if it is blank or not printable."""
        text = ("", answer)[issubclass(type(answer), str)]
        spaces, zeros = self._fills
        filled = (text[: self.length] + zeros)[: self.length]  # type: ignore[index]  # a text
        cut = filled.encode("utf-8", "replace")[: self.length].decode("utf-8", "ignore")
        shown = (text[: len(cut)] + spaces)[: self.length]  # type: ignore[index]  # a text
        fits = shown.isprintable() & ~shown.isspace()
        buckets = self.beginnings.of(cut.encode().ljust(self.length, b"\0"))
        return (None, buckets)[fits]

    @cached_property
    def _fills(self) -> tuple[str, str]:
        return " " * self.length, "\0" * self.length

    def answer_of(self, text: str) -> str:
        return text

    def describe(self, symbol: int) -> str:
        group, own = self.mechanism.encoding.split(symbol)
        each = self.mechanism.each
        named = sum(1 for cell in each.cells_of(own) for _ in each.supported_by(cell))
        size = self.mechanism.size
        return (
            f"{self._part(group)} is in {named:,} of {size:,} buckets, into which all texts are put"
        )

    def _part(self, group: int) -> str:
        digits = self.beginnings.digits[group]
        if digits == 2 * self.length:
            return "the text"
        half = " and a half" if digits % 2 else ""
        return f"its beginning of {digits // 2}{half} bytes"

    def expected_findings(self, people: int) -> str:
        floor = self.mechanism.floor(people)
        if floor >= 1:
            return f"too few to find any text: {quantity(people, 'person', 'people')}"
        return f"among {people:,} people, texts that at least {floor * people:,.0f} give are found"


def _buckets(reader: Reader, mechanism: str | None) -> int:
    buckets = reader.count("buckets", BUCKETS, MIN_BUCKETS, MAX_BUCKETS)
    least, most = sizes("text", mechanism)
    if buckets & (buckets - 1) or not least <= buckets <= most:
        raise reader.error(
            "buckets",
            f"must be a power of two from {least} to {most:,} for {mechanism or 'a text'}; "
            f"got {buckets}",
        )
    return buckets
