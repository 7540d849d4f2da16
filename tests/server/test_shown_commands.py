"""What pages and READMEs tell people to type, read from there and run as it stands."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deniable.shared.survey.periods import PERIODS
from tests.eventually import PATIENCE, eventually
from tests.server.world import DENIABLE, serving

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
    """What stands in a page to be copied."""
    return [
        html.unescape(found)
        for found in re.findall(r"<pre[^>]*><code>(.*?)</code>", text, re.DOTALL)
    ]


def blocks(file: str, section: str) -> list[str]:
    """The fenced shell blocks of one section."""
    text = (SERVER / file).read_text("utf-8")
    part = text.split(f"## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```", part, re.MULTILINE | re.DOTALL)


def shell(line: str, folder: Path) -> str:
    """Run by a shell, in which `deniable` is ours; it must not fail."""
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


def test_the_pages_lead_from_nothing_to_a_report(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data) as server:
        (commands,) = snippets(signed_in(server.url, "/", server.token))
        assert commands.splitlines()[0].startswith("deniable survey new ")
        shell(f"set -e\n{commands}", tmp_path)
        eventually(lambda: "app-health" in signed_in(server.url, "/", server.token), "published")
        snippet, _ = snippets(signed_in(server.url, "/surveys/app-health", server.token))
        assert server.url in snippet
        done = subprocess.run(
            [sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True,
            timeout=PATIENCE,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert "1 report" in shell(f"deniable results app-health --data {data}", tmp_path)


def test_who_cannot_sign_in_is_told_how_to_get_a_token(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data) as server:
        (command,) = snippets(page(server.url))
        token = shell(command.replace("DIR", str(data)), tmp_path).split()[0]
        assert "Surveys" in signed_in(server.url, "/", token)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the README uses curl")
def test_the_readme_s_requests(tmp_path: Path) -> None:
    (block,) = blocks("README.md", "HTTP")
    shell("deniable survey new survey.toml", tmp_path)
    made = shell("deniable survey publish survey.toml --data data --json", tmp_path)
    with serving(tmp_path / "data") as server:
        now = PERIODS["month"].round_of(datetime.now(UTC).date())
        text = block.replace(ADDRESS, server.url).replace("<64 hex>", json.loads(made)["id"])
        text = re.sub(r'"round": \d+', f'"round": {now}', text).replace("<32 hex>", "ab" * 16)
        said = shell(text, tmp_path)
    receipt = next(line for line in block.splitlines() if line.startswith("# {"))
    assert said.endswith(json.dumps(json.loads(receipt[2:]), separators=(",", ":")))


def test_the_backups_that_are_described(tmp_path: Path) -> None:
    (block,) = blocks("DEPLOYING.md", "Backups")
    shell("deniable survey new survey.toml", tmp_path)
    shell("deniable survey publish survey.toml --data lib/deniable", tmp_path)
    (tmp_path / "backup").mkdir()
    today = datetime.now(UTC).date().isoformat()
    text = block.replace("/var/lib", "lib").replace("/backup", "backup")
    shell(f"set -e\n{text}".replace("$(date +%F)", today).replace("2026-12-01", today), tmp_path)
    assert "app-health" in shell("deniable survey list --data lib/deniable-new", tmp_path)


@pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("jq")), reason="the text uses curl and jq"
)
def test_the_signing_key_can_stay_on_another_machine(tmp_path: Path) -> None:
    """The server learns the public key; surveys are sent over HTTP."""
    first, later = blocks("DEPLOYING.md", "Tokens and keys")
    shell("deniable keys new key.pem", tmp_path)
    shell(
        "deniable survey new draft.toml && sed s/app-health/next/ draft.toml > next.toml", tmp_path
    )
    public = shell("deniable keys show key.pem", tmp_path).strip()
    shell(first.replace("PUBLIC", public).replace("/var/lib/deniable", "server"), tmp_path)
    assert not list((tmp_path / "server").glob("*.pem"))
    with serving(tmp_path / "server") as server:
        text = later.replace("https://stats.example.org", server.url).replace("NAME", "next")
        said = shell(f"TOKEN={server.token}\nset -e\n{text}", tmp_path)
    assert '"state":"open"' in said
    assert "next" in shell("deniable survey list --data server", tmp_path)


COMMAND = re.compile(r"`deniable ([a-z]+)(?: ([^`]*))?`")


@pytest.mark.parametrize("file", ["README.md", "DEPLOYING.md"])
def test_every_command_that_is_named_exists(file: str, tmp_path: Path) -> None:
    """With every option that is named beside it."""
    named = COMMAND.findall((SERVER / file).read_text("utf-8"))
    assert named
    for verb, rest in sorted(set(named)):
        firsts = [part.split()[0] for part in rest.split("\\|") if part.strip()]
        actions = [word for word in firsts if word.isalpha() and word.islower()]
        usages = [shell(f"deniable {verb} {each} --help", tmp_path) for each in actions or [""]]
        assert set(re.findall(r"--[a-z]+", rest)) <= set(re.findall(r"--[a-z]+", " ".join(usages)))
