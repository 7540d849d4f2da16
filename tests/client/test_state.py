"""State on disk: any fault in it means no report and no second spending."""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import sqlite3
import time
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import pytest

import deniable.client
from deniable.client import Client
from deniable.client import client as client_module
from deniable.client.disclosure import read_summary
from deniable.client.state import schema
from deniable.client.state.database import DATABASE, MARKER, SqliteState
from deniable.shared.errors import StoreUnusable
from deniable.shared.survey.keys import sign_epoch
from tests.client.conftest import MakeClient
from tests.client.scripted import (
    ACCEPTED,
    KEY,
    LATER,
    Clock,
    Nobody,
    Script,
    bit,
    document,
    lifetime_policy,
    sqlite_of,
)
from tests.eventually import PATIENCE
from tests.survey_texts import bit as any_bit

POLICY = lifetime_policy(max_epsilon="1")
STATUSES = {"queued", "already-answered", "budget-spent", "refused", "no-survey", "closed",
            "no-consent", "unavailable"}  # fmt: skip


@pytest.fixture(autouse=True)
def published(script: Script) -> None:
    script.always = LATER
    script.publish(document(period="day", questions=bit("crashed", "0.5")))


@pytest.fixture
def used(client_of: MakeClient, clock: Clock, tmp_path: Path) -> Path:
    """Return a folder in which half of ε 1 is spent, on a new day."""
    client = client_of(policy=POLICY)
    assert client.answer("app-health", crashed=True).status == "queued"
    client.close()
    clock.now += timedelta(days=1)
    return tmp_path / "state"


def answer(client_of: MakeClient) -> str:
    client = client_of(consent=False, policy=POLICY)
    client.consent(True)
    client.flush(0)
    return client.answer("app-health", crashed=True).status


def test_an_unharmed_ledger_answers(client_of: MakeClient, used: Path) -> None:
    """Twin of all the following tests."""
    assert answer(client_of) == "queued"
    assert answer(client_of) == "already-answered"


@pytest.mark.parametrize("lost", ["all of it", "one byte"])
def test_a_marker_that_lost_charges_is_brought_up_to_date(
    client_of: MakeClient, used: Path, clock: Clock, lost: str
) -> None:
    """The marker then detects a database of an earlier day, as if nothing had been lost."""
    earlier = (used / DATABASE).read_bytes()
    assert answer(client_of) == "queued"
    marker = used / MARKER
    marker.unlink() if lost == "all of it" else marker.write_bytes(marker.read_bytes()[:-1])
    clock.now += timedelta(days=1)
    assert answer(client_of) == "budget-spent"
    assert marker.stat().st_size == 2
    (used / DATABASE).unlink()
    (used / DATABASE).write_bytes(earlier)
    assert answer(client_of) == "unavailable"


@pytest.mark.parametrize(
    ("name", "value"),
    [("synchronous", 2), ("journal_mode", "wal"), ("fullfsync", 1), ("secure_delete", 1)],
)
def test_every_connection_waits_for_the_disk_and_overwrites(
    used: Path, name: str, value: object
) -> None:
    """A durable charge survives a power cut, and deleted data is gone.

    A connection that replaces another, as after a fork, has the same settings.
    """
    state = SqliteState(used)
    for _ in range(2):
        with state.transaction() as db:
            assert db.execute(f"PRAGMA {name}").fetchone() == (value,)
        state.close()


def test_a_new_marker_and_its_name_are_on_disk_before_anything_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, real = list[int](), os.fsync

    def fsync(file: int) -> None:
        synced.append(os.fstat(file).st_ino)
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    SqliteState(tmp_path)._make_marker()
    assert synced == [(tmp_path / MARKER).stat().st_ino, tmp_path.stat().st_ino]


def test_the_name_of_a_new_folder_is_on_disk_before_anything_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a power loss could take folder, ledger and marker together without a trace."""
    synced, real = set[int](), os.fsync

    def fsync(file: int) -> None:
        synced.add(os.fstat(file).st_ino)
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    with SqliteState(tmp_path / "new" / "state").transaction(create=True):
        assert {tmp_path.stat().st_ino, (tmp_path / "new").stat().st_ino} <= synced


def test_a_marker_leaves_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise an app would eventually run out of file handles."""
    opened, open_file, close_file = list[int](), os.open, os.close

    def opening(path: Path, flags: int, mode: int = 0o777) -> int:
        opened.append(open_file(path, flags, mode))
        return opened[-1]

    def closing(file: int) -> None:
        opened.remove(file)
        close_file(file)

    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(os, "close", closing)
    state = SqliteState(tmp_path)
    state._make_marker()
    state.note_charges(1)
    assert opened == []


def test_a_marker_only_grows(tmp_path: Path) -> None:
    state, lengths = SqliteState(tmp_path), list[int]()
    state.note_charges(3)
    assert not state.marker.exists(), "an unused state has a marker"
    for charges in (2, 1, 5):
        state._make_marker()
        lengths.append(state.marker.stat().st_size)
        state.note_charges(charges)
    assert [*lengths, state.marker.stat().st_size] == [0, 2, 2, 5]


def test_only_state_executes_sql() -> None:
    """Other code only passes a transaction on, which import-linter cannot check."""
    client = Path(deniable.client.__file__).parent
    others = [path for path in client.rglob("*.py") if path.parent.name != "state"]
    assert len(others) > 10
    for path in others:
        assert not re.search(r"\.(execute|executemany|executescript|cursor)\(", path.read_text())


def test_a_missing_database_means_no_report(client_of: MakeClient, used: Path) -> None:
    (used / DATABASE).unlink()
    assert answer(client_of) == "unavailable"
    assert not (used / DATABASE).exists(), "a new database was created"


def test_a_completely_deleted_folder_is_a_new_install(client_of: MakeClient, used: Path) -> None:
    """The README states this: nothing on the device can reveal it."""
    shutil.rmtree(used)
    assert answer(client_of) == "queued"


@pytest.mark.parametrize("content", [b"", b"\0", b"not a database" * 500, b"\0" * 8192])
def test_an_invalid_database_means_no_report(
    client_of: MakeClient, used: Path, content: bytes
) -> None:
    (used / DATABASE).write_bytes(content)
    assert answer(client_of) == "unavailable"


def test_an_emptied_folder_means_no_report(client_of: MakeClient, used: Path) -> None:
    for path in used.iterdir():
        path.write_bytes(b"")
    assert answer(client_of) == "unavailable"


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_a_truncated_database_means_no_report(
    client_of: MakeClient, used: Path, share: float
) -> None:
    whole = (used / DATABASE).read_bytes()
    (used / DATABASE).write_bytes(whole[: int(len(whole) * share)])
    assert answer(client_of) == "unavailable"


def test_a_database_older_than_its_charges_means_no_report(
    client_of: MakeClient, clock: Clock, used: Path
) -> None:
    old = (used / DATABASE).read_bytes()
    client = client_of(consent=False, policy=POLICY)
    assert client.answer("app-health", crashed=True).status == "queued"
    client.close()
    (used / DATABASE).write_bytes(old)
    clock.now += timedelta(days=1)
    assert answer(client_of) == "unavailable"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE charges SET costs = '{\"crashed\": 1}'",
        "UPDATE charges SET round = round + 1",
        "UPDATE charges SET seal = ''",
        "UPDATE charges SET number = 7",
        "UPDATE charges SET costs = 'x'",
        "DELETE FROM charges",
        "DROP TABLE charges",
        "UPDATE ledgers SET charges = 2",
        "UPDATE ledgers SET seal = ''",
        "DELETE FROM ledgers",
        "UPDATE survey_keys SET key = 'x'",
        "UPDATE survey_keys SET key = x'00'",
        "PRAGMA user_version = 99",
        "PRAGMA application_id = 1",
    ],
)
def test_a_ledger_changed_from_outside_means_no_report(
    client_of: MakeClient, used: Path, change: str
) -> None:
    change_database(used, change)
    assert answer(client_of) == "unavailable"


@pytest.mark.parametrize("version", [schema.VERSION - 1, schema.VERSION + 1])
def test_another_schema_is_refused_with_a_sentence(
    client_of: MakeClient, used: Path, version: int
) -> None:
    """No report is made, and the database is not changed."""
    change_database(used, f"PRAGMA user_version = {version}")
    before = rows_by_table(used)
    outcome = client_of(consent=False, policy=POLICY).answer("app-health", crashed=True)
    assert outcome.status == "unavailable"
    assert f"has schema {version}, and this version reads {schema.VERSION}" in outcome.detail
    assert "use the version of deniable that wrote it" in outcome.detail
    assert rows_by_table(used) == before


def test_an_outbox_never_uses_a_number_twice(tmp_path: Path) -> None:
    with SqliteState(tmp_path).transaction(create=True) as db:
        for number in (1, 2):
            db.execute(
                "INSERT INTO outbox (person, survey, round, envelope, until, server, due)"
                " VALUES (x'', 's', 1, x'00', 1, 'https://stats.example.org', 0)"
            )
            assert db.execute("SELECT number FROM outbox").fetchall() == [(number,)]
            db.execute("DELETE FROM outbox")


def test_every_table_is_emptied_or_states_why_it_is_kept(
    client_of: MakeClient, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new table that is not listed here fails the test."""
    later = schema.Table("later", "value TEXT")
    monkeypatch.setattr(schema, "TABLES", (*schema.TABLES, later))
    script.publish(document("over", questions=bit("crashed", "0.5")), state="closed")
    script.publish(document("latched", questions=bit("crashed", "0.5"), repeat_rounds=2))
    script.publish(document("redrawn", questions=any_bit(epsilon="0.5", over="any")))
    script.always = ACCEPTED
    signed = sign_epoch(script.surveys[1]["id"], 683, 1, KEY)
    script.surveys[1]["epochs"] = [{"round": 683, "epoch": 1, "signature": signed}]
    client = client_of(policy=lifetime_policy(keys=POLICY.keys, max_epsilon="2"))
    for name in ("latched", "app-health", "redrawn"):
        assert client.answer(name, crashed=True).status == "queued"
        client.flush(PATIENCE)  # leaves the draft of the last one
    change_database(tmp_path / "state", "INSERT INTO later VALUES ('x')")
    before = rows_by_table(tmp_path / "state")
    assert set(before) == {table.name for table in schema.TABLES}
    assert all(before.values()), "a table is empty before the erasure"
    assert client.forget()
    kept = {table.name for table in schema.TABLES if table.kept}
    assert kept == {"charges", "ledgers", "people_key", "slots"}
    assert rows_by_table(tmp_path / "state") == {
        name: rows if name in kept else 0 for name, rows in before.items()
    }


def test_flipped_bits_never_raise_and_never_spend_twice(
    client_of: MakeClient, used: Path, tmp_path: Path, clock: Clock, script: Script
) -> None:
    """Use 80 databases with one to four flipped bits each.

    Even if a damaged database still answers, a paid round is never answered again, and the cap
    holds.
    """
    whole, marker = (used / DATABASE).read_bytes(), (used / MARKER).read_bytes()
    chance = random.Random(20261118)
    clock.now -= timedelta(days=1)
    for _ in range(80):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        (used / DATABASE).write_bytes(damaged)
        (used / MARKER).write_bytes(marker)
        for suffix in ("-journal", "-wal", "-shm"):
            Path(f"{used / DATABASE}{suffix}").unlink(missing_ok=True)
        client = Client(script.url, policy=POLICY, state=used, now=clock, transport=Nobody())
        status = client.answer("app-health", crashed=True).status
        assert status in STATUSES - {"queued"}
        client._uploader.stop(1)


def test_a_database_locked_by_another_means_no_report(
    client_of: MakeClient, used: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deniable.client.signal_safety.LOCK_WAIT_SECONDS", 0.2)
    other = sqlite3.connect(used / DATABASE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    client = client_of(consent=False, policy=POLICY)
    assert client.answer("app-health", crashed=True).status == "unavailable"
    assert client.flush(0) == 0
    other.execute("ROLLBACK")
    other.close()
    assert client.answer("app-health", crashed=True).status == "queued"


@pytest.mark.usefixtures("real_lock_wait")
@pytest.mark.parametrize("held", ["by another process", "by another thread"])
def test_an_answer_waits_for_a_lock_for_a_quarter_second(
    client_of: MakeClient, used: Path, held: str
) -> None:
    """The call then returns, because it may run within a request to the app."""
    client = client_of(consent=False, policy=POLICY)
    other = sqlite3.connect(used / DATABASE, isolation_level=None)
    with sqlite_of(client)._writer.gate if held == "by another thread" else nullcontext():
        if held == "by another process":
            other.execute("BEGIN IMMEDIATE")
        begin = time.monotonic()
        assert client.answer("app-health", crashed=True).status == "unavailable"
        assert 0.2 < time.monotonic() - begin < 2
    other.close()
    assert client.answer("app-health", crashed=True).status == "queued"


def test_a_disk_that_cannot_be_written_means_no_report(client_of: MakeClient, used: Path) -> None:
    """Make the file read-only by its header, because the test may run as root."""
    with (used / DATABASE).open("r+b") as file:
        file.seek(18)
        file.write(b"\x03\x02")  # SQLite opens a newer write version read-only
    assert answer(client_of) == "unavailable"


def test_a_state_that_cannot_be_made_means_no_report(client_of: MakeClient, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    client = client_of(consent=False, state=tmp_path / "file" / "state")
    assert client.consent(True) is False
    assert client.answer("app-health", crashed=True).status in ("no-consent", "unavailable")
    assert client.flush(PATIENCE) == 0
    assert client.forget() is True
    client.close()


@pytest.mark.parametrize("disks", [15, pytest.param(500, marks=pytest.mark.long)])
def test_a_full_disk_at_any_point_raises_nothing_and_spends_once(
    disks: int,
    used: Path,
    tmp_path: Path,
    clock: Clock,
    script: Script,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Limit the file size of each disk, from nothing to enough."""
    monkeypatch.setattr(client_module, "CLOSE_SECONDS", 0.0)  # no server to send to
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    statuses = []
    for limit in range(0, 120_000, 120_000 // disks):
        state = shutil.copytree(used, tmp_path / str(limit))
        client = Client(script.url, policy=POLICY, state=state, now=clock, transport=Nobody())
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            statuses.append(client.answer("app-health", crashed=True).status)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        expected = {"queued", "already-answered"} if statuses[-1] == "unavailable" else set()
        assert client.answer("app-health", crashed=True).status in expected | {"already-answered"}
        assert read_summary(state).ledger.total == 10**9
        client.close()
    assert set(statuses) == {"unavailable", "queued"}


def test_a_lost_marker_is_recreated(client_of: MakeClient, used: Path) -> None:
    (used / MARKER).unlink()
    assert answer(client_of) == "queued"
    assert (used / MARKER).exists()


def test_an_unreadable_state_is_a_clear_error_for_the_command(used: Path) -> None:
    (used / DATABASE).write_bytes(b"not a database" * 500)
    with pytest.raises(StoreUnusable, match="cannot be used"):
        read_summary(used)


def test_a_folder_of_the_app_keeps_its_permissions(client_of: MakeClient, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    assert answer(client_of) == "queued"
    assert folder.stat().st_mode & 0o777 == 0o755
    assert (folder / DATABASE).stat().st_mode & 0o777 == 0o600


def rows_by_table(folder: Path) -> dict[str, int]:
    db = sqlite3.connect(folder / DATABASE)
    try:
        names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        ours = [name for (name,) in names if not name.startswith("sqlite_")]
        return {n: db.execute(f"SELECT count(*) FROM {n}").fetchone()[0] for n in ours}
    finally:
        db.close()


def change_database(folder: Path, statement: str) -> None:
    db = sqlite3.connect(folder / DATABASE, isolation_level=None)
    db.execute(statement)
    db.close()
