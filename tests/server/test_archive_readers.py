"""Archives are read without deniable, by the functions of RECIPES.md, run from there."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from deniable.server.archive import round_files
from tests.command import asked_json, run
from tests.server.test_archive import JANUARY, SENT, fill
from tests.survey_texts import bit

SECTION = "Reading an archive with other tools"
RECIPES = Path(__file__).parents[2] / "server/RECIPES.md"


@pytest.mark.parametrize(
    "reader",
    ["pyarrow"]
    + [
        pytest.param(
            name,
            marks=[
                pytest.mark.long,
                pytest.mark.skipif(find_spec(name) is None, reason=f"{name} is not installed"),
            ],
        )
        for name in ("pandas", "polars", "duckdb")
    ],
)
def test_other_programs_count_the_same_reports_as_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    monkeypatch.setattr(round_files, "MAX_PART_REPORTS", 100)
    data, archive = tmp_path / "data", tmp_path / "archive"
    asked = fill(data, bit(epsilon="0.5"))
    assert run("archive", "--data", data, "--to", archive).returncode == 0
    functions = documented()
    counts = functions[f"with_{reader}"](f"{archive}/{asked.id}/{JANUARY}/*.parquet")
    results = asked_json("results", asked.name, "--data", data)["rounds"][-3]
    assert (results["round"], sum(counts.values())) == (JANUARY, sum(SENT))
    (yes,) = (row for row in results["questions"]["crashed"] if row["label"] == "yes")
    share = functions["share"](counts, archive / asked.id / "survey.json")
    assert share == pytest.approx(yes["estimate"], abs=1e-12)


def documented() -> dict[str, Any]:
    """Return the names that the section's block of Python defines."""
    part = RECIPES.read_text("utf-8").split(f"### {SECTION}\n")[1]
    found = re.search(r"^```python\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found[1], names)
    return names
