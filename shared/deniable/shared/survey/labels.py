"""A question's texts for people: its title, its unit, and labels for its options.

They change nothing that is asked, drawn or counted. Programs use the name and the options' texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deniable.shared.errors import InvalidSurvey
from deniable.shared.survey.reader import Reader

MAX_TITLE_CHARACTERS, MAX_UNIT_CHARACTERS, MAX_LABEL_CHARACTERS = 200, 20, 100


@dataclass(frozen=True)
class Labels:
    """Texts for people. Empty means: show the name as the title, and each option as its label."""

    title: str = ""
    unit: str = ""
    options: tuple[str, ...] = ()

    def fields(self) -> dict[str, Any]:  # Any: JSON
        """Return the keys in a published document."""
        texts = {"title": self.title, "unit": self.unit, "labels": list(self.options)}
        return {key: value for key, value in texts.items() if value}


NO_LABELS = Labels()


def read_labels(reader: Reader, kind: str, options: Sequence[str], has_unit: bool) -> Labels:
    """Return the texts of a question; `options` are the options that may have labels."""
    title = _line(reader, "title", MAX_TITLE_CHARACTERS)
    unit = _line(reader, "unit", MAX_UNIT_CHARACTERS)
    if unit and not has_unit:
        raise InvalidSurvey(f"{reader.path}.unit", f"is for a number, not for a {kind}; remove it")
    return Labels(title, unit, _option_labels(reader, options))


def _line(reader: Reader, key: str, limit: int) -> str:
    if key not in reader:
        return ""
    text = reader.text(key, f'write one line, like {key} = "..."')
    if len(text) > limit:
        raise InvalidSurvey(
            f"{reader.path}.{key}", f"has at most {limit} characters, got {len(text)}"
        )
    return text


def _option_labels(reader: Reader, options: Sequence[str]) -> tuple[str, ...]:
    labels: list[Any] | None = reader.optional("labels", list)  # Any: a document may hold anything
    if labels is None:
        return ()
    path = f"{reader.path}.labels"
    if len(labels) != len(options):
        raise InvalidSurvey(path, f"need one for each of {len(options)} options, got {len(labels)}")
    if not all(isinstance(label, str) and _is_label(label) for label in labels):
        raise InvalidSurvey(path, f"are lines of 1 to {MAX_LABEL_CHARACTERS} characters each")
    if len(set(labels)) < len(labels):
        raise InvalidSurvey(path, "must differ from each other; two options have the same label")
    return tuple(labels)


def _is_label(text: str) -> bool:
    return bool(text.strip()) and len(text) <= MAX_LABEL_CHARACTERS and text.isprintable()
