"""Rounds: the survey's period as a whole number, in UTC.

once   0
day    days since 1970-01-01
week   weeks that begin on a Monday, (days + 3) div 7
month  (year - 1970) * 12 + month - 1
"""

from datetime import UTC, date, datetime, timedelta

PERIODS = ("once", "day", "week", "month")
EPOCH = date(1970, 1, 1)


def round_of(period: str, day: date) -> int:
    """The round that a day falls in.

    >>> round_of("month", date(2026, 12, 1)), round_of("week", date(1970, 1, 5))
    (683, 1)
    """
    days = (day - EPOCH).days
    match period:
        case "once":
            return 0
        case "day":
            return days
        case "week":
            return (days + 3) // 7
        case _:
            return (day.year - 1970) * 12 + day.month - 1


def first_day(period: str, number: int) -> date:
    """The first day of a round that is not `once`; the next round's is the day after its last.

    >>> first_day("month", 683), first_day("week", 1)
    (datetime.date(2026, 12, 1), datetime.date(1970, 1, 5))
    """
    match period:
        case "day":
            return EPOCH + timedelta(days=number)
        case "week":
            return EPOCH + timedelta(days=7 * number - 3)
        case _:
            return date(1970 + number // 12, number % 12 + 1, 1)


def midnight(day: date) -> datetime:
    """The moment a day begins, in UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
