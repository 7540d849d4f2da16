"""`deniable demo`, run as a command: real processes, real HTTP, true values next to estimates."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from deniable.simulations.demo.demo_report import draw_picture
from tests.command import run
from tests.eventually import PATIENCE, eventually

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "deniable.shared.cli.command", "demo"]


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=120)


@pytest.mark.long
def test_the_demo_in_json_has_the_documented_keys() -> None:
    started = time.monotonic()
    done = demo("--people", "1000", "--exit", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert report["people"] == 1000
    assert 0 < report["seconds"] <= time.monotonic() - started
    assert report["url"].startswith("http://127.0.0.1:")
    assert {name: len(rows) for name, rows in report["questions"].items()} == {
        "crashed": 1,
        "minutes": 1,
        "browser": 5,
    }
    for row in (row for rows in report["questions"].values() for row in rows):
        assert row.keys() >= {
            "label",
            "truth",
            "estimate",
            "low",
            "high",
            "standard_error",
            "reports",
        }
        assert row["reports"] == 1000
        assert abs(row["estimate"] - row["truth"]) < 7 * row["standard_error"]  # 1 in 4e11


def test_the_demo_states_the_privacy_cost_in_words() -> None:
    done = demo("--people", "100", "--exit")
    assert done.returncode == 0, done.stderr
    assert "changes the odds about any respondent by a factor of at most 7.4 (ε 2)" in done.stdout
    assert "1300 of 1300" in done.stderr, (
        "expected a hundred people, and a hundred on each of twelve days"
    )
    assert "100 of them with a complete client" in done.stdout


@pytest.mark.parametrize("people", ["0", "-5", "100000000"])
def test_an_impossible_crowd_is_refused(people: str) -> None:
    done = run("demo", "--people", people, "--exit")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--people must be from 1 to 10,000,000" in done.stderr


@pytest.mark.long
def test_the_demo_states_that_a_tiny_crowd_has_no_estimates() -> None:
    done = demo("--people", "3", "--exit", "--json")
    rows = json.loads(done.stdout)["questions"]["browser"]
    assert [row["estimate"] for row in rows] == [None] * 5
    assert [row["reports"] for row in rows] == [3] * 5


def test_the_story_has_a_wave_and_a_day_of_forged_reports(tmp_path: Path) -> None:
    """The highest day of the wave is 27 points above the first day.

    The difference of two estimates has a standard error of 2, so the threshold of 8 points is 9
    standard errors below that. An honest day is flagged with probability 1e-6; 210 forged reports
    among 4,000 stay unnoticed with probability 1e-20.
    """
    picture = tmp_path / "days.svg"
    said = demo("--people", "20000", "--exit", "--json", "--picture", str(picture)).stdout
    days = json.loads(said)["story"]
    assert [day["reports"] for day in days] == [4000] * 10 + [4210, 4000]
    assert [bool(day["warning"]) for day in days] == [bool(day["forged"]) for day in days]
    assert sum(day["forged"] for day in days) == 210
    assert days[6]["estimate"] - days[0]["estimate"] > 0.08
    by_version = {part["version"]: part["estimate"] for part in days[6]["versions"]}
    assert by_version.keys() == {"2.3", "2.4"}
    # The difference is 36 points; with 1,000 and 3,000 reports, its standard error is 4 points.
    assert by_version["2.4"] - by_version["2.3"] > 0.08
    assert all(len(day["versions"]) == 2 for day in days[4:9])
    assert picture.read_text("utf-8") == draw_picture(days)
    assert picture_numbers(draw_picture(days)) == days


def picture_numbers(picture: str) -> Any:  # Any: JSON
    """Return the numbers from which a picture was drawn."""
    (metadata,) = re.findall(r"<metadata>(.*)</metadata>", picture)
    return json.loads(unescape(metadata))


def test_the_readme_s_picture_is_drawn_from_the_demo_s_numbers() -> None:
    kept = (ROOT / "simulations/twelve-days.svg").read_text("utf-8")
    days = picture_numbers(kept)
    assert kept == draw_picture(days)
    assert len(days) == kept.count('class="truth"') - 1 == kept.count('class="estimate"') - 1 == 12
    assert all("\n" not in day["day"] and day["reports"] >= 4_000 for day in days)
    ET.fromstring(kept)  # trusted


def test_a_picture_clips_values_beyond_its_scale() -> None:
    """One day has no estimate, as with a tiny crowd."""
    day = {"day": "2026-11-08", "truth": 0.5, "reports": 3, "warning": None}
    beyond = draw_picture(
        [
            day | {"estimate": 0.7, "low": -0.9, "high": 1.9, "warning": "forged"},
            day | {"estimate": None, "low": None, "high": None},
        ]
    )
    heights = [float(y) for y in re.findall(r' (?:c?y[12]?)="([^"]+)"', beyond)]
    assert min(heights) >= 0
    assert max(heights) <= 270
    assert "forgery noticed" in beyond


def processes_of(folder: Path) -> list[int]:
    """Return the processes whose command lines contain the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # the process has just ended
            continue
        found += [int(path.parent.name)] if str(folder) in words else []
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are listed in /proc")
@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (signal.SIGINT, "of 1210 people"),  # during the story
        pytest.param(signal.SIGTERM, "Press Ctrl-C", marks=pytest.mark.long),
        pytest.param(signal.SIGHUP, "Press Ctrl-C", marks=pytest.mark.long),
    ],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)
def test_no_process_is_left_after_any_signal(
    tmp_path: Path, ending: signal.Signals, said: str
) -> None:
    folder, log = tmp_path / "temporary", tmp_path / "log"
    folder.mkdir()
    with log.open("w") as written:
        playing = subprocess.Popen(
            [*COMMAND, "--people", "10"],
            stderr=written,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": str(folder)},
        )
    eventually(lambda: said in log.read_text())
    assert processes_of(folder), "the demo's server does not run"
    playing.send_signal(ending)
    assert playing.wait(PATIENCE) == (130 if ending is signal.SIGINT else 0)
    try:
        assert not processes_of(folder)
        assert not list(folder.iterdir())
    finally:
        for process in processes_of(folder):
            os.kill(process, signal.SIGKILL)
