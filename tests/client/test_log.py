"""Write-ahead log: what is on disk and when, what survives a power loss, what no file contains."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from deniable.client import Client
from deniable.client.disclosure import read_summary
from deniable.client.state.database import DATABASE, MARKER, SqliteState
from deniable.shared.privacy.mechanism import kernel_draw
from tests.client.conftest import MakeClient
from tests.client.scripted import ACCEPTED, LATER, Clock, Nobody, Script, bit, document, sqlite_of
from tests.client.test_processes import result, start
from tests.eventually import PATIENCE

LOG = f"{DATABASE}-wal"


@pytest.fixture(autouse=True)
def published(script: Script) -> None:
    script.always = LATER
    script.publish(document(period="day", questions=bit("crashed", "0.5")))


@pytest.fixture
def warm(client_of: MakeClient, clock: Clock) -> Client:
    """Return a client that answered yesterday, with its list on disk and its survey verified.

    Nothing else uses its state.
    """
    client = client_of(send_within=3600.0)
    assert client.answer("app-health", crashed=True).status == "queued"
    client._uploader.stop(PATIENCE)
    client._report_queued = lambda: None
    clock.now += timedelta(minutes=1)
    return client


def tomorrow(client: Client, clock: Clock) -> None:
    """Move to the next day, with a freshly fetched list."""
    clock.now += timedelta(days=1)
    with client._state.transaction() as db:
        db.execute("UPDATE lists SET fetched = ?", (int(clock.now.timestamp()),))


def test_an_answer_waits_for_the_disk_once_and_before_the_noise(
    warm: Client, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The charge is committed durably, then the noise is drawn.

    The report follows in a transaction that need not be durable.
    """
    tomorrow(warm, clock)
    did = list[str]()

    def draw(bits: int) -> int:
        did.extend(["noise"] if did[-1] != "noise" else [])
        return kernel_draw(bits)

    monkeypatch.setattr(warm._pipeline, "_draw", draw)
    db = sqlite_of(warm)._writer.db
    assert db is not None
    db.set_trace_callback(did.append)
    assert warm.answer("app-health", crashed=True).status == "queued"
    steps = [step.split(" (")[0] for step in did if telling(step)]
    assert steps == [
        *("PRAGMA synchronous = FULL", "BEGIN IMMEDIATE", "INSERT INTO charges VALUES", "COMMIT"),
        "noise",
        *("PRAGMA synchronous = NORMAL", "BEGIN IMMEDIATE", "INSERT INTO outbox", "COMMIT"),
    ]


def telling(statement: str) -> bool:
    first = (
        "noise",
        "PRAGMA synchronous",
        "BEGIN",
        "COMMIT",
        "INSERT INTO charges",
        "INSERT INTO o",
    )
    return statement.startswith(first)


def test_a_loss_of_power_at_any_byte_after_the_charge_spends_once(
    warm: Client, clock: Clock, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk has all data synced before the draw, a prefix of later data, and perhaps garbage.

    The marker may have been written or not.
    """
    state, synced = tmp_path / "state", tmp_path / "synced"
    tomorrow(warm, clock)

    def draw(bits: int) -> int:
        if not synced.exists():
            shutil.copytree(state, synced)
        return kernel_draw(bits)

    monkeypatch.setattr(warm._pipeline, "_draw", draw)
    assert warm.answer("app-health", crashed=True).status == "queued"
    log, least = (state / LOG).read_bytes(), (synced / LOG).stat().st_size
    assert (synced / DATABASE).read_bytes() == (state / DATABASE).read_bytes()
    assert len(log) > least, "the log has no report after the charge"
    for end in range(least, len(log) + 1, 1021):
        for number, torn in enumerate((b"", b"\0" * 5000, log[32:5000])):
            found = tmp_path / f"found-{end}-{number}"
            shutil.copytree(synced, found)
            (found / f"{DATABASE}-shm").unlink()
            (found / LOG).write_bytes(log[:end] + torn)
            (found / MARKER).write_bytes(b"." * (1 + number % 2))
            again = Client(
                script.url, policy=warm._policy, state=found, now=clock, transport=Nobody()
            )
            assert again.answer("app-health", crashed=True).status == "already-answered"
            again._uploader.stop(PATIENCE)  # its log lines must not reach another test
            again._state.close()
            told = read_summary(found)
            assert told.ledger.total == 10**9
            assert len(told.entries) in (1, 2)
            assert (found / MARKER).stat().st_size == 2


def test_a_log_without_its_last_charge_means_no_report(
    warm: Client, clock: Clock, script: Script, tmp_path: Path
) -> None:
    """The marker reveals a disk that ignores syncs, or a database that was copied alone.

    Twin of the test above.
    """
    tomorrow(warm, clock)
    before = (tmp_path / "state" / LOG).read_bytes()
    assert warm.answer("app-health", crashed=True).status == "queued"
    for log in (before, b""):
        found = tmp_path / f"found-{len(log)}"
        shutil.copytree(tmp_path / "state", found)
        (found / f"{DATABASE}-shm").unlink()
        (found / LOG).write_bytes(log)
        again = Client(script.url, policy=warm._policy, state=found, now=clock, transport=Nobody())
        assert again.answer("app-health", crashed=True).status == "unavailable"


@pytest.mark.parametrize("way", ["withdraw", "forget", "expire"])
def test_deleted_data_is_in_no_file(
    script: Script, client_of: MakeClient, clock: Clock, tmp_path: Path, way: str
) -> None:
    """The data is not in the log either, even with the state open in the app and elsewhere."""
    client, other = client_of(), client_of()
    assert other.answer("unheard-of").status == "no-survey"
    client.answer("app-health", crashed=True)
    client.flush(PATIENCE)
    (envelope, *_) = script.envelopes()
    assert envelope.id in every_byte(tmp_path)
    if way == "expire":
        clock.now += timedelta(days=400)
        client.flush(0)
    else:
        assert client.consent(False) if way == "withdraw" else client.forget()
    assert envelope.id not in every_byte(tmp_path)


def test_data_deleted_by_a_killed_process_is_gone_after_the_next_start(
    script: Script, client_of: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ended between the withdrawal and the checkpoint of the log."""
    client = client_of()
    client.answer("app-health", crashed=True)
    client.flush(PATIENCE)
    (envelope, *_) = script.envelopes()
    with monkeypatch.context() as patch:
        patch.setattr("deniable.client.state.database._fold", lambda db: None)
        client.consent(False)
    assert envelope.id in every_byte(tmp_path)
    client_of(consent=False)
    assert envelope.id not in every_byte(tmp_path)


def every_byte(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_without_shared_memory_every_transaction_is_durable(
    script: Script, client_of: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network mounts refuse the log.

    SQLite's VFS that locks by files has no shared memory either.
    """
    monkeypatch.setattr(SqliteState, "_connect", dotfile_connect(SqliteState._connect))
    script.always = ACCEPTED
    client = client_of()
    assert client.answer("app-health", crashed=True).status == "queued"
    assert client.flush(PATIENCE) == 0
    for durable in (True, False):
        with client._state.transaction(durable=durable) as db:
            assert db.execute("PRAGMA journal_mode").fetchone() == ("truncate",)
            assert db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert client.answer("app-health", crashed=True).status == "already-answered"
    assert not (tmp_path / "state" / LOG).exists()


def dotfile_connect(connect: Callable[..., object]) -> Callable[..., object]:
    def connecting(state: SqliteState, connection: object) -> object:
        state._address = f"file:{state.database}?mode=rw&vfs=unix-dotfile"
        return connect(state, connection)

    return connecting


@pytest.mark.parametrize("first", ["child", "stranger", "parent"])
def test_a_child_forked_in_c_never_writes_to_a_deleted_log(
    script: Script, tmp_path: Path, policy_key: str, first: str
) -> None:
    """A child that was forked with an open connection refuses to work.

    It refuses before and after its parent closes the state, and with its own client. The parent
    continues.
    """
    for name in ("s0", "s1", "s2", "s3"):
        script.publish(document(name, questions=bit("crashed", "0.1")))
    folder = tmp_path / "state"
    told = result(start("orphan", script.url, str(folder), policy_key, "6", first))
    assert told == ["queued", "unavailable", "unavailable", "queued"]
    assert read_summary(folder).ledger.charges == 2


def test_creating_a_state_never_closes_its_file_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing it would drop the locks that another thread's connection holds on the same file."""
    monkeypatch.setattr("os.link", refuse)
    for folder in (tmp_path / "without links", tmp_path / "with"):
        with SqliteState(folder).transaction(create=True):
            assert not (folder / f"{DATABASE}-new").exists()
            assert (folder / DATABASE).stat().st_mode & 0o777 == 0o600
        monkeypatch.undo()


def refuse(*_: object) -> None:
    raise PermissionError("no links here")
