"""`deniable doctor`: names each fault with its fix, and exits with code 1."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from deniable.client.state.database import DATABASE
from deniable.shared.survey.keys import public_hex
from tests.client.certificates import certificate
from tests.client.conftest import MakeClient
from tests.client.scripted import ANSWERS, LATER, OTHER_KEY, Answer, Script, document
from tests.client.test_networks import server_with
from tests.client.tunnels import tunnelling
from tests.eventually import PATIENCE

DENIABLE = str(Path(sys.executable).with_name("deniable"))


def doctor(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the findings by check name, the last one if there are several."""
    command = [DENIABLE, "doctor", *arguments, "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.stderr == ""
    said = json.loads(ran.stdout)
    assert said["well"] == (ran.returncode == 0)
    return ran.returncode, {check["check"]: check for check in said["checks"]}


@pytest.fixture
def open_today(script: Script) -> Script:
    today = datetime.now(UTC).date()
    opens, closes = str(today - timedelta(days=1)), str(today + timedelta(days=1))
    script.publish(document(opens=opens, closes=closes, period="once"))
    return script


def test_a_healthy_server_passes(open_today: Script, policy_key: str) -> None:
    code, found = doctor("--server", open_today.url, "--key", policy_key)
    assert code == 0
    assert "surveys listed: 1, and 1 signed by the key that you trust" in found["list"]["says"]
    assert "needs a policy of ε 1.5 a round and ε 1.5 in all" in found["survey"]["says"]
    assert doctor("--server", open_today.url)[0] == 0, "passes without a key"


def test_a_key_that_signed_nothing_is_a_fault(open_today: Script) -> None:
    code, found = doctor("--server", open_today.url, "--key", public_hex(OTHER_KEY))
    assert code == 1
    assert not found["list"]["well"]
    assert "deniable keys show" in found["list"]["cure"]
    assert "not a trusted key" in found["refused survey"]["says"]


@pytest.mark.parametrize(
    ("reply", "says", "cure"),
    [
        (Answer(503), "status 503", "ask the server's operator"),
        (Answer(body=b"<html>"), "not a list of surveys", "the deniable server"),
        (Answer(body=b'{"surveys": 3}'), "not a list of surveys", "the deniable server"),
    ],
)
def test_a_list_that_cannot_be_read_is_a_fault(
    script: Script, reply: Answer, says: str, cure: str
) -> None:
    script.list_reply = reply
    code, found = doctor("--server", script.url)
    assert code == 1
    assert says in found["server"]["says"]
    assert cure in found["server"]["cure"]


def test_a_wrong_clock_is_a_fault() -> None:
    """Call the check directly, because a server on loopback shares this machine's clock."""
    from deniable.client.health_checks import _clock
    from deniable.client.net.transport import Reply

    def said(minutes: float) -> str:
        there = datetime.now(UTC) - timedelta(minutes=minutes)
        return there.strftime("%a, %d %b %Y %H:%M:%S GMT")

    assert _clock(Reply(200, b"", date=said(0))).well
    ahead = _clock(Reply(200, b"", date=said(60)))
    assert not ahead.well
    assert "ahead of the server's" in ahead.says
    assert "behind" in _clock(Reply(200, b"", date=said(-60))).says
    assert "not compared" in _clock(Reply(200, b"", date="now")).says


def test_the_connection_is_checked_with_tls_and_proxy(tmp_path: Path) -> None:
    soon, later = certificate(tmp_path, ends=2), certificate(tmp_path, "stats.example.org", ends=90)
    with server_with(soon) as server:
        code, found = doctor("--server", server.url, "--ca", str(soon))
        assert (code, found["connection"]["well"]) == (1, False)
        assert "certificate from localhost, 1 day left" in found["connection"]["says"]
        code, found = doctor("--server", server.url)
        assert "none of the usual authorities" in found["server"]["says"]
        assert "--ca" in found["server"]["cure"]
    with server_with(later) as server, tunnelling(server.server_address[1]) as proxy:
        where = ("--server", "https://stats.example.org", "--ca", str(later))
        assert doctor(*where, "--proxy", proxy.url)[0] == 0
        proxy.reply = b"HTTP/1.1 407 who are you\r\n\r\n"
        code, found = doctor(*where, "--proxy", proxy.url)
        assert (code, "407" in found["server"]["says"]) == (1, True)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert "refused" in doctor("--server", f"http://127.0.0.1:{port}")[1]["server"]["says"]


def test_checking_a_state_folder_changes_nothing(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    code, found = doctor("--state", str(folder))
    assert (code, "no state yet" in found["state"]["says"]) == (0, True)
    assert not folder.exists()
    script.publish(document())
    script.always = LATER
    client = client_of()
    client.answer("app-health", **ANSWERS)
    client.flush(PATIENCE)
    client.close()
    code, found = doctor("--state", str(folder), "--max-epsilon", "2")
    assert code == 0
    assert found["budget"]["says"].endswith(" of 2 left; ε 1.5 spent in all")
    assert found["reports"]["says"] == "1 made, 1 of them waiting to be sent"
    assert "people" not in found
    (folder / DATABASE).chmod(0o644)
    code, found = doctor("--state", str(folder))
    assert (code, found["permissions"]["well"]) == (1, False)
    (folder / DATABASE).write_bytes(b"x" * 4096)
    code, found = doctor("--state", str(folder))
    assert (code, found["state"]["well"]) == (1, False)


def test_it_prints_sentences_and_requires_a_target(script: Script) -> None:
    ran = subprocess.run([DENIABLE, "doctor"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "--server URL, --state DIR" in ran.stderr
    script.list_reply = Answer(503)
    command = [DENIABLE, "doctor", "--server", script.url]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 1
    assert "FAULT  server: the server answered with status 503\n       ask the server" in ran.stdout


def test_a_person_is_checked_by_id(script: Script, client_of: MakeClient, tmp_path: Path) -> None:
    """An app that answers for its users has no consent itself, so the doctor refers to them."""
    script.publish(document())
    client = client_of()
    client.consent(False)
    client.person("ann").consent(True)
    assert client.person("ann").answer("app-health", **ANSWERS).status == "queued"
    client.close()
    where = ("--state", str(tmp_path / "state"))
    _, found = doctor(*where)
    assert found["consent"]["says"].startswith("not given")
    assert "1 more in this folder; choose one with --person ID" in found["people"]["says"]
    _, found = doctor(*where, "--person", "ann")
    assert found["consent"]["says"] == "given"
    assert found["reports"]["says"].startswith("1 made")
    assert found["budget"]["says"].startswith("ε 1.5 spent")
