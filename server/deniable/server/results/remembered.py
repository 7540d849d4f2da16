"""Rounds as they were last estimated: a round whose counts are the same is not estimated again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from datetime import datetime

from deniable.server.results.change import round_before
from deniable.server.results.document import Round
from deniable.server.results.memory import ROWS_BESIDE, Memory
from deniable.server.store import PublishedSurvey, RoundTally

Kept = Mapping[int, RoundTally]
Make = Callable[[PublishedSurvey, int, Kept, datetime], Round]


class Remembered:
    """The rounds asked for last."""

    def __init__(self) -> None:
        self._memory = Memory(_rows)

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
        return self._memory.get(key, lambda: make(published, number, kept, now))


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
