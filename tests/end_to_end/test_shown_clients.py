"""Client documents, except for the ten lines of Python: the command, networks, JavaScript."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import certifi
import pytest

from deniable.client import Client, Policy
from deniable.simulations.demo.server_process import COMMAND, running_server
from tests.command import asked_json
from tests.documents import ROOT, Block, blocks, commands
from tests.end_to_end.place import Place
from tests.node import NODE

SERVER = "https://stats.example.org"


@dataclass(frozen=True)
class Published(Place):
    key: str

    def ours(self, text: str) -> str:
        """Return a block with the address and key of this server filled in."""
        text = re.sub(r"<public key[^>]*>", self.key, text)
        return text.replace(SERVER, self.server.url)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    folder = tmp_path_factory.mktemp("shown")
    survey, data = folder / "survey.toml", str(folder / "data")
    subprocess.run([*COMMAND, "survey", "new", str(survey)], check=True, capture_output=True)
    key = asked_json("survey", "publish", str(survey), "--data", data)["key"]
    with running_server(folder / "data") as server:
        yield Published(server, folder / "data", key)


def shown(document: str, section: str) -> Block:
    (block,) = [block for block in blocks(document) if block.section.startswith(section)]
    return block


@pytest.mark.long
def test_the_command_works_from_a_shell_as_shown(place: Published, tmp_path: Path) -> None:
    before, block = place.reports, shown("client/RECIPES.md", "Cron and small devices")
    (line,) = commands(place.ours(block.text))
    words = [*COMMAND, *line.replace('"', "").split(), "--yes"]
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, "HOME": str(tmp_path)}
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.startswith("queued")
    assert place.reports == before + 1


def test_the_network_options_work_as_shown(tmp_path: Path) -> None:
    """Make a client with custom certificate authorities, a proxy, and a timeout."""
    block = shown("client/RECIPES.md", "Certificates and proxies").text
    block = block.replace("/etc/example/ca.pem", certifi.where()).replace("~", str(tmp_path))
    names: dict[str, Any] = {"Client": Client, "policy": Policy(keys=["ab" * 32])}
    exec(block, names)  # a snippet of this repository
    assert "password" not in repr(names["client"])


def test_the_javascript_readme_works_as_shown(place: Published, tmp_path: Path) -> None:
    """Run the block in Node, as its comment states. Waiting reports are sent when the app ends."""
    before = place.reports
    block = shown("client/javascript/README.md", "The JavaScript client").text
    comment = '// in Node: fileStorage(folder) from "deniable/file-storage"'
    assert comment in block
    code = (
        place.ours(block)
        .replace("browserStorage()", 'fileStorage("state")')
        .replace("browserStorage", "fileStorage")
        .replace("browser-storage", "file-storage")
    )
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules/deniable").symlink_to(ROOT / "client/javascript")
    said = node(code + "console.log(outcome.status);\n", tmp_path)
    assert (said, place.reports) == ("queued\n", before + 1)


def test_the_snippet_for_phones_checks_what_the_client_needs(tmp_path: Path) -> None:
    """Node has Ed25519. If key generation is refused, the line reports that without throwing."""
    block = shown("client/RECIPES.md", "Phones").text
    assert node(f"{block}console.log(works);\n", tmp_path) == "true\n"
    refusing = "crypto.subtle.generateKey = () => Promise.reject(new Error('not supported'));\n"
    assert node(f"{refusing}{block}console.log(works);\n", tmp_path) == "false\n"


def node(code: str, folder: Path) -> str:
    (folder / "app.mjs").write_text(code, "utf-8")
    done = subprocess.run([NODE, "app.mjs"], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout
