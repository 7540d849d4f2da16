"""Framework of studies: seeds, journal and outputs, tested with the built-in minimax study."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.shared.cli.command import INTERRUPTED, main
from deniable.shared.errors import installation
from deniable.simulations.engine.cells import Journal, cell_generator, run_cells
from deniable.simulations.engine.study import Cell, Row, load
from deniable.simulations.engine.study_result import csv_bytes

PATIENCE = 120
FEW = ["--moments", "2,inf", "--epsilon", "1", "--people", "1e2,1e4", "--repetitions", "1000"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "out"
    assert main(["simulate", "minimax", *FEW, "--on", "local", "--out", str(folder)]) == 0
    return folder


def test_every_order_and_back_end_gives_the_same_bytes() -> None:
    study = load("minimax")
    options = {"moments": ["2"], "epsilon": ["1"], "people": [100, 1000], "repetitions": 400}
    cells = study.cells(options)
    here = run_cells(study, cells, 5)
    backwards = run_cells(study, cells[::-1], 5)[::-1]
    in_pool = run_cells(study, cells, 5, "pool")
    assert csv_bytes(here) == csv_bytes(backwards) == csv_bytes(in_pool)
    assert csv_bytes(here) != csv_bytes(run_cells(study, cells, 6))


def test_the_randomness_of_a_cell_depends_only_on_the_cell() -> None:
    draws = {
        (name, seed, users): cell_generator(name, seed, {"users": users}).integers(2**62)
        for name in ("a", "b")
        for seed in (1, 2)
        for users in (1, 2)
    }
    assert len(set(draws.values())) == len(draws)
    assert (
        cell_generator("a", 1, {"x": 1, "y": 2}).random()
        == cell_generator("a", 1, {"y": 2, "x": 1}).random()
    )


def test_all_output_files_are_written(written: Path) -> None:
    names = {path.name for path in written.iterdir()}
    figures = {f"{name}.{kind}" for name in ("risk", "worth") for kind in ("svg", "png")}
    assert {"index.html", "minimax.csv", "run.toml", "cells.jsonl", *figures} <= names
    made = record(written)
    assert made["run"] == {"study": "minimax", "seed": 20240501}
    assert made["arguments"]["people"] == [100, 10_000]
    assert made["versions"]["numpy"] == np.__version__
    with (written / "minimax.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 2 * 2 * 5


def test_the_page_loads_nothing_from_the_network(written: Path) -> None:
    page = (written / "index.html").read_text("utf-8")
    assert page.count("<figure>") == 2
    assert page.count("<svg ") == 2 + len(load("minimax").formulas)
    assert not re.search(r"<(script|link|img|iframe)|@import|url\((?!#)", page)
    links = re.findall(r"""(?:src|href)\s*=\s*["']([^"']+)""", page)
    files = {link for link in links if not link.startswith("#")}
    assert files == {
        "minimax.csv",
        *(f"{f}.{k}" for f in ("risk", "worth") for k in ("svg", "png")),
    }
    assert all((written / file).is_file() for file in files)
    named = re.findall(r'\bid="([^"]+)"', page)
    assert len(set(named)) == len(named)
    assert {link[1:] for link in links if link.startswith("#")} <= set(named)
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page


def test_parquet_has_the_rows_of_the_csv(written: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")  # extra `archive`
    table = parquet.read_table(written / "minimax.parquet").to_pylist()
    with (written / "minimax.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [str(row["risk_measured"]) for row in table] == [row["risk_measured"] for row in rows]


@pytest.mark.long
def test_figures_are_reproducible(written: Path, tmp_path: Path) -> None:
    assert main(["simulate", "minimax", *FEW, "--on", "local", "--out", str(tmp_path)]) == 0
    for name in ("risk.svg", "worth.svg", "index.html", "minimax.csv", "run.toml"):
        assert (tmp_path / name).read_bytes() == (written / name).read_bytes(), name


def test_json_is_one_document_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "minimax", *FEW, "--on", "local", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"options", "rows", "findings", "slopes"}


@pytest.mark.parametrize(("given", "used"), [(None, "1"), ("3", "3")])
def test_the_command_starts_numpy_with_one_thread_unless_told(given: str | None, used: str) -> None:
    """The variable counts only if it is set before numpy is loaded."""
    code = (
        "import os, sys\nfrom deniable.shared.cli.command import main\nseen = []\n"
        "class Watch:\n    def find_spec(self, name, path=None, target=None):\n"
        "        name == 'numpy' and seen.append(os.environ.get('OPENBLAS_NUM_THREADS'))\n"
        "sys.meta_path.insert(0, Watch())\n"
        "main(['simulate', 'repeat', '--epsilon', '1', '--rounds', '1'])\nprint(seen)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    environment |= {} if given is None else {"OPENBLAS_NUM_THREADS": given}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == f"['{used}']"


def test_wrong_arguments_give_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (["--people", "0"], ["--moments", "1"], ["--epsilon", "x"], ["--seed", "-1"]):
        assert main(["simulate", "minimax", *wrong]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1, error
        assert wrong[0] in error


def test_an_interrupted_run_resumes_with_the_same_result(
    written: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Press Ctrl-C when the journal has four of the cells."""
    words = ["simulate", "minimax", *FEW, "--on", "local", "--out", str(tmp_path)]
    add, added = Journal.add, list[Cell]()

    def add_and_interrupt(journal: Journal, cell: Cell, rows: Sequence[Row]) -> None:
        add(journal, cell, rows)
        added.append(cell)
        if len(added) == 4:
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    try:
        monkeypatch.setattr(Journal, "add", add_and_interrupt)
        assert main(words) == INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, before)
    assert not (tmp_path / "minimax.csv").exists()
    assert main(words) == 0
    assert "resuming: 4 cells" in capsys.readouterr().err
    assert len(added) == len(load("minimax").cells(record(written)["arguments"]))
    assert (tmp_path / "minimax.csv").read_bytes() == (written / "minimax.csv").read_bytes()


def test_a_journal_of_another_run_starts_over(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    first = Journal(path, {"seed": 1})
    first.add({"users": 1}, [{"risk": 0.1}])
    first.close()
    same = Journal(path, {"seed": 1})
    assert (same.started_over, same.entries) == (False, [({"users": 1}, [{"risk": 0.1}])])
    same.close()
    other = Journal(path, {"seed": 2})
    assert (other.started_over, other.entries) == (True, [])
    other.close()


def test_a_truncated_line_is_recomputed(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    journal = Journal(path, {})
    journal.add({"users": 1}, [])
    journal.add({"users": 2}, [])
    journal.close()
    os.truncate(path, path.stat().st_size - 4)
    cut = Journal(path, {})
    cut.add({"users": 3}, [])
    cut.close()
    whole = Journal(path, {})
    whole.close()
    assert [cell["users"] for cell, _ in whole.entries] == [1, 3]


def record(folder: Path) -> dict[str, Any]:  # Any: TOML
    return tomllib.loads((folder / "run.toml").read_text("utf-8"))


# Installation

WITHOUT_SERVER = """
import sys
from importlib import import_module
for name in ("flask", "granian", "msgspec", "prometheus_client", "requests"):
    sys.modules[name] = None  # importing it raises ModuleNotFoundError
from deniable.shared.cli.command import main
from deniable.simulations import simulate
from tests.simulations.small_studies import SMALL
for name in ("bit", "survey", "mean"):
    assert simulate(name, on="local", **SMALL[name]).findings
assert main(["simulate", "repeat", "--rounds", "1"]) == 0
sys.exit(main(["demo", "--exit"]))
"""


def test_studies_run_without_a_web_server_and_the_demo_names_its_extra() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SERVER], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 2, done.stderr
    refusal = done.stderr.splitlines()[-1]
    assert refusal.startswith("deniable demo: needs ")
    assert refusal.endswith(f"is not installed; {installation('demo')}")
