"""What a survey asks for, in the words that its author, its server and whoever is asked all see."""

from __future__ import annotations

from deniable.shared.privacy.promises import lifetime_promise, round_promise
from deniable.shared.survey.document import Survey


def asked_when(survey: Survey) -> str:
    """From when to when, and how often."""
    every = survey.calendar.every
    rounds = every if survey.rounds == 1 else f"{every}, {survey.rounds} rounds"
    return f"asked from {survey.opens} to {survey.closes}, {rounds}"


def gives_away(survey: Survey) -> tuple[str, str]:
    """One round, and all of them: two lines of one sentence."""
    one = round_promise(survey.round_billionths)
    whole = lifetime_promise(survey.round_billionths, survey.rounds)
    return f"{one[:1].upper()}{one[1:]};", f"{whole}."
