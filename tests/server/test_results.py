"""Results as JSON, CSV and text, over HTTP and by the command, from a real store."""

import csv
import io
import json
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deniable.server.results import Results, survey_results
from deniable.server.results.annotations import parse_annotation
from deniable.server.store import PublishedSurvey
from deniable.server.store.sql_store import SqlReader
from deniable.shared.cli.command import main
from deniable.shared.errors import Refused
from tests.server.results_data import FIRST_ROUND, NOW, add_round, fill
from tests.server.surveys import BIT, EACH_KIND, until_spring
from tests.server.world import World, world

Filled = tuple[World, PublishedSurvey]


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    with world(tmp_path / "data", NOW) as here:
        yield here, fill(here)


def small(here: World, minimum: int, people: int) -> PublishedSurvey:
    """Publish a survey of one bit, with this number of people in its first round."""
    published = here.publish(until_spring(BIT, name="small", minimum_reports=minimum))
    if people:
        add_round(here.store, published, FIRST_ROUND, [[people, 0]])
    return published


def results_of(here: World, published: PublishedSurvey, number: int | None = None) -> Results:
    return survey_results(published, here.store.tallies(published.sequence), NOW, number)


def test_the_document_has_the_documented_form(filled: Filled) -> None:
    here, published = filled
    results = results_of(here, published)
    assert (results.survey, results.name) == (published.id, "app-health")
    assert results.epsilon == "3.5"
    assert [period.round for period in results.rounds] == [683, 684, 685]
    assert [period.reports for period in results.rounds] == [20_000, 25_000, 4_000]
    for period in results.rounds:
        questions = list(results.of(period))
        assert [question.name for question in questions] == ["crashed", "minutes", "browser"]
        for row in (row for question in questions for row in question.rows):
            assert row.low is not None
            assert row.estimate is not None
            assert row.high is not None
            assert row.low < row.estimate < row.high
            assert row.reports == period.reports
    labels = [row.label for row in results.rounds[0].questions["browser"]]
    assert labels == ["firefox", "chrome", "safari", "edge", "other"]
    assert all(about.leverage > 1 for about in results.about.values())


def test_a_document_describes_each_question(filled: Filled) -> None:
    here, published = filled
    about = results_of(here, published).about
    assert [(a.kind, a.statistic, a.range, a.unit) for a in about.values()] == [
        ("bit", "share", (0, 1), ""),
        ("number", "mean", (0, 120), ""),
        ("choice", "share", (0, 1), ""),
    ]
    sent = json.loads(msgspec.json.encode(about))
    assert (sent["minutes"]["low"], sent["minutes"]["high"]) == (0, 120)
    assert sent["browser"]["options"] == 5
    assert not {"low", "high", "options"} & sent["crashed"].keys()


def test_a_results_document_survives_a_round_trip(filled: Filled) -> None:
    here, published = filled
    results = results_of(here, published)
    assert msgspec.json.decode(msgspec.json.encode(results), type=Results) == results


def test_a_round_is_open_then_collects_late_reports_until_it_is_final(filled: Filled) -> None:
    """On 10 February, February is open, and January's grace is not over."""
    here, published = filled
    document = results_of(here, published)
    assert document.state == "open"
    assert [(p.state, p.final_on, p.any_time, p.confidence) for p in document.rounds] == [
        ("final", "2027-01-15", False, 0.975),
        ("collecting", "2027-02-15", True, 0.975),
        ("open", "2027-03-15", True, 0.975),
    ]
    wide = "its intervals hold for repeated looks until then"
    assert [period.note for period in document.rounds] == [
        None,
        f"collecting late reports until 2027-02-15; {wide}",
        f"open, then collecting late reports until 2027-03-15; {wide}",
    ]
    closed = results_of(here, here.catalogue.close(published))
    assert [period.state for period in closed.rounds] == ["final"] * 3
    assert closed.state == "final"
    assert ["repeated looks" in (period.note or "") for period in closed.rounds] == [
        False, True, True
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["tallies", "annotations", "survey_states"])
def test_results_show_one_snapshot_of_the_store(
    filled: Filled, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """After one of the reads, the test adds reports or an annotation, or closes the survey."""
    here, _ = filled
    published, read = small(here, 100, 150), getattr(SqlReader, name)
    path, headers = f"/v1/surveys/{published.id}/results", here.bearer("analyst")
    before = here.client.get(path, headers=headers).data

    def read_and_change(*args: Any) -> Any:  # Any: as in the method
        result = read(*args)
        add_round(here.store, published, 684, [[150, 0]])
        here.store.annotate(published.sequence, parse_annotation("2027-01-15", "Release 3"))
        here.store.close_survey(published.sequence, NOW)
        return result

    with monkeypatch.context() as patched:
        patched.setattr(SqlReader, name, read_and_change)
        assert here.client.get(path, headers=headers).data == before
    assert b"Release 3" in here.client.get(path, headers=headers).data


def test_rounds_that_have_begun_are_listed_even_without_reports(filled: Filled) -> None:
    here, _ = filled
    document = survey_results(small(here, 1, 0), [], datetime(2027, 1, 1, tzinfo=UTC))
    assert [(p.round, p.reports) for p in document.rounds] == [(683, 0), (684, 0)]
    assert document.rounds[0].questions["crashed"][0].reports == 0
    assert survey_results(small(here, 1, 0), [], datetime(2026, 11, 1, tzinfo=UTC)).rounds == ()


@pytest.mark.parametrize(("people", "shown"), [(99, False), (100, True)])
def test_below_the_minimum_there_is_no_estimate(filled: Filled, people: int, shown: bool) -> None:
    here, _ = filled
    published = small(here, 100, people)
    document = results_of(here, published, FIRST_ROUND)
    (row,) = document.rounds[0].questions["crashed"]
    assert (row.estimate is not None) is shown
    assert row.reports == people
    if not shown:
        assert row.note == "no estimate below 100 reports"
        assert row.low is row.high is row.standard_error is row.consistent is None


@pytest.mark.parametrize("people", [0, 1, 2])
def test_json_never_contains_nan_or_infinity(filled: Filled, people: int) -> None:
    here, _ = filled
    published = small(here, 1, people)
    document = results_of(here, published)
    (row,) = document.rounds[0].questions["crashed"]
    figures = (row.estimate, row.low, row.high, row.standard_error, row.consistent)
    assert all(figure is None or math.isfinite(figure) for figure in figures)
    assert (row.estimate is None) == (people == 0)


def test_one_round_can_be_requested_and_an_unknown_one_is_refused(filled: Filled) -> None:
    here, published = filled
    assert len(results_of(here, published, 684).rounds) == 1
    with pytest.raises(Refused, match="its rounds so far are 683 to 685"):
        results_of(here, published, 686)


def test_http_gives_the_same_document_as_the_function(filled: Filled) -> None:
    here, published = filled
    path = f"/v1/surveys/{published.id}/results"
    results = results_of(here, published)
    sent = filled[0].client.get(path, headers=filled[0].bearer("analyst")).data
    assert msgspec.json.decode(sent, type=Results) == results
    sent = filled[0].client.get(f"{path}?round=684", headers=filled[0].bearer("analyst")).data
    assert msgspec.json.decode(sent, type=Results).rounds == results.rounds[1:2]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/surveys/no-such-survey/results", 404),
        ("/v1/surveys/app-health/results?round=1", 404),
        ("/v1/surveys/app-health/results?round=x", 400),
        ("/v1/surveys/app-health/results?round=-1", 400),
        ("/v1/surveys/app-health/results.csv?round=1", 404),
    ],
)
def test_a_missing_survey_gets_a_problem_document(filled: Filled, path: str, status: int) -> None:
    response = filled[0].client.get(path, headers=filled[0].bearer("analyst"))
    assert (response.status_code, response.mimetype) == (status, "application/problem+json")
    assert json.loads(response.data)["status"] == status


def test_csv_has_a_row_for_each_label_of_each_round(filled: Filled) -> None:
    response = filled[0].client.get(
        "/v1/surveys/app-health/results.csv", headers=filled[0].bearer("analyst")
    )
    assert response.mimetype == "text/csv"
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert len(rows) == 3 * (1 + 1 + 5)
    assert rows[0]["label"] == "yes"
    assert float(rows[0]["low"]) < float(rows[0]["estimate"]) < float(rows[0]["high"])
    assert {row["state"] for row in rows} == {"open", "collecting", "final"}
    assert rows[0]["epsilon"] == "0.5"


def test_csv_leaves_unknown_values_empty_and_quotes_where_needed(filled: Filled) -> None:
    here, _ = filled
    questions = EACH_KIND.replace('"firefox"', "'a, \"b\"'")
    published = here.publish(until_spring(questions, name="quoted"))
    path = "/v1/surveys/quoted/results.csv?round=683"
    response = here.client.get(path, headers=here.bearer("analyst"))
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert rows[2]["label"] == 'a, "b"'
    assert rows[2]["survey"] == published.id
    assert (rows[2]["estimate"], rows[2]["reports"]) == ("", "0")


@pytest.mark.parametrize(
    "label", ["=1+1", "+1", "-1", "@SUM(A1)", "=cmd|' /C calc'!A0", "＝1+1", "＠SUM(A1)"]
)
def test_csv_contains_no_formula(filled: Filled, label: str) -> None:
    """A spreadsheet would run a formula. Negative numbers remain numbers."""
    here, _ = filled
    here.publish(until_spring(EACH_KIND.replace('"firefox"', f'"{label}"'), name="formula"))
    response = here.client.get(
        "/v1/surveys/formula/results.csv?round=683", headers=here.bearer("analyst")
    )
    labels = [row["label"] for row in csv.DictReader(io.StringIO(response.text))]
    assert f"'{label}" in labels
    assert not [label for label in labels if label.startswith(tuple("=+-@＝＋－＠"))]


def test_the_command_prints_one_json_document(
    filled: Filled, capsys: pytest.CaptureFixture[str]
) -> None:
    here, published = filled
    assert (
        main(
            [
                "results",
                published.id[:8],
                "--data",
                str(here.store.data),
                "--round",
                "683",
                "--json",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    (first,) = json.loads(out)["rounds"]
    assert first["reports"] == 20_000


def test_the_command_prints_csv(filled: Filled, capsys: pytest.CaptureFixture[str]) -> None:
    here, _ = filled
    assert main(["results", "app-health", "--data", str(here.store.data), "--csv"]) == 0
    assert len(list(csv.DictReader(io.StringIO(capsys.readouterr().out)))) == 21


def test_the_command_prints_a_table_that_a_person_can_read(
    filled: Filled, capsys: pytest.CaptureFixture[str]
) -> None:
    here, _ = filled
    assert main(["results", "app-health", "--data", str(here.store.data)]) == 0
    out = capsys.readouterr().out
    line = r"Round 683, 2026-12-01 to 2026-12-31, (open|collecting|final): 20,000 reports"
    assert re.search(line, out)  # the state depends on today's date
    assert "crashed (ε 0.5)" in out
    assert "Results describe the people who answered" in out
    assert "firefox" in out
    assert " % " in out


def test_the_command_states_why_there_is_no_estimate(
    filled: Filled, capsys: pytest.CaptureFixture[str]
) -> None:
    here, _ = filled
    small(here, 100, 7)
    assert main(["results", "small", "--data", str(here.store.data)]) == 0
    assert "no estimate below 100 reports" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["nothing"], ["app-health", "--round", "1"]])
def test_the_command_refuses_missing_surveys_with_one_line(
    filled: Filled, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    here, _ = filled
    assert main(["results", *arguments, "--data", str(here.store.data)]) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.strip().splitlines()) == 1
