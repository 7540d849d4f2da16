"""`deniable answer`: from a shell, with exit codes and output that depend on no answer."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.client.scripted import LATER, QUESTIONS, Script, document
from tests.eventually import PATIENCE

DENIABLE = str(Path(sys.executable).with_name("deniable"))
ALL = ("crashed=yes", "minutes=34", "browser=firefox")


@pytest.fixture
def asked(script: Script) -> Script:
    """Return a survey that is open today by the machine's clock."""
    today = datetime.now(UTC).date()
    opens, closes = str(today - timedelta(days=1)), str(today + timedelta(days=1))
    script.publish(document(opens=opens, closes=closes, period="once", questions=QUESTIONS))
    return script


class Shell:
    def __init__(self, script: Script, key: str, state: Path) -> None:
        self.options = ["--server", script.url, "--key", key, "--state", str(state)]
        self.state = state

    def __call__(
        self, *arguments: str, given: str = "", survey: str = "app-health"
    ) -> subprocess.CompletedProcess[str]:
        command = [DENIABLE, "answer", survey, *arguments, *self.options]
        return subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=PATIENCE
        )


@pytest.fixture
def shell(asked: Script, policy_key: str, tmp_path: Path) -> Shell:
    return Shell(asked, policy_key, tmp_path / "state")


def test_an_answer_is_sent_before_the_command_ends(asked: Script, shell: Shell) -> None:
    ran = shell(*ALL, "--yes", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    said = json.loads(ran.stdout)
    assert (said["status"], said["waiting"]) == ("queued", 0)
    assert len(asked.envelopes()) == 1
    again = shell(*ALL)
    assert (again.returncode, again.stdout.split(":")[0]) == (0, "already-answered")
    assert len(asked.envelopes()) == 1


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (("crashed=-", "minutes=34", "browser=firefox"), "yes\n"),
        (("-",), '{"crashed": true, "minutes": "34", "browser": "firefox"}'),
    ],
)
def test_answers_are_read_from_standard_input(
    shell: Shell, arguments: tuple[str, ...], given: str
) -> None:
    ran = shell(*arguments, "--yes", given=given)
    assert (ran.returncode, ran.stdout) == (0, "queued: a report is on disk and will be sent\n")


def test_nothing_that_is_printed_depends_on_an_answer(
    asked: Script, policy_key: str, tmp_path: Path
) -> None:
    """Include values that do not fit."""
    seen = set()
    for number, values in enumerate(
        [
            ALL,
            ("crashed=unmistakable", "minutes=nan", "browser="),
            ("crashed=0", "minutes=-1e9", "browser=lynx"),
        ]
    ):
        ran = Shell(asked, policy_key, tmp_path / str(number))(*values, "--yes", "--json")
        seen.add((ran.returncode, ran.stdout, ran.stderr))
    assert len(seen) == 1
    assert len({len(post.body) for post in asked.posts}) == 1


def test_texts_are_parsed_by_the_survey_s_kinds(shell: Shell) -> None:
    from deniable.client.cli.answer import _values
    from deniable.shared.survey.document import parse_document

    survey = parse_document(document())
    read = _values(survey, {"crashed": "No", "minutes": "34.5", "browser": "1", "other": "x"})
    assert read == {"crashed": False, "minutes": 34.5, "browser": "1", "other": "x"}
    assert _values(survey, {"crashed": "maybe", "minutes": True}) == {
        "crashed": "maybe",
        "minutes": True,
    }


def test_every_outcome_has_its_exit_code(asked: Script, shell: Shell) -> None:
    asked.publish(document("over", opens="2020-01-01", closes="2020-01-02"))
    assert shell(*ALL, "--yes", survey="unheard-of").returncode == 1
    assert shell(*ALL, survey="over").stdout.startswith("closed: ")
    assert shell(*ALL, survey="over").returncode == 1
    assert shell("crashed=yes").returncode == 3, "an incomplete answer"
    assert shell(*ALL, "--max-epsilon", "1").returncode == 1
    (shell.state / "deniable.sqlite3").write_bytes(b"x" * 4096)
    damaged = shell(*ALL)
    assert (damaged.returncode, damaged.stdout.split(":")[0]) == (3, "unavailable")


@pytest.mark.parametrize(
    "arguments",
    [
        ("unmistakable",),
        ("=unmistakable",),
        ("crashed=unmistakable", "crashed=unmistakable"),
        ("crashed=-", "minutes=-"),
        ("-",),
        (*ALL, "--max-epsilon", "much"),
        (*ALL, "--ca", "/no/such/file"),
    ],
)
def test_wrong_use_is_one_line_that_repeats_no_answer(
    shell: Shell, arguments: tuple[str, ...]
) -> None:
    ran = shell(*arguments, "--yes", given="unmistakable")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert len(ran.stderr.splitlines()) == 1
    assert "unmistakable" not in ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--yes", "minutes=unmistakable"),
        ("--yes", "unmistakable"),
        ("--yes", "--minutes=unmistakable"),
        ("--yes", "-unmistakable"),
        ("--timeout", "minutes=unmistakable"),
    ],
)
def test_an_answer_given_to_an_option_is_not_repeated(
    shell: Shell, arguments: tuple[str, ...]
) -> None:
    ran = shell("crashed=yes", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "deniable" in ran.stderr
    assert "unmistakable" not in ran.stderr


@pytest.mark.parametrize("number", ["5" * 5_000, "-" + "5" * 5_000, "5" * 5_000 + ".5", "5e5000"])
def test_a_number_of_any_length_is_answered(asked: Script, shell: Shell, number: str) -> None:
    """A number that Python does not parse ended in another exit code than a short one."""
    text = f'{{"crashed": true, "minutes": {number}, "browser": "firefox"}}'
    ran = shell("-", "--yes", given=text)
    assert (ran.returncode, ran.stderr, len(asked.envelopes())) == (0, "", 1)


@pytest.mark.parametrize(
    ("arguments", "code"), [(ALL, 2), ((*ALL, "--yes"), 0), (("-", "--yes"), 2)]
)
def test_a_closed_standard_input_is_no_traceback(
    shell: Shell, arguments: tuple[str, ...], code: int
) -> None:
    ran = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", DENIABLE, "answer", "app-health", *arguments,
         *shell.options],
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert ran.returncode == code
    assert "Traceback" not in ran.stderr


def test_without_consent_nothing_is_fetched(asked: Script, shell: Shell) -> None:
    ran = shell(*ALL)
    assert ran.returncode == 2
    assert "or pass --yes" in ran.stderr
    assert asked.requests == []
    assert not shell.state.exists()


@pytest.mark.parametrize(("typed", "code"), [(b"yes\n", 0), (b"no\n", 1)])
def test_the_command_asks_for_consent_once_on_a_terminal(
    asked: Script, shell: Shell, typed: bytes, code: int
) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, typed)
    command = [DENIABLE, "answer", "app-health", *ALL, *shell.options]
    ran = subprocess.run(command, stdin=theirs, capture_output=True, text=True, timeout=PATIENCE)
    os.close(ours)
    os.close(theirs)
    assert ran.returncode == code
    assert "of one quarter, a suspicion of 10 % can grow beyond 99 % (ε 8)" in ran.stderr
    assert len(asked.envelopes()) == (code == 0)


def test_a_withdrawal_is_not_overridden_by_yes(asked: Script, shell: Shell) -> None:
    from deniable.client import Client, Policy

    asked.always = LATER
    waiting = shell(*ALL, "--yes", "--timeout", "0.5")
    assert waiting.returncode == 0
    assert "still waiting to be sent: 1; the next call" in waiting.stdout
    with Client(asked.url, policy=Policy(keys=["ab" * 32]), state=shell.state) as client:
        client.consent(False)
    ran = shell(*ALL, "--yes")
    assert (ran.returncode, ran.stdout.split(":")[0]) == (1, "no-consent")
