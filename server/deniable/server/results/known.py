"""Values that are known from elsewhere, for the figures: a census, or a simulation's truth.

    survey,round,question,label,value
    app-health,683,crashed,yes,0.04

The file is an operator's: nothing of it is stored, published, or part of the results. `survey` is a
name or an id, `label` an option, `yes` of a bit, `mean` of a number; a share is from 0 to 1. It is
read again when it changes; where it cannot be read, the log says why, and nothing is drawn of it.
"""

from __future__ import annotations

import csv
import io
import logging
import math
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from deniable.server.store import PublishedSurvey
from deniable.shared.errors import WrongUse

COLUMNS = ("survey", "round", "question", "label", "value")

log = logging.getLogger("deniable.server")


class Known(NamedTuple):
    survey: str
    round: int
    question: str
    label: str
    value: float


@dataclass
class KnownValues:
    """`None`: there are none."""

    path: Path | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._mark: tuple[int, int] | None = None
        self._read: tuple[Known, ...] = ()

    def of(self, published: PublishedSurvey) -> Mapping[tuple[str, int, str], float]:
        """By question, round and label."""
        return {
            (each.question, each.round, each.label): each.value
            for each in self._newest()
            if each.survey in (published.name, published.id)
        }

    def _newest(self) -> tuple[Known, ...]:
        if self.path is None:
            return ()
        with self._lock:
            try:
                state = self.path.stat()
                mark = state.st_mtime_ns, state.st_size
                if mark != self._mark:
                    self._mark, self._read = mark, ()  # a fault is said once
                    self._read = read_known(self.path)
            except (OSError, WrongUse) as error:
                log.warning("known values: %s", error)
            return self._read


def read_known(path: Path) -> tuple[Known, ...]:
    """WrongUse where the file is none of these."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return tuple(_lines(csv.DictReader(file)))
    except (OSError, ValueError, csv.Error) as error:
        raise WrongUse(f"{path}: {error}") from None


def known_text(values: Iterable[Known]) -> str:
    """Such a file."""
    file = io.StringIO(newline="")
    csv.writer(file).writerows([COLUMNS, *values])
    return file.getvalue()


def _lines(rows: csv.DictReader[str]) -> Iterator[Known]:
    if tuple(rows.fieldnames or ()) != COLUMNS:
        raise ValueError(f"its first line is {','.join(COLUMNS)}")
    for row in rows:
        survey, number, question, label, text = (row[key] or "" for key in COLUMNS)
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(f"line {rows.line_num}: a value is a number, got {text}")
        yield Known(survey, int(number), question, label, value)
