"""Notebook for students: each cell runs in order, and prints the output below it."""

import contextlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "simulations/examples/students_tour.ipynb"
RECIPES = (Path(__file__).parents[2] / "simulations/RECIPES.md").read_text("utf-8")
NAME = "students_tour"
TAGS = {"noise", "figure"}  # cells whose output varies or cannot be compared


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run all cells in one namespace, which is a module, so that custom mechanisms are found."""
    import matplotlib as mpl

    mpl.use("agg")
    module = ModuleType(NAME)
    monkeypatch.setitem(sys.modules, NAME, module)
    return vars(module)


def test_the_notebook_prints_the_output_that_it_contains(names: dict[str, Any]) -> None:
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    codes = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(codes) >= 8
    for cell in codes:
        printed, tags = io.StringIO(), set(cell["metadata"].get("tags", ()))
        with contextlib.redirect_stdout(printed):
            exec("".join(cell["source"]), names)  # a cell of this repository
        shown = "".join(line for output in cell["outputs"] for line in output["text"])
        assert tags <= TAGS
        assert shown == ("" if tags else printed.getvalue()), "".join(cell["source"])


def test_the_mechanism_of_the_notebook_is_found_in_a_file_of_its_folder(tmp_path: Path) -> None:
    """Run the line of simulations/RECIPES.md with fewer people."""
    (line,) = re.findall(r"^    python -m (deniable .*--mechanisms.*)", RECIPES, re.MULTILINE)
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    (source,) = ["".join(c["source"]) for c in cells if "class HalfBit" in "".join(c["source"])]
    (tmp_path / "own.py").write_text(source.partition("both = ")[0], "utf-8")
    words = [sys.executable, "-m", *line.split(), "--repetitions", "20", "--json"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "own:HalfBit" in {row.get("estimator") for row in json.loads(done.stdout)["rows"]}


def test_the_notebook_has_a_valid_format() -> None:
    """Check format version 4.5, in which each cell has an id."""
    book = json.loads(NOTEBOOK.read_text("utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in book["cells"]]
    assert len(set(ids)) == len(ids)
