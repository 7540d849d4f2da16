"""What operators know beside the reports, for the figures: a release, an outage, a census.

    [[mark]]                       # a line at a round: what happened in it
    survey = "app-health"          # a name, or an id
    day = 2026-12-03
    text = "2.4 released"

    [[known]]                      # a dot at a value that is known from elsewhere
    survey = "app-health"
    question = "crashed"
    label = "yes"                  # an option; "yes" of a bit, "mean" of a number
    day = 2026-12-03
    value = 0.04                   # a share from 0 to 1, or a number in the question's unit

The file is the operator's, and nothing of it is stored or published elsewhere. It is read again
when it changes; where it cannot be read, the log says why, and what was read last stays.
"""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from deniable.server.store import PublishedSurvey
from deniable.shared.errors import InvalidSurvey, WrongUse
from deniable.shared.survey.reader import Reader

log = logging.getLogger("deniable.server")


@dataclass(frozen=True)
class Mark:
    survey: str
    day: date
    text: str


@dataclass(frozen=True)
class Known:
    survey: str
    question: str
    label: str
    day: date
    value: float


@dataclass(frozen=True)
class Annotations:
    marks: tuple[Mark, ...] = ()
    known: tuple[Known, ...] = ()

    def marks_of(self, published: PublishedSurvey) -> Mapping[int, str]:
        """What happened, by round."""
        texts: dict[int, list[str]] = {}
        for mark in self.marks:
            if _means(mark.survey, published):
                texts.setdefault(published.survey.round_of(mark.day), []).append(mark.text)
        return {number: "; ".join(each) for number, each in texts.items()}

    def known_of(
        self, published: PublishedSurvey, question: str
    ) -> Mapping[tuple[int, str], float]:
        """Known values of a question, by round and label."""
        return {
            (published.survey.round_of(each.day), each.label): each.value
            for each in self.known
            if each.question == question and _means(each.survey, published)
        }


@dataclass
class AnnotationFile:
    """`None`: there is none."""

    path: Path | None
    _mark: tuple[int, int] | None = None
    _read: Annotations = field(default_factory=Annotations)

    def annotations(self) -> Annotations:
        if self.path is None:
            return self._read
        try:
            state = self.path.stat()
            mark = state.st_mtime_ns, state.st_size
            if mark != self._mark:
                self._mark = mark  # also of what cannot be read: once is enough for the log
                self._read = read_annotations(self.path)
        except (OSError, WrongUse) as error:
            log.warning("annotations: %s", error)
        return self._read


def read_annotations(path: Path) -> Annotations:
    """WrongUse if it is none."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
        reader = Reader("annotations", document)
        marks, known = _tables(reader, "mark"), _tables(reader, "known")
        found = Annotations(tuple(map(_mark, marks)), tuple(map(_known, known)))
        reader.done()
    except (OSError, ValueError, InvalidSurvey) as error:
        raise WrongUse(f"{path}: {error}") from None
    return found


def _tables(reader: Reader, key: str) -> Iterable[Reader]:
    tables: list[Any] = reader.optional(key, list) or []  # Any: whatever TOML holds
    return [Reader(f"{key}[{number}]", each) for number, each in enumerate(tables, 1)]


def _mark(reader: Reader) -> Mark:
    mark = Mark(
        reader.text("survey", 'write survey = "app-health"'),
        reader.day("day"),
        reader.text("text", 'write text = "2.4 released"'),
    )
    reader.done()
    return mark


def _known(reader: Reader) -> Known:
    known = Known(
        reader.text("survey", 'write survey = "app-health"'),
        reader.name("question"),
        reader.text("label", 'write label = "yes"'),
        reader.day("day"),
        float(reader.take("value", (int, float), "write value = 0.04")),
    )
    reader.done()
    return known


def _means(text: str, published: PublishedSurvey) -> bool:
    return text in (published.survey.name, published.id)
