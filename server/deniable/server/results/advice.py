"""Advice about a survey's privacy and its expected precision, before anyone is asked."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date
from typing import Any

from deniable.server.estimation.statements import final_reading
from deniable.server.planning.display_gate import at_worst, reports_needed
from deniable.server.planning.forecast import (
    FAR,
    WIDER,
    Expected,
    choice_sentence,
    shift_by_forgery,
)
from deniable.server.results.display import STYLES
from deniable.shared.errors import quantity
from deniable.shared.privacy.epsilon import BILLION, decimal_text, odds_factor
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.languages import SURVEY_TEXTS
from deniable.shared.survey.participation import budget_of_all_rounds
from deniable.shared.survey.phrases import (
    FINGERPRINT_BITS,
    asked_about,
    asked_when,
    default_participation,
    gives_away,
    repeated,
    report_bits,
    sent_in_clear,
    when_sent,
)

RELAY_DAYS = 3
CROWDS = (1_000, 10_000, 100_000)
HIGH_EPSILON = 4 * BILLION  # from here on, at most one report in fifty is a lie
HIGH_LIFETIME = 20 * BILLION
HIGH_LEVERAGE = 5
ONE_OF = (
    "Each install answers one of the {} questions, drawn at random on the device: a round costs "
    "the largest ε, not the sum."
)
CHANGES = (
    "smoothed trends assume that a true value changes by at most {:g} points (for a number: per "
    "cent of its range) from one {} to the next"
)
SINGLING_BITS = 10  # for all labels together: a thousand combinations
LONG_PERIODS = ("once", "month")
WIDE = 0.1  # margin of error with 10,000 people: a tenth of the range, or 10 points


def facts(survey: Survey) -> dict[str, Any]:
    """Return the figures behind the advice, for programs."""
    return {
        "name": survey.name,
        **({"languages": [*survey.languages]} if survey.languages else {}),
        "rounds": survey.rounds,
        "epsilon": {"round": survey.round_epsilon, "survey": survey.lifetime_epsilon},
        "odds": {
            "round": odds_factor(survey.round_billionths),
            "survey": odds_factor(survey.lifetime_billionths),
        },
        "report_bytes": survey.report_size,
        "looks": survey.looks,
        "step": survey.step,
        **({"ask": 1} if survey.asks_one else {}),
        **({"most_change": survey.most_change} if survey.most_change else {}),
        **({"repeat_rounds": survey.repeat_rounds} if survey.repeats else {}),
        **({"sealed_to": survey.sealed_to} if survey.sealed_to else {}),
        **({"label": [label.fields() for label in survey.labels]} if survey.labels else {}),
        "policy": {
            **caps_of_all_rounds(survey),
            "questions": {question.name: question.kind for question in survey.questions},
            **({"labels": _given(survey)} if _given(survey) else {}),
        },
        "questions": [
            {
                "name": question.name,
                "kind": question.kind,
                "over": question.over,
                "epsilon": str(question.epsilon),
                "mechanism": question.mechanism.name,
                "leverage": round(question.mechanism.leverage, 2),
                "expected": {str(n): _margin(survey, question, n) for n in CROWDS},
                **({"expected_until_final": watched} if watched else {}),
            }
            for question in survey.questions
            for watched in [_until_final(survey, question)]
        ],
    }


def policy_line(survey: Survey) -> str:
    """Return Python code for the smallest policy that allows an app to answer all rounds."""
    kinds = ", ".join(f'"{asked.name}": "{asked.kind}"' for asked in survey.questions)
    given = ", ".join(f'"{name}"' for name in _given(survey))
    labels = f"labels=[{given}], " if given else ""
    caps = ", ".join(f'{name}="{cap}"' for name, cap in caps_of_all_rounds(survey).items())
    return f'Policy(keys=["..."], questions={{{kinds}}}, {labels}{caps})'


def caps_of_all_rounds(survey: Survey) -> dict[str, str]:
    """Return the smallest caps of a policy with which an install answers every round."""
    quarter = decimal_text(budget_of_all_rounds(survey))
    return {
        "max_epsilon_per_round": survey.round_epsilon,
        "max_epsilon_per_survey": quarter,
        "max_epsilon": quarter,
    }


def _given(survey: Survey) -> list[str]:
    """Return the names of the labels that the app must allow."""
    return [label.name for label in survey.labels if not label.is_drawn]


def describe(survey: Survey) -> list[str]:
    """Return the advice about a survey as lines of text."""
    crowds = " / ".join(f"{people:,}" for people in CROWDS)
    lines = [
        f"{survey.name}: {survey.title}",
        *([f"its texts are in {', '.join(survey.languages)}"] if survey.languages else []),
        asked_when(survey),
        *when_sent(survey),
        *gives_away(survey),
        *repeated(survey),
        *default_participation(survey),
        *([ONE_OF.format(len(survey.questions))] if survey.asks_one else []),
        *(
            f"{' and '.join(pair)} are also counted together, from the same reports: no extra ε"
            for pair in survey.cross
        ),
        *([f"reports are sealed to {survey.sealed_to}"] if survey.sealed_to else []),
        *([sent_in_clear(survey)] if survey.labels else []),
        shown_when(survey),
        *([CHANGES.format(survey.most_change, survey.period)] if survey.most_change else []),
        f"expected margin of error (95 %) with {crowds} people who answer in a round:",
    ]
    width = max(len(question.name) for question in survey.questions)
    asked = [f"  {q.name:{width}}  {asked_about(survey, q)}" for q in survey.questions]
    for question in survey.questions:
        expected = " / ".join(_plus_minus(survey, question, n) for n in CROWDS)
        lines.append(
            f"  {question.name:{width}}  {expected}  "
            f"({question.mechanism.name}, ε {question.epsilon}{_shown_from(survey, question)})"
        )
        if choice := _choice(question):
            lines.append(f"  {'':{width}}  {choice}")
        if watched := _until_final(survey, question).values():
            early = " / ".join(_text(question, margin) for margin in watched)
            lines.append(f"  {'':{width}}  {early}  until the round is final")
        findings = (question.expected_findings(survey.reports_of(people)) for people in CROWDS)
        lines += [f"  {'':{width}}  {words}" for words in findings if words]
    lines += ["the answer to each question:", *asked]
    lines.append("an app answers all rounds under this policy, or a wider one:")
    return [*lines, f"  {policy_line(survey)}"]


def shown_when(survey: Survey) -> str:
    """Return when results of the first round are shown, and how much that costs."""
    number = survey.first_round
    first, last = (time.date() for time in (survey.first_look(number), survey.taken_until(number)))
    cost = f"{100 * WIDER:.0f} % wider than for one look"
    shown = {
        "any-time": f"at any time, in steps of {survey.step} or more reports; intervals are twice "
        f"as wide until {last}, then {cost}",
        "twice": f"on {first} and {last}, both {cost}",
        "once": f"on {last}",
    }
    return f"results of the first round are shown {shown[survey.looks]}"


def warnings(survey: Survey, today: date) -> list[str]:
    """Return warnings about properties that the author may not have intended."""
    return [
        *(f"{q.name}: {words}" for q in survey.questions for words in _about_question(survey, q)),
        *_about_survey(survey, today),
    ]


def _about_survey(survey: Survey, today: date) -> Iterator[str]:
    if survey.draws > 1 and survey.lifetime_billionths > HIGH_LIFETIME:
        yield (
            f"over its {survey.rounds} rounds the survey adds up to ε {survey.lifetime_epsilon}: "
            "people who answer all of them hide little; ask less often, or with a smaller ε"
        )
    if survey.rounds == 1 and survey.period != "once":
        yield f'there is only one round: write round = "once" instead of "{survey.period}"'
    if survey.repeats:
        yield from _about_repetition(survey)
    yield from _about_labels(survey)
    if len(survey.languages) > 1 and (names := _untranslated(survey)):
        table = ", ".join(f'{tag} = "..."' for tag in survey.languages)
        yield (
            f"these texts are the same in every language: {', '.join(names)}; to translate one, "
            f"write a table, like title = {{{table}}}"
        )
    if survey.sealed_to and survey.grace_days < RELAY_DAYS:
        yield (
            "a relay may hold a report until two hours before the grace period ends, which has "
            f"{quantity(survey.grace_days, 'day')}: write grace_days = {RELAY_DAYS} or more, or "
            "some are lost"
        )
    if survey.closes < today:
        yield f"its last day, {survey.closes}, has passed: no device will answer it"


def _about_question(survey: Survey, question: Question) -> Iterator[str]:
    epsilon, mechanism = question.epsilon, question.mechanism
    if question.remark:
        yield question.remark
    if epsilon.billionths >= HIGH_EPSILON:
        yield (
            f"ε {epsilon} changes the odds by a factor of up to {odds_factor(epsilon.billionths)}, "
            "which is hardly deniable; most surveys use 0.5 to 2"
        )
    if survey.asks_one and epsilon.billionths < survey.round_billionths:
        yield (
            f"ε {epsilon} is less than the {survey.round_epsilon} that each round costs, whichever "
            "question is drawn; a larger ε here has no extra cost"
        )
    shift, people = shift_by_forgery(question), CROWDS[-1]
    ratio = shift / _margin(survey, question, people)
    if mechanism.leverage > HIGH_LEVERAGE or ratio >= FAR:
        yield (
            f"{mechanism.forgery()}: if 1 % of {people:,} are forged, they can move a result by "
            f"{_text(question, shift)}, {ratio:.1f} times its margin; {_less_leverage(question)}"
        )
    if _margin(survey, question, CROWDS[1]) > WIDE * question.span:
        yield (
            f"even {CROWDS[1]:,} people give only {_plus_minus(survey, question, CROWDS[1])}; "
            "ask more people, offer fewer options, or use a larger ε"
        )


def _about_repetition(survey: Survey) -> Iterator[str]:
    rounds, last = survey.repeat_rounds, len(survey.span_of(survey.last_round))
    if (bits := report_bits(survey)) > FINGERPRINT_BITS:
        yield (
            f"a report has up to {bits:.0f} bits and is the same in {rounds} rounds, so anyone who "
            "sees the reports of several rounds can use it as a fingerprint to link those of one "
            "install; ask fewer questions, or with fewer options or steps"
        )
    if last < rounds:
        yield (
            f"the last report is sent in only {last} of {rounds} rounds, and costs as much as the "
            "others"
        )


def _about_labels(survey: Survey) -> Iterator[str]:
    bits = sum(math.log2(label.value_limit) for label in survey.labels)
    if survey.repeats and bits > SINGLING_BITS:
        yield (
            f"the labels have up to 2^{bits:.0f} combinations, and latched reports repeat: they "
            "can single out a device over several rounds; declare fewer values, or remove repeat"
        )
    if _given(survey) and survey.period in LONG_PERIODS:
        yield (
            "labels are fixed at a round's first call, so a new version appears only in the next "
            'round; to compare versions, use short rounds, such as round = "week"'
        )
    if survey.labels and survey.sealed_to:
        yield "labels divide a relay's crowds; (ε, δ) is for the smallest group with equal labels"


def _untranslated(survey: Survey) -> list[str]:
    """Return the texts for people that have no table by language."""
    texts = survey.texts[0]
    names = [key for key in SURVEY_TEXTS if key not in texts.fields()]
    for question, translated in zip(survey.questions, texts.questions, strict=True):
        has = {"title": True, "unit": question.unit, "labels": "options" in question.fields()}
        keys = (key for key in has if has[key] and key not in translated.fields())
        names += [f"{key} of {question.name}" for key in keys]
    return names


def _less_leverage(question: Question) -> str:
    """Recommend the mechanism of the same kind and size with the least leverage."""
    chosen = question.mechanism
    least = min([chosen, *_candidates(question)], key=lambda mechanism: mechanism.leverage)
    if least.leverage < chosen.leverage:
        return f'mechanism = "{least.name}" reduces it to {least.leverage:.1f}, a larger ε further'
    return "a larger ε reduces it"


def _candidates(question: Question) -> list[Mechanism]:
    """Return all mechanisms of the same kind and size, unless an author wrote their tables."""
    size = question.mechanism.size
    return [
        mechanism(question.epsilon, size)
        for mechanism in mechanisms(question.mechanism_kind).values()
        if size in mechanism.sizes and not mechanism.given
    ]


def _choice(question: Question) -> str:
    """State what the short report of the question's mechanism costs, if it costs anything."""
    listed = [question.mechanism, *_candidates(question)]
    return choice_sentence(*((one.name, one.payload_size, one.n_variance()) for one in listed))


def _margin(survey: Survey, question: Question, people: int) -> float:
    """Return the margin of error to expect of these people, once the round is final."""
    expected = Expected(question, confidence=final_reading(survey.looks).confidence)
    return expected.margin(survey.reports_of(people))


def _until_final(survey: Survey, question: Question) -> dict[str, float]:
    """Return the margins until a round is final, by number of people; empty if no wider."""
    if survey.looks != "any-time" or not question.labels:
        return {}
    expected = Expected(question, None, final_reading(survey.looks).confidence, looks=True)
    return {str(n): expected.margin(survey.reports_of(n)) for n in CROWDS}


def _shown_from(survey: Survey, question: Question) -> str:
    """Return how many reports an estimate needs, and why fewer are enough for a final round."""
    if survey.show_when is None:
        return ""
    read = final_reading(survey.looks)
    final, early = (
        reports_needed(survey, at_worst(question, read._replace(any_time=looks)))
        for looks in (False, survey.looks == "any-time")
    )
    if early == final:
        return f"; shown from {quantity(final, 'report')}"
    return (
        f"; shown from {quantity(early, 'report')}, or from {final:,} once the round is final: "
        "until then, margins are wider, because you can look at any time"
    )


def _plus_minus(survey: Survey, question: Question, people: int) -> str:
    return _text(question, _margin(survey, question, people))


def _text(question: Question, margin: float) -> str:
    return STYLES[question.statistic].margin(margin, question.unit)
