"""Surveys that people answer by link: templates to start from, and what a link can ask.

A draft has the texts and settings that an author chooses. Everything else in its file suits a poll
that runs for a few weeks: one round, one answer per person, and the usual ε.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

from deniable.shared.privacy.epsilon import BILLION
from deniable.shared.survey.document import DEFAULT_STEP, MIN_STEP, Survey

DAYS = 28
GRACE_DAYS, RETENTION_DAYS, MINIMUM_REPORTS = 2, 90, 10
MAX_NAME_CHARACTERS = 40
USUAL_EPSILON = "1"
MAX_EPSILON = 8  # that the page ever spends; its script has the same limit
STEPS = 6  # steps in which the results of the expected people appear
USUAL_PEOPLE = STEPS * DEFAULT_STEP  # a smaller step only for an author who names fewer people
KINDS_BY_LINK = ("bit", "number", "choice")  # the kinds that a form can ask a person
THE_SENDER = "the person who sent you the link"
FILE = """\
# A survey to answer by link. Publish it, and print its link: deniable ask {file}
# Once published it never changes. `deniable survey check {file}` reports its expected margins.

[survey]
name = {name}
title = {title}
purpose = {purpose}
owner = {owner}
opens = {opens}
closes = {closes}
round = "once"
grace_days = {grace}
retention_days = {retention}
minimum_reports = {minimum}           # no estimate is shown below it
step = {step:<24}# results change in steps of about this many answers
{more}"""
ARMS = """
[[label]]                      # each device picks one of the versions at random, and shows it
name = "version"
arms = {}
"""
SETTINGS = {
    "close_at": "close_at = {}                # the survey closes after this many answers",
    "invitation": "invitation = true             # each answer needs a code from `deniable invite`",
    "cross": "cross = {}",
}


@dataclass(frozen=True)
class LinkQuestion:
    title: str
    kind: str = "bit"
    options: Sequence[str] = ()
    low: int = 0
    high: int = 10
    unit: str = ""

    def toml(self, name: str, epsilon: str) -> str:
        keys: dict[str, object] = {"name": name, "title": self.title, "kind": self.kind}
        if self.kind == "choice":
            keys["options"] = list(self.options)
        if self.kind == "number":
            keys |= {"low": self.low, "high": self.high} | (
                {"unit": self.unit} if self.unit else {}
            )
        lines = [f"{key} = {_toml(value)}" for key, value in (keys | {"epsilon": epsilon}).items()]
        return "\n".join(["", "[[question]]", *lines, ""])


@dataclass(frozen=True)
class Draft:
    """Survey by link, as its author describes it."""

    title: str
    questions: Sequence[LinkQuestion]
    owner: str = THE_SENDER
    purpose: str = f"{THE_SENDER[0].upper()}{THE_SENDER[1:]} wants to know."
    epsilon: str = USUAL_EPSILON
    people: int = USUAL_PEOPLE  # about how many will answer
    arms: Sequence[str] = ()  # versions to compare, of which each device picks one
    crossed: bool = False  # whether the first two questions are counted together
    close_at: int | None = None
    by_invitation: bool = False

    @property
    def name(self) -> str:
        """Name of the survey, and the end of its link."""
        words = re.sub(r"[^a-z0-9]+", "-", self.title.lower())[:MAX_NAME_CHARACTERS]
        return words.strip("-") or "survey"

    @property
    def step(self) -> int:
        """Number of answers by which results change; more people get larger steps."""
        people = min(self.people, self.close_at or self.people)
        return max(MIN_STEP, min(DEFAULT_STEP, people // STEPS))

    @property
    def first_shown(self) -> int:
        """Number of answers after which estimates appear, if answers arrive one by one.

        Intake considers a step after each half of one, and shows it after the next.
        """
        half = self.step // 2
        step = -(-self.step // half) * half
        return step * (1 + -(-MINIMUM_REPORTS // step))

    def toml(self, opens: date, file: str = "FILE") -> str:
        names = ["answer", *(f"answer_{number}" for number in range(2, len(self.questions) + 1))]
        more = [
            *([SETTINGS["close_at"].format(self.close_at)] if self.close_at else []),
            *([SETTINGS["invitation"]] if self.by_invitation else []),
            *([SETTINGS["cross"].format(_toml([names[:2]]))] if self.crossed else []),
        ]
        head = FILE.format(
            file=file,
            name=_toml(self.name),
            title=_toml(self.title),
            purpose=_toml(self.purpose),
            owner=_toml(self.owner),
            opens=opens.isoformat(),
            closes=(opens + timedelta(days=DAYS - 1)).isoformat(),
            grace=GRACE_DAYS,
            retention=RETENTION_DAYS,
            minimum=MINIMUM_REPORTS,
            step=self.step,
            more="".join(f"{line}\n" for line in more),
        )
        head += ARMS.format(_toml(list(self.arms))) if self.arms else ""
        asked = zip(self.questions, names, strict=True)
        return head + "".join(question.toml(name, self.epsilon) for question, name in asked)


TEMPLATES: Mapping[str, Draft] = {
    "yes-no": Draft("Our team", [LinkQuestion("Would you recommend working here to a friend?")]),
    "rating": Draft(
        "How was the course?",
        [LinkQuestion("How was the course, from 1 (poor) to 5 (excellent)?", "choice", "12345")],
    ),
    "number": Draft(
        "Unpaid hours",
        [
            LinkQuestion(
                "How many unpaid hours did you work last week?", "number", high=40, unit="h"
            )
        ],
    ),
    "choice": Draft(
        "Reasons to leave",
        [
            LinkQuestion(
                "If you left this year, what would be the main reason?",
                "choice",
                ("pay", "workload", "the people", "the work itself", "none of these"),
            )
        ],
    ),
    "two-questions": Draft(
        "Workload and sleep",
        [
            LinkQuestion("Do you often work after 8 in the evening?"),
            LinkQuestion("Do you sleep badly because of work?"),
        ],
        crossed=True,
    ),
    "did-you-ever": Draft(
        "Did you ever?", [LinkQuestion("Did you ever call in sick although you were well?")]
    ),
    "ab": Draft(
        "Two working weeks",
        [LinkQuestion("Would you choose this working week?")],
        people=360,
        arms=("four days of 10 hours", "five days of 8 hours"),
    ),
}


def renamed(draft: Draft, title: str, question: str, options: Sequence[str] = ()) -> Draft:
    """Return a draft with another title and first question, and with other options or arms."""
    first, arms = draft.questions[0], draft.arms
    if arms:
        arms, options = options or arms, ()
    asked = replace(first, title=question, options=options or first.options)
    return replace(draft, title=title, questions=[asked, *draft.questions[1:]], arms=arms)


def needs_app(survey: Survey) -> str | None:
    """Return why the respondent page cannot ask a survey, or None."""
    if survey.round_billionths > MAX_EPSILON * BILLION:
        return f"the page spends at most ε {MAX_EPSILON} in a round"
    if survey.repeats:
        return "its rounds share a latched report, which only an app can send again"
    for question in survey.questions:
        if question.over != "first":
            return (
                f"question {question.name} asks over {question.over!r}, but people open a link "
                'once; write over = "first"'
            )
        if question.kind == "vector":
            return f"question {question.name} is a vector, which only an app can measure"
    return None


def obstacle(survey: Survey) -> str | None:
    """Return why a link is not enough to ask a survey, or None."""
    if problem := needs_app(survey):
        return problem
    for question in survey.questions:
        if question.kind not in KINDS_BY_LINK:
            kinds = ", ".join(KINDS_BY_LINK)
            return f"question {question.name} is a {question.kind}; a link can ask only: {kinds}"
    for label in survey.labels:
        if not label.is_drawn:
            return f"only an app can provide the label {label.name}; remove it"
    return None


def _toml(value: object) -> str:
    """Return a value in TOML. Strings, numbers and lists are written as in JSON."""
    return json.dumps(value, ensure_ascii=False)
