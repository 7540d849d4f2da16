"""One client in many workers, under each real process manager that apps use."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from deniable.client.disclosure import read_summary
from tests.client.children import device
from tests.client.scripted import Script, bit, document
from tests.eventually import PATIENCE, eventually

ROOT = Path(__file__).resolve().parents[2]
APP = "tests.client.web_app:app"
BIN = Path(sys.executable).parent
SURVEYS = [f"s{number}" for number in range(24)]
WORKERS = 3
TENTH = 10**8  # of ε, in billionths

GUNICORN = [
    str(BIN / "gunicorn"),
    APP,
    "--preload",
    "--bind",
    "unix:SOCKET",
    "--workers",
    f"{WORKERS}",
]
UWSGI = [str(BIN / "uwsgi"), "--module", APP, "--http-socket", "SOCKET", "--home", sys.prefix]
UWSGI += ["--master", "--processes", f"{WORKERS}", "--enable-threads", "--die-on-term"]
SERVERS = {
    "gunicorn": GUNICORN,
    "gunicorn with threads": [*GUNICORN, "--threads", "4"],
    "gunicorn with gevent": [*GUNICORN, "--worker-class", "gevent"],
    "uWSGI that tells Python of its forks": [*UWSGI, "--py-call-uwsgi-fork-hooks"],
    "uWSGI with an app in each worker": [*UWSGI, "--lazy-apps"],
}


class Unix(HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def get(path: str, name: str) -> tuple[str, str]:
    """Return the worker that answered a request, and the status."""
    connection = Unix(path)
    try:
        connection.request("GET", f"/{name}")
        worker, status = connection.getresponse().read().decode().split(" ", 1)
    finally:
        connection.close()
    return worker, status


@contextmanager
def serving(
    command: list[str], **environment: str
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run the application's server at a socket; stop it by the signal that supervisors send."""
    with TemporaryDirectory() as folder:
        path = f"{folder}/socket"
        process = subprocess.Popen(
            [word.replace("SOCKET", path) for word in command],
            cwd=ROOT,
            env=os.environ | environment | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            eventually(lambda: Path(path).exists() or process.poll() is not None)
            wait_for_workers(path)
            yield path, process
        finally:
            process.terminate()
            process.wait(PATIENCE)


def wait_for_workers(path: str) -> None:
    """Wait until the workers run, because a starting worker would miss the signal to end."""
    up = set[str]()

    def all_are_up() -> bool:
        with suppress(ConnectionRefusedError):  # the socket exists, but no process listens yet
            up.add(get(path, "")[0])
        return len(up) == WORKERS

    eventually(all_are_up)


@pytest.mark.parametrize("server", SERVERS)
def test_workers_that_share_a_client_answer_and_send(
    script: Script, tmp_path: Path, policy_key: str, server: str
) -> None:
    """Answer 24 surveys twice, simultaneously: each is answered and sent once."""
    for name in ("before-the-fork", *SURVEYS):
        script.publish(document(name, questions=bit("crashed", "0.1")))
    state = str(tmp_path / "state")
    settings = {"SERVER": script.url, "STATE": state, "POLICY_KEY": policy_key}
    with serving(SERVERS[server], **settings) as (path, process), ThreadPoolExecutor(16) as crowd:
        told = list(crowd.map(lambda name: get(path, name), SURVEYS * 2))
        assert process.poll() is None
    statuses = sorted(status for _, status in told)
    assert statuses == ["already-answered"] * 24 + ["queued"] * 24
    finish(script, state, policy_key)
    assert read_summary(state).ledger.total == 25 * TENTH
    assert len({post.body for post in script.posts}) == 25


def test_workers_that_are_forked_in_c_answer_and_send(
    script: Script, tmp_path: Path, policy_key: str
) -> None:
    """uWSGI forks in C.

    If the master's threads are idle, its workers answer, or report that they cannot. Nothing is
    paid for or sent twice.
    """
    for name in ("before-the-fork", *SURVEYS):
        script.publish(document(name, questions=bit("crashed", "0.1")))
    state = str(tmp_path / "state")
    settings = {"SERVER": script.url, "STATE": state, "POLICY_KEY": policy_key, "AT_REST": "1"}
    with serving(UWSGI, **settings) as (path, _), ThreadPoolExecutor(16) as crowd:
        told = list(crowd.map(lambda name: get(path, name), SURVEYS * 2))
    statuses = Counter(status for _, status in told)
    assert set(statuses) <= {"queued", "already-answered", "unavailable"}
    finish(script, state, policy_key)
    assert read_summary(state).ledger.total == (1 + statuses["queued"]) * TENTH
    assert len({post.body for post in script.posts}) == 1 + statuses["queued"]


def finish(script: Script, state: str, policy_key: str) -> None:
    """Restart: the reports that the workers left on disk are sent."""
    client = device(script.url, state, policy_key, "6")
    assert client.flush(PATIENCE) == 0
    client.close()
    assert {entry.delivery for entry in read_summary(state).entries} == {"accepted"}


def test_greenlets_share_a_client(script: Script, tmp_path: Path, policy_key: str) -> None:
    """gevent patches threads, locks and sockets before anything is imported."""
    names = json.dumps(SURVEYS)
    for name in SURVEYS:
        script.publish(document(name, questions=bit("crashed", "0.1")))
    program = (
        "from gevent import monkey; monkey.patch_all()\n"
        "import sys, json, gevent\n"
        "from tests.client.children import device\n"
        f"client = device({script.url!r}, {str(tmp_path)!r}, {policy_key!r}, '6')\n"
        f"jobs = [gevent.spawn(client.answer, name, crashed=True) for name in {names} * 2]\n"
        f"gevent.joinall(jobs, timeout={PATIENCE})\n"
        f"print(json.dumps([sorted(job.value.status for job in jobs), client.flush({PATIENCE})]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, timeout=3 * PATIENCE
    )
    assert done.returncode == 0, done.stderr.decode()
    statuses, left = json.loads(done.stdout)
    assert (statuses, left) == (["already-answered"] * 24 + ["queued"] * 24, 0)
    assert len({post.body for post in script.posts}) == 24


@pytest.mark.parametrize(
    "method", ["fork", "forkserver", pytest.param("spawn", marks=pytest.mark.long)]
)
def test_a_pool_of_processes_shares_a_folder(
    script: Script, tmp_path: Path, policy_key: str, method: str
) -> None:
    for name in SURVEYS:
        script.publish(document(name, questions=bit("crashed", "0.1")))
    options = script.url, str(tmp_path), policy_key
    client = device(*options, "6")
    assert client.answer(SURVEYS[0], crashed=True).status == "queued"
    with multiprocessing.get_context(method).Pool(3) as pool:
        statuses = pool.starmap(answered, [(*options, name) for name in SURVEYS * 2], chunksize=1)
        pool.close()
        pool.join()
    assert sorted(statuses) == ["already-answered"] * 25 + ["queued"] * 23
    client.close()
    finish(script, str(tmp_path), policy_key)
    assert len({post.body for post in script.posts}) == 24


def answered(url: str, state: str, policy_key: str, name: str) -> str:
    """Answer in a task of a pool, with a separate client."""
    client = device(url, state, policy_key, "6")
    try:
        return client.answer(name, crashed=True).status
    finally:
        client.close()
