"""`deniable demo` from outside: real processes, real HTTP, truth beside estimate."""

import json
import subprocess
import sys
import time

import pytest

COMMAND = [sys.executable, "-m", "deniable.shared.cli.command", "demo"]


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=120)


def test_the_demo_in_json_says_what_programs_rely_on() -> None:
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


def test_the_demo_for_people_says_in_words_what_a_report_gives_away() -> None:
    done = demo("--people", "100", "--exit")
    assert done.returncode == 0, done.stderr
    assert "changes the odds about any respondent by a factor of at most 7.4 (ε 2)" in done.stdout
    assert "100 of 100" in done.stderr


@pytest.mark.parametrize("people", ["0", "-5", "100000000"])
def test_a_crowd_that_cannot_be_is_refused(people: str) -> None:
    done = demo("--people", people, "--exit")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--people is 1 to 10,000,000" in done.stderr


def test_a_tiny_crowd_has_no_estimates_and_the_demo_says_so() -> None:
    done = demo("--people", "3", "--exit", "--json")
    rows = json.loads(done.stdout)["questions"]["browser"]
    assert [row["estimate"] for row in rows] == [None] * 5
    assert [row["reports"] for row in rows] == [3] * 5
