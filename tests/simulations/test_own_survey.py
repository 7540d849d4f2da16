"""Study of your own survey: the server's intervals, trusted noise, people needed, forgers."""

import csv
import json
import math
import random
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from deniable.shared.cli.command import main
from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.central.noise import DiscreteLaplace
from tests.survey_texts import bit, choice, number, survey_text

SURVEY = survey_text(
    bit() + number(epsilon="2") + choice(["firefox", "chrome", "other"], None, other="other"),
    closes=date(2026, 12, 31), looks="once",
)  # fmt: skip
TOLD = ["--share", "crashed=0.03", "--share", "browser.firefox=0.2", "--share",
        "browser.chrome=0.7", "--mean", "minutes=40"]  # fmt: skip
Row = Mapping[str, Any]  # Any: JSON


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    path = tmp_path / "survey.toml"
    path.write_text(SURVEY, "utf-8")
    return path


def simulated(capsys: pytest.CaptureFixture[str], *words: object) -> Sequence[Row]:
    assert main(["simulate", "survey", *map(str, words), "--json"]) == 0
    cells: Sequence[Row] = json.loads(capsys.readouterr().out)["rows"]
    return cells


def of(cells: Sequence[Row], **wanted: object) -> Row:
    (found,) = (c for c in cells if all(c[key] == value for key, value in wanted.items()))
    return found


def test_every_label_has_its_true_value_and_an_interval_that_covers_it(
    survey: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fewer than 85 % of 400 runs in a cell have probability < 1e-9 at 95 % coverage (Chernoff)."""
    cells = simulated(
        capsys, survey, *TOLD, "--people", "2000", "--repetitions", "400", "--forged", "0.1"
    )
    honest = [c for c in cells if not c["forged"]]
    truths = {(c["question"], c["label"]): c["truth"] for c in honest}
    assert truths == pytest.approx({
        ("crashed", "yes"): 0.03, ("minutes", "mean"): 40.0, ("browser", "firefox"): 0.2,
        ("browser", "chrome"): 0.7, ("browser", "other"): 0.1,
    }, abs=1e-9)  # fmt: skip
    for cell in honest:
        assert cell["low"] < cell["truth"] < cell["high"]
        assert cell["covered"] > 0.85
    attacked = of(cells, question="crashed", forged=0.1)
    assert attacked["covered"] < 0.05  # twin: forged reports make intervals miss


def test_margins_are_those_of_the_survey_s_own_looks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If results are also shown before, the final intervals have a confidence of 97.5 %."""
    file, margins = tmp_path / "survey.toml", list[tuple[float, float | None]]()
    for looks in ("once", "twice", "any-time"):
        file.write_text(SURVEY.replace('looks = "once"', f'looks = "{looks}"'), "utf-8")
        words = ["--people", "20000", "--repetitions", "20", "--forged", "0"]
        cell = of(simulated(capsys, file, *TOLD, *words), question="crashed")
        margins.append((cell["half_width"], cell["until_final"]))
    (once, none), (twice, missing), (final, early) = margins
    assert (none, missing) == (None, None)
    assert once < 0.9 * twice
    assert final == pytest.approx(twice, rel=0.01)
    assert early is not None
    assert early > 1.6 * final


def test_forged_reports_shift_the_estimate_by_their_leverage(
    survey: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shift is β (leverage - truth), within 6.5 Monte-Carlo errors, for each kind."""
    cells = simulated(
        capsys, survey, *TOLD, "--people", "10000", "--repetitions", "100", "--forged", "0.02,0.2"
    )
    pushed = [c for c in cells if c["forged"] and c["target"]]
    assert {(c["question"], c["label"]) for c in pushed} == {
        ("crashed", "yes"), ("minutes", "mean"), ("browser", "other"),
    }  # fmt: skip
    for cell in pushed:
        assert abs(cell["shift_measured"] - cell["shift_exact"]) <= 6.5 * cell["shift_error"]
    crashed = of(pushed, question="crashed", forged=0.02)
    assert crashed["shift_exact"] == pytest.approx(0.02 * (1.58198 - 0.03), rel=1e-3)
    wrong = of(pushed, question="crashed", forged=0.2)
    assert abs(wrong["shift_measured"] - 0.2) > 6.5 * wrong["shift_error"]


ONE_OF_THREE = SURVEY.replace('round = "month"', 'round = "month"\nask = 1')


def test_asking_one_of_three_questions_needs_three_times_as_many_people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Place half of the people at either end, so that the choice of people matters.

    Coverage is checked over 400 runs, as above. The shift is within 6.5 Monte-Carlo errors.
    """
    file, answers = tmp_path / "survey.toml", tmp_path / "answers.csv"
    lines = [f"{n % 2},{120 * (n % 2)},{'firefox' if n % 2 else 'other'}" for n in range(3_000)]
    answers.write_text("\n".join(["crashed,minutes,browser", *lines]))
    told = ["--answers", answers, "--repetitions", "400", "--forged", "0.02", "--within", "0.1"]
    found = []
    for text in (SURVEY, ONE_OF_THREE):
        file.write_text(text.replace('epsilon = "2"', 'epsilon = "8"'), "utf-8")
        found.append(simulated(capsys, file, *told))
    for whole, one in zip(*found, strict=True):
        assert one["truth"] == whole["truth"] or whole["forged"]
        assert one["half_width"] == pytest.approx(3**0.5 * whole["half_width"], rel=0.1)
        if not one["forged"]:
            assert one["covered"] > 0.85
            assert one["needed"] == 3 * whole["needed"]
        elif one["target"]:
            assert abs(one["shift_measured"] - one["shift_exact"]) <= 6.5 * one["shift_error"]
            assert one["shift_exact"] > 2.5 * whole["shift_exact"]  # forgers choose their question
    errors = [of(cells, question="minutes", forged=0.02)["shift_error"] for cells in found]
    assert errors[1] > 3 * errors[0]  # at ε 8, choosing whom to ask causes the error, not noise


def test_too_few_people_to_ask_every_question_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "survey.toml"
    file.write_text(ONE_OF_THREE, "utf-8")
    assert main(["simulate", "survey", str(file), "--people", "99"]) == 2
    assert "people must be at least 100" in capsys.readouterr().err


def test_a_trusted_server_is_given_the_same_epsilon(
    survey: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = simulated(
        capsys, survey, *TOLD, "--people", "1000", "--repetitions", "5", "--forged", "0"
    )
    bit, choice = DiscreteLaplace(Epsilon("1")), DiscreteLaplace(Epsilon("1"), 2)
    for cell, noise in ((of(cells, question="crashed"), bit), (of(cells, label="firefox"), choice)):
        truth = float(cell["truth"])
        variance = noise.variance / 1_000**2 + truth * (1 - truth) / 1_000
        assert cell["trusted"] == pytest.approx(1.96 * math.sqrt(variance), rel=1e-4)
    minutes = of(cells, question="minutes")["trusted"]  # all people have the same number
    assert minutes == pytest.approx(1.96 * 120 * math.sqrt(2) / (2 * 1_000), rel=1e-3)  # Δ / ε


def test_the_stated_number_of_people_gives_the_wanted_interval(
    survey: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [survey, *TOLD, "--repetitions", "20", "--forged", "0"]
    first = simulated(capsys, *words, "--people", "1000", "--within", "0.05")
    needed = of(first, question="crashed")["needed"]
    there = of(
        simulated(capsys, *words, "--people", str(needed), "--within", "0.05"), question="crashed"
    )
    fewer = of(
        simulated(capsys, *words, "--people", str(needed * 3 // 4), "--within", "0.05"),
        question="crashed",
    )
    assert there["half_width"] == pytest.approx(0.05, rel=0.02)
    assert fewer["half_width"] > 0.052


def test_true_answers_are_read_from_a_file(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["crashed,minutes,browser", *["yes,10,firefox"] * 100, *["0,130,opera"] * 300]
    answers = tmp_path / "answers.csv"
    answers.write_text("\n".join(lines), "utf-8")
    cells = simulated(capsys, survey, "--answers", answers, "--repetitions", "20", "--forged", "0")
    assert {c["people"] for c in cells} == {400}
    assert of(cells, question="crashed")["truth"] == 0.25
    assert of(cells, question="minutes")["truth"] == pytest.approx(10 / 4 + 120 * 3 / 4)
    assert of(cells, label="other")["truth"] == 0.75


@pytest.mark.parametrize("seed", range(4))
def test_outputs_contain_neither_true_answers_nor_their_histogram(seed: int, survey: Path) -> None:
    """The study shows shares and means; of a number's answers it shows only the mean."""
    folder, generator = survey.parent, random.Random(seed)
    held = {generator.uniform(0, 120): generator.randint(2, 60) for _ in range(2 + seed)}
    answers_file(
        folder, [f"no,{minutes!r},chrome" for minutes, n in held.items() for _ in range(n)]
    )
    simulated_here(folder, "--repetitions", "2", "--forged", "0.1")
    written = {path.name: path.read_bytes() for path in (folder / "out").rglob("*")}
    assert {"index.html", "run.toml", "cells.jsonl", "survey.csv"} <= set(written)
    for minutes, count in held.items():
        place = minutes / 120
        for trace in (f"{minutes:.9g}", f"{place:.9g}", f"[{place!r}, {count}]"):
            assert [name for name, text in written.items() if trace.encode() in text] == []
    for name, text in written.items():
        pairs = not name.endswith((".png", ".parquet")) and b"[[" in text
        assert not pairs, f"{name} holds pairs, as a histogram would"
    assert b"sha256:" in written["run.toml"]
    assert b"true shares and means of the answers file" in written["index.html"]


def test_a_journal_resumes_only_with_the_same_answers(
    survey: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = survey.parent
    for answers, message in ((["no,1,chrome"] * 9, "written"), (["no,1,chrome"] * 9, "resuming"),
                          (["no,2,chrome"] * 9, "starting over")):  # fmt: skip
        answers_file(folder, answers)
        simulated_here(folder, "--repetitions", "2", "--forged", "0")
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("where", ["local", "pool", pytest.param("dask", marks=pytest.mark.long)])
def test_private_answers_reach_the_cells_on_every_back_end(where: str, survey: Path) -> None:
    if where == "dask":
        pytest.importorskip("distributed")  # extra `cluster`
    answers_file(survey.parent, ["no,30,chrome"] * 5 + ["yes,90,other"] * 15)
    simulated_here(survey.parent, "--repetitions", "2", "--forged", "0", "--on", where)
    with (survey.parent / "out" / "survey.csv").open(newline="") as file:
        truths = {row["label"]: float(row["truth"]) for row in csv.DictReader(file)}
    assert truths == {"yes": 0.75, "mean": 75.0, "firefox": 0, "chrome": 0.25, "other": 0.75}


def answers_file(folder: Path, lines: Sequence[str]) -> None:
    text = "\n".join(["crashed,minutes,browser", *lines])
    (folder / "answers.csv").write_text(text, "utf-8")


def simulated_here(folder: Path, *words: str) -> None:
    """Run the study in this folder, with --answers and --out."""
    files = ["--answers", str(folder / "answers.csv"), "--out", str(folder / "out")]
    assert main(["simulate", "survey", str(folder / "survey.toml"), *files, *words]) == 0


@pytest.mark.parametrize(("words", "cure"), [
    (["--share", "crashed"], "like crashed=0.03"),
    (["--share", "slept=0.1"], "matches no question"),
    (["--mean", "crashed=1"], "matches no question"),
    (["--mean", "minutes=400"], "not from 0 to 120"),
    (["--share", "browser.firefox=0.9", "--share", "browser.chrome=0.9"], "add up to 1"),
    (["--share", "crashed=1.5"], "from 0 to 1"),
    (["--forged", "1"], "less than 1"),
    (["--answers", "missing.csv"], "does not exist"),
    (["--answers", __file__, "--mean", "minutes=4"], "either answers"),
])  # fmt: skip
def test_wrong_arguments_are_refused_in_one_line(
    survey: Path, words: list[str], cure: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "survey", str(survey), *words]) == 2
    printed = capsys.readouterr()
    assert cure in printed.err
    assert printed.out == ""


def test_a_wrong_line_of_answers_is_named_without_the_answer(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = tmp_path / "answers.csv"
    answers.write_text("crashed,minutes,browser\n1,5,chrome\nhardly,5,chrome\n", "utf-8")
    assert main(["simulate", "survey", str(survey), "--answers", str(answers)]) == 2
    error = capsys.readouterr().err
    assert "line 3" in error
    assert "'crashed'" in error
    assert "hardly" not in error
