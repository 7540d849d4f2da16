"""`deniable ask`: from an empty folder to a link, and the text printed with it."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, build_opener, urlopen

import pytest
import segno

from deniable.server.cli.ask import qr_code, reach
from deniable.server.cli.survey import TEMPLATE_NAMES
from deniable.server.process.addresses import running_server
from deniable.server.surveys.link_surveys import TEMPLATES, obstacle, renamed
from deniable.server.surveys.survey_file import parse_survey_file
from deniable.shared.cli.command import main
from deniable.shared.survey.document import parse_toml, render_document
from tests import survey_texts as texts
from tests.command import DENIABLE, asked_json
from tests.documents import blocks, commands
from tests.eventually import PATIENCE, eventually
from tests.node import NODE

PORTS = ("--port", "0", "--dashboard-port", "0")
JAVASCRIPT = Path(__file__).resolve().parents[2] / "client" / "javascript" / "src" / "survey.js"
DAY = date(2026, 11, 20)


def ask(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command without a terminal until it ends."""
    return subprocess.run(
        [*DENIABLE, "ask", *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@contextmanager
def asking(folder: Path, *arguments: str) -> Iterator[dict[str, Any]]:
    """Run the command, which serves until it is stopped, and yield what it printed."""
    command = [*DENIABLE, "ask", *arguments, *PORTS, "--json"]
    with (
        (folder / "errors").open("w") as errors,
        subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (folder / "errors").read_text()
        try:
            yield json.loads(line)
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0


def asks(link: str, name: str) -> bool:
    """Return whether the respondent page of this survey is at the link."""
    try:
        with urlopen(link, timeout=PATIENCE) as page:
            return name in page.geturl() and '<main id="ask"' in page.read().decode()
    except HTTPError:
        return False


def test_an_empty_folder_becomes_a_link_and_a_second_survey_uses_the_same_server(
    tmp_path: Path,
) -> None:
    with asking(tmp_path, "--template", "yes-no", "--people", "30") as first:
        assert first["link"].startswith("http://127.0.0.1:")
        assert first["link"].endswith("/ask/our-team")
        assert (first["reaches"], first["by_invitation"]) == ("machine", False)
        said = (tmp_path / "errors").read_text()
        assert "For about 30 people (--people N), estimates appear after about 18 answers" in said
        assert "With 30 people at ε 1 you can tell 15 % from 85 %, but not 20 % from 80 %." in said
        browser = build_opener(HTTPCookieProcessor())
        with browser.open(first["results"], timeout=PATIENCE) as page:
            assert "Our team" in page.read().decode()
        eventually(partial(asks, first["link"], "our-team"), "the link leads to the page")
        done = ask(tmp_path, "--template", "rating", "--people", "90", "--json")
        assert "appear after about 42 answers and change in steps of about 15;" in done.stderr
        assert "With 90 people at ε 1 you can tell" in done.stderr
        assert done.returncode == 0, done.stderr
        second = json.loads(done.stdout)
        server = first["link"].rpartition("/ask/")[0]
        assert second["link"] == f"{server}/ask/how-was-the-course"
        assert second["token"] is None
        versions = ask(tmp_path, "--template", "ab", "--json")
        assert "from 30 % to 70 % you need 360 people, half of them in each" in versions.stderr
        assert json.loads(versions.stdout)["link"] == f"{server}/ask/two-working-weeks"
        again = ask(tmp_path, "our-team.toml", "--people", "9")
        assert (again.returncode, "write `step` in this one" in again.stderr) == (2, True)
        with urlopen(f"{server}/v1/surveys", timeout=PATIENCE) as listed:
            listing = json.load(listed)["surveys"]
        assert [entry["id"] for entry in listing] == [
            first["id"], second["id"], json.loads(versions.stdout)["id"],
        ]  # fmt: skip
        assert running_server(tmp_path / "deniable-data") is not None
    assert running_server(tmp_path / "deniable-data") is None
    assert (tmp_path / "deniable-data" / "serve.json").stat().st_mode & 0o077 == 0


def test_the_text_states_link_reach_results_end_and_key(tmp_path: Path) -> None:
    with asking(tmp_path, "--template", "yes-no"):
        done = ask(tmp_path, "our-team.toml", "--url", "https://ask.example.org")
    link = "https://ask.example.org/ask/our-team"
    lines = done.stdout.splitlines()
    assert (lines[0], lines[1]) == ("Our team", f"Ask with this link: {link}")
    assert qr_code(link) in done.stdout
    assert "It reaches everyone." in lines
    assert "deniable survey close our-team --data deniable-data" in done.stdout
    assert "signs its surveys with its own key" in done.stdout


def shown(section: str) -> list[list[str]]:
    """Return the commands of a section of server/SURVEYS.md, as words without `deniable`."""
    (block,) = [
        b for b in blocks("server/SURVEYS.md") if (b.section, b.language) == (section, "sh")
    ]
    return [shlex.split(line) for line in commands(block.text)]


def test_the_commands_of_ask_by_link_and_invitations_work_as_shown(tmp_path: Path) -> None:
    """A survey by invitation is printed with the command for its codes, and without a bare link."""
    ((_, *template),) = shown("Ask by link")
    (ask_again, file), (invite, *more) = shown("Invitations")
    assert (ask_again, invite) == ("ask", "invite")
    with asking(tmp_path, *template) as first:
        assert first["by_invitation"] is False
        text = (tmp_path / file).read_text()
        assert ask(tmp_path, file).returncode == 0
        (tmp_path / file).write_text(
            text.replace('round = "once"', 'round = "once"\ninvitation = true')
        )
        changed = ask(tmp_path, file)
        assert "Ask with this link" not in changed.stdout
        assert "deniable invite our-team --count 30" in changed.stdout
        address = ["--url", "https://ask.example.org"]
        done = subprocess.run(
            [*DENIABLE, invite, *more, *address],
            cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
    links = done.stdout.splitlines()
    assert len(set(links)) == 200
    assert all(link.startswith("https://ask.example.org/ask/our-team#") for link in links)
    assert {len(link.partition("#")[2]) for link in links} == {26}
    assert "working together with the server, may know which report is theirs" in done.stderr
    stored = b"".join(file.read_bytes() for file in (tmp_path / "deniable-data").iterdir())
    assert not [link for link in links if link.partition("#")[2].encode() in stored]


def test_only_a_survey_by_invitation_has_codes(tmp_path: Path) -> None:
    with asking(tmp_path, "--template", "yes-no"):
        command = [*DENIABLE, "invite", "our-team", "--count", "3"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "invitation = true" in done.stderr) == (3, True)


def test_without_a_terminal_a_file_or_template_is_needed(tmp_path: Path) -> None:
    done = ask(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "deniable ask --template yes-no" in done.stderr
    assert [*tmp_path.iterdir()] == []


def test_a_link_with_a_code_can_lead_to_another_page(tmp_path: Path) -> None:
    settings = texts.ALWAYS | {"round": "once", "invitation": True}
    (tmp_path / "asked.toml").write_text(texts.survey_text(texts.bit(), **settings))
    data = ("--data", str(tmp_path / "data"))
    name = asked_json("survey", "publish", str(tmp_path / "asked.toml"), *data)["name"]
    page = "https://host.example/late.html?lang=de"
    (link,) = asked_json("invite", name, "--count", "1", "--page", page, *data)["links"]
    assert re.fullmatch(re.escape(page) + "#[a-z2-7]{26}", link)
    for wrong in ("host.example/late.html", f"{page}#top", "http://host.example/late.html"):
        with pytest.raises(SystemExit):
            main(["invite", name, "--count", "1", "--page", wrong, *data])


@pytest.mark.parametrize("people", ["0", "-3", "many", "1.5"])
def test_a_wrong_number_of_people_ends_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], people: str
) -> None:
    file = tmp_path / "asked.toml"
    assert main(["ask", str(file), "--template", "yes-no", f"--people={people}"]) == 2
    assert f"expected a whole number of people above 0, got '{people}'" in capsys.readouterr().err
    assert not file.exists()


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "our-team.toml").write_text("mine")
    done = ask(tmp_path, "--template", "yes-no")
    assert (done.returncode, "already exists" in done.stderr) == (2, True)
    assert (tmp_path / "our-team.toml").read_text() == "mine"


def test_a_survey_that_no_link_can_ask_is_refused_before_it_is_published(tmp_path: Path) -> None:
    asked = texts.survey_text(texts.bit(over="any"), **texts.ALWAYS)
    (tmp_path / "asked.toml").write_text(asked)
    done = ask(tmp_path, "asked.toml")
    assert (done.returncode, done.stdout) == (3, "")
    assert 'write over = "first"' in done.stderr
    assert not (tmp_path / "deniable-data").exists()


def on_a_terminal(folder: Path, typed: str) -> tuple[int, str]:
    """Run the command on a terminal, for a port in use; return the exit code and the screen."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed.encode())
        with socket.create_server(("127.0.0.1", 0)) as used:
            done = subprocess.run(
                [*DENIABLE, "ask", "--port", str(used.getsockname()[1])],
                cwd=folder,
                stdin=theirs,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
        return done.returncode, done.stdout
    finally:
        os.close(ours)
        os.close(theirs)


def test_answers_on_a_terminal_become_a_file(tmp_path: Path) -> None:
    """The port is in use, which the command finds after it has written and published the survey."""
    typed = "Our lunch\nShall we order?\npizza, soup , nothing\n100\n\nAnna\n"
    code, screen = on_a_terminal(tmp_path, typed)
    assert code == 3
    survey = parse_survey_file((tmp_path / "our-lunch.toml").read_text())
    (question,) = survey.questions
    assert survey.step == 100 // 6
    assert (survey.title, question.title, survey.owner) == ("Our lunch", "Shall we order?", "Anna")
    assert (list(question.labels), str(question.epsilon)) == (["pizza", "soup", "nothing"], "1")
    assert "ε 1: from your report, a suspicion of 10 % can grow to at most 24 %" in screen
    assert "With 100 people at ε 1 you can tell" in screen
    assert "ε 1 is recommended" in screen


def test_a_mistake_on_the_terminal_leaves_no_file(tmp_path: Path) -> None:
    code, _ = on_a_terminal(tmp_path, "Our lunch\nShall we?\n\n30\nvery private\n\n")
    assert (code, [*tmp_path.iterdir()]) == (2, [])


def test_all_templates_can_be_asked_by_link_and_answered_in_javascript() -> None:
    assert tuple(TEMPLATES) == TEMPLATE_NAMES
    surveys = [parse_survey_file(draft.toml(DAY)) for draft in TEMPLATES.values()]
    assert [obstacle(survey) for survey in surveys] == [None] * len(surveys)
    assert max(survey.round_billionths for survey in surveys) <= 2 * 10**9
    documents = json.dumps([render_document(survey).decode() for survey in surveys])
    script = f"""
        import {{ parseSurvey }} from {json.dumps(JAVASCRIPT.as_uri())};
        console.log(JSON.stringify({documents}.map((text) => parseSurvey(text).name)));
    """
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", script], capture_output=True, text=True, timeout=60
    )
    assert json.loads(done.stdout) == [survey.name for survey in surveys], done.stderr


def test_a_draft_takes_other_texts_and_settings() -> None:
    draft = renamed(TEMPLATES["choice"], 'My "survey" \\ é', "What?", ("a", 'b"'))
    survey = parse_survey_file(draft.toml(DAY))
    assert (survey.title, survey.name) == ('My "survey" \\ é', "my-survey")
    assert (survey.questions[0].title, list(survey.questions[0].labels)) == ("What?", ["a", 'b"'])
    assert renamed(draft, "日本", "?").name == "survey"
    versions = renamed(TEMPLATES["ab"], "Which text?", "Is it clear?", ("short", "long"))
    made = parse_survey_file(versions.toml(DAY))
    assert made.arms is not None
    assert (made.arms.arms, made.questions[0].kind) == (("short", "long"), "bit")


def test_the_step_never_exceeds_the_number_of_answers_that_closes_the_survey() -> None:
    for people, close_at, step in ((30, None, 5), (1, None, 5), (60, 30, 5), (10**6, None, 20)):
        draft = replace(TEMPLATES["yes-no"], people=people, close_at=close_at)
        assert parse_survey_file(draft.toml(DAY)).step == step


@pytest.mark.parametrize(
    ("questions", "says"),
    [
        (texts.bit(over="last"), "once; write over"),
        (texts.question("word", "text", "2", length=8), "a text"),
        (texts.vector(3), "a vector"),
        (texts.bit(epsilon="8.5"), "at most ε 8"),
        (texts.bit() + texts.label("version", pattern=r"\d"), "only an app can provide the label"),
    ],
)
def test_each_obstacle_is_explained(questions: str, says: str) -> None:
    asked = parse_toml(texts.survey_text(questions, **texts.ALWAYS))
    assert says in (obstacle(asked) or "")


@pytest.mark.parametrize(
    ("url", "whom"),
    [
        ("http://127.0.0.1:8000", "machine"),
        ("http://localhost:8000", "machine"),
        ("https://localhost", "machine"),
        ("http://192.168.1.20:8000", "no one else"),
        ("http://ask.example.org", "no one else"),
        ("https://192.168.1.20", "network"),
        ("https://[fd00::1]", "network"),
        ("https://printer.local", "network"),
        ("https://ask.example.org", "everyone"),
        ("https://203.0.114.7", "everyone"),
    ],
)
def test_the_reach_of_a_link_is_stated(url: str, whom: str) -> None:
    assert reach(url) == whom


def test_a_qr_code_has_the_squares_of_the_link() -> None:
    link = "https://ask.example.org/ask/our-team"
    rows = [
        [(character in "█▀", character in "█▄") for character in line]
        for line in qr_code(link).splitlines()
    ]
    shown = [[light[half] for light in row] for row in rows for half in (0, 1)]
    wanted = [
        [not dark for dark in row] for row in segno.make_qr(link, error="m").matrix_iter(border=4)
    ]
    assert shown[: len(wanted)] == wanted
    other = segno.make_qr(f"{link}x", error="m").matrix_iter(border=4)
    assert wanted != [[not dark for dark in row] for row in other]
