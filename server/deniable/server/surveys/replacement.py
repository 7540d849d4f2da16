"""Comparison of a survey with the one that it replaces, which deployed apps answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from deniable.server.store import PublishedSurvey
from deniable.shared.errors import quantity
from deniable.shared.survey.document import Survey, survey_id
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.questions import what_is_asked


def survey_to_replace(
    published: Sequence[PublishedSurvey], survey: Survey, document: bytes, today: date
) -> PublishedSurvey | None:
    """Return the other survey of the same name that apps still answer, or None."""
    candidates = [
        other
        for other in published
        if other.name == survey.name and not other.closed and today <= other.survey.closes
    ]
    newest = max(candidates, key=lambda p: (p.survey.opens, p.sequence), default=None)
    return None if newest is None or newest.id == survey_id(document) else newest


def refusal(earlier: PublishedSurvey, survey: Survey) -> str | None:
    """Return why to refuse a survey that asks other questions, or None.

    Deployed apps find a survey by its name and answer the questions that they know.
    """
    changes = differences(earlier.survey, survey)
    if not changes:
        return None
    return (
        f"the open survey {survey.name!r} has other questions:\n"
        + "\n".join(changes)
        + f"\n{asked_again(earlier, survey)}.\nApps that know only the old questions continue "
        "to answer the old survey while it is open."
    )


def differences(before: Survey, after: Survey) -> list[str]:
    """Return one line per change; none if both surveys ask the same questions."""
    old, new = ({q.name: q for q in survey.questions} for survey in (before, after))
    removed = [f"- {name}: no longer asked" for name in old if name not in new]
    added = [f"+ {name}: new" for name in new if name not in old]
    kept = {name: _change(old[name], new[name]) for name in new if name in old}
    changed = [f"~ {name}: {change}" for name, change in kept.items() if change]
    asked = [f"~ ask: {_asked(before)} → {_asked(after)}"] * (before.asks_one != after.asks_one)
    sent = [f"~ repeat: {_sent(before)} → {_sent(after)}"]
    return removed + added + changed + asked + sent * (before.repeat_rounds != after.repeat_rounds)


def asked_again(before: PublishedSurvey, after: Survey) -> str:
    """Describe the effect of publishing on people who have already answered."""
    if after.asks_the_same(before.survey):
        return (
            f"{before.name} ({before.id[:12]}) is already published with the same questions: "
            "people who answered it in this round count there, and are asked again in the next one"
        )
    return (
        f"{before.name} ({before.id[:12]}) is already published: people who answered it in this "
        f"round are asked again, and spend another ε {after.round_epsilon}"
    )


def _asked(survey: Survey) -> str:
    return "one question, drawn at random" if survey.asks_one else "all questions"


def _sent(survey: Survey) -> str:
    return f"one report for {survey.repeat_rounds} rounds" if survey.repeats else "fresh"


def _change(old: Question, new: Question) -> str:
    before, after = what_is_asked(old), what_is_asked(new)
    keys = [key for key in {**before, **after} if key != "integers"]
    return ", ".join(
        f"{key} {_short(before.get(key))} → {_short(after.get(key))}"
        for key in keys
        if before.get(key) != after.get(key)
    )


def _short(value: Any) -> str:  # Any: JSON
    return f"({quantity(len(value), 'value')})" if isinstance(value, list) else str(value)
