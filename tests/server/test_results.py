"""Results as JSON, as CSV and in words: over HTTP and by the command, from a real store."""

import csv
import io
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from flask.testing import FlaskClient

from deniable.server.app import create_app
from deniable.server.intake.writer import Writer
from deniable.server.results import Results, survey_results
from deniable.server.store import PublishedSurvey, Store
from deniable.shared.cli.command import main
from deniable.shared.errors import Refused
from tests.server.results_data import FIRST_ROUND, NOW, SURVEY, fill, publish, record

ANALYST, APP = "analyst" * 5, "app-token" * 5
Filled = tuple[Store, PublishedSurvey]


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    with Store.create(tmp_path / "data") as store:
        published = fill(store)
        for token, role in ((ANALYST, "analyst"), (APP, "app")):
            store.add_token(token, role, NOW, NOW + timedelta(days=1))
        yield store, published


@pytest.fixture
def http(filled: Filled) -> FlaskClient:
    store, _ = filled
    return create_app(store, Writer(store), now=lambda: NOW).test_client()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def small(store: Store, minimum: int, people: int) -> PublishedSurvey:
    """A survey of one bit, and so many people in its first round."""
    text = SURVEY.split('[[question]]\nname = "minutes"')[0]
    text = text.replace("app-health", "small").replace(
        "minimum_reports = 100", f"minimum_reports = {minimum}"
    )
    published = publish(store, text)
    if people:
        record(store, published, FIRST_ROUND, [[people, 0]])
    return published


def test_the_document_has_the_promised_form(filled: Filled) -> None:
    store, published = filled
    results = survey_results(published, store.tallies(published.id), NOW)
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


def test_a_document_says_of_each_question_what_a_reader_needs(filled: Filled) -> None:
    store, published = filled
    about = survey_results(published, store.tallies(published.id), NOW).about
    assert [(a.kind, a.statistic, a.range, a.unit) for a in about.values()] == [
        ("bit", "share", (0, 1), ""),
        ("number", "mean", (0, 120), ""),
        ("choice", "share", (0, 1), ""),
    ]
    sent = json.loads(msgspec.json.encode(about))
    assert (sent["minutes"]["low"], sent["minutes"]["high"]) == (0, 120)
    assert sent["browser"]["options"] == 5
    assert not {"low", "high", "options"} & sent["crashed"].keys()


def test_a_document_is_read_back_as_it_was_written(filled: Filled) -> None:
    store, published = filled
    results = survey_results(published, store.tallies(published.id), NOW)
    assert msgspec.json.decode(msgspec.json.encode(results), type=Results) == results


def test_a_round_is_open_until_its_grace_is_over(filled: Filled) -> None:
    store, published = filled
    document = survey_results(published, store.tallies(published.id), NOW)
    january_and_february = [period.open for period in document.rounds]
    assert january_and_february == [False, True, True]  # 10 February is within January's grace
    assert ["repeated looks" in (period.note or "") for period in document.rounds] == [
        False, True, True
    ]  # fmt: skip
    store.close_survey(published.id)
    closed = survey_results(store.find(published.id), store.tallies(published.id), NOW)
    assert not any(period.open for period in closed.rounds)
    assert closed.state == "closed"


def test_rounds_that_have_begun_are_listed_without_reports_too(filled: Filled) -> None:
    store, _ = filled
    document = survey_results(small(store, 1, 0), [], datetime(2027, 1, 1, tzinfo=UTC))
    assert [(p.round, p.reports) for p in document.rounds] == [(683, 0), (684, 0)]
    assert document.rounds[0].questions["crashed"][0].reports == 0
    assert survey_results(small(store, 1, 0), [], datetime(2026, 11, 1, tzinfo=UTC)).rounds == ()


@pytest.mark.parametrize(("people", "shown"), [(99, False), (100, True)])
def test_below_the_minimum_there_is_no_estimate(filled: Filled, people: int, shown: bool) -> None:
    store, _ = filled
    published = small(store, 100, people)
    document = survey_results(published, store.tallies(published.id), NOW, FIRST_ROUND)
    (row,) = document.rounds[0].questions["crashed"]
    assert (row.estimate is not None) is shown
    assert row.reports == people
    if not shown:
        assert row.note == "no estimate below 100 reports"
        assert row.low is row.high is row.standard_error is row.consistent is None


@pytest.mark.parametrize("people", [0, 1, 2])
def test_json_never_holds_what_json_has_no_word_for(filled: Filled, people: int) -> None:
    store, _ = filled
    published = small(store, 1, people)
    document = survey_results(published, store.tallies(published.id), NOW)
    (row,) = document.rounds[0].questions["crashed"]
    figures = (row.estimate, row.low, row.high, row.standard_error, row.consistent)
    assert all(figure is None or math.isfinite(figure) for figure in figures)
    assert (row.estimate is None) == (people == 0)


def test_one_round_can_be_asked_for_and_an_unknown_one_is_refused(filled: Filled) -> None:
    store, published = filled
    tallies = store.tallies(published.id)
    assert len(survey_results(published, tallies, NOW, 684).rounds) == 1
    with pytest.raises(Refused, match="its rounds so far are 683 to 685"):
        survey_results(published, tallies, NOW, 686)


def test_http_gives_the_same_document_as_the_function(http: FlaskClient, filled: Filled) -> None:
    store, published = filled
    path = f"/v1/surveys/{published.id}/results"
    results = survey_results(published, store.tallies(published.id), NOW)
    sent = http.get(path, headers=bearer(ANALYST)).data
    assert msgspec.json.decode(sent, type=Results) == results
    sent = http.get(f"{path}?round=684", headers=bearer(ANALYST)).data
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
def test_what_is_not_there_is_a_problem_document(http: FlaskClient, path: str, status: int) -> None:
    response = http.get(path, headers=bearer(ANALYST))
    assert (response.status_code, response.mimetype) == (status, "application/problem+json")
    assert json.loads(response.data)["status"] == status


@pytest.mark.parametrize("form", ["results", "results.csv"])
@pytest.mark.parametrize(
    ("headers", "status"), [({}, 401), (bearer("x" * 40), 401), (bearer(APP), 403)]
)
def test_results_want_an_analysts_token(
    http: FlaskClient, form: str, headers: dict[str, str], status: int
) -> None:
    assert http.get(f"/v1/surveys/app-health/{form}", headers=headers).status_code == status


def test_csv_has_a_row_for_each_label_of_each_round(http: FlaskClient) -> None:
    response = http.get("/v1/surveys/app-health/results.csv", headers=bearer(ANALYST))
    assert response.mimetype == "text/csv"
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert len(rows) == 3 * (1 + 1 + 5)
    assert rows[0]["label"] == "yes"
    assert float(rows[0]["low"]) < float(rows[0]["estimate"]) < float(rows[0]["high"])
    assert {row["open"] for row in rows} == {"yes", "no"}
    assert rows[0]["epsilon"] == "0.5"


def test_csv_leaves_empty_what_is_unknown_and_quotes_what_must_be(filled: Filled) -> None:
    store, _ = filled
    text = SURVEY.replace('"firefox"', "'a, \"b\"'").replace("app-health", "quoted")
    published = publish(store, text)
    client = create_app(store, Writer(store), now=lambda: NOW).test_client()
    response = client.get("/v1/surveys/quoted/results.csv?round=683", headers=bearer(ANALYST))
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert rows[2]["label"] == 'a, "b"'
    assert rows[2]["survey"] == published.id
    assert (rows[2]["estimate"], rows[2]["reports"]) == ("", "0")


def test_the_command_prints_one_json_document(
    filled: Filled, capsys: pytest.CaptureFixture[str]
) -> None:
    store, published = filled
    assert (
        main(["results", published.id[:8], "--data", str(store.data), "--round", "683", "--json"])
        == 0
    )
    out = capsys.readouterr().out
    (first,) = json.loads(out)["rounds"]
    assert first["reports"] == 20_000


def test_the_command_prints_csv(filled: Filled, capsys: pytest.CaptureFixture[str]) -> None:
    store, _ = filled
    assert main(["results", "app-health", "--data", str(store.data), "--csv"]) == 0
    assert len(list(csv.DictReader(io.StringIO(capsys.readouterr().out)))) == 21


def test_the_command_prints_a_table_that_a_person_can_read(
    filled: Filled, capsys: pytest.CaptureFixture[str]
) -> None:
    store, _ = filled
    assert main(["results", "app-health", "--data", str(store.data)]) == 0
    out = capsys.readouterr().out
    assert "Round 683, 2026-12-01 to 2026-12-31: 20,000 reports" in out
    assert "crashed (ε 0.5)" in out
    assert "the people who reported" in out
    assert "firefox" in out
    assert " % " in out


def test_the_command_says_why_there_is_no_estimate(
    filled: Filled, capsys: pytest.CaptureFixture[str]
) -> None:
    store, _ = filled
    small(store, 100, 7)
    assert main(["results", "small", "--data", str(store.data)]) == 0
    assert "no estimate below 100 reports" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["nothing"], ["app-health", "--round", "1"]])
def test_the_command_refuses_what_is_not_there_with_one_line(
    filled: Filled, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    store, _ = filled
    assert main(["results", *arguments, "--data", str(store.data)]) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.strip().splitlines()) == 1
