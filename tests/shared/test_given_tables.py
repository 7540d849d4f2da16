"""Tables in survey documents: every reader proves them, and refuses all others."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deniable.shared.errors import InvalidSurvey
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import OptimalTable, mechanisms
from deniable.shared.survey.document import parse_document, parse_toml, render_document
from deniable.shared.survey.questions import parse_question, question_document
from deniable.shared.survey.reader import Reader
from tests.command import run
from tests.given_table import (
    BROKEN,
    STEPS,
    changed,
    honest,
    planted,
)
from tests.survey_texts import number, survey_text

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent / "vectors" / "tables.json").read_text()
)


def refusal(document: bytes) -> InvalidSurvey:
    with pytest.raises(InvalidSurvey) as caught:
        parse_document(document)
    return caught.value


def test_a_proved_table_survives_a_round_trip() -> None:
    survey = parse_document(honest())
    (question,) = survey.questions
    assert render_document(survey) == honest()
    assert question.mechanism.is_private()
    assert (question.mechanism.symbols, survey.report_size) == (10, 1)


@pytest.mark.parametrize("vector", VECTORS["bad"], ids=lambda vector: str(vector["name"]))
def test_the_vectors_have_valid_and_invalid_tables(vector: dict[str, Any]) -> None:
    taken = parse_question(Reader("question", VECTORS["good"]))
    assert question_document(taken) == VECTORS["good"]
    with pytest.raises(InvalidSurvey) as caught:
        parse_question(Reader("question", vector["question"]))
    assert caught.value.key == "question.integers"


@pytest.mark.parametrize("name", BROKEN)
def test_an_invalid_table_is_refused(name: str) -> None:
    change, says = BROKEN[name]
    error = refusal(planted(change))
    assert error.key == "question[1].integers"
    assert says in error.problem


def test_an_epsilon_below_that_of_the_table_is_refused() -> None:
    """A larger ε is accepted, because the table spends less."""
    for epsilon, fits in (("0.999999999", False), ("1", True), ("1.1", True)):
        document = changed(lambda question: question.update(epsilon=epsilon))  # noqa: B023
        if fits:
            assert parse_document(document).round_epsilon == epsilon
        else:
            assert "not private" in refusal(document).problem


@pytest.mark.parametrize("way", ["+{}", "0{}", "{}.0", "{}e0", " {}", "{}\n", "", "9" * 31])
def test_an_integer_has_one_spelling(way: str) -> None:
    """Keep the number where possible, so that only its spelling is wrong."""

    def plant(question: dict[str, Any]) -> None:
        question["integers"][3] = way.format(question["integers"][3])

    refusal(changed(plant))


@pytest.mark.parametrize("read", [int, float, bool, str.split])
def test_an_integer_is_a_string(read: Callable[[str], object]) -> None:
    def plant(question: dict[str, Any]) -> None:
        question["integers"][3] = read(question["integers"][3])

    assert refusal(changed(plant)).key == "question[1].integers"


@pytest.mark.parametrize("grid", [None, 0, 3, 5, 34])
def test_an_impossible_grid_is_refused(grid: int | None) -> None:
    def plant(question: dict[str, Any]) -> None:
        question["grid"] = grid
        if grid is None:
            del question["grid"]

    assert refusal(changed(plant)).key == "question[1].grid"


def test_a_missing_table_error_names_the_command_that_makes_one() -> None:
    text = survey_text(number(mechanism="optimal-table", grid=STEPS))
    with pytest.raises(InvalidSurvey, match="survey publish"):
        parse_toml(text)


def test_no_other_mechanism_accepts_given_integers() -> None:
    """A mechanism with a formula accepts only the formula's integers."""
    for name, mechanism in mechanisms("number").items():
        if not mechanism.given:
            integers = json.dumps([str(n) for n in OptimalTable(Epsilon("1"), STEPS).integers])
            with pytest.raises(InvalidSurvey, match="are not the probabilities"):
                parse_toml(survey_text(number(mechanism=name) + f"integers = {integers}"))


@pytest.mark.parametrize("grid", [None, 16, 4])
def test_certify_prints_the_examples_and_states_where_other_tables_are(grid: int | None) -> None:
    """The example at ε 1 has four steps; every other table exists only in a survey document."""
    size = [] if grid is None else ["--grid", str(grid)]
    asked = ["--kind", "number", "--epsilon", "1", "--mechanism", "optimal-table", *size, "--json"]
    done = run("certify", *asked)
    if grid == STEPS:
        report = json.loads(done.stdout)
        assert {sum(row) for row in report["rows"]} == {2**64}
        assert (done.returncode, report["holds"]) == (0, True)
    else:
        assert (done.returncode, done.stdout) == (2, "")
        assert "writes it into the document" in done.stderr
