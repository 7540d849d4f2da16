"""Which rounds an answer shows, where a survey has thousands: the newest of those asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from deniable.shared.survey.document import Survey

MOST_ROUNDS = 400  # in one answer: a year of days, and more
AHEAD = timedelta(days=1)  # reports of a round come from an hour before it


@dataclass(frozen=True)
class Window:
    """From one round through another. `left_out`: so many earlier ones were asked for, too."""

    first: int
    last: int
    left_out: int = 0

    def read(self, survey: Survey) -> tuple[int | None, int | None]:
        """The rounds to read for it: all of them where they are few. A tally that damage has moved
        to another round is noticed then, too; else when that round is asked for. Of the round
        before the first it is said what has changed since."""
        return (None, None) if survey.rounds <= MOST_ROUNDS else (self.first - 1, self.last)

    def __contains__(self, number: int) -> bool:
        return self.first <= number <= self.last


def window(
    survey: Survey,
    now: datetime,
    first: int | None = None,
    last: int | None = None,
    most: int = MOST_ROUNDS,
) -> Window:
    """At most so many rounds, of those from `first` through `last` that may have reports."""
    begun = min(survey.last_round, survey.round_of((now + AHEAD).date()))
    end = begun if last is None else min(begun, last)
    start = survey.first_round if first is None else max(survey.first_round, first)
    shown = max(start, end - most + 1)
    return Window(shown, end, shown - start)
