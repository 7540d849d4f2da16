"""Questions that are answered with a line of text; the texts of many people are found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from deniable.shared.errors import InvalidSurvey
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.grouped import GroupedDesign, Options
from deniable.shared.privacy.mechanisms import sizes, text_design
from deniable.shared.survey.kinds.base import PlanField, Question, mechanism_name
from deniable.shared.survey.kinds.beginnings import FINAL, Beginnings
from deniable.shared.survey.reader import Reader

MIN_TEXT_BYTES, MAX_TEXT_BYTES = 4, 32  # bytes of UTF-8
MIN_BUCKETS, MAX_BUCKETS, BUCKETS = 1_024, 65_536, 4_096


@dataclass(frozen=True)
class Text(Question):
    kind = mechanism_kind = "text"
    form_label = "An open text"
    in_javascript = True
    statistic, estimation = "share", "texts"
    plan_fields = (PlanField("length", "Bytes that count", 8, "bytes of a text", 16),)
    size_option = "buckets"
    labels = ()  # not known beforehand
    axis = (0.0, 0.1)
    mechanism: GroupedDesign
    length: int
    salt: str

    @classmethod
    def parse(cls, reader: Reader, name: str, epsilon: Epsilon) -> Self:
        mechanism = mechanism_name(reader, "text")
        reader.take("length", int, "say how many bytes of a text count, like length = 16")
        length = reader.count("length", 0, MIN_TEXT_BYTES, MAX_TEXT_BYTES)
        buckets = _buckets(reader, mechanism)
        salt = reader.text("salt", "write any text") if "salt" in reader else name
        groups = Beginnings(salt, length, buckets).groups
        design = text_design(epsilon, buckets, groups, FINAL, mechanism)
        return cls(name, design, length, salt)

    def fields(self) -> dict[str, Any]:
        return {"length": self.length, "buckets": self.mechanism.size, "salt": self.salt}

    @cached_property
    def beginnings(self) -> Beginnings:
        return Beginnings(self.salt, self.length, self.mechanism.size)

    @property
    def asked(self) -> str:
        return f"a text, of which the first {self.length} bytes count"

    @property
    def example(self) -> str:
        return "example"[: self.length]

    @property
    def remark(self) -> str | None:
        return (
            "a text that very many people answer is shown as they wrote it, and a rare one is not "
            "found; do not ask for what names a person"
        )

    def place(self, answer: object) -> Options | None:
        """Return the buckets of the text's whole characters in its first bytes.

        Where one of these cannot be shown on a line, or all are blank, it is no text.
        """
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
            return f"{people:,} people are too few to find any text"
        return f"of {people:,} people, texts that {floor * people:,.0f} or more answer are found"


def _buckets(reader: Reader, mechanism: str | None) -> int:
    buckets = reader.count("buckets", BUCKETS, MIN_BUCKETS, MAX_BUCKETS)
    least, most = sizes("text", mechanism)
    if buckets & (buckets - 1) or not least <= buckets <= most:
        raise InvalidSurvey(
            f"{reader.path}.buckets",
            f"are a power of two, and {least} to {most:,} of {mechanism or 'all mechanisms'}; "
            f"got {buckets}",
        )
    return buckets
