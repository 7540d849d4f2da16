"""What publishing a survey under a name that is in use changes for the apps that ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from deniable.server.store import PublishedSurvey
from deniable.shared.survey.document import Survey, survey_id
from deniable.shared.survey.questions import Question, what_is_asked


def replaced(
    published: Sequence[PublishedSurvey], survey: Survey, document: bytes, today: date
) -> PublishedSurvey | None:
    """The survey of the same name that apps answer now or later, if it is another one."""
    named = [
        each
        for each in published
        if each.name == survey.name and not each.closed and today <= each.survey.closes
    ]
    newest = max(named, key=lambda each: (each.survey.opens, each.sequence), default=None)
    return None if newest is None or newest.id == survey_id(document) else newest


def refusal(earlier: PublishedSurvey, survey: Survey) -> str | None:
    """Why a survey is not published unless somebody insists: its questions are other ones.

    A deployed app answers by name and with the questions that it knows.
    """
    changes = differences(earlier.survey, survey)
    if not changes:
        return None
    return (
        f"other questions are open under the name {survey.name!r}:\n"
        + "\n".join(changes)
        + f"\n{asked_again(earlier, survey)}.\nApps that know only the old questions go on "
        "with the old survey while it is open."
    )


def differences(before: Survey, after: Survey) -> list[str]:
    """Question by question, a line each; nothing where the same is asked."""
    old, new = ({each.name: each for each in survey.questions} for survey in (before, after))
    gone = [f"- {name}: no longer asked" for name in old if name not in new]
    more = [f"+ {name}: asked anew" for name in new if name not in old]
    kept = {name: _change(old[name], new[name]) for name in new if name in old}
    changed = [f"~ {name}: {words}" for name, words in kept.items() if words]
    asked = [f"~ ask: {_asked(before)} → {_asked(after)}"] * (before.asks_one != after.asks_one)
    sent = [f"~ repeat: {_sent(before)} → {_sent(after)}"]
    return gone + more + changed + asked + sent * (before.repeat_rounds != after.repeat_rounds)


def asked_again(before: PublishedSurvey, after: Survey) -> str:
    """What the people spend who have answered already."""
    if after.asks_the_same(before.survey):
        return (
            f"{before.name} is published already ({before.id[:12]}), with the same questions: "
            "whoever answered it in this round counts there, and is asked here from the next round "
            "on"
        )
    return (
        f"{before.name} is published already ({before.id[:12]}): whoever answered it in this round "
        f"is asked again, and spends ε {after.round_epsilon} once more"
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
    return f"{len(value)} of them" if isinstance(value, list) else str(value)
