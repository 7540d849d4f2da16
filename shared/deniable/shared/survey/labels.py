r"""Labels: public properties of an app or install, sent in clear in front of each report.

    values     a list of texts: one byte, the text's index; 255 if not given or not listed
    pattern    an open set of texts: 32 bytes, padded with zero bytes; all zero if not given or if
               the text does not match
    arms       a list of texts, of which the device draws one: one byte, the index

A label has the same size whatever its value. The app computes labels from nothing that a survey
asks, so P[report | x, l] / P[report | x', l] <= e^ε for every label l and all answers x, x'.
Nothing is promised about what l itself reveals.

A pattern is a sequence of characters, each optionally followed by `?`, `*`, `+`, `{n}` or `{m,n}`:

    a  \.         the character itself; a backslash before a special one
    .  \d         any character of printable ASCII; a digit
    [0-9a-f_]    one of these characters

Each part takes as many characters as it can and gives none back, as possessive quantifiers do in
regular expressions. So no survey can make matching slow, and both clients agree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deniable.shared.errors import InvalidEnvelope, InvalidSurvey
from deniable.shared.survey.reader import Reader

MAX_LABELS = 8
MAX_VALUES = 64
MAX_VALUE_BYTES = 32
MAX_PATTERN_CHARACTERS = 100
KEPT_VALUES = 1_000  # values of an open set that a server counts apart in one round
MAX_LABEL_COUNTS = 2**20  # numbers that a server keeps of one round: 8 MB
NOT_GIVEN = 255
RESERVED_NAME = "label"  # key of a report's labels in JSON
_CLASS = r"\[(?!\^)(?:[!-,.-Z^-~ ](?:-[!-,.-Z^-~ ])?)+-?\]"  # no backslash and no bracket inside
_PART = rf"(?:\\d|\\[!-/:-@\[-`{{-~]|{_CLASS}|[^\\\[\](){{}}|?*+^$\x7f-\U0010ffff])"
_REPEAT = r"(?:[?*+]|\{\d{1,2}(?:,\d{1,2})?\})"
_PATTERN = f"(?:{_PART}{_REPEAT}?)+"  # compiled when first used, which takes milliseconds
_REPEATED = f"({_PART})({_REPEAT})"


@dataclass(frozen=True)
class Label:
    """Public property: exactly one of `values`, `arms` and `pattern` is not empty."""

    name: str
    values: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()
    pattern: str = ""

    @property
    def is_drawn(self) -> bool:
        return bool(self.arms)

    @property
    def listed(self) -> tuple[str, ...]:
        return self.values or self.arms

    @property
    def size(self) -> int:
        """Bytes in front of each report, the same for every value."""
        return 1 if self.listed else MAX_VALUE_BYTES

    @property
    def value_limit(self) -> int:
        """Largest number of values that a server counts apart in a round."""
        return len(self.listed) or KEPT_VALUES

    @cached_property
    def _form(self) -> re.Pattern[str]:
        return re.compile(re.sub(_REPEATED, r"\1\2+", self.pattern, flags=re.ASCII), re.ASCII)

    def matches(self, text: str) -> bool:
        is_plain = text.isascii() and text.isprintable() and len(text) <= MAX_VALUE_BYTES
        return is_plain and self._form.fullmatch(text) is not None

    def encode(self, value: str | None) -> bytes:
        """Return the bytes of a value; of one that does not fit, those of no value.

        Raise ValueError for what is no arm, because the device itself draws arms.
        """
        if self.listed:
            known = self.is_drawn or value in self.listed
            return bytes([self.listed.index(str(value)) if known else NOT_GIVEN])
        fits = value is not None and self.matches(value)
        return (value.encode() if value and fits else b"").ljust(MAX_VALUE_BYTES, b"\0")

    def decode(self, payload: bytes) -> str | None:
        """Return the value, None if not given; refuse bytes that no client sends."""
        if self.listed:
            (index,) = payload
            if index == NOT_GIVEN and not self.is_drawn:
                return None
            if index >= len(self.listed):
                raise self._refusal("no such value")
            return self.listed[index]
        text = payload.rstrip(b"\0")
        if text and not self.matches(text.decode("latin-1")):
            raise self._refusal("the text does not match the pattern")
        return text.decode() or None

    def _refusal(self, problem: str) -> InvalidEnvelope:
        return InvalidEnvelope("bad-payload", f"label {self.name!r}: {problem}")

    def fields(self) -> dict[str, Any]:
        """Return the published form. Any: a JSON document."""
        pairs = ("values", list(self.values)), ("arms", list(self.arms)), ("pattern", self.pattern)
        return {"name": self.name, **{key: value for key, value in pairs if value}}

    def drawn_arm(self, key: bytes) -> str:
        """Return the arm that a device draws with its random key for the survey.

        It is arm ⌊u n / 2^64⌋, where u is the first 8 bytes, little-endian, of an HMAC-SHA256 over
        "arm" 00 and the label's name. So the arm is uniform, and is kept and erased with the key.
        """
        import hmac  # here, because most apps never need it

        digest = hmac.digest(key, b"arm\0" + self.name.encode(), "sha256")
        return self.arms[int.from_bytes(digest[:8], "little") * len(self.arms) >> 64]


def value_problem(value: object) -> str | None:
    """Return why a text cannot be a label's value, or None."""
    if not isinstance(value, str):
        return f"must be text, got {type(value).__name__}"
    if not value.isprintable() or not value.strip():
        return "must be a line of Unicode text without control characters"
    size = len(value.encode())
    fits = 0 < size <= MAX_VALUE_BYTES
    return None if fits else f"must have 1 to {MAX_VALUE_BYTES} bytes in UTF-8, got {size}"


def read_labels(
    tables: Sequence[object], questions: Sequence[str], cells: int
) -> tuple[Label, ...]:
    """Parse the `[[label]]` tables of a survey with these questions and this number of counts."""
    labels = [_label(Reader(f"label[{n}]", table)) for n, table in enumerate(tables, 1)]
    names, arms = [label.name for label in labels], [label for label in labels if label.is_drawn]
    counts = sum(label.value_limit + 1 for label in labels) * (cells + 1)
    problems = {
        f"a survey has at most {MAX_LABELS} labels": len(labels) > MAX_LABELS,
        "a name is repeated; name each label once": len(set(names)) < len(names),
        "a name is a question's name too; a label must not be what is asked": (
            not set(names).isdisjoint(questions)
        ),
        "the name 'label' is reserved in a survey with labels; rename the question": (
            bool(labels) and RESERVED_NAME in questions
        ),
        "a survey has one list of arms; remove the others": len(arms) > 1,
        f"these labels need {counts:,} counts a round, more than {MAX_LABEL_COUNTS:,}; use fewer "
        "values, or fewer options in questions": counts > MAX_LABEL_COUNTS,
    }
    for problem, is_there in problems.items():
        if is_there:
            raise InvalidSurvey("label", problem)
    return tuple(labels)


def _label(reader: Reader) -> Label:
    name = reader.name("name")
    key, *others = [key for key in ("values", "arms", "pattern") if key in reader] or [""]
    if others or not key:
        fix = 'write exactly one of values = [...], pattern = "..." and arms = [...]'
        raise InvalidSurvey(reader.path, fix)
    read: Any = _pattern if key == "pattern" else _texts  # Any: each returns its field's type
    label = Label(name, **{key: read(reader, key)})
    reader.done()
    return label


def _texts(reader: Reader, key: str) -> tuple[str, ...]:
    texts: list[Any] = reader.take(key, list)  # Any: a document may hold anything
    least = 2 if key == "arms" else 1
    if not least <= len(texts) <= MAX_VALUES:
        raise reader.error(key, f"must be {least} to {MAX_VALUES} texts, got {len(texts)}")
    for index, text in enumerate(texts):
        if problem := "is repeated" if text in texts[:index] else value_problem(text):
            raise reader.error(key, f"text {index + 1} {problem}")
    return tuple(texts)


def _pattern(reader: Reader, key: str) -> str:
    text = reader.text(key, r'write one, like pattern = "\\d+\\.\\d+\\.\\d+"')
    label = Label("", pattern=text)
    try:
        if len(text) <= MAX_PATTERN_CHARACTERS and re.fullmatch(_PATTERN, text, re.ASCII):
            if not label.matches(""):
                return text
            raise reader.error(key, "matches the empty text; require at least one character")
    except re.error:  # a range or repetition whose end is before its beginning
        pass
    allowed = r"characters, \d, . and [0-9a-z], each with ?, *, +, {n} or {m,n} after it"
    problem = f"must be at most {MAX_PATTERN_CHARACTERS} characters of ASCII: {allowed}"
    raise reader.error(key, f"{problem}; it has no groups")
