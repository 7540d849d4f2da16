"""First tutorial of the client, run unchanged: every command, in order."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

from deniable.simulations.demo.server_process import COMMAND, running_server
from tests.documents import blocks, commands

README = "client/README.md"
SECTIONS = (
    "2. Write and publish a survey",
    "3. Answer from your code",
    "4. See what left the device",
)
PLACEHOLDER = "<the public key that publish printed>"
ADDRESS = "http://127.0.0.1:8000"


def shown(language: str) -> list[str]:
    found = (block for block in blocks(README) if block.section in SECTIONS)
    return [block.text for block in found if block.language == language]


def snippet() -> str:
    (block,) = shown("python")
    return block


def run(line: str, folder: Path) -> str:
    command = [*COMMAND, *shlex.split(line)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_the_tour_works_as_written(tmp_path: Path) -> None:
    written = [line for text in shown("") for line in commands(text)]
    assert [line.split()[0] for line in written] == [
        "survey", "survey", "survey", "serve", "sent", "results",
    ]  # fmt: skip
    said = [run(line, tmp_path) for line in written[:3]]
    assert "changes the odds" in said[1]
    key = re.search(r"\b[0-9a-f]{64}\b(?=')", said[2])
    assert key, "publish does not print the public key in the form for Policy"
    assert written[3] == "serve --data ./data"
    with running_server(tmp_path / "data") as server:
        assert PLACEHOLDER in snippet()
        assert ADDRESS in snippet()
        code = snippet().replace(PLACEHOLDER, key[0]).replace(ADDRESS, server.url)
        answered = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert (answered.stdout.strip(), answered.stderr) == ("queued", "")
        sent, results = (run(line, tmp_path) for line in written[4:])
    assert "open: 0 reports shown" in results
    assert "Forgery check" not in results, "no shown report has been checked"
    assert "reports have arrived; the first results appear after about 40" in " ".join(
        results.split()
    )
    assert "accepted by the server" in sent
    assert "crashed" in sent
