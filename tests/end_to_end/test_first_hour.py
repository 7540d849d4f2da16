"""Tutorials, run as they are written: a first question by a link, and telemetry for a tool."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from deniable.simulations.demo.server_process import COMMAND, running_server
from tests.command import run
from tests.documents import Block, blocks, commands, section_of
from tests.end_to_end.place import Place
from tests.eventually import PATIENCE, eventually
from tests.server.test_ask import asking, asks

TELEMETRY, QUESTION = "client/TELEMETRY.md", "shared/FIRST_QUESTION.md"
SURVEY, CLIENT, TRIAL, SHOW = (
    "1. Write the survey", "2. Add the client", "3. Try it", "4. Look before you send",
)  # fmt: skip
DECISION = "7. Decide"
PLAN, LINK = "3. Check that the group is large enough", "4. Ask by a link"


def shown(document: str, section: str, language: str = "") -> list[Block]:
    place = (document, section, language)
    return [block for block in blocks(document) if block.place == place]


# Telemetry for a command-line tool


def shell(line: str, folder: Path) -> str:
    """Run a line of the tutorial in its folder, without the marks of a test run."""
    line = line.replace("python ", f"{sys.executable} ")
    line = re.sub(r"\bdeniable (?=survey|results)", " ".join(COMMAND) + " ", line)
    home = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    done = subprocess.run(
        line, shell=True, cwd=folder, env={**os.environ, **home}, text=True,
        capture_output=True, timeout=2 * PATIENCE, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def write_survey(folder: Path) -> None:
    """Write the survey of the tutorial with days around today, so that it is open."""
    (survey,) = shown(TELEMETRY, SURVEY, "toml")
    today = datetime.now(UTC).date()
    text = re.sub(r"(?<=^opens = )\S+", f"{today}", survey.text, flags=re.MULTILINE)
    text = re.sub(r"(?<=^closes = )\S+", f"{today + timedelta(days=99)}", text, flags=re.MULTILINE)
    (folder / "mytool.toml").write_text(text, "utf-8")


def test_telemetry_asks_first_reports_once_and_stays_silent_as_written(tmp_path: Path) -> None:
    write_survey(tmp_path)
    publish, ship, serve = [f"deniable {line}" for line in shown_commands(SURVEY)]
    assert serve == "deniable serve --data data"
    shell(publish, tmp_path)
    shell(f"{ship} > mytool-survey.json", tmp_path)
    key = json.loads((tmp_path / "mytool-survey.json").read_text("utf-8"))["key"]
    status, on, report, again = shown(TELEMETRY, TRIAL)[0].text.splitlines()
    (block,) = shown(TELEMETRY, CLIENT, "python")
    with running_server(tmp_path / "data") as server:
        place = Place(server, tmp_path / "data")
        code = block.text.replace("<public key>", key)
        assert "https://stats.example.org" in code
        code = code.replace("https://stats.example.org", server.url)
        (tmp_path / "telemetry.py").write_text(code, "utf-8")

        assert "Consent: not given" in shell(status, tmp_path)
        assert "Did the command fail?" in shell(on, tmp_path)
        (dry,) = shown(TELEMETRY, SHOW)
        assert "example" in shell(dry.text, tmp_path)
        assert place.reports == 0
        shell(report, tmp_path)
        assert "accepted by the server" in shell(again, tmp_path)
        assert place.reports == 1
        off = status.replace("status", "off")
        assert off != status
        assert "Consent: not given" in shell(off, tmp_path)
    (results,) = shown(TELEMETRY, DECISION)
    assert "failed (ε 0.5)" in shell(results.text, tmp_path)


def shown_commands(section: str) -> list[str]:
    return [line for block in shown(TELEMETRY, section) for line in commands(block.text)]


# A first question


def test_the_quoted_line_of_the_plan_is_printed() -> None:
    (block,) = shown(QUESTION, PLAN, "sh")
    (line,) = commands(block.text)
    (quote,) = re.findall(r"^> (.+)$", section_of(QUESTION, PLAN), re.MULTILINE)
    assert quote in run(*line.split()).stdout.splitlines()


def test_a_question_is_asked_by_a_link_and_closed_as_written(tmp_path: Path) -> None:
    (new,), (ask,) = (commands(block.text) for block in shown(QUESTION, LINK, "sh"))
    shell(f"deniable {new}", tmp_path)
    assert 'epsilon = "1"' in (tmp_path / "our-team.toml").read_text("utf-8")
    results, close = (commands(block.text) for block in shown(QUESTION, DECISION, "sh"))
    with asking(tmp_path, *ask.split()[1:]) as asked:
        eventually(partial(asks, asked["link"], "our-team"), "the link leads to the page")
        assert "0 reports" in shell(f"deniable {results[0]}", tmp_path)
        assert "closed" in shell(f"deniable {close[0]}", tmp_path)
