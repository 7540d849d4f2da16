"""The student's tour: each cell runs in its order, and prints what stands below it."""

import contextlib
import io
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "simulations/examples/students_tour.ipynb"
NAME = "students_tour"
TAGS = {"noise", "figure"}  # cells that print something else each time, or nothing to compare


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """One namespace for all cells, which is a module, so that own mechanisms are found in it."""
    import matplotlib as mpl

    mpl.use("agg")
    module = ModuleType(NAME)
    monkeypatch.setitem(sys.modules, NAME, module)
    return vars(module)


def test_the_students_tour_prints_what_it_shows(names: dict[str, Any]) -> None:
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    codes = [each for each in cells if each["cell_type"] == "code"]
    assert len(codes) >= 8
    for cell in codes:
        printed, tags = io.StringIO(), set(cell["metadata"].get("tags", ()))
        with contextlib.redirect_stdout(printed):
            exec("".join(cell["source"]), names)  # our own words
        shown = "".join(line for output in cell["outputs"] for line in output["text"])
        assert tags <= TAGS
        assert shown == ("" if tags else printed.getvalue()), "".join(cell["source"])


def test_it_has_the_form_of_a_notebook() -> None:
    """Version 4.5, in which each cell has an id."""
    book = json.loads(NOTEBOOK.read_text("utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    ids = [each["id"] for each in book["cells"]]
    assert len(set(ids)) == len(ids)
