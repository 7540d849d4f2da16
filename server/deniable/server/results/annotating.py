"""What operators say happened beside a survey: a release, an outage. Lines in its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from deniable.server.results.document import Happened
from deniable.server.store import Annotation
from deniable.shared.errors import WrongUse
from deniable.shared.survey.document import Survey

MOST_WORDS = 200


def read_annotation(day: str, words: str) -> Annotation:
    """From what somebody typed."""
    try:
        found = date.fromisoformat(day.strip())
    except ValueError:
        raise WrongUse(f"a day is written like 2026-12-01, got {day!r}") from None
    line = words.strip()
    if not line or len(line) > MOST_WORDS or not line.isprintable():
        raise WrongUse(f"the words are one line of 1 to {MOST_WORDS} characters")
    return Annotation(found, line)


def happened(survey: Survey, annotations: Sequence[Annotation]) -> tuple[Happened, ...]:
    """Each with the round that it falls in."""
    return tuple(
        Happened(day=day.isoformat(), round=survey.round_of(day), words=words)
        for day, words in annotations
    )


def by_round(found: Sequence[Happened]) -> Mapping[int, str]:
    """What happened in each, in one line."""
    words: dict[int, list[str]] = {}
    for each in found:
        words.setdefault(each.round, []).append(each.words)
    return {number: "; ".join(lines) for number, lines in words.items()}
