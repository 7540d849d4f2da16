"""Real servers: start, stop, kills, and protection of their files."""

import json
import os
import resource
import signal
import socket
import sqlite3
import stat
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from deniable.server.store import FILE, SqliteStore, open_store
from deniable.shared.envelope import CONTENT_TYPE
from tests.command import DENIABLE, asked_json, run, run_alone
from tests.eventually import PATIENCE, eventually
from tests.server.surveys import envelope, published
from tests.server.test_kills import this_month, this_round
from tests.server.world import Server, serving, start


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the server that is shared by all read-only tests."""
    return tmp_path_factory.mktemp("served") / "data"


@pytest.fixture(scope="module")
def server(served: Path) -> Iterator[Server]:
    with serving(served) as made:
        yield made


def get(server: Server, path: str, token: str | None = None) -> tuple[int, bytes]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(server.url_of(path), headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def answers(server: Server) -> bool:
    try:
        return get(server, "/healthz")[0] == 200
    except OSError:
        return False


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def test_only_the_first_start_creates_an_operator_token(data: Path) -> None:
    with serving(data) as first:
        assert first.token is not None
        status, _ = get(first, f"/v1/surveys/{'0' * 64}/counters", first.token)
        assert status == 404  # the token is valid; the survey does not exist
        assert get(first, f"/v1/surveys/{'0' * 64}/counters")[0] == 401
    with serving(data) as second:
        assert second.token is None


@pytest.mark.parametrize("seconds", [0.0, 0.4, pytest.param(0.2, marks=pytest.mark.long)])
def test_an_interrupted_start_keeps_no_token_that_was_not_shown(data: Path, seconds: float) -> None:
    command = [*DENIABLE, "serve", "--data", str(data), "--port", "0", "--dashboard-port", "0"]
    stopped = subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True)
    eventually((data / FILE).exists, "the store is made")
    time.sleep(seconds)
    stopped.terminate()
    shown, _ = stopped.communicate(timeout=PATIENCE)
    with serving(data) as next_start:
        assert (next_start.token is None) == ('"token": "' in shown)


def test_the_data_folder_is_readable_only_by_its_owner(server: Server, served: Path) -> None:
    assert stat.S_IMODE(served.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(file.stat().st_mode) & 0o077 == 0 for file in served.iterdir())


def test_an_existing_folder_with_files_keeps_its_mode(data: Path) -> None:
    """It may be a shared folder or a home folder, named by mistake; new files in it are private."""
    data.mkdir()
    data.chmod(0o755)
    (data / "something else").touch()
    with serving(data):
        assert stat.S_IMODE(data.stat().st_mode) == 0o755
        ours = [file for file in data.iterdir() if file.name != "something else"]
        assert all(stat.S_IMODE(file.stat().st_mode) & 0o077 == 0 for file in ours)


@pytest.mark.parametrize(("host", "warned"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_listening_to_other_machines_without_tls_gives_a_warning(
    data: Path, host: str, warned: bool
) -> None:
    with serving(data, command=[*DENIABLE, "serve", "--host", host]) as server:
        _, errors = server.stop()
    assert ("does not use TLS" in errors) == warned


def test_a_busy_port_is_refused_with_one_sentence(server: Server, tmp_path: Path) -> None:
    done = run_alone("serve", "--data", tmp_path / "other", "--port", server.port)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1
    assert f"port {server.port}" in done.stderr


def test_a_folder_that_another_server_serves_is_refused(server: Server, served: Path) -> None:
    done = run_alone("serve", "--data", served, "--port", 0)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1
    assert "another server is using" in done.stderr


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_server_stops_cleanly_on_request(data: Path, sign: signal.Signals) -> None:
    with serving(data) as server:
        (worker,) = server.workers()
        server.process.send_signal(sign)
        _, errors = server.process.communicate(timeout=PATIENCE)
        assert server.process.returncode == 0, errors
        assert "Traceback" not in errors
        assert gone(worker)


def test_stopping_flushes_the_counters(data: Path) -> None:
    with serving(data) as server:
        sent = socket.create_connection(("127.0.0.1", server.port))
        body = b"DNB1" + bytes(32 + 4 + 16) + b"\1\0\0\0" + bytes(4)
        head = "POST /v1/envelopes HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        head += f"Content-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
        with sent:
            sent.sendall(head.encode() + body)
            assert b"unknown-survey" in b"".join(iter(lambda: sent.recv(4096), b""))
        assert server.stop()[0] == 0
    with open_store(data) as store:
        assert store.counters(0) == {"unknown-survey": 1}


def test_a_killed_main_process_leaves_no_orphan_and_the_next_start_works(data: Path) -> None:
    """The worker notices the death without help, and releases the port and the folder."""
    with serving(data) as server:
        (worker,) = server.workers()
        server.process.kill()
        server.process.wait(PATIENCE)
        eventually(lambda: gone(worker), "the worker ends")
        assert not answers(server)
        with serving(data, port=server.port) as successor:
            assert answers(successor)


def test_a_killed_worker_is_replaced(data: Path) -> None:
    with serving(data) as server:
        (worker,) = server.workers()
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: answers(server) and worker not in server.workers(), "another answers")
        assert server.process.poll() is None
        assert server.stop()[0] == 0


def test_a_server_starts_after_its_process_group_was_killed(data: Path) -> None:
    with serving(data) as server:
        server.kill_group()
        with serving(data, port=server.port) as successor:
            assert answers(successor)


def test_surveys_published_and_closed_by_verbs_are_served(
    server: Server, served: Path, tmp_path: Path
) -> None:
    """Another process opens the same folder; test_catalogue tests the delay."""
    file = tmp_path / "survey.toml"
    assert run("survey", "new", file).returncode == 0

    def states() -> dict[str, str]:
        listed = json.loads(get(server, "/v1/surveys")[1])["surveys"]
        return {entry["id"]: entry["state"] for entry in listed}

    id_ = asked_json("survey", "publish", file, "--data", served)["id"]
    eventually(lambda: states().get(id_) == "open", "published")
    assert run("survey", "close", "app-health", "--data", served).returncode == 0
    eventually(lambda: states()[id_] == "closed", "closed")


def test_intake_knows_of_a_close_over_http_before_the_response(data: Path) -> None:
    with SqliteStore.create(data) as store:
        asked = published(store, this_month())
    with serving(data) as server:
        address = f"{server.dashboard}/v1/surveys/{asked.id}/close"
        headers = {"Authorization": f"Bearer {server.token}"}
        assert json.loads(get(server, f"/v1/surveys/{asked.id}")[1])["state"] == "open"
        request = urllib.request.Request(address, b"", headers, method="POST")
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            assert response.status == 200
        assert json.loads(get(server, f"/v1/surveys/{asked.id}")[1])["state"] == "closed"


def test_results_are_available_from_another_machine(
    server: Server, served: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output equals that from the store. No token is sent unencrypted."""
    file = tmp_path / "remote.toml"
    run("survey", "new", file)
    file.write_text(file.read_text("utf-8").replace("app-health", "remote"), "utf-8")
    run("survey", "publish", file, "--data", served)
    token = json.loads(
        run("token", "create", "--role", "analyst", "--data", served, "--json").stdout
    )["token"]
    eventually(lambda: get(server, "/v1/surveys/remote/results", token)[0] == 200)
    asked = ["results", "remote", "--server", server.dashboard]
    monkeypatch.delenv("DENIABLE_TOKEN", raising=False)
    assert "set DENIABLE_TOKEN" in run(*asked).stderr
    monkeypatch.setenv("DENIABLE_TOKEN", token)
    here = run("results", "remote", "--data", served)
    assert (here.returncode, run(*asked).stdout) == (0, here.stdout)
    as_json = run(*asked, "--json").stdout
    assert json.loads(as_json) == json.loads(
        run("results", "remote", "--data", served, "--json").stdout
    )
    for more, code, says in (
        (["--token", "wrong"], 3, "refused: "),
        (["--round", "7"], 3, "refused: "),
        (["--server", "http://example.org"], 2, "https"),
        (["--server", "http://127.0.0.1:1"], 3, "no answer"),
    ):
        done = run(*asked, *more)
        assert (done.returncode, says in done.stderr) == (code, True), done.stderr
        assert token not in done.stderr


def test_a_backup_is_taken_while_the_server_runs(
    server: Server, served: Path, tmp_path: Path
) -> None:
    copy, other = tmp_path / "copy.sqlite3", tmp_path / "restored"
    done = run("backup", "--data", served, "--to", copy, "--json")
    assert done.returncode == 0, done.stderr
    assert run("restore", copy, "--data", other).returncode == 0
    with serving(other) as restored:
        assert restored.token is None  # the backup contains the tokens
        assert get(restored, f"/v1/surveys/{'0' * 64}/counters", server.token)[0] == 404


def test_a_chunked_body_is_bounded(server: Server) -> None:
    """A body of 10 MB without a declared length is refused, and is not read to the end."""
    head = (
        "POST /v1/envelopes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        "Content-Type: application/vnd.deniable.envelopes\r\n\r\n"
    )
    chunk = b"2710\r\n" + b"DNB1" * 2_500 + b"\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(head.encode())
        try:
            for _ in range(1_000):
                connection.sendall(chunk)
            connection.sendall(b"0\r\n\r\n")
        except OSError:
            pass  # the server has answered and closed the connection
        assert connection.recv(12) == b"HTTP/1.1 413"


def test_a_body_that_ends_early_is_refused(data: Path) -> None:
    with serving(data) as server:
        for length in (100, 100_000):
            head = (
                f"POST /v1/envelopes HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n"
                "Content-Type: application/vnd.deniable.envelopes\r\n\r\nDNB1"
            )
            with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
                connection.sendall(head.encode())
                connection.shutdown(socket.SHUT_WR)
                assert connection.recv(12) == b"HTTP/1.1 400"
        assert server.stop() == (0, ""), "logged a client's error"


def test_two_hundred_held_connections_do_not_block_the_server(server: Server) -> None:
    """A hundred connections stop within their header, and a hundred within their body."""
    held = []
    half = "POST /v1/envelopes HTTP/1.1\r\nHost: x\r\n"
    body = "Content-Type: application/vnd.deniable.envelopes\r\nContent-Length: 99\r\n\r\nDNB1"
    try:
        for number in range(200):
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
            held.append(connection)
            connection.sendall((half + (body if number % 2 else "")).encode())
        assert answers(server)
    finally:
        for connection in held:
            connection.close()


def test_no_address_and_no_time_of_arrival_is_stored_or_logged(data: Path) -> None:
    """After a request, neither the database's tables nor the output contain an address."""
    with serving(data) as server:
        assert get(server, "/healthz")[0] == 200
        _, errors = server.stop()
    assert "127.0.0.1" not in errors
    with sqlite3.connect(data / "deniable.sqlite3") as connection:
        columns = [
            (table, column[1])
            for (table,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            )
            for column in connection.execute(f"PRAGMA table_info({table})")
            if table in ("envelopes", "tallies", "counters")
        ]
    connection.close()
    assert {name for table, name in columns if table == "envelopes"} == {
        "number", "survey", "round", "place", "rows", "digest"
    }  # fmt: skip


def test_the_startup_message_shows_the_address_of_the_dashboard_once(data: Path) -> None:
    import subprocess

    process = subprocess.Popen(
        [*DENIABLE, "serve", "--data", str(data), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline() for _ in range(3)]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert "/?token=" in lines[2]


def test_a_host_of_another_machine_gives_a_clear_error(data: Path) -> None:
    done = run_alone("serve", "--data", data, "--host", "192.0.2.1", "--port", 0)
    assert done.returncode == 2
    assert "cannot listen at 192.0.2.1" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_start_recognizes_the_contents_of_its_folder(data: Path) -> None:
    data.mkdir()
    (data / "deniable.sqlite3").write_bytes(b"not a database at all" * 100)
    done = run_alone("serve", "--data", data, "--port", 0)
    assert done.returncode == 2
    assert "is not a deniable database" in done.stderr
    with pytest.raises(AssertionError, match="not a database"):
        start(data)


@pytest.mark.parametrize("begun", ["", "PRAGMA journal_mode = WAL"])
def test_a_first_start_that_was_killed_is_repeated(data: Path, begun: str) -> None:
    """The database may have no tables yet, or no bytes."""
    data.mkdir()
    with closing(sqlite3.connect(data / "deniable.sqlite3")) as driver:
        driver.execute(begun)
    (data / "deniable.sqlite3").touch()
    with serving(data) as server:
        assert server.token is not None
        assert get(server, "/readyz")[0] == 200


def test_a_failed_write_ends_the_worker_and_the_next_one_continues(data: Path) -> None:
    """A limit on the file size makes the kernel fail writes, like a quota or a broken disk."""
    with SqliteStore.create(data) as store:
        asked = published(store, this_month())
    report = envelope(asked, 1, round_number=this_round(asked)).pack()
    with serving(data) as server:
        (worker,) = server.workers()
        assert post(server, report) == 200
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (0, 0))
        other = envelope(asked, 2, round_number=this_round(asked)).pack()
        with ThreadPoolExecutor(16) as pool:
            answers = set(pool.map(post, [server] * 16, [other] * 16))
        assert 503 in answers
        assert 0 not in answers, "the end of the worker cut off an answer"
        eventually(lambda: gone(worker) or worker not in server.workers(), "the worker ends")
        eventually(lambda: post(server, other) == 200, "another takes its place")
        assert server.process.poll() is None
        code, errors = server.stop()
    assert code == 0
    assert "reports are refused until the next start" in errors
    assert "Traceback" not in errors
    with open_store(data) as store:
        assert store.tallies(asked.sequence)[0].reports == 2


def test_a_disk_that_keeps_failing_ends_the_server(data: Path) -> None:
    """A supervisor can then restart it; otherwise the process would keep refusing everything."""
    with SqliteStore.create(data) as store:
        asked = published(store, this_month())
    report = envelope(asked, 1, round_number=this_round(asked)).pack()
    with serving(data) as server:
        for process in (server.process.pid, *server.workers()):  # future workers inherit the limit
            resource.prlimit(process, resource.RLIMIT_FSIZE, (0, 0))

        def ended() -> bool:
            assert post(server, report) in (0, 503)
            return server.process.poll() is not None

        eventually(ended, "it ends")
        assert server.process.returncode == 1


def post(server: Server, body: bytes) -> int:
    request = urllib.request.Request(
        server.url + "/v1/envelopes", data=body, headers={"Content-Type": CONTENT_TYPE}
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0
