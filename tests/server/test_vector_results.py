"""Mean vectors as JSON, as CSV, on the page and in the command's output."""

import csv
import io
import re
from collections.abc import Iterator
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from deniable.server.store import PublishedSurvey, RoundTally
from deniable.server.surveys.survey_file import parse_survey_file
from deniable.shared.cli.command import main
from deniable.shared.errors import InvalidSurvey
from deniable.shared.survey.document import parse_document, parse_toml, render_document
from deniable.shared.survey.kinds.vector import Vector
from deniable.simulations.population import vector_sums
from tests.server.released import release_all
from tests.server.results_data import FIRST_ROUND, NOW
from tests.server.world import World, world
from tests.survey_texts import survey_text, vector

DIMENSION, PEOPLE = 300, 8_000
HELD = np.linspace(-1, 0.9, DIMENSION) / np.linalg.norm(np.linspace(-1, 0.9, DIMENSION))


@cache
def sums(question: Vector, people: int) -> npt.NDArray[np.int64]:
    held = np.tile(0.5 * HELD, (people, 1))
    drawn = vector_sums(question.mechanism, held, 1, np.random.default_rng(people))
    return np.asarray(drawn[0])


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[tuple[World, PublishedSurvey]]:
    """Yield a survey with one round of enough people and one round of too few."""
    with world(tmp_path / "data", NOW) as here:
        asked = survey_text(vector(DIMENSION), closes=date(2027, 2, 28), minimum_reports=100)
        published = here.publish(parse_toml(asked))
        (question,) = published.survey.questions
        assert isinstance(question, Vector)
        for number, people in ((FIRST_ROUND, PEOPLE), (FIRST_ROUND + 1, 99)):
            cells = sums(question, people)
            with here.store.transaction() as transaction:
                transaction.add(published.sequence, RoundTally(number, people, cells))
        release_all(here.store)
        yield here, published


def test_the_document_describes_the_whole_vector(
    filled: tuple[World, PublishedSurvey],
) -> None:
    here, published = filled
    address = f"/v1/surveys/{published.id}/results"
    found = here.client.get(address, headers=here.bearer("analyst")).json
    first, second, *_ = found["rounds"]
    whole = first["vectors"]["gradient"]
    gain = found["about"]["gradient"]["gain"]
    assert found["about"]["gradient"]["dimension"] == DIMENSION
    assert whole["error"] == pytest.approx(1 / gain / PEOPLE**0.5, rel=0.01)
    assert abs(whole["length"] - 0.5) < 0.5
    assert any("for repeated looks, is measured, not proved" in note for note in found["notes"])
    rows = first["questions"]["gradient"]
    off = np.array([row["estimate"] for row in rows]) - 0.5 * HELD
    assert np.linalg.norm(off) == pytest.approx(whole["error"], rel=0.3)
    assert "vectors" not in second
    assert {row["estimate"] for row in second["questions"]["gradient"]} == {None}


def test_the_csv_has_every_coordinate(filled: tuple[World, PublishedSurvey]) -> None:
    here, published = filled
    address = f"/v1/surveys/{published.id}/results.csv?round={FIRST_ROUND}"
    text = here.client.get(address, headers=here.bearer("analyst")).text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["label"] for row in rows] == [str(n) for n in range(DIMENSION)]
    assert all(row["kind"] == "vector" and row["estimate"] for row in rows)


def test_the_page_draws_the_largest_clear_coordinates_and_lists_the_others(
    filled: tuple[World, PublishedSurvey],
) -> None:
    """Large negative coordinates count as large."""
    here, published = filled
    headers = here.bearer("analyst")
    page = here.client.get(f"/surveys/{published.id}?round={FIRST_ROUND}", headers=headers).text
    assert "The mean vector has a length of about" in page
    drawn = page.count('<circle class="point"')
    assert 2 <= drawn <= 20
    assert f"{DIMENSION - drawn} others" in page
    address = f"/v1/surveys/{published.id}/results?round={FIRST_ROUND}"
    (period,) = here.client.get(address, headers=headers).json["rounds"]
    sizes = {row["label"]: abs(row["estimate"]) for row in period["questions"]["gradient"]}
    largest = sorted(sizes, key=lambda label: -sizes[label])[:drawn]
    assert re.findall(r'<text class="label"[^>]*>(\d+)<', page) == largest
    empty = here.client.get(
        f"/surveys/{published.id}?round={FIRST_ROUND + 2}", headers=headers
    ).text
    assert f"gradient=[0.5] + [0.0] * {DIMENSION - 1})" in empty
    assert f"gradient: [0.5, ...Array({DIMENSION - 1}).fill(0)]" in empty


def test_the_command_states_the_error_of_the_whole_vector(
    filled: tuple[World, PublishedSurvey], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["results", "app-health", "--data", str(tmp_path / "data")]) == 0
    said = capsys.readouterr().out
    assert said.count("gradient: The mean vector has a length of about") == 1


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("dimension = 300", "dimension = 1", "2 to 1024 coordinates"),
        ("dimension = 300", "dimension = 1025", "2 to 1024 coordinates"),
        ("dimension = 300", "", "write the number of coordinates"),
        ("dimension = 300", "dimension = 300\nlow = 0", "low"),
        ("dimension = 300", 'dimension = 300\nintegers = ["60", "20", "1"]', "power of two"),
        ("dimension = 300", 'dimension = 300\nintegers = ["64", "22", "1"]', "integers"),
    ],
)
def test_an_impossible_vector_question_is_refused(old: str, new: str, what: str) -> None:
    with pytest.raises(InvalidSurvey, match=what):
        parse_toml(survey_text(vector(300)).replace(old, new))


def test_the_document_states_the_number_of_codewords() -> None:
    """The device uses the document's number, even if it would choose another."""
    document = render_document(parse_survey_file(survey_text(vector(300))))
    (question,) = parse_document(document).questions
    other = document.replace(b'"64"', b'"128"').replace(b'"22"', b'"40"')
    far = str(question.mechanism.integers[2]).encode()
    with pytest.raises(InvalidSurvey, match="integers"):
        parse_document(other)
    made = type(question.mechanism)(question.epsilon, 300, 128, 40)  # type: ignore[call-arg]  # as k-closest has it
    (read,) = parse_document(other.replace(far, str(made.integers[2]).encode())).questions
    assert read.mechanism.integers == made.integers != question.mechanism.integers
