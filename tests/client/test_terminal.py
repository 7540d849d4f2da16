"""A terminal: consent is asked for there, once, and nowhere else; DENIABLE_SHOW shows a report."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from deniable.client.disclosure import example_text, read_summary
from deniable.shared.survey.document import parse_document, parse_toml
from tests.client.conftest import MakeClient
from tests.client.scripted import ANSWERS, LATER, Script, document, entry
from tests.eventually import PATIENCE
from tests.survey_texts import bit, survey_text

PROGRAM = """
import sys
from deniable.client import Client, Policy
url, key, state, shipped, *times = sys.argv[1:]
client = Client(url, policy=Policy(keys=[key], per="lifetime"), state=state)
given = [client.ask("app-health", shipped=shipped) for _ in times]
print(given, client.consented)
"""


@pytest.fixture
def shipped(script: Script) -> str:
    """A survey that is open on the day of the test, by the machine's own clock."""
    today = datetime.now(UTC).date()
    opens, closes = (str(today + timedelta(days=days)) for days in (-1, 1))
    published = document(opens=opens, closes=closes, period="once")
    script.publish(published)
    return json.dumps(entry(published))


Run = Callable[..., tuple[str, str]]


@pytest.fixture
def run(script: Script, shipped: str, policy_key: str, tmp_path: Path) -> Run:
    """Run the program on a terminal; return what it prints and what is on the screen."""

    def run(typed: str, times: int = 1, stderr: bool = True, **environment: str) -> tuple[str, str]:
        arguments = [script.url, policy_key, str(tmp_path / "state"), shipped, *["x"] * times]
        ours, theirs = pty.openpty()
        os.write(ours, typed.encode())
        try:
            done = subprocess.run(
                [sys.executable, "-c", PROGRAM, *arguments],
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=theirs if stderr else subprocess.PIPE,
                text=True,
                env={**os.environ, **environment},
                timeout=2 * PATIENCE,
            )
            os.set_blocking(ours, False)
            screen = os.read(ours, 2**16).decode()
        finally:
            os.close(ours)
            os.close(theirs)
        assert done.returncode == 0, screen
        return done.stdout.strip(), screen.replace("\r\n", "\n") + (done.stderr or "")

    return run


@pytest.mark.parametrize(
    ("typed", "given"),
    [("yes\n", True), ("Y\n", True), ("no\n", False), ("\n", False), ("maybe\n", False)],
)
def test_consent_is_asked_for_once_in_the_survey_s_words(
    run: Run, script: Script, typed: str, given: bool
) -> None:
    printed, screen = run(typed, times=3)
    assert printed == f"{[given] * 3} {given}"
    assert screen.count("Type yes or no") == 1
    assert "Your answer: one of: firefox, chrome, safari." in screen
    assert "To stop, switch it off in the app." in screen
    printed, screen = run("yes\n")
    assert printed == f"[{given}] {given}"
    assert "Type yes" not in screen
    assert script.requests == []


def test_an_end_of_input_is_no_choice(run: Run, tmp_path: Path) -> None:
    """Control-D. The person is asked again the next time."""
    printed, _ = run("\x04")
    assert printed == "[False] None"
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("name", ["CI", "DO_NOT_TRACK", "DENIABLE_OFF", "DENIABLE_SHOW"])
def test_nobody_is_asked_where_the_environment_overrules(run: Run, name: str) -> None:
    printed, screen = run("yes\n", **{name: "1"})
    assert printed == "[False] None"
    assert "Type yes" not in screen


def test_a_question_that_nobody_would_see_is_not_asked(run: Run) -> None:
    printed, screen = run("yes\n", stderr=False)
    assert printed == "[False] None"
    assert "Type yes" not in screen


@pytest.mark.parametrize("stdin", [None, "closed", "pipe"])
def test_nobody_is_asked_without_a_terminal(
    client_of: MakeClient, monkeypatch: pytest.MonkeyPatch, shipped: str, stdin: str | None
) -> None:
    with open(os.devnull) as empty:
        if stdin == "closed":
            empty.close()
        monkeypatch.setattr("sys.stdin", None if stdin is None else empty)
        client = client_of(consent=False)
        assert not client.ask("app-health", shipped=shipped)
        assert client.consented is None


# DENIABLE_SHOW


@pytest.mark.parametrize("consent", [True, False])
def test_a_report_is_shown_and_nothing_is_charged_or_sent(
    script: Script,
    client_of: MakeClient,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    consent: bool,
) -> None:
    published = document()
    script.publish(published)
    script.always = LATER
    client = client_of(consent=consent)
    if consent:
        client.prefetch(PATIENCE)
    else:
        client.describe("app-health", shipped=json.dumps(entry(published)))
    before = len(script.requests)
    monkeypatch.setenv("DENIABLE_SHOW", "1")
    outcome = client.answer("app-health", **ANSWERS)
    assert outcome.status == "no-consent"
    assert "DENIABLE_SHOW is set" in outcome.detail
    shown = capsys.readouterr().err
    sizes = [int(size) for size in re.findall(r"^ *(\d+)  ", shown, re.MULTILINE)]
    assert sizes == [4, 32, 4, 16, 4, 4, 1, 1, 1]
    assert "one report is 67 bytes" in shown
    assert "example answers: crashed=True, minutes=0, browser='firefox'" in shown
    assert "Nothing is charged, stored or sent." in shown
    assert client.flush(PATIENCE) == 0
    assert len(script.requests) == before
    assert read_summary(tmp_path / "state").ledger.total == 0


def test_a_survey_that_ships_with_the_app_is_shown_before_anything_is_fetched(
    client_of: MakeClient,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    shipped: str,
) -> None:
    """The app calls only `ask` and `answer`; `ask` asks nothing, because nothing will be sent."""
    monkeypatch.setenv("DENIABLE_SHOW", "1")
    client = client_of(consent=False)
    assert not client.ask("app-health", shipped=shipped)
    client.answer("app-health", **ANSWERS)
    assert "DENIABLE_SHOW: one report is" in capsys.readouterr().err


def test_what_is_shown_does_not_depend_on_the_given_answer(
    script: Script,
    client_of: MakeClient,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the same noise, every answer shows the same report, which is that of the example."""
    script.publish(document())
    client = client_of(draw=lambda bits: 2 ** (bits - 1))
    client.prefetch(PATIENCE)
    monkeypatch.setenv("DENIABLE_SHOW", "1")
    shown = set()
    for crashed, minutes, browser in ((True, 34, "firefox"), (False, 120, "safari"), (None, "", 7)):
        client.answer("app-health", crashed=crashed, minutes=minutes, browser=browser)
        shown.add(re.sub(r"[0-9a-f]{32}\b", "id", capsys.readouterr().err))
    assert len(shown) == 1
    assert "crashed: yes" in min(shown)
    client.person("ann").answer("app-health", **ANSWERS)
    assert re.sub(r"[0-9a-f]{32}\b", "id", capsys.readouterr().err) in shown


def test_what_is_shown_is_a_report_of_the_example() -> None:
    """Drawn like any report: over 20 seeds, the same symbols as for the example's answers."""
    survey = parse_document(document())
    example = {question.name: question.example for question in survey.questions}
    for seed in range(20):
        text = example_text("5a" * 32, survey, date(2026, 12, 10), random.Random(seed).getrandbits)
        symbols = survey.report(example, random.Random(seed).getrandbits).symbols
        for question, symbol in zip(survey.questions, symbols, strict=True):
            assert symbol is not None
            assert f"  {question.name}: {question.describe(symbol)}\n" in text


def test_labels_are_shown_with_their_sizes() -> None:
    """The sizes of all fields make up the whole report, also with drawn arms."""
    labels = '[[label]]\nname = "version"\npattern = "[0-9.]+"\n[[label]]\nname = "arm"\n'
    text = survey_text(bit() + labels + 'arms = ["control", "new"]\n')
    shown = example_text(
        "5a" * 32, parse_toml(text), date(2026, 12, 10), random.Random(1).getrandbits
    )
    sizes = [int(line[:5]) for line in shown.splitlines()[1:] if line[:5].strip().isdigit()]
    assert sum(sizes) == int(re.search(r"is (\d+) bytes", shown)[1])  # type: ignore[index]
    assert "   32  version, in clear\n    1  arm, in clear" in shown


def test_a_survey_that_is_not_known_is_not_shown(
    script: Script,
    client_of: MakeClient,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing is fetched to show it."""
    monkeypatch.setenv("DENIABLE_SHOW", "1")
    assert client_of(consent=False).answer("app-health", **ANSWERS).status == "no-consent"
    assert "no survey 'app-health' on this device" in capsys.readouterr().err
    assert script.requests == []


@pytest.mark.parametrize("changes", [{"asks_one": True}, {"sealed_to": "ab" * 32}])
def test_every_form_of_a_report_is_shown_with_its_real_size(
    script: Script,
    client_of: MakeClient,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, object],
) -> None:
    script.publish(document(**changes))  # type: ignore[arg-type] # as listed
    client = client_of()
    assert client.answer("app-health", **ANSWERS).status == "queued"
    client.flush(PATIENCE)
    monkeypatch.setenv("DENIABLE_SHOW", "1")
    client.answer("app-health", **ANSWERS)
    told = re.search(r"one report is (\d+) bytes", capsys.readouterr().err)
    assert told
    assert int(told[1]) == len(script.posts[0].body)
