"""Backup of a running server, and a server that is restored from the backup."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest

from deniable.server.http.tokens import new_token
from deniable.server.store import FILE, Cells, PublishedSurvey, RoundTally, create_store, open_store
from deniable.server.store.sqlite.backup_file import restore
from deniable.shared.envelope import CONTENT_TYPE
from deniable.shared.errors import StoreUnusable
from tests.command import asked_json, run
from tests.eventually import PATIENCE, eventually
from tests.server.surveys import envelope, expected_cells, published
from tests.server.test_kills import this_month
from tests.server.world import serving

EACH = 50  # reports per envelope


class Device(threading.Thread):
    """Device that sends envelopes until it is stopped, and records the acknowledged ones."""

    def __init__(self, port: int, asked: PublishedSurvey, token: str) -> None:
        super().__init__()
        self.port, self.asked, self.token = port, asked, token
        self.acknowledged: list[int] = []
        self.stopped = threading.Event()

    def run(self) -> None:
        for number in range(100_000):
            if self.stopped.is_set():
                return
            if send(self.port, self.asked, self.token, number)["accepted"] == EACH:
                self.acknowledged.append(number)

    def has_sent(self, count: int) -> bool:
        return len(self.acknowledged) >= count


def send(port: int, asked: PublishedSurvey, token: str, number: int) -> dict[str, int]:
    number_of_round = asked.survey.first_round
    sent = envelope(asked, 1 + number * EACH, count=EACH, round_number=number_of_round)
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    headers = {"Content-Type": CONTENT_TYPE, "Authorization": f"Bearer {token}"}
    connection.request("POST", "/v1/envelopes", sent.pack(), headers)
    answer: dict[str, int] = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def test_a_restored_server_lacks_only_reports_after_the_backup(
    tmp_path: Path,
) -> None:
    """Exactly the reports acknowledged after the backup began are lost.

    If they are sent again, they count once, and reports in the backup do not count again.
    """
    data, copy, again = tmp_path / "data", tmp_path / "copy", tmp_path / "again"
    token, now = new_token(), datetime.now(UTC)
    with create_store(data) as store:
        asked = published(store, this_month())
        store.add_token(token, "app", now, now + timedelta(days=1))
    with serving(data) as server:
        device = Device(server.port, asked, token)
        device.start()
        eventually(lambda: device.has_sent(20), "reports are sent")
        before = set(device.acknowledged)
        assert asked_json("backup", "--data", data, "--to", copy)["bytes"]
        during = set(device.acknowledged) | {len(device.acknowledged)}
        eventually(lambda: device.has_sent(len(during) + 20), "reports are sent after it")
        device.stopped.set()
        device.join(PATIENCE)
    done = run("restore", copy, "--data", again)
    assert "Reports acknowledged after the backup are lost" in done.stdout
    with open_store(again) as store:
        held = store.report_totals()[asked.sequence] // EACH
        assert f"with {held * EACH:,} reports counted" in done.stdout
    lost = [number for number in device.acknowledged if number >= held]
    assert len(before) <= held <= len(during)
    assert len(lost) >= 20
    with serving(again) as server:
        answers = [send(server.port, asked, token, number) for number in device.acknowledged]
    assert sum(answer["duplicates"] for answer in answers) == held * EACH
    assert sum(answer["accepted"] for answer in answers) == len(lost) * EACH
    with open_store(again) as store:
        (tally,) = store.tallies(asked.sequence)
    reports = range(1, 1 + len(device.acknowledged) * EACH)
    assert (tally.reports, tally.cells.tolist()) == (
        len(reports), expected_cells(asked.survey, reports),
    )  # fmt: skip


def test_a_restore_reads_the_file_in_small_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    create_store(data).close()
    run("backup", "--data", data, "--to", tmp_path / "copy")

    def whole(_: Path) -> bytes:
        raise AssertionError("read the whole file in one piece")

    monkeypatch.setattr(Path, "read_bytes", whole)
    assert restore(tmp_path / "copy", tmp_path / "again") == 0


def test_a_backup_with_a_damaged_tally_is_not_restored(tmp_path: Path) -> None:
    """The file is a valid database; only the digests in it reveal the damage."""
    data, copy, again = tmp_path / "data", tmp_path / "copy", tmp_path / "again"
    with create_store(data) as store:
        asked = published(store, this_month())
        with store.transaction() as transaction:
            cells = backup_cells(asked)
            transaction.add(asked.sequence, RoundTally(asked.survey.first_round, 1, cells))
    run("backup", "--data", data, "--to", copy)
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("UPDATE tallies SET reports = reports + 1")
    with pytest.raises(StoreUnusable, match="is damaged"):
        restore(copy, again)
    assert not again.exists()


def backup_cells(asked: PublishedSurvey) -> Cells:
    return np.array(expected_cells(asked.survey, [1]), np.int64)


def test_a_failed_restore_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, again = tmp_path / "data", tmp_path / "again"
    create_store(data).close()
    run("backup", "--data", data, "--to", tmp_path / "copy")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(StoreUnusable, match="No space left"):
        restore(tmp_path / "copy", again)
    assert not (again / FILE).exists()
    assert [path.name for path in again.iterdir()] == []
