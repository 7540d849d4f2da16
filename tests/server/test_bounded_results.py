"""A request for results needs at most 64 MB, and the response names the rounds it leaves out."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pytest

from deniable.server.http import api as http_results
from deniable.server.pages import survey_page
from deniable.server.results import (
    EstimateCache,
    SurveyEstimates,
    csv_chunks,
    select_rounds,
    survey_estimates,
)
from deniable.server.results.survey_estimates import MAX_ROWS, rows_per_question
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.survey.document import Survey
from tests.server.results_data import NOW, fill
from tests.server.surveys import choice, survey
from tests.server.world import World, world
from tests.survey_texts import bit

MAX_GROWTH_BYTES = 64 * 2**20
ROOT = Path(__file__).resolve().parents[2]
DAILY: dict[str, object] = {"round": "day", "opens": date(2039, 1, 1), "closes": date(2039, 12, 31)}
LATER = datetime(2040, 3, 1, tzinfo=UTC)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
@pytest.mark.parametrize(
    "path", ["/v1/surveys/{}/results", "/v1/surveys/{}/results.csv", "/surveys/{}"]
)
def test_a_request_for_400_rounds_of_8000_options_stays_bounded(path: str) -> None:
    """Allow 64 MB of growth in a separate process; the complete document would have 1.4 GB."""
    command = [sys.executable, "-m", "tests.server.results_memory", path, "8000", "400"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr
    growth, size = map(int, done.stdout.split())
    assert size > 100_000, "the answer is empty"
    assert growth < MAX_GROWTH_BYTES


def test_a_response_has_at_most_50000_rows_of_the_newest_rounds() -> None:
    asked = survey(choice(8_000, "unary") + bit(), **DAILY)
    selection = select_rounds(asked, LATER)
    assert selection.last == asked.last_round
    shown = selection.last - selection.first + 1
    assert shown * 8_001 <= MAX_ROWS < (shown + 1) * 8_001
    assert selection.left_out == 365 - shown


def test_a_response_reads_at_most_16_mb_of_counts() -> None:
    """A text question has few rows but many counts."""
    text = '[[question]]\nname = "it"\nkind = "text"\nover = "first"\nlength = 16\nepsilon = "1"\n'
    asked = survey(text, **DAILY)
    (question,) = asked.questions
    selection = select_rounds(asked, LATER)
    read = (selection.last - selection.first + 1) * question.mechanism.cells * 8
    assert 0 < read <= 2**24


def test_one_round_that_is_too_long_keeps_the_short_questions_and_the_highest_rows() -> None:
    asked = survey(choice(100, "unary") + bit(), minimum_reports=1)
    assert rows_per_question(asked, 50) == {"crashed": 1, "browser": 49}
    cells = np.concatenate([np.arange(1_000, 1_100), [600, 400]])
    tally = RoundTally(683, 2_000, cells)
    made = SurveyEstimates(published_of(asked), [tally], NOW, cache=EstimateCache(), max_rows=50)
    (period,) = made.estimated([683])
    assert period.rows_left_out == {"browser": 51}
    assert [len(period.questions[name]) for name in ("browser", "crashed")] == [49, 1]
    (whole,) = SurveyEstimates(published_of(asked), [tally], NOW).estimated([683])
    assert period.questions["browser"] == whole.questions["browser"][51:], (
        "the options are not in their order"
    )
    *_, note = csv.DictReader(io.StringIO("".join(csv_chunks(made.header, [period]))))
    assert note["note"] == "rows with the lowest estimates left out: 51 of browser"


def test_json_csv_and_page_name_the_rounds_that_they_leave_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limit results to two of three rounds, and to four rows of a round."""
    monkeypatch.setattr(survey_estimates, "MAX_ROWS", 2 * 7)
    monkeypatch.setattr(http_results, "MAX_ROWS", 4)
    monkeypatch.setattr(survey_page, "MAX_ROWS", 4)
    with world(tmp_path / "data", NOW) as here:
        asked = fill(here)
        document = json.loads(get(here, f"/v1/surveys/{asked.id}/results"))
        *rows, last = csv.DictReader(io.StringIO(get(here, f"/v1/surveys/{asked.id}/results.csv")))
        page = get(here, f"/surveys/{asked.id}?round=684")
    assert document["left_out"] == 1
    assert [period["round"] for period in document["rounds"]] == [684, 685]
    left_out = {"browser": 3}
    assert [period["rows_left_out"] for period in document["rounds"]] == [left_out] * 2
    assert len([row for row in rows if row["question"]]) == 2 * 4
    assert last["note"] == "only the newest rounds; earlier rounds left out: 1"
    assert "CSV, newest rounds" in page
    assert "3 more are not shown; on the server" in page


def get(here: World, path: str) -> str:
    response = here.client.get(path, headers=here.bearer("analyst"))
    assert response.status_code == 200
    text: str = response.text
    return text


def published_of(asked: Survey) -> PublishedSurvey:
    return PublishedSurvey(1, "a" * 64, b"", "", "", None, survey=asked)
