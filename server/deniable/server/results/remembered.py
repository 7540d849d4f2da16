"""Rounds as they were last estimated: a round whose counts are the same is not estimated again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime

from deniable.server.results.change import round_before
from deniable.server.results.document import Round
from deniable.server.store import PublishedSurvey, RoundTally

MOST_ROWS = 50_000  # about 25 MB
ROWS_BESIDE = 10  # what a round takes beside its rows, counted in rows

Kept = Mapping[int, RoundTally]
Make = Callable[[PublishedSurvey, int, Kept, datetime], Round]


class Remembered:
    """The rounds asked for last; safe from several threads."""

    def __init__(self) -> None:
        self._rounds: OrderedDict[Hashable, Round] = OrderedDict()
        self._rows = 0
        self._lock = threading.Lock()

    def round(
        self,
        make: Make,
        published: PublishedSurvey,
        number: int,
        kept: Kept,
        now: datetime,
    ) -> Round:
        """What `make` makes of these; it may use the counts of the round and of the one before, and
        of `now` only whether these are over."""
        key = _key(published, number, kept, now)
        with self._lock:
            known = self._rounds.get(key)
            if known is not None:
                self._rounds.move_to_end(key)
                return known
        made = make(published, number, kept, now)
        with self._lock:
            if key not in self._rounds:
                self._rounds[key] = made
                self._rows += _rows(made)
            while self._rows > MOST_ROWS:
                self._rows -= _rows(self._rounds.popitem(last=False)[1])
        return made


def _key(published: PublishedSurvey, number: int, kept: Kept, now: datetime) -> Hashable:
    def state(each: int | None) -> Hashable:
        if each is None:
            return None
        over = published.closed or now >= published.survey.taken_until(each)
        tally = kept.get(each)
        return each, over, None if tally is None else (tally.reports, tally.cells.tobytes())

    return published.id, state(number), state(round_before(number, kept))


def _rows(made: Round) -> int:
    both = sum(len(each.rows) for each in made.cross or ())
    return ROWS_BESIDE + both + sum(len(rows) for rows in made.questions.values())
