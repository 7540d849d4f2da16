"""Descriptions of a survey for its author, its server and the person who is asked."""

from __future__ import annotations

import math

from deniable.shared.privacy.epsilon import lifetime_promise, round_promise
from deniable.shared.survey.document import Survey

# with more bits than this, few of a thousand installs send the same report
FINGERPRINT_BITS = math.log2(1_000)


def asked_when(survey: Survey) -> str:
    """Return the survey's days and rounds in words."""
    every = survey.calendar.every
    rounds = every if survey.rounds == 1 else f"{every}, {survey.rounds} rounds"
    return f"asked from {survey.opens} to {survey.closes}, {rounds}"


def gives_away(survey: Survey) -> tuple[str, str]:
    """Return the privacy cost of one round and of all rounds, as two lines of one sentence."""
    one = round_promise(survey.round_billionths, survey.repeat_rounds)
    whole = lifetime_promise(survey.round_billionths, survey.rounds, survey.repeat_rounds)
    return f"{upper_first(one)};", f"{whole}."


def repeated(survey: Survey) -> tuple[str, ...]:
    """Return what a latched report hides and reveals; empty if each round has its own report."""
    if not survey.repeats:
        return ()
    return (
        (
            f"The first answer in each {survey.repeat_rounds} rounds is randomized once. The "
            "device keeps that report and sends it again in the other rounds, at no further ε."
        ),
        (
            "Later answers in these rounds are not reported, so the reports do not reveal whether "
            "or when an answer changed. A change appears in the next report at the earliest, and "
            "costs its ε there."
        ),
        _linked(survey),
    )


def upper_first(text: str) -> str:
    """Capitalize the first letter of a sentence, unless it is ε.

    >>> upper_first("a day is like 2026-12-01, got 'May'"), upper_first("ε is above 0")
    ("A day is like 2026-12-01, got 'May'", 'ε is above 0')
    """
    return text if text.startswith("ε") else text[:1].upper() + text[1:]


def report_bits(survey: Survey) -> float:
    """Return an upper bound, in bits, on how well one report identifies its install."""
    symbols = [question.mechanism.symbols for question in survey.questions]
    return math.log2(sum(symbols)) if survey.asks_one else sum(map(math.log2, symbols))


def _linked(survey: Survey) -> str:
    if (bits := report_bits(survey)) > FINGERPRINT_BITS:
        return (
            f"The reports of these rounds are equal and have up to {bits:,.0f} bits. Assume that "
            "anyone who sees them can link those of one install. They reveal no more about its "
            "answers than stated above."
        )
    return (
        f"The reports of these rounds are equal, and at most {2**bits:,.0f} different ones are "
        "possible. Anyone who sees them can name those that may come from one install, but many "
        "other installs send the same ones."
    )
