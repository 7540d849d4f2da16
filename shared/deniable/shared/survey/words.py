"""A question's words for people: its title, its unit, and what people call its options.

None of them changes what is asked, drawn or counted: a name and an option's text stay what programs
use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deniable.shared.errors import InvalidSurvey
from deniable.shared.survey.reader import Reader

MOST_TITLE, MOST_UNIT, MOST_LABEL = 200, 20, 100


@dataclass(frozen=True)
class Words:
    """What is not given is empty: the name is the title then, and options are their own labels."""

    title: str = ""
    unit: str = ""
    labels: tuple[str, ...] = ()

    def fields(self) -> dict[str, Any]:  # Any: JSON
        """The keys in a published document."""
        said = {"title": self.title, "unit": self.unit, "labels": list(self.labels)}
        return {key: value for key, value in said.items() if value}


NO_WORDS = Words()


def read_words(reader: Reader, kind: str, options: Sequence[str]) -> Words:
    """`options` are those of the question, if it has any to be called otherwise."""
    title = _line(reader, "title", MOST_TITLE)
    unit = _line(reader, "unit", MOST_UNIT)
    if unit and kind != "number":
        raise InvalidSurvey(f"{reader.path}.unit", f"is for a number, not for a {kind}")
    return Words(title, unit, _labels(reader, options))


def _line(reader: Reader, key: str, most: int) -> str:
    if key not in reader:
        return ""
    text = reader.text(key, f'write one line, like {key} = "..."')
    if len(text) > most:
        raise InvalidSurvey(f"{reader.path}.{key}", f"has at most {most} characters")
    return text


def _labels(reader: Reader, options: Sequence[str]) -> tuple[str, ...]:
    labels: list[Any] | None = reader.optional("labels", list)  # Any: whatever a document holds
    if labels is None:
        return ()
    path = f"{reader.path}.labels"
    if len(labels) != len(options):
        raise InvalidSurvey(path, f"one for each of {len(options)} options, got {len(labels)}")
    if not all(isinstance(each, str) and _is_label(each) for each in labels):
        raise InvalidSurvey(path, f"each is one line of 1 to {MOST_LABEL} characters")
    if len(set(labels)) < len(labels):
        raise InvalidSurvey(path, "no two options are called the same")
    return tuple(labels)


def _is_label(text: str) -> bool:
    return bool(text.strip()) and len(text) <= MOST_LABEL and text.isprintable()
