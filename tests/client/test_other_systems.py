"""Windows and macOS, simulated by hiding the names that they lack."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deniable.client import InvalidPolicy, state_folder
from tests.client.scripted import Script, document
from tests.eventually import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_an_answer_is_made_sent_and_remembered_on_other_systems(
    platform: str, script: Script, policy_key: str, tmp_path: Path
) -> None:
    script.publish(document())
    command = [sys.executable, "-m", "tests.client.other_system", platform, script.url]
    ran = subprocess.run(
        [*command, str(tmp_path / "a folder" / "state"), policy_key],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == ["queued", 0, "already-answered", 0]
    assert len(script.envelopes()) == 1


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, "~/.local/state/my-app"),
        ("linux", {"XDG_STATE_HOME": "/var/states"}, "/var/states/my-app"),
        ("linux", {"XDG_STATE_HOME": "relative"}, "~/.local/state/my-app"),
        ("darwin", {"XDG_STATE_HOME": "/var/states"}, "~/Library/Application Support/my-app"),
        ("win32", {}, "~/AppData/Local/my-app"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/my-app"),
    ],
)
def test_state_is_in_the_usual_folder_of_each_system(
    platform: str, environment: dict[str, str], expected: str
) -> None:
    assert state_folder("my-app", platform, environment) == Path(expected).expanduser()


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a\\b", "C:", "a\0"])
def test_the_name_of_an_app_cannot_be_a_path(name: str) -> None:
    with pytest.raises(InvalidPolicy, match="plain name"):
        state_folder(name)
