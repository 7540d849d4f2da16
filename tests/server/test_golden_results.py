"""Results documents: equal to the stored golden files, except for keys that were added later."""

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.server.golden_results import CASES, FOLDER, answers

FIGURES = {
    "estimate", "low", "high", "standard_error", "consistent", "leverage",
    "low_these", "high_these", "low_all", "high_all",
}  # fmt: skip


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    return dict(answers(tmp_path_factory.mktemp("golden") / "data"))


def same(now: Any, then: Any, place: str = "") -> None:  # Any: JSON
    """Check that every key keeps its value.

    Floats are compared to nine digits, since libraries differ.
    """
    match then:
        case dict():
            assert then.keys() <= now.keys(), f"{place}: {then.keys() - now.keys()} left out"
            for key, value in then.items():
                same(now[key], value, f"{place}.{key}")
        case list():
            assert len(now) == len(then), place
            for number, value in enumerate(then):
                same(now[number], value, f"{place}[{number}]")
        case float():
            assert isinstance(now, float), place
            assert now == pytest.approx(then, rel=1e-9), place
        case _:
            assert (now, type(now)) == (then, type(then)), place


@pytest.mark.parametrize("name", CASES)
def test_a_results_document_keeps_every_key_and_value(sent: Mapping[str, str], name: str) -> None:
    file = f"{name}.json"
    same(json.loads(sent[file]), json.loads((FOLDER / file).read_text("utf-8")))


@pytest.mark.parametrize("name", CASES)
def test_a_results_table_keeps_every_column_and_cell(sent: Mapping[str, str], name: str) -> None:
    file = f"{name}.csv"
    now, then = (rows(text) for text in (sent[file], (FOLDER / file).read_bytes().decode()))
    assert sent[file].splitlines()[0] == (FOLDER / file).read_text("utf-8").splitlines()[0]
    same(now, then)


def rows(text: str) -> list[dict[str, object]]:
    assert text.count("\r\n") == text.count("\n")
    return [
        {k: float(v) if k in FIGURES and v else v for k, v in row.items()}
        for row in csv.DictReader(io.StringIO(text, newline=""))
    ]
