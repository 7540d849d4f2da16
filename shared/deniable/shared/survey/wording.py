"""What a survey asks for, in the words that its author, its server and whoever is asked all see."""

from __future__ import annotations

import math

from deniable.shared.privacy.promises import lifetime_promise, round_promise
from deniable.shared.survey.document import Survey

FINGERPRINT_BITS = math.log2(1_000)  # beyond, hardly two of so few installs send the same


def asked_when(survey: Survey) -> str:
    """From when to when, and how often."""
    every = survey.calendar.every
    rounds = every if survey.rounds == 1 else f"{every}, {survey.rounds} rounds"
    return f"asked from {survey.opens} to {survey.closes}, {rounds}"


def gives_away(survey: Survey) -> tuple[str, str]:
    """One round, and all of them: two lines of one sentence."""
    one = round_promise(survey.round_billionths, survey.repeat_rounds)
    whole = lifetime_promise(survey.round_billionths, survey.rounds, survey.repeat_rounds)
    return f"{upper_first(one)};", f"{whole}."


def repeated(survey: Survey) -> tuple[str, ...]:
    """What a latched report hides, and what it does not; nothing where each round has its own."""
    if not survey.repeats:
        return ()
    return (
        (
            f"The first answer in each {survey.repeat_rounds} rounds is randomized once; that "
            "report is kept on the device and sent again in the others, at no further ε."
        ),
        (
            "What is answered later among them is not reported, so nothing tells whether or when "
            "it changed; a change shows in the next report at the earliest, and there costs its ε."
        ),
        _linked(survey),
    )


def upper_first(words: str) -> str:
    """As a sentence begins, and the rest as it is; ε stays small.

    >>> upper_first("a day is like 2026-12-01, got 'May'"), upper_first("ε is above 0")
    ("A day is like 2026-12-01, got 'May'", 'ε is above 0')
    """
    return words if words.startswith("ε") else words[:1].upper() + words[1:]


def report_bits(survey: Survey) -> float:
    """At most so many tell one report from another."""
    symbols = [question.mechanism.symbols for question in survey.questions]
    return math.log2(sum(symbols)) if survey.asks_one else sum(map(math.log2, symbols))


def _linked(survey: Survey) -> str:
    if (bits := report_bits(survey)) > FINGERPRINT_BITS:
        return (
            f"Reports of such rounds are equal and have up to {bits:,.0f} bits: take it that "
            "whoever sees them knows which come from one install. About its answers they tell no "
            "more than is said above."
        )
    return (
        f"Reports of such rounds are equal, and at most {2**bits:,.0f} different ones are "
        "possible: whoever sees them can tell which may come from one install, as many others "
        "send the same."
    )
