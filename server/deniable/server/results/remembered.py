"""Rounds as they were last estimated: a round whose counts are the same is not estimated again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime

from deniable.server.results.change import round_before
from deniable.server.results.document import Round
from deniable.server.results.memory import ROWS_BESIDE, Memory
from deniable.server.store import PublishedSurvey, RoundTally

Kept = Mapping[int, RoundTally]
Make = Callable[[PublishedSurvey, Sequence[int], Kept, datetime], Sequence[Round]]


class Remembered:
    """The rounds asked for last."""

    def __init__(self) -> None:
        self._memory = Memory(_rows)

    def rounds(
        self,
        make: Make,
        published: PublishedSurvey,
        numbers: Sequence[int],
        kept: Kept,
        now: datetime,
    ) -> list[Round]:
        """What `make` makes of these; of a round it may use the counts, and those of the one
        before, and of `now` only whether these are over."""
        keys = _keys(published, numbers, kept, now)
        return self._memory.get(
            keys, lambda places: make(published, [numbers[each] for each in places], kept, now)
        )


def _keys(
    published: PublishedSurvey, numbers: Sequence[int], kept: Kept, now: datetime
) -> list[Hashable]:
    ascending = sorted(kept)

    def state(each: int | None) -> Hashable:
        if each is None:
            return None
        over = published.closed or now >= published.survey.taken_until(each)
        tally = kept.get(each)
        return each, over, None if tally is None else (tally.reports, tally.cells.tobytes())

    return [
        (published.id, state(number), state(round_before(number, ascending))) for number in numbers
    ]


def _rows(made: Round) -> int:
    both = sum(len(each.rows) for each in made.cross or ())
    return ROWS_BESIDE + both + sum(len(rows) for rows in made.questions.values())
