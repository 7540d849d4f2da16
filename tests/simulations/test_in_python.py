"""Studies run from Python: same rows as the command; custom studies and mechanisms."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from matplotlib.figure import Figure

from deniable.shared.cli.command import main
from deniable.shared.errors import WrongUse
from deniable.simulations import Study, simulate
from deniable.simulations.engine.study_result import csv_bytes
from tests.simulations.own_mechanism import Cheating, HalfBit, Sets
from tests.simulations.own_study import STUDY

FEW: dict[str, Any] = {"epsilon": ["0.5", 1], "people": [1e4, 1e6], "repetitions": 50}
ROOT = Path(__file__).parents[2]


def test_the_command_reads_the_same_options(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--epsilon", "0.5,1", "--people", "1e4,1000000", "--repetitions", "50", "--seed", "1"]
    assert main(["simulate", "mean", *words, "--mechanisms", "ternary,split-sign", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    found = simulate("mean", **FEW, mechanisms=["ternary", "split-sign"], seed=1)
    assert printed["rows"] == list(found.rows)
    assert printed["options"] == json.loads(json.dumps(found.options))
    assert found.rows != simulate("mean", **FEW, mechanisms="ternary,split-sign", seed=2).rows


def test_the_recipes_snippets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the last, which test_baselines runs."""
    text = (ROOT / "simulations" / "RECIPES.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for snippet in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(snippet, names)  # a snippet of this repository
    assert len(names["reports"]) == 10_000
    assert names["page"].is_file()
    assert names["figure"].axes


def test_results_have_a_frame_a_figure_sentences_and_a_page(tmp_path: Path) -> None:
    found = simulate("bit", **FEW, share=0.5)
    assert "randomize" in repr(found)
    assert found.findings[0] in repr(found)
    frame = found.frame()
    assert len(frame) == len(found.rows)
    assert found.figure().axes
    assert found.figure("price").axes[0].get_ylabel() == "price / people"
    with pytest.raises(WrongUse, match="choose from error, price"):
        found.figure("prices")
    page = found.write(tmp_path / "out").read_text("utf-8")
    assert found.findings[0] in page
    assert "simulate(\n    'bit',\n    epsilon=['0.5', '1']" in unescape(page)
    assert found._repr_html_().count("<svg ") == 3


def pdf(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="pdf")
    return file.getvalue()


def test_figures_embed_whole_fonts_as_journals_require() -> None:
    """Twin: matplotlib's own figures have Type 3 fonts."""
    plain = Figure()
    plain.suptitle("a title")
    assert b"/Type3" in pdf(plain)
    assert b"/CIDFontType2" in pdf(simulate("bit", **FEW).figure())


def test_nothing_loads_matplotlib_before_a_figure_is_drawn() -> None:
    code = (
        "import sys; from deniable.simulations import simulate;"
        "few = dict(epsilon=1, people=100, repetitions=9, on='local');"
        "found = [simulate(name, **few) for name in ('bit', 'mean', 'median')];"
        "found.append(simulate('histogram', **few, options=4));"
        "found.append(simulate('test', **few));"
        "found.append(simulate('select', **few, options=4));"
        "found.append(simulate('minimax', epsilon=1, people=100, moments=2, on='local'));"
        "print([each.findings[0] for each in found]);"
        "sys.exit('matplotlib' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_wrong_option_is_named_with_the_valid_ones() -> None:
    for wrong, words in (
        ({"user": 3}, "unknown option user; choose from epsilon, people"),
        ({"epsilon": "x"}, "epsilon: "),
        ({"people": [1.5]}, "people must be a whole number"),
        ({"mechanisms": "tenary"}, "unknown mechanism 'tenary'; use one of .*ternary"),
        ({"mechanisms": "tests.nowhere:X"}, "cannot import tests.nowhere:X"),
        ({"mechanisms": Sets}, "is not a mechanism for number questions"),
        ({"population": [0.5, 7]}, "numbers from 0 to 1"),
        ({"population": "lo"}, "population must be one of low"),
        ({"seed": -1}, "seed"),
    ):
        with pytest.raises(WrongUse, match=words):
            simulate("mean", **wrong)
    with pytest.raises(WrongUse, match="unknown study 'means'; choose one of minimax"):
        simulate("means")


def test_numbers_of_a_user_serve_as_population_and_are_never_written(tmp_path: Path) -> None:
    held = [0.125, 0.125, 0.5, 0.875]
    found = simulate("mean", epsilon=4, people=1000, repetitions=100, mechanisms="ternary",
                     population=held, out=tmp_path)  # fmt: skip
    rows: Any = found.rows
    for row in rows:
        assert abs(row["measured"] - row["exact"]) <= 6.5 * row["error"]
    for path in tmp_path.iterdir():
        assert b"0.125" not in path.read_bytes(), path


@pytest.mark.parametrize("where", ["local", "pool", pytest.param("dask", marks=pytest.mark.long)])
def test_custom_studies_and_mechanisms_run_on_every_back_end(where: str) -> None:
    assert isinstance(STUDY, Study)
    own = simulate(STUDY, on=where, people=[100, 1e4])
    assert csv_bytes(own.rows) == csv_bytes(simulate(STUDY, people=[100, 1e4]).rows)
    assert "26.9% of the people lie" in own.findings[0]
    assert own.figure("liars").axes
    if where != "local":
        few = {**FEW, "epsilon": 2, "people": 1e4, "on": where}
        row, *_ = simulate("mean", **few, mechanisms=HalfBit).rows
        assert row["estimator"] == "tests.simulations.own_mechanism:HalfBit"


def test_custom_mechanisms_are_compared_with_built_in_ones() -> None:
    found = simulate("mean", **FEW, mechanisms=["one-bit-mean", HalfBit])
    ours, half = (pick(found.rows, m) for m in ("one-bit-mean", f"{HalfBit.__module__}:HalfBit"))
    assert half["exact"] > ours["exact"]
    assert abs(half["measured"] - half["exact"]) <= 6.5 * half["error"]
    assert "half a bit" in repr(found)
    shares = simulate("histogram", **FEW, options=16, mechanisms=["subset-selection", Sets]).rows
    names = ("subset-selection", f"{Sets.__module__}:Sets")
    assert pick(shares, names[0])["exact"] == pick(shares, names[1])["exact"]


@pytest.mark.parametrize("defined_here", [False, True])
def test_a_script_without_a_main_guard_uses_all_processors(
    tmp_path: Path, defined_here: bool
) -> None:
    """Workers do not run the script again. Twin: they do if it defines the work, under a guard."""
    script, runs = tmp_path / "script.py", tmp_path / "runs"
    lines = [
        "from deniable.simulations import Study, simulate",
        f"open({str(runs)!r}, 'a').write('x')",
    ]
    if defined_here:
        lines += [
            "from tests.simulations.own_study import OPTIONS, grid, report",
            "def run(cell, generator): return [{**cell, 'exact': 0.5, 'measured': 0.5}]",
            "study = Study('own', 'Own?', OPTIONS, grid('epsilon', 'people'), run, report)",
            "if __name__ == '__main__': print(len(simulate(study, on='pool').rows))",
        ]
    else:
        lines.append("print(len(simulate('median', epsilon=1, people=1000, repetitions=10).rows))")
    script.write_text("\n".join(lines), "utf-8")
    made = subprocess.run(
        [sys.executable, script], capture_output=True, cwd=ROOT, text=True,
        env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout == ("4\n" if defined_here else "14\n")
    assert (len(runs.read_text("utf-8")) > 1) == defined_here


def test_a_mechanism_that_exceeds_its_epsilon_is_refused_before_the_run() -> None:
    """The excess is stated. Twin: half a bit keeps its ε."""
    simulate("mean", epsilon=1, people=100, repetitions=2, mechanisms=HalfBit)
    with pytest.raises(WrongUse, match=r"spends 2\.00 times its ε of 1.* must not exceed its ε"):
        simulate("mean", epsilon=1, people=100, repetitions=2, mechanisms=Cheating)


def pick(rows: object, mechanism: str) -> Mapping[str, float]:
    return next(r for r in rows if r["estimator"] == mechanism)  # type: ignore[attr-defined]


@pytest.mark.parametrize("where", ["pool", pytest.param("dask", marks=pytest.mark.long)])
def test_a_study_of_an_installed_wheel_is_found_by_its_name(tmp_path: Path, where: str) -> None:
    """Install a package with an entry point in the group `deniable.studies`."""
    target = tmp_path / "site-packages"
    with ZipFile(wheel_of_liars(tmp_path)) as wheel:
        wheel.extractall(target)  # equivalent to installing a pure Python wheel
    words = ["simulate", "liars", "--epsilon", "1", "--on", where, "--json"]
    made = subprocess.run(
        [sys.executable, "-m", "deniable", *words],
        check=True, capture_output=True, env={"PYTHONPATH": str(target)}, text=True, cwd=tmp_path,
    )  # fmt: skip
    rows = json.loads(made.stdout)["rows"]
    assert rows == [dict(row) for row in simulate(STUDY, epsilon=1).rows]
    listed = subprocess.run(
        [sys.executable, "-m", "deniable", "simulate", "--help"],
        check=True, capture_output=True, env={"PYTHONPATH": str(target)}, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert "custom study from own_study" in listed.stdout


def wheel_of_liars(folder: Path) -> Path:
    """Return a wheel with only the file of the study, as another author would publish it."""
    path = folder / "liars-1.0-py3-none-any.whl"
    about = "liars-1.0.dist-info"
    with ZipFile(path, "w") as wheel:
        wheel.write(ROOT / "tests" / "simulations" / "own_study.py", "own_study.py")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: liars\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        points = "[deniable.studies]\nliars = own_study:STUDY\n"
        wheel.writestr(f"{about}/entry_points.txt", points)
    return path
