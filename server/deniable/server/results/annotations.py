"""Events, such as a release, and reference values: charts show both next to the estimates.

Events belong to a survey and are stored. Reference values, such as census figures or the true
values of a simulation, come from an operator's file. They are neither stored nor part of the
results:

    survey,round,question,label,value
    app-health,683,crashed,yes,0.04

`survey` is a name or an id; `label` is an option, `yes` for a bit, `mean` for a number; a share is
from 0 to 1.
"""

from __future__ import annotations

import csv
import io
import logging
import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from deniable.server.results.document import Event
from deniable.server.store import Annotation, PublishedSurvey
from deniable.shared.errors import WrongUse
from deniable.shared.survey.document import Survey

MAX_CHARACTERS = 200
COLUMNS = ("survey", "round", "question", "label", "value")

log = logging.getLogger("deniable.server")


# Events


def parse_annotation(day: str, words: str) -> Annotation:
    """Parse an event as typed by an operator."""
    try:
        parsed = date.fromisoformat(day.strip())
    except ValueError:
        raise WrongUse(f"write a day like 2026-12-01, not {day!r}") from None
    line = words.strip()
    if not 1 <= len(line) <= MAX_CHARACTERS or not line.isprintable():
        raise WrongUse(f"describe the event in one line of 1 to {MAX_CHARACTERS} characters")
    return Annotation(parsed, line)


def events(survey: Survey, annotations: Sequence[Annotation]) -> tuple[Event, ...]:
    """Return the events, each with the round that contains its day."""
    return tuple(
        Event(day=day.isoformat(), round=survey.round_of(day), words=words)
        for day, words in annotations
    )


def events_by_round(listed: Sequence[Event]) -> Mapping[int, str]:
    """Return the events of each round as one line."""
    words: dict[int, list[str]] = {}
    for event in listed:
        words.setdefault(event.round, []).append(event.words)
    return {number: "; ".join(lines) for number, lines in words.items()}


# Reference values


class ReferenceValue(NamedTuple):
    survey: str
    round: int
    question: str
    label: str
    value: float


class ReferenceValues:
    """Reference values from an optional file, which is reread when it changes.

    If the file cannot be read, there are no values, and the reason is logged.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path, self._lock = path, threading.Lock()
        self._mark: tuple[int, int] | None = None
        self._values: tuple[ReferenceValue, ...] = ()

    def of(self, published: PublishedSurvey) -> Mapping[tuple[str, int, str], float]:
        """Return the values of a survey by question, round and label."""
        return {
            (reference.question, reference.round, reference.label): reference.value
            for reference in self._newest()
            if reference.survey in (published.name, published.id)
        }

    def _newest(self) -> tuple[ReferenceValue, ...]:
        if self.path is None:
            return ()
        with self._lock:
            try:
                state = self.path.stat()
                mark = state.st_mtime_ns, state.st_size
                if mark != self._mark:
                    self._mark, self._values = mark, ()  # so that a fault is logged only once
                    self._values = read_reference_values(self.path)
            except (OSError, WrongUse) as error:
                log.warning("reference values: %s", error)
            return self._values


def read_reference_values(path: Path) -> tuple[ReferenceValue, ...]:
    """Read a file of reference values; raise WrongUse if it is unreadable or invalid."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return tuple(_values(csv.DictReader(file)))
    except (OSError, ValueError, csv.Error) as error:
        raise WrongUse(f"{path}: {error}") from None


def reference_values_text(values: Iterable[ReferenceValue]) -> str:
    """Return reference values in the format of the file."""
    file = io.StringIO(newline="")
    csv.writer(file).writerows([COLUMNS, *values])
    return file.getvalue()


def _values(rows: csv.DictReader[str]) -> Iterator[ReferenceValue]:
    if tuple(rows.fieldnames or ()) != COLUMNS:
        raise ValueError(f"the first line must be {','.join(COLUMNS)}")
    for row in rows:
        survey, number, question, label, text = (row[key] or "" for key in COLUMNS)
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(f"line {rows.line_num}: the value must be a number, got {text}")
        yield ReferenceValue(survey, int(number), question, label, value)
