"""Archives are read without deniable, by the functions of RECIPES.md, run from there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deniable.server.archive import round_files
from tests.command import asked_json, run
from tests.server.test_archive import JANUARY, SENT, fill
from tests.survey_texts import bit

SECTION = "Reading an archive with other tools"
RECIPES = Path(__file__).parents[2] / "server/RECIPES.md"
UV = str(Path(sys.executable).with_name("uv"))
ALONE = (UV, "run", "--no-project")
PYTHONS = {  # each in an environment that has only its tool, except the first
    "pyarrow": (sys.executable,),
    "pandas": (*ALONE, "--with", "pandas", "--with", "pyarrow", "python"),
    "polars": (*ALONE, "--with", "polars", "python"),
    "duckdb": (*ALONE, "--with", "duckdb", "python"),
}


@pytest.mark.parametrize(
    "reader",
    [pytest.param(name, marks=[] if name == "pyarrow" else pytest.mark.long) for name in PYTHONS],
)
def test_other_programs_count_the_same_reports_as_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    monkeypatch.setattr(round_files, "MAX_PART_REPORTS", 100)
    data, archive = tmp_path / "data", tmp_path / "archive"
    asked = fill(data, bit(epsilon="0.5"))
    assert run("archive", "--data", data, "--to", archive).returncode == 0
    folder = archive / asked.id
    files, survey = folder / str(JANUARY) / "*.parquet", folder / "survey.json"
    program = f"""{documented()}
counts = with_{reader}({str(files)!r})
print(json.dumps([sum(counts.values()), share(counts, Path({str(survey)!r}))]))
"""
    done = subprocess.run(
        [*PYTHONS[reader], "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    reports, share = json.loads(done.stdout)
    results = asked_json("results", asked.name, "--data", data)["rounds"][-3]
    assert (results["round"], reports) == (JANUARY, sum(SENT))
    (yes,) = (row for row in results["questions"]["crashed"] if row["label"] == "yes")
    assert share == pytest.approx(yes["estimate"], abs=1e-12)


def documented() -> str:
    """Return the section's block of Python."""
    part = RECIPES.read_text("utf-8").split(f"### {SECTION}\n")[1]
    found = re.search(r"^```python\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]
