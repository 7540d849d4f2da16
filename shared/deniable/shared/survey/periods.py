"""Periods: calendars that cut a survey's days into numbered rounds, in UTC.

    once     0, from the survey's first day to its last
    day      days since 1970-01-01
    week     weeks that begin on a Monday, (days + 3) div 7
    month    (year - 1970) * 12 + month - 1

A period is one row of PERIODS. Documents, clients, server, pages and commands read that table; the
JavaScript client has its own, which `tests/contract/test_periods.py` compares with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

EPOCH = date(1970, 1, 1)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Period:
    """A row of PERIODS: the number of a day's round, and the first day of a round."""

    name: str  # the value of `round` in a survey document
    every: str  # how often, in a sentence: "every week"
    round_of: Callable[[date], int]
    first_day: Callable[[int], date] | None  # None: the survey's own first day
    title: str  # the format of a round's name, for `strftime` of its first day
    short_title: str  # for three next to each other on a phone

    def starts(self, number: int, opens: date) -> datetime:
        """Return the moment when a round begins."""
        return midnight(opens if self.first_day is None else self.first_day(number))

    def ends(self, number: int, closes: date) -> datetime:
        """Return the moment when a round ends."""
        after = closes + DAY if self.first_day is None else self.first_day(number + 1)
        return midnight(after)


def midnight(day: date) -> datetime:
    """Return the moment when a day begins, in UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _days(day: date) -> int:
    return (day - EPOCH).days


def _months(day: date) -> int:
    return (day.year - 1970) * 12 + day.month - 1


def _first_of_month(number: int) -> date:
    return date(1970 + number // 12, number % 12 + 1, 1)


PERIODS = {
    period.name: period
    for period in (
        Period("once", "once", lambda _: 0, None, "the only round", "%Y-%m-%d"),
        Period("day", "every day", _days, lambda n: EPOCH + n * DAY, "%Y-%m-%d", "%Y-%m-%d"),
        Period(
            "week",
            "every week",
            lambda day: (_days(day) + 3) // 7,
            lambda n: EPOCH + (7 * n - 3) * DAY,
            "week of %Y-%m-%d",
            "%Y-%m-%d",
        ),
        Period("month", "every month", _months, _first_of_month, "%b %Y", "%b %Y"),
    )
}
