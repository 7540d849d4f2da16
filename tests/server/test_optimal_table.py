"""Tables computed for a survey: verified from the document alone, with minimum variance."""

import json
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest

from deniable.server.surveys import optimal_table, survey_file
from deniable.server.surveys.optimal_table import NoTable
from deniable.server.surveys.survey_file import WORTHWHILE_GAIN, best_table, parse_survey_file
from deniable.shared.errors import InvalidSurvey
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import OptimalTable, mechanisms, number_table
from deniable.shared.survey.document import parse_document, render_document
from tests.survey_texts import number, survey_text

ONE = 2**64
GRID = [
    *((epsilon, None) for epsilon in ("0.01", "0.1", "0.5", "1", "1.386", "2", "3", "4")),
    *((epsilon, None) for epsilon in ("4.000000001", "6", "8", "12", "20")),
    *((epsilon, steps) for epsilon in ("0.3", "1", "9", "20") for steps in (2, 4, 10)),
]
BEST = {  # n times the worst variance on [-1, 1], and a lower bound for every grid of this size
    "0.5": (16.005, 15.9),
    "1": (3.994, 3.990),
    "2": (0.8688, 0.8649),
    "3": (0.3074, 0.3034),
    "4": (0.1303, 0.1264),
    "6": (0.02795, 0.02695),
    "8": (0.00730, 0.00632),
}


@cache
def question(epsilon: str, steps: int | None = None) -> dict[str, Any]:
    """Return the question as it is published."""
    text = survey_text(number(-3, 9, "optimal-table", epsilon=epsilon, grid=steps))
    (published,) = json.loads(render_document(parse_survey_file(text)))["question"]
    assert isinstance(published, dict)
    return published


def symbols(published: dict[str, Any]) -> list[tuple[Fraction, list[int]]]:
    """Return the value and the column of every symbol, parsed as the protocol describes."""
    each, integers = published["grid"] + 2, [int(text) for text in published["integers"]]
    half = [integers[at : at + each] for at in range(0, len(integers), each)]
    lower = [(Fraction(value, ONE), column) for value, *column in half]
    upper = [(published["grid"] - value, column[::-1]) for value, column in reversed(lower)]
    return lower + upper


@pytest.mark.parametrize(("epsilon", "steps"), GRID)
def test_every_table_is_private_complete_and_unbiased(epsilon: str, steps: int | None) -> None:
    """Checked in rational arithmetic, with a lower bound on e^ε from another library."""
    published = question(epsilon, steps)
    table = symbols(published)
    with mpmath.workprec(400):
        most = Fraction(int(mpmath.floor(mpmath.exp(mpmath.mpf(epsilon)) * 2**300)), 2**300)
    for _, column in table:
        assert min(column) > 0
        assert Fraction(max(column), min(column)) <= most
    for answer in range(published["grid"] + 1):
        assert sum(column[answer] for _, column in table) == ONE
        mean = sum((value * column[answer] for value, column in table), Fraction(0)) / ONE
        assert abs(mean - answer) <= Fraction(1, 2**40)


@pytest.mark.parametrize("epsilon", BEST)
def test_the_worst_answer_has_the_minimum_variance(epsilon: str) -> None:
    """The document alone must match independent figures, within one per cent.

    Between two points the variance is a parabola, so the maximum is taken over many positions and
    is accurate to 1e-6.
    """
    published = question(epsilon)
    steps, table = published["grid"], symbols(published)
    values = np.array([float(value) for value, _ in table])
    rows = np.array([[units / ONE for units in column] for _, column in table]).T
    points = ((values - np.arange(steps + 1)[:, None]) ** 2 * rows).sum(1)
    share = np.linspace(0, 1, 1001)[:, None]
    between = (1 - share) * points[:-1] + share * points[1:] + share * (1 - share)
    worst = 4 * float(between.max()) / steps**2
    reached, limit = BEST[epsilon]
    assert worst <= reached * 1.01
    assert worst >= limit
    (asked,) = parse_document(document(published)).questions
    assert isinstance(asked.mechanism, OptimalTable)
    assert 4 * asked.mechanism.worst_variance(1) == pytest.approx(worst, rel=1e-6)


def document(*questions: dict[str, Any]) -> bytes:
    """Return a published survey with these questions."""
    table = json.loads(render_document(parse_survey_file(survey_text(number(mechanism="ternary")))))
    return json.dumps(table | {"question": list(questions)}).encode()


def test_a_survey_without_a_mechanism_gets_the_table_if_it_gains_enough() -> None:
    """The table must beat every formula's variance by two per cent; otherwise a formula is used."""
    chosen = {}
    for text in ("0.1", "0.3", "0.5", "1", "4", "12"):
        asked = parse_survey_file(survey_text(number(epsilon=text))).questions[0].mechanism
        made = best_table(Epsilon(text), None, "optimal-table")
        formula = number_table(Epsilon(text))
        better = WORTHWHILE_GAIN * made.worst_variance(1) <= formula.worst_variance(1)
        assert asked.name == (made.name if better else formula.name)
        chosen[text] = asked.name
    assert list(chosen.values()) == ["one-bit-mean"] * 2 + ["optimal-table"] * 4


def test_a_stated_mechanism_is_kept() -> None:
    """A stated mechanism is kept even with a grid that no table has; so is a stated grid."""
    for name in mechanisms("number"):
        (asked,) = parse_survey_file(survey_text(number(0, 1, name))).questions
        assert asked.mechanism.name == name
    sizes = [(grid, best_table(Epsilon("2"), grid)) for grid in (1, 7, 8, 32, 64)]
    assert [(table.name, table.steps) for _, table in sizes] == [
        ("one-bit-mean", 1),
        ("local-laplace", 7),
        ("optimal-table", 8),
        ("optimal-table", 32),
        ("local-laplace", 64),
    ]


def test_a_document_with_tables_is_small() -> None:
    """Two tables of the finest grid in one survey take less than 64 KiB."""
    largest = max(("4.000000001", "6", "8", "20"), key=lambda e: len(question(e)["integers"]))
    text = survey_text(
        number(epsilon=largest, name="one") + number(epsilon=largest, mechanism=None, name="two")
    )
    assert len(render_document(parse_survey_file(text))) < 2 * 48 * 1024
    assert len(render_document(parse_survey_file(survey_text(number(epsilon=largest))))) < 48 * 1024


def test_the_search_is_reproducible() -> None:
    optimal_table.optimal_table.cache_clear()
    again = best_table(Epsilon("1"), None, "optimal-table").integers
    assert list(map(str, again)) == question("1")["integers"]


def test_slow_steps_are_reported_to_the_caller() -> None:
    told: list[str] = []
    parse_survey_file(
        survey_text(number(epsilon="1") + number(mechanism="ternary", name="b")), told.append
    )
    assert told == ["minutes: looking for the best table at ε 1"]


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('epsilon = "1"', "epsilon = 1", "question[1].epsilon"),
        ('epsilon = "1"', "", "question[1].epsilon"),
        ('epsilon = "1"', 'epsilon = "1"\ngrid = 5', "question[1].grid"),
        ('epsilon = "1"', 'epsilon = "1"\ngrid = 34', "question[1].grid"),
        ('epsilon = "1"', 'epsilon = "1"\ngrid = 4.0', "question[1].grid"),
        ('epsilon = "1"', 'epsilon = "1"\ngrid = true', "question[1].grid"),
        ('epsilon = "1"', 'epsilon = "1"\ngrid = 4\nintegers = []', "question[1].integers"),
        ("low = 0", 'low = "a"', "question[1].low"),
        ("[[question]]", "[question]", "document.question"),
    ],
)
def test_other_mistakes_are_still_reported_with_a_table(old: str, new: str, key: str) -> None:
    text = survey_text(number(mechanism="optimal-table"))
    assert old in text
    with pytest.raises(InvalidSurvey) as caught:
        parse_survey_file(text.replace(old, new))
    assert caught.value.key == key


def test_without_a_table_a_formula_is_used_or_the_fix_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(epsilon: Epsilon, steps: int) -> OptimalTable:
        raise NoTable("the search ended early")

    monkeypatch.setattr(optimal_table, "optimal_table", none)
    assert best_table(Epsilon("2")).name == "ternary"
    with pytest.raises(InvalidSurvey, match="ended early; name another"):
        parse_survey_file(survey_text(number(mechanism="optimal-table")))


def test_a_failed_search_gives_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof rejects every wrong result. Here the search returns only half of the table."""
    found = optimal_table.search(1.0, 4)
    monkeypatch.setattr(optimal_table, "search", lambda epsilon, steps: found[: len(found) // 2])
    with pytest.raises(NoTable, match="ε 1 with 4 steps"):
        optimal_table.optimal_table.__wrapped__(Epsilon("1"), 4)


def test_a_named_mechanism_needs_no_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(survey_file, "best_table", None)
    (asked,) = parse_survey_file(survey_text(number(mechanism="ternary"))).questions
    assert asked.mechanism.name == "ternary"
