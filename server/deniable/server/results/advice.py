"""What a survey gives away and what it will be able to tell, in words, before anyone is asked."""

from __future__ import annotations

from datetime import date
from typing import Any

from deniable.server.planning.variances import half_width
from deniable.server.results.display import STYLES
from deniable.shared.privacy.epsilon import BILLION
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.privacy.promises import odds_factor
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.phrases import (
    FINGERPRINT_BITS,
    asked_when,
    gives_away,
    repeated,
    report_bits,
)

RELAY_DAYS = 3
CROWDS = (1_000, 10_000, 100_000)
HIGH_EPSILON = 4 * BILLION  # one lie in fifty, or fewer
HIGH_LIFETIME = 20 * BILLION
HIGH_LEVERAGE = 5
WIDE = 0.1  # of the range, or 10 points, with 10,000 people


def facts(survey: Survey) -> dict[str, Any]:
    """What is known beforehand, for programs."""
    return {
        "name": survey.name,
        "rounds": survey.rounds,
        "epsilon": {"round": survey.round_epsilon, "survey": survey.lifetime_epsilon},
        "odds": {
            "round": odds_factor(survey.round_billionths),
            "survey": odds_factor(survey.lifetime_billionths),
        },
        "report_bytes": survey.report_size,
        **({"ask": 1} if survey.asks_one else {}),
        **({"repeat_rounds": survey.repeat_rounds} if survey.repeats else {}),
        **({"sealed_to": survey.sealed_to} if survey.sealed_to else {}),
        "policy": {
            "max_epsilon_per_round": survey.round_epsilon,
            "max_epsilon": survey.lifetime_epsilon,
            "questions": {each.name: each.kind for each in survey.questions},
        },
        "questions": [
            {
                "name": question.name,
                "kind": question.kind,
                "epsilon": str(question.epsilon),
                "mechanism": question.mechanism.name,
                "leverage": round(question.mechanism.leverage, 2),
                "expected": {str(n): half_width(question, survey.reports_of(n)) for n in CROWDS},
            }
            for question in survey.questions
        ],
    }


def policy_line(survey: Survey) -> str:
    """The smallest policy under which an app answers all of it, to be copied."""
    kinds = ", ".join(f'"{each.name}": "{each.kind}"' for each in survey.questions)
    return (
        f'Policy(keys=["..."], questions={{{kinds}}}, '
        f'max_epsilon_per_round="{survey.round_epsilon}", max_epsilon="{survey.lifetime_epsilon}")'
    )


def _crossed(pair: tuple[str, str]) -> str:
    return f"{' and '.join(pair)} are counted together too, in the same reports: at no further ε"


def describe(survey: Survey) -> list[str]:
    """The same for people, a line each."""
    crowds = " / ".join(f"{people:,}" for people in CROWDS)
    lines = [
        f"{survey.name}: {survey.title}",
        asked_when(survey),
        *gives_away(survey),
        *repeated(survey),
        *([_asked(survey)] if survey.asks_one else []),
        *map(_crossed, survey.cross),
        *([f"reports are sealed to {survey.sealed_to}"] if survey.sealed_to else []),
        f"95 % intervals to expect, with {crowds} people a round:",
    ]
    width = max(len(question.name) for question in survey.questions)
    for question in survey.questions:
        expected = " / ".join(_plus_minus(question, survey.reports_of(n)) for n in CROWDS)
        how = f"{question.mechanism.name}, ε {question.epsilon}"
        lines.append(f"  {question.name:{width}}  {expected}  ({how})")
        told = (question.expected_findings(survey.reports_of(people)) for people in CROWDS)
        lines += [f"  {'':{width}}  {words}" for words in told if words]
    return [
        *lines,
        "an app answers all its rounds under this policy, or a wider one:",
        f"  {policy_line(survey)}",
    ]


def warnings(survey: Survey, today: date) -> list[str]:
    """What the author may not have meant."""
    found = [warning for each in survey.questions for warning in _of_question(survey, each)]
    if survey.draws > 1 and survey.lifetime_billionths > HIGH_LIFETIME:
        found.append(
            f"over its {survey.rounds} rounds the survey adds up to ε {survey.lifetime_epsilon}: "
            "anyone who answers all of them hides little; ask less often, or with a smaller ε"
        )
    if survey.rounds == 1 and survey.period != "once":
        found.append(f'there is only one round: write round = "once" instead of "{survey.period}"')
    if survey.repeats:
        found += _of_repetition(survey)
    if survey.sealed_to and survey.grace_days < RELAY_DAYS:
        found.append(
            f"a relay may hold a report for a day, and reports are taken for {survey.grace_days} "
            f"days after a round: write grace_days = {RELAY_DAYS} or more, or some come late"
        )
    if survey.closes < today:
        found.append(f"its last day, {survey.closes}, is over: nobody will answer")
    return found


def _of_question(survey: Survey, question: Question) -> list[str]:
    mechanism, found = question.mechanism, list[str]()
    reports = survey.reports_of(CROWDS[1])
    if question.remark:
        found.append(f"{question.name}: {question.remark}")
    if question.epsilon.billionths >= HIGH_EPSILON:
        found.append(
            f"{question.name}: ε {question.epsilon} changes the odds by a factor of up to "
            f"{odds_factor(question.epsilon.billionths)}, which is hardly deniable; "
            "most ask with 0.5 to 2"
        )
    if survey.asks_one and question.epsilon.billionths < survey.round_billionths:
        found.append(
            f"{question.name}: ε {question.epsilon} is less than the {survey.round_epsilon} that "
            "each round costs, whichever question is drawn; a larger ε here costs nothing more"
        )
    if mechanism.leverage > HIGH_LEVERAGE:
        found.append(f"{question.name}: {mechanism.forgery()}; {_less_leverage(question)}")
    if half_width(question, reports) > WIDE * question.span:
        found.append(
            f"{question.name}: even {CROWDS[1]:,} people give only "
            f"{_plus_minus(question, reports)}; "
            "ask more people, offer fewer options, or use a larger ε"
        )
    return found


def _of_repetition(survey: Survey) -> list[str]:
    found, last = list[str](), len(survey.span_of(survey.last_round))
    if (bits := report_bits(survey)) > FINGERPRINT_BITS:
        found.append(
            f"a report has up to {bits:.0f} bits and is the same in {survey.repeat_rounds} rounds: "
            "that is a fingerprint, by which whoever sees reports of several rounds links those of "
            "one install; ask fewer questions, or with fewer options or steps"
        )
    if last < survey.repeat_rounds:
        found.append(
            f"the last report is sent in {last} of {survey.repeat_rounds} rounds, and costs as "
            "much as the others"
        )
    return found


def _less_leverage(question: Question) -> str:
    """The mechanism of the same kind and size under which a forged report counts least."""
    mine = question.mechanism
    others = [
        mine,
        *(
            other(question.epsilon, mine.size)
            for other in mechanisms(question.kind).values()
            if mine.size in other.sizes and not other.given
        ),
    ]
    least = min(others, key=lambda other: other.leverage)
    if least.leverage < mine.leverage:
        return (
            f'with mechanism = "{least.name}" it is {least.leverage:.1f}, and with a larger ε less'
        )
    return "with a larger ε it is less"


def _plus_minus(question: Question, reports: int) -> str:
    return STYLES[question.statistic].expected(half_width(question, reports), question.unit)


def _asked(survey: Survey) -> str:
    return (
        f"Each install answers one of the {len(survey.questions)} questions, which it draws itself "
        f"at random: a round gives away the largest ε, not the sum."
    )
