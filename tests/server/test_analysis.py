"""Results in Python, as SURVEYS.md shows: from a folder and from a server."""

from __future__ import annotations

import csv
import importlib.util
import io
import re
from pathlib import Path

import pytest

from deniable.server.analysis import SurveyResults, open_results
from deniable.server.results import csv_chunks, survey_results
from deniable.shared.errors import Refused, WrongUse
from tests.server.results_data import NOW, fill
from tests.server.world import World

pytestmark = pytest.mark.at(NOW)

SURVEYS = Path(__file__).resolve().parents[2] / "server" / "SURVEYS.md"


@pytest.fixture
def results(here: World) -> SurveyResults:
    published = fill(here)
    return SurveyResults(survey_results(published, here.store.tallies(published.sequence), NOW))


def test_the_lines_of_the_readme_run_unchanged(
    here: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(here)
    section = SURVEYS.read_text("utf-8").split("\n## Read results in Python\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "SURVEYS.md", "exec"), {})
    sentence, low, people, rows = capsys.readouterr().out.splitlines()
    assert sentence.startswith("browser, round 685: firefox ")
    assert "4,000 reports" in sentence
    assert float(low) < 0.2
    assert int(people) > 4_000
    assert int(rows) == 3 * 7


def test_results_describe_the_newest_or_the_named_round(
    results: SurveyResults,
) -> None:
    assert results.estimate("crashed").round.round == 685
    assert "for repeated looks" in repr(results.estimate("crashed"))
    december = results.estimate("crashed", round=683)
    assert december["yes"].reports == 20_000
    assert "for repeated looks" not in repr(december)
    assert [row.label for row in results.estimate("browser")] == [
        "firefox", "chrome", "safari", "edge", "other"
    ]  # fmt: skip
    assert len(repr(results).splitlines()) == 3


def test_people_needed_grow_with_the_inverse_square_of_the_error(results: SurveyResults) -> None:
    answer = results.estimate("crashed", round=683)
    row = answer["yes"]
    assert row.low is not None
    assert row.high is not None
    half = (row.high - row.low) / 2
    assert answer.people_needed(half) == pytest.approx(20_000, abs=1)
    assert answer.people_needed(half / 2) == pytest.approx(80_000, abs=1)
    assert results.people_needed(0.01, "browser") < results.people_needed(0.01)


def test_missing_rounds_and_questions_are_reported(results: SurveyResults) -> None:
    with pytest.raises(Refused, match="its questions are crashed, minutes, browser"):
        results.estimate("colour")
    with pytest.raises(Refused, match="does not have that round"):
        results.estimate("crashed", round=1)
    with pytest.raises(WrongUse, match="above 0"):
        results.people_needed(0)


def test_a_table_has_a_row_for_each_label(results: SurveyResults) -> None:
    """If the optional library pandas is missing, the error says so."""
    if importlib.util.find_spec("pandas") is None:
        with pytest.raises(WrongUse, match="pip install pandas"):
            results.to_pandas()
    else:
        table = results.to_pandas()
        assert len(table) == len(list(results.rows())) == 21
        assert {"round", "question", "label", "low_these", "high_all"} <= set(table.columns)


def test_the_rows_are_those_of_the_csv(results: SurveyResults) -> None:
    document = results.document
    table = csv.DictReader(io.StringIO("".join(csv_chunks(document, document.rounds))))
    as_text = [
        {key: "" if value is None else str(value) for key, value in row.items()}
        for row in results.rows()
    ]
    assert as_text == [*table]
    assert {row["from"] for row in as_text} == {"2026-12-01", "2027-01-01", "2027-02-01"}


def test_a_store_of_several_surveys_requires_a_name(here: World, tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="the store has 0 surveys"):
        open_results(tmp_path / "data")
    published = fill(here)
    assert open_results(tmp_path / "data").document.survey == published.id
    assert open_results(tmp_path / "data", "app-health").document.survey == published.id
    with pytest.raises(WrongUse, match="name the survey"):
        open_results("https://stats.example.org")
