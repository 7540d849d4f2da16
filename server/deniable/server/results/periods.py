"""Periods: rounds whose reports are added up, such as weeks, or the rounds between two events.

Given the answers, the noise of every report is independent, so the sum of several rounds' tallies
is the tally of all their reports. A latched report is the same in all rounds of its span, so a span
counts once, by its round with the most reports; it belongs to the first period that it touches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from itertools import groupby
from typing import Literal, get_args

from deniable.server.estimation.statements import Reading
from deniable.server.results.document import Event
from deniable.server.results.estimate_cache import Pool
from deniable.server.store import RoundTally
from deniable.shared.errors import WrongUse
from deniable.shared.survey.document import PERIODS, Survey

Division = Literal["week", "month", "event", "all"]
DIVISIONS: tuple[Division, ...] = get_args(Division)


def parse_round(survey: Survey, text: str) -> int:
    """Parse a round's number or a day like 2026-12-01, which stands for its round."""
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return int(text)
    try:
        return survey.round_of(date.fromisoformat(text))
    except ValueError:
        raise WrongUse(
            f"write a round as a number or a day like 2026-12-01, not {text!r}"
        ) from None


def divide(
    survey: Survey, numbers: Sequence[int], by: Division, events: Sequence[Event]
) -> Iterator[range]:
    """Yield the rounds of each period; the round of an event begins a new one."""

    def calendar(name: str) -> Callable[[int], int]:
        return lambda number: PERIODS[name].round_of(survey.round_starts(number).date())

    keys: Mapping[Division, Callable[[int], int]] = {
        "week": calendar("week"),
        "month": calendar("month"),
        "event": lambda number: sum(event.round <= number for event in events),
        "all": lambda _: 0,
    }
    for _, members in groupby(numbers, keys[by]):
        first, *others = members
        yield range(first, (others or [first])[-1] + 1)


def pools(
    survey: Survey,
    ranges: Sequence[range],
    tallies: Mapping[int, RoundTally],
    reading: Callable[[int], Reading],
    newest: int | None = None,
) -> list[Pool]:
    """Add up the reports of each period. A period up to the `newest` round still grows."""
    made, counted = list[Pool](), set[int]()
    for rounds in ranges:
        spans = dict[int, RoundTally]()
        for tally in (tallies[number] for number in rounds if number in tallies):
            span = survey.span_of(tally.round)[0]
            if span not in counted and (span not in spans or tally.reports > spans[span].reports):
                spans[span] = tally
        counted |= spans.keys()
        grows = len(rounds) > 1 and rounds[-1] == newest != survey.last_round
        read = joint_reading([*map(reading, rounds)], survey, grows=grows)
        members = () if read.covers == "nothing" else tuple(spans.values())
        made.append(Pool(rounds, members, read))
    return made


def joint_reading(readings: Sequence[Reading], survey: Survey, *, grows: bool = False) -> Reading:
    """Return how a period is read: at every look until all reports of its rounds are in it.

    A survey that is read once shows a period once: when nothing can be added to it any more.
    """
    confidence = max(read.confidence for read in readings)
    incomplete = any(read.covers != "all" for read in readings)
    if survey.looks == "once" and (incomplete or grows):
        return Reading(confidence, covers="nothing")
    any_time = incomplete or any(read.any_time for read in readings)
    hidden = all(read.covers == "nothing" for read in readings)
    return Reading(confidence, any_time, "nothing" if hidden else "all")
