"""Commands shown on pages and in READMEs, run unchanged from there."""

from __future__ import annotations

import csv
import html
import json
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deniable.shared.survey.document import PERIODS, parse_toml
from tests.command import DENIABLE, run
from tests.eventually import PATIENCE, eventually
from tests.server.test_archive import JANUARY, fill
from tests.server.world import Server, begun, serving
from tests.survey_texts import survey_text

SERVER = Path(__file__).parents[2] / "server"
ADDRESS = "http://127.0.0.1:8000"


def page(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return str(error.read().decode())


def signed_in(url: str, path: str, token: str | None) -> str:
    request = urllib.request.Request(url + path, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return str(answer.read().decode())


def snippets(text: str) -> list[str]:
    """Return the code blocks of a page."""
    return [
        html.unescape(snippet)
        for snippet in re.findall(r"<pre[^>]*><code>(.*?)</code>", text, re.DOTALL)
    ]


def blocks(file: str, section: str) -> list[str]:
    """Return the fenced shell blocks of one section."""
    text = (SERVER / file).read_text("utf-8")
    part = text.split(f"## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```", part, re.MULTILINE | re.DOTALL)


def shell(line: str, folder: Path) -> str:
    """Run a line in a shell in which `deniable` is this version; the line must not fail."""
    script = folder / "deniable"
    if not script.exists():
        python, option, code = DENIABLE
        script.write_text(f"#!/bin/sh\nexec '{python}' {option} '{code}' \"$@\"\n")
        script.chmod(0o700)
    done = subprocess.run(
        ["sh", "-c", f'PATH="{folder}:$PATH"\n{line}'],
        cwd=folder, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    return done.stdout


def published(folder: Path, data: Path) -> str:
    """Publish a survey into this data folder and return its id; the draft is in `folder`."""
    assert run("survey", "new", folder / "survey.toml").returncode == 0
    made = run("survey", "publish", folder / "survey.toml", "--data", data, "--json")
    return str(json.loads(made.stdout)["id"])


def test_the_commands_on_pages_lead_from_an_empty_server_to_a_report(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data) as server:
        (commands,) = snippets(signed_in(server.dashboard, "/", server.token))
        assert commands.splitlines()[0].startswith("deniable survey new ")
        shell(f"set -e\n{commands}", tmp_path)
        eventually(
            lambda: "app-health" in signed_in(server.dashboard, "/", server.token), "published"
        )
        snippet, *_ = snippets(signed_in(server.dashboard, "/surveys/app-health", server.token))
        assert server.url in snippet
        done = subprocess.run(
            [sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True,
            timeout=PATIENCE,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert "reports have arrived" in run("results", "app-health", "--data", data).stdout


def test_the_sign_in_page_explains_how_to_get_a_token(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data) as server:
        (command,) = snippets(page(server.dashboard))
        token = shell(command.replace("DIR", str(data)), tmp_path).split()[0]
        assert "Surveys" in signed_in(server.dashboard, "/", token)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the text uses curl")
def test_the_shown_requests_work(tmp_path: Path) -> None:
    (block,) = blocks("SURVEYS.md", "HTTP")
    made = published(tmp_path, tmp_path / "data")
    with serving(tmp_path / "data") as server:
        now = PERIODS["once"].round_of(datetime.now(UTC).date())
        text = block.replace(ADDRESS, server.url).replace("<64 hex>", made)
        text = re.sub(r'"round": \d+', f'"round": {now}', text).replace("<32 hex>", "ab" * 16)
        said = shell(text, tmp_path)
    receipt = next(line for line in block.splitlines() if line.startswith("# {"))
    assert said.endswith(json.dumps(json.loads(receipt[2:]), separators=(",", ":")))


def test_backups_work_as_described(tmp_path: Path) -> None:
    """Run "Back up, and practise a restore" of RECIPES.md, except the server on the copy."""
    first, practise, _ = blocks("RECIPES.md", "Back up, and practise a restore")
    block = first + practise.splitlines()[0]
    published(tmp_path, tmp_path / "lib/deniable/data")
    (tmp_path / "backup").mkdir()
    today = datetime.now(UTC).date().isoformat()
    text = block.replace("/var/lib", "lib").replace("/backup", "backup")
    shell(f"set -e\n{text}".replace("$(date +%F)", today).replace("2026-12-01", today), tmp_path)
    assert "app-health" in run("survey", "list", "--data", tmp_path / "lib/deniable/new").stdout


@pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("jq")), reason="the text uses curl and jq"
)
def test_the_signing_key_can_stay_on_another_machine(tmp_path: Path) -> None:
    """The server learns the public key; surveys are sent over HTTP."""
    first, later = blocks("RECIPES.md", "Keep the signing key off the server")
    key, draft = tmp_path / "key.pem", tmp_path / "next.toml"
    assert run("keys", "new", key).returncode == run("survey", "new", draft).returncode == 0
    draft.write_text(draft.read_text("utf-8").replace("app-health", "next"), "utf-8")
    public = run("keys", "show", key).stdout.strip()
    shell(first.replace("PUBLIC", public).replace("/var/lib/deniable/data", "server"), tmp_path)
    assert not list((tmp_path / "server").glob("*.pem"))
    with serving(tmp_path / "server") as server:
        text = later.replace("https://dashboard.example.org", server.dashboard).replace(
            "NAME", "next"
        )
        said = shell(f"TOKEN={server.token}\nset -e\n{text}", tmp_path)
    assert '"state":"open"' in said
    assert "next" in run("survey", "list", "--data", tmp_path / "server").stdout


def test_the_example_of_an_open_question_works_as_shown() -> None:
    text = (SERVER / "SURVEYS.md").read_text("utf-8").split("## Ask an open question\n")[1]
    (block,) = re.findall(r"^```toml\n(.*?)^```", text.split("\n## ")[0], re.MULTILINE | re.DOTALL)
    (question,) = parse_toml(survey_text(block)).questions
    assert (question.kind, question.name) == ("text", "word")


@pytest.mark.long
def test_closing_and_deleting_a_survey_work_as_shown(tmp_path: Path) -> None:
    """Run the section "Delete a survey" of RECIPES.md."""
    shell("deniable survey new s.toml && deniable survey publish s.toml --data data", tmp_path)
    (block,) = blocks("RECIPES.md", "Delete a survey")
    listed = json.loads(shell("deniable survey list --data data --json", tmp_path))
    id_ = listed["surveys"][0]["id"]
    close, delete = block.replace("DIR", "data").replace(" ID ", f" {id_} ").splitlines()
    shell(close, tmp_path)
    assert "final" in shell("deniable survey list --data data", tmp_path)
    shell(delete.replace("  #", " --yes  #"), tmp_path)  # instead of typing the id
    assert json.loads(shell("deniable survey list --data data --json", tmp_path))["surveys"] == []


@pytest.mark.long
def test_limits_the_register_and_the_doctor_work_as_shown(tmp_path: Path) -> None:
    """Run the sections on forged reports, app tokens, the register and the doctor.

    The first line about the doctor also runs while a server uses the folder.
    """
    shell("deniable survey new s.toml && deniable survey publish s.toml --data data", tmp_path)
    (serve,) = blocks("RECIPES.md", "Limit forged reports")
    (tokens,) = blocks("RECIPES.md", "Give each class of installs a token")
    shell(f"set -e\n{tokens.replace('DIR', 'data')}", tmp_path)
    (register,) = blocks("RECIPES.md", "Check the register")
    (doctor,) = blocks("RECIPES.md", "Check and repair a folder")
    while_serving, repair = doctor.replace("/var/lib/deniable/data", "data").splitlines()
    words = serve.split()
    assert words[:4] == ["deniable", "serve", "--data", "DIR"]
    with serving(tmp_path / "data", more=words[4:]) as server:
        shell(f"set -e\n{register.replace('https://stats.example.org', server.url)}", tmp_path)
        shell(while_serving, tmp_path)
    shell(repair, tmp_path)
    kept = json.loads((tmp_path / "register.json").read_text("utf-8"))
    events = [entry["event"] for entry in kept["entries"]]
    assert events in (["published"], ["published", "page"]), "its page is registered soon after"


@pytest.mark.long
def test_archives_work_as_shown(tmp_path: Path) -> None:
    """Run "Archive ended rounds" of RECIPES.md, except pip, for three ended rounds."""
    asked = fill(tmp_path / "data")
    (block,) = blocks("RECIPES.md", "Archive ended rounds")
    _, *lines = block.replace("/var/lib/deniable/data", "data").replace("DIR", "data").splitlines()
    text = (
        "\n".join(lines).replace("/archive", "archive").replace("--round 683", f"--round {JANUARY}")
    )
    said = shell(f"set -e\n{text}", tmp_path)
    assert asked.survey.name in said


@pytest.mark.long
@pytest.mark.parametrize("tool", ["pandas", "polars", "duckdb"])
def test_other_tools_read_the_results(tmp_path: Path, tool: str) -> None:
    """Run "Read results in other tools" in an environment that has only the tool."""
    (block,) = re.findall(r"```python\n(.*?)```", other_tools(tmp_path), re.DOTALL)
    uv = str(Path(sys.executable).with_name("uv"))
    program = f"{block}\nprint(len(with_{tool}('results.csv')), with_{tool}('results.csv'))"
    done = subprocess.run(
        [uv, "run", "--no-project", "--with", tool, "python", "-c", program],
        cwd=tmp_path, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{rows_in(tmp_path)} "), done.stdout


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
def test_r_reads_the_results(tmp_path: Path) -> None:
    (block,) = re.findall(r"```r\n(.*?)```", other_tools(tmp_path), re.DOTALL)
    program = f"{block}cat(nrow(rows))"
    done = subprocess.run(["Rscript", "-e", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.endswith(f"\n{rows_in(tmp_path)}"), done.stderr


def rows_in(folder: Path) -> int:
    with (folder / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert any(row["estimate"] for row in rows)
    return len(rows)


def other_tools(folder: Path) -> str:
    """Write results.csv with the command of the section, and return the section."""
    fill(folder / "data")
    text = (SERVER / "RECIPES.md").read_text("utf-8").split("## Read results in other tools\n")[1]
    (export,) = re.findall(r"```sh\n(.*?)```", text.split("\n## ")[0], re.DOTALL)
    shell(export.replace("DIR", "data"), folder)
    return text.split("\n## ")[0]


@pytest.mark.long
def test_a_relay_works_as_shown(tmp_path: Path) -> None:
    """Run "Use a relay of another organization": both servers respond, and know the token."""
    block, *_ = blocks("RECIPES.md", "Use a relay of another organization")
    new, create, relay, serve = block.replace("DIR", "data").splitlines()
    shell(new, tmp_path)
    sealing, file, relay_key, key = serve.partition("#")[0].split()[4:]
    assert (sealing, file, relay_key) == ("--sealing-key", "sealing.pem", "--relay-key")
    more = [sealing, str(tmp_path / file), relay_key, key]
    with serving(tmp_path / "data", more=more) as server:
        token = shell(create, tmp_path).split()[0]
        words = relay.partition("#")[0].replace("/var/lib", str(tmp_path)).split()[1:]
        assert words[:3] == ["deniable", "relay", "--to"]
        words[3] = server.url
        with relay_running([*DENIABLE, *words[1:], "--port", "0", "--json"], token) as running:
            assert "alive" in page(f"{running.url}/healthz")
            assert "surveys" in page(f"{running.url}/v1/surveys")


@contextmanager
def relay_running(command: list[str], token: str) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("DENIABLE_TOKEN", token)
        relay = begun(command)
    try:
        yield relay
    finally:
        relay.kill_group()
