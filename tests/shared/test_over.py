"""`over`: the part of a round that a question asks about, and the effect of later answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, get_args

import pytest

from deniable.shared.errors import InvalidSurvey
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.survey.document import (
    Survey,
    Symbols,
    parse_document,
    parse_toml,
    render_document,
)
from deniable.shared.survey.kinds.base import Over
from deniable.shared.survey.phrases import asked_about, explain_survey, when_reports_leave
from tests import survey_texts as texts

BIT_OVERS = get_args(Over)
YES_OR_NO = (False, True)
E_TO_1 = Fraction(2718281829, 10**9)  # upper bound on e


def survey(questions: str, **changes: object) -> Survey:
    return parse_toml(texts.survey_text(questions, **changes))


# The document


def test_each_kind_has_a_natural_default_for_over() -> None:
    questions = texts.bit(over=None) + texts.question(
        "browser", "choice", over=None, options=["a", "b"]
    )
    assert [q.over for q in survey(questions).questions] == ["any", "last"]
    assert [q.over for q in survey(questions, round="once").questions] == ["first", "first"]
    latched = survey(questions, repeat="latched", repeat_rounds=2)
    assert [q.over for q in latched.questions] == ["first", "first"]


@pytest.mark.parametrize("over", BIT_OVERS)
def test_the_published_document_always_states_over(over: Over) -> None:
    asked = survey(texts.bit(over=over))
    document = render_document(asked)
    assert f'"over": "{over}"'.encode() in document
    assert render_document(parse_document(document)) == document
    assert asked.redraws == (over != "first")
    with pytest.raises(InvalidSurvey, match="missing or superfluous"):
        parse_document(document.replace(f'   "over": "{over}",\n'.encode(), b""))


def test_questions_that_differ_in_over_do_not_ask_the_same() -> None:
    first, any_ = survey(texts.bit(over="first")), survey(texts.bit(over="any"))
    assert first.asks_the_same(survey(texts.bit(over="first"), title="Another"))
    assert not first.asks_the_same(any_)


@pytest.mark.parametrize(
    ("questions", "changes", "key", "cure"),
    [
        (texts.bit(over="max"), {}, "question[1].over", "first, last, any, all; got 'max'"),
        (
            texts.question("browser", "choice", over="any", options=["a", "b"]),
            {},
            "question[1].over",
            "'any' applies only to bits; a choice takes first or last",
        ),
        (
            texts.bit(over="any") + texts.bit("slow", over="first"),
            {},
            "question.over",
            "for every question or for none",
        ),
        (
            texts.bit(over="last"),
            {"repeat": "latched", "repeat_rounds": 2},
            "question.over",
            'write over = "first"',
        ),
        (texts.bit(over="last"), {"grace_days": 1}, "survey.grace_days", "2 or more, got 1"),
    ],
)
def test_an_error_names_the_key_and_the_fix(
    questions: str, changes: dict[str, object], key: str, cure: str
) -> None:
    with pytest.raises(InvalidSurvey) as caught:
        survey(questions, **changes)
    assert caught.value.key == key
    assert cure in str(caught.value)


def test_over_is_described_in_words() -> None:
    asked = survey(texts.bit(over="any"))
    assert asked_about(asked, asked.questions[0]) == (
        "whether the answer was yes at least once in the month, among installs that run again "
        "before 15 January (in the first round)"
    )
    once = survey(texts.bit(over="first"), round="once")
    assert asked_about(once, once.questions[0]) == "the first answer in the survey"


MONTHS_IN_GERMAN = (
    "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"
)
GERMAN = {
    "over": "  Gefragt ist: {asked}.",
    "over_any": "ob mindestens einmal ja",
    "over_round": "{asked} im {period}",
    "over_month": "Monat",
    "over_among_first": "{asked}, von Geräten, die vor dem {until} wieder laufen",
    "drafts": "Berichte gehen zwischen dem {days} ab.",
    "days_between": "{first} und {last}",
    "day_of_month": "{day}. {month}",
    "months": MONTHS_IN_GERMAN,
}


def test_the_part_of_a_round_is_described_in_another_language() -> None:
    text = explain_survey(survey(texts.bit(over="any")), GERMAN)
    assert text.questions[0].lines[2] == (
        "  Gefragt ist: Ob mindestens einmal ja im Monat, von Geräten, die vor dem 15. Januar "
        "wieder laufen."
    )
    assert "Berichte gehen zwischen dem 1 und 8. Januar ab." in text.privacy


def test_drafts_are_shared_only_by_surveys_whose_rounds_end_together() -> None:
    """The single round of `once` has the same number in every survey, but ends at another time."""
    once, daily = {"round": "once"}, {"round": "day"}
    for period, is_shared in ((once, False), (daily, True)):
        first = survey(texts.bit(over="any"), **period, closes="2026-12-31")
        later = survey(texts.bit(over="any"), **period, closes="2027-01-31")
        assert later.asks_the_same(first)
        assert later.shares_drafts_with(first) is is_shared


def test_reports_leave_within_a_week_after_their_round_and_half_the_grace() -> None:
    asked = survey(texts.bit(over="any"))
    december = asked.first_round
    assert asked.leaves_until(december) == datetime(2027, 1, 8, tzinfo=UTC)
    assert when_reports_leave(asked, december) == "1 and 8 January"
    short = survey(texts.bit(over="any"), grace_days=2)
    assert when_reports_leave(short, december) == "1 and 2 January"


# Later answers, enumerated exactly


def histories(longest: int = 3) -> Iterator[tuple[bool, ...]]:
    for length in range(1, longest + 1):
        yield from product(YES_OR_NO, repeat=length)


class Rolls:
    """All outcomes of the draws for a bit: a number from each interval, with its probability."""

    def __init__(self, keep: int) -> None:
        anywhere = [(0, Fraction(1, 2)), (2**63, Fraction(1, 2))]
        lie = Fraction(ONE - keep, ONE)
        self.of_one_call = [
            ((a, r), wa * wr)
            for (a, wa), (r, wr) in product(anywhere, [(0, lie), (ONE - keep, 1 - lie)])
        ]

    def __call__(self, calls: int) -> Iterator[tuple[list[int], Fraction]]:
        for rolls in product(self.of_one_call, repeat=calls):
            yield [n for pair, _ in rolls for n in pair], Fraction(prod(w for _, w in rolls))


def kept_symbols(asked: Survey, answers: tuple[bool, ...], rolls: list[int]) -> list[Symbols]:
    """Return the report on the device after each call."""
    numbers = iter(rolls)
    name = asked.questions[0].name

    def draw(bits: int) -> int:
        assert bits == 64
        return next(numbers)

    reports = [asked.report({name: answers[0]}, draw).symbols]
    for answer in answers[1:]:
        reports.append(asked.redraw(reports[-1], {name: answer}, draw).symbols)
    assert next(numbers, None) is None, "each call takes the same draws, whatever was answered"
    return reports


def distributions(asked: Survey, answers: tuple[bool, ...]) -> list[Fraction]:
    """Return the probability of a yes on the device after each call."""
    yes = [Fraction(0)] * len(answers)
    for rolls, weight in Rolls(int(asked.questions[0].mechanism.keep))(len(answers)):  # type: ignore[attr-defined] # randomized response
        for call, symbols in enumerate(kept_symbols(asked, answers, rolls)):
            yes[call] += weight * (symbols[0] or 0)
    return yes


STATES = {"last": lambda answers: answers[-1], "any": any, "all": all}


@pytest.mark.parametrize("over", STATES)
def test_the_device_always_holds_one_report_about_the_state(over: Over) -> None:
    """Exact: after every call of every history, P[yes | state] equals that of a single report."""
    asked = survey(texts.bit(over=over))
    mechanism = asked.questions[0].mechanism
    lie = Fraction(mechanism.integers[0], ONE)
    for answers in histories():
        for call, yes in enumerate(distributions(asked, answers), 1):
            state = STATES[over](answers[:call])
            assert yes == (1 - lie if state else lie)
    assert (float(lie), float(1 - lie)) == pytest.approx((0.268941, 0.731059), abs=1e-6)


@pytest.mark.parametrize("over", STATES)
def test_two_histories_differ_by_at_most_e_to_the_epsilon(over: Over) -> None:
    """Compare the report that is sent, and the contents of the device's disk at any time."""
    asked = survey(texts.bit(over=over, epsilon="1"))
    assert asked.questions[0].epsilon == Epsilon("1")
    for length in (1, 2, 3):
        made = [distributions(asked, answers) for answers in histories() if len(answers) == length]
        for one, other in product(made, repeat=2):
            for p, q in zip(one, other, strict=True):
                assert p <= E_TO_1 * q
                assert 1 - p <= E_TO_1 * (1 - q)


def test_drawing_a_new_report_after_every_answer_breaks_any() -> None:
    """Twin: `last` in place of `any` forgets an earlier yes."""
    asked = survey(texts.bit(over="last"))
    lie = Fraction(asked.questions[0].mechanism.integers[0], ONE)
    assert distributions(asked, (True, False))[-1] == lie


def test_with_ask_later_answers_keep_the_drawn_question() -> None:
    asked = survey(texts.bit(over="any") + texts.bit("slow", over="all"), ask=1)
    answers = {"crashed": True, "slow": True}
    assert asked.redraw((None, 1), answers, lambda _: 0).symbols == (None, 1)
    assert asked.redraw((1, None), answers, lambda _: 0).symbols == (0, None)


def test_an_answer_that_does_not_fit_is_replaced_by_a_random_one() -> None:
    asked = survey(texts.bit(over="any"))
    for replacement, symbol in ((0, 1), (ONE - 1, 0)):  # a no keeps the 1; a yes draws a lie
        rolls = iter([replacement, 0])
        report = asked.redraw((1,), {"crashed": None}, lambda _: next(rolls))  # noqa: B023
        assert (report.symbols, report.unfit) == ((symbol,), ("crashed",))


# Vectors


VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "survey_over.json").read_text())


def test_the_document_and_its_days_agree_with_the_vectors() -> None:
    asked = parse_toml(VECTORS["toml"])
    assert render_document(asked).decode() == VECTORS["document"]
    for vector in VECTORS["leaves"]:
        leaves = asked.round_ends(vector["round"]), asked.leaves_until(vector["round"])
        assert [int(day.timestamp()) for day in leaves] == [vector["from"], vector["until"]]


@pytest.mark.parametrize("vector", VECTORS["redrawn"], ids=str)
def test_the_effect_of_later_answers_agrees_with_the_vectors(vector: dict[str, Any]) -> None:
    (question,) = survey(texts.bit(over=vector["over"])).questions
    lies = vector["answer"] != vector["drawn"]
    rolls = iter([0, 0 if lies else ONE - 1])
    symbol, _ = question.redraw(vector["kept"], vector["answer"], lambda _: next(rolls))
    assert symbol == vector["symbol"]


@pytest.mark.parametrize("vector", VECTORS["bad"], ids=lambda vector: str(vector["name"]))
def test_broken_documents_of_the_vectors_are_refused(vector: dict[str, Any]) -> None:
    table = json.loads(VECTORS["document"])
    number = vector["question"]
    changed = table["survey"] if number is None else table["question"][number]
    changed |= vector["keys"]
    text = {key: value for key, value in changed.items() if value is not None}
    changed.clear()
    changed |= text
    with pytest.raises(InvalidSurvey):
        parse_document(json.dumps(table).encode())
