"""Reference values: read strictly, drawn next to the estimates, and never stored."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from deniable.server.http.context import parts_of
from deniable.server.results.annotations import (
    COLUMNS,
    ReferenceValue,
    ReferenceValues,
    read_reference_values,
    reference_values_text,
)
from deniable.server.store import PublishedSurvey
from deniable.shared.errors import WrongUse
from tests.server.results_data import NOW
from tests.server.world import World

pytestmark = pytest.mark.at(NOW)

TRUE = [
    ReferenceValue("app-health", 683, "crashed", "yes", 0.2),
    ReferenceValue("app-health", 684, "crashed", "yes", 0.15),
    ReferenceValue("app-health", 684, "browser", "chrome", 0.5),
    ReferenceValue("another", 684, "browser", "edge", 0.9),
]


@pytest.fixture
def file(here: World, tmp_path: Path) -> Path:
    """Return the file that the application reads, as with `serve --known`."""
    made = tmp_path / "known.csv"
    made.write_text(reference_values_text(TRUE), "utf-8")
    parts_of(here.app).references.path = made
    return made


def page(here: World, published: PublishedSurvey, number: int) -> str:
    path = f"/surveys/{published.id}?round={number}"
    text: str = here.client.get(path, headers=here.bearer("analyst")).text
    return text


def test_reference_values_are_shown_next_to_the_estimates(
    here: World, published: PublishedSurvey, file: Path
) -> None:
    text = page(here, published, 684)
    assert text.count('class="reference"') == 2 + 1 + 1 + 2, (
        "expected in a trend, an option, its panel and the legends"
    )
    assert "Reference value: 15.0 %." in text
    assert '<th scope="col">reference</th>' in text
    assert "<td>50.0</td>" in text
    assert "<td>90.0</td>" not in text, "shows a value of another survey"
    other = page(here, published, 685)
    assert "Reference value:" not in other
    assert "reference value" in other, "the trend lacks the earlier rounds"


def test_reference_values_are_in_neither_results_nor_store(
    here: World, published: PublishedSurvey, file: Path
) -> None:
    path = f"/v1/surveys/{published.id}/results"
    found = here.client.get(path, headers=here.bearer("analyst")).data
    file.unlink()
    assert found == here.client.get(path, headers=here.bearer("analyst")).data
    assert "known" not in json.loads(found)


def test_a_changed_file_is_read_again_and_a_fault_is_logged_once(
    here: World, published: PublishedSurvey, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = ReferenceValues(file)
    assert values.of(published)["crashed", 683, "yes"] == 0.2
    file.write_text(reference_values_text([TRUE[0]._replace(value=0.25), *TRUE]), "utf-8")
    assert len(values.of(published)) == 3
    file.write_text("nonsense", "utf-8")
    with caplog.at_level(logging.WARNING):
        assert [values.of(published) for _ in range(3)] == [{}] * 3
    assert len(caplog.records) == 1
    file.write_text(reference_values_text(TRUE), "utf-8")
    assert len(values.of(published)) == 3
    assert ReferenceValues().of(published) == {}


@pytest.mark.parametrize(
    "line", ["app-health,683,crashed,yes,nan", "app-health,683,crashed,yes,inf",
             "app-health,x,crashed,yes,0.1", "app-health,683,crashed,yes", "a,1,b,c,1e400"]
)  # fmt: skip
def test_an_invalid_value_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "known.csv"
    file.write_text(f"{','.join(COLUMNS)}\n{line}\n", "utf-8")
    with pytest.raises(WrongUse, match=r"known\.csv"):
        read_reference_values(file)


def test_a_file_with_other_columns_or_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "known.csv"
    with pytest.raises(WrongUse):
        read_reference_values(file)
    file.write_text("survey,value\n", "utf-8")
    with pytest.raises(WrongUse, match="the first line must be survey,round,question,label,value"):
        read_reference_values(file)
    file.write_text(reference_values_text([]), "utf-8")
    assert read_reference_values(file) == ()
