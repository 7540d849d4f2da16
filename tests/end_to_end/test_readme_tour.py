"""Tour of the README, run unchanged: every command, in order."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

from deniable.simulations.demo.server_process import COMMAND, running_server

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
TOUR = README[README.index("## The tour") : README.index("## How an answer travels")]
PLACEHOLDER = "<the public key that publish printed>"
ADDRESS = "http://127.0.0.1:8000"


def blocks(language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", TOUR, re.MULTILINE | re.DOTALL)
    return [block for named, block in fenced if named == language]


def commands() -> list[str]:
    lines = [line for block in blocks("") for line in block.splitlines()]
    return [line.removeprefix("deniable ") for line in lines if line.startswith("deniable ")]


def snippet() -> str:
    (block,) = blocks("python")
    return block


def run(line: str, folder: Path) -> str:
    command = [*COMMAND, *shlex.split(line)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_the_tour_works_as_written(tmp_path: Path) -> None:
    written = commands()
    assert [line.split()[0] for line in written] == [
        "survey", "survey", "survey", "serve", "results", "sent",
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
        results, sent = (run(line, tmp_path) for line in written[4:])
    assert "open: 0 reports shown" in results
    assert "Forgery check" not in results, "no shown report has been checked"
    assert "reports have arrived; the first results appear after about 40" in " ".join(
        results.split()
    )
    assert "accepted by the server" in sent
    assert "crashed" in sent
