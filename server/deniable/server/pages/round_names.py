"""What a round is called on a page."""

from __future__ import annotations

from deniable.shared.survey.document import Survey


def round_name(survey: Survey, number: int) -> str:
    """Its month, its day, or its week's first day; a survey of one round is its only one."""
    day = survey.round_starts(number)
    match survey.period:
        case "once":
            return "the only round"
        case "month":
            return f"{day:%b %Y}"
        case "week":
            return f"week of {day:%Y-%m-%d}"
        case _:
            return f"{day:%Y-%m-%d}"


def first_day_name(survey: Survey, number: int) -> str:
    """Short enough for three beside each other on a phone."""
    day = survey.round_starts(number)
    return f"{day:%b %Y}" if survey.period == "month" else f"{day:%Y-%m-%d}"
