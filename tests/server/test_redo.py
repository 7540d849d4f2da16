"""Redo file: under load, groups are first stored there, in an order that reveals nothing."""

import os
import random
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import date, timedelta
from itertools import count
from pathlib import Path

import pytest

from deniable.server.intake.commit import commit, open_recovered, recover
from deniable.server.intake.upkeep import purged_from
from deniable.server.intake.writer import Writer, _Request
from deniable.server.store import Damaged, PublishedSurvey, SqliteStore, Store, StoreLost, Upload
from deniable.server.store.sqlite import redo_file, write_connection
from deniable.server.store.sqlite.backup_file import back_up
from deniable.server.store.sqlite.redo_file import HALF_BYTES, RedoFile
from deniable.server.store.sqlite.write_connection import LOCK_FILE, WriteLock
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.clock import Clock
from deniable.shared.errors import StoreUnusable
from tests.eventually import eventually
from tests.server.surveys import DECEMBER, published, survey
from tests.server.test_order import TOO_MANY, crowd, max_links, upload


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore.create(tmp_path / "data") as made:
        yield made


def write(store: Store, uploads: list[Upload], *, later: bool = True) -> list[str]:
    with store.transaction(later=later) as transaction:
        return list(commit(transaction, uploads))


def some(asked: PublishedSurvey, seed: int, number: int, size: int = 1) -> list[Upload]:
    chance = random.Random(seed)
    return [Upload(asked, DECEMBER, chance.randbytes(16), size, bytes(size)) for _ in range(number)]


def in_tables(data: Path) -> int:
    """Return the number of reports that another process reads."""
    with closing(sqlite3.connect(data / "deniable.sqlite3")) as connection:
        (reports,) = connection.execute("SELECT coalesce(sum(reports), 0) FROM tallies").fetchone()
    return int(reports)


def copied(store: SqliteStore, name: str) -> Path:
    """Copy the folder in the state in which a killed process leaves it."""
    return Path(shutil.copytree(store.data, store.data.with_name(name)))


def test_pending_reports_of_a_damaged_survey_block_no_other_survey(store: SqliteStore) -> None:
    """The reports are dropped together with their survey, which only a backup can restore."""
    damaged, other = published(store, survey(name="first")), published(store, survey(name="other"))
    assert write(store, some(damaged, 1, 3) + some(other, 2, 4)) == ["accepted"] * 7
    data = copied(store, "left")
    with closing(sqlite3.connect(data / "deniable.sqlite3")) as driver, driver:
        driver.execute("UPDATE surveys SET document = document || ' ' WHERE sequence = 1")
    with SqliteStore.open(data) as again:
        catalogue = Catalogue(again)
        recover(again, catalogue, serves=True)
        assert again.report_totals() == {other.sequence: 4}
        assert write(again, some(other, 3, 2)) == ["accepted"] * 2
        with pytest.raises(Damaged, match="is not what was signed"):
            catalogue.publish(damaged.document, damaged.signature, damaged.key)


def test_reports_that_a_killed_server_left_are_counted_once(store: SqliteStore) -> None:
    asked = published(store, survey())
    groups = [some(asked, seed, 7) for seed in range(5)]
    for group in groups:
        assert write(store, group) == ["accepted"] * 7
        assert write(store, group[:2]) == ["duplicates"] * 2
    assert in_tables(store.data) == 0
    left = copied(store, "left")
    assert store.report_totals() == {asked.sequence: 35}, "the killed server had acknowledged them"
    assert in_tables(store.data) == 35
    settled = copied(store, "settled")
    for data in (left, settled):
        for _ in range(2):
            with open_recovered(data) as again:
                assert again.report_totals() == {asked.sequence: 35}
                assert write(again, groups[4], later=False) == ["duplicates"] * 7


def test_a_failed_group_affects_no_other_group(store: SqliteStore) -> None:
    asked = published(store, survey())
    write(store, some(asked, 1, 3))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RedoFile, "keep", _no_room)
        with pytest.raises(StoreUnusable, match="no room"):
            write(store, some(asked, 2, 3))
    assert in_tables(copied(store, "left")) == 0
    assert store.report_totals() == {asked.sequence: 3}
    assert write(store, some(asked, 2, 3)) == ["accepted"] * 3


def test_a_commit_that_fails_loses_nothing(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups that were acknowledged earlier reach the tables together with the next group."""
    asked = published(store, survey())
    write(store, some(asked, 1, 3))
    with monkeypatch.context() as patched:
        patched.setattr(store._writer, "_commit", _full)
        with pytest.raises(StoreUnusable, match="full"):
            store.report_totals()
    assert store.report_totals() == {}
    assert len(store.unsettled()) == 3
    recover(store, Catalogue(store))
    assert store.report_totals() == {asked.sequence: 3}
    assert store.unsettled() == []


def test_repeated_failures_keep_each_report_once(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk stays full, so each group also tries to write all earlier groups that failed."""
    asked = published(store, survey())
    monkeypatch.setattr(store._writer, "_commit", _full)
    for failures in range(1, 5):
        write(store, some(asked, failures, 3))
        with pytest.raises(StoreUnusable, match="full"):
            store.report_totals()
        assert len({row.kept.id for row in store.unsettled()}) == 3 * failures
        assert len(store.unsettled()) == 3 * failures
        recover(store, Catalogue(store), serves=True)
        assert store.unsettled() == [], "the group is not pending"


def _no_room(_: RedoFile, uploads: list[Upload], _stored: int) -> bool:
    raise StoreUnusable(f"no room for {len(uploads)}")


def _full(_: sqlite3.Connection, _acknowledged: int) -> None:
    raise sqlite3.OperationalError("database or disk is full")


def test_a_group_too_large_for_the_file_goes_straight_to_the_tables(store: SqliteStore) -> None:
    asked = published(store, survey())
    write(store, some(asked, 1, 3))
    write(store, some(asked, 2, 5, size=60_000))
    assert in_tables(store.data) == 3 + 5 * 60_000


def test_one_half_stays_intact_when_the_other_is_torn(tmp_path: Path) -> None:
    """A write that is torn at any sector leaves the previous contents, and is not damage."""
    chance, file = random.Random(5), tmp_path / redo_file.FILE
    with SqliteStore.create(tmp_path / "data") as store:
        asked = published(store, survey())
    kept, uploads = RedoFile(file), some(asked, 3, 40)
    assert kept.keep(uploads[:20], 0)
    before = file.read_bytes()
    assert kept.keep(uploads[20:], 0)
    after = file.read_bytes()
    assert {row.kept.id for row in RedoFile(file).lost} == {upload.id for upload in uploads}
    place = 0 if any(after[:HALF_BYTES]) else HALF_BYTES
    end = place + len(after[place : place + HALF_BYTES].rstrip(b"\0"))
    written = range(place, end, redo_file.SECTOR_BYTES)
    for _ in range(200):
        torn = bytearray(before)
        for start in chance.sample(written, chance.randrange(len(written))):
            torn[start : start + redo_file.SECTOR_BYTES] = after[
                start : start + redo_file.SECTOR_BYTES
            ]
        file.write_bytes(bytes(torn))
        assert {row.kept.id for row in RedoFile(file).lost} == {
            upload.id for upload in uploads[:20]
        }
    kept.close()


def test_one_half_is_zeros_after_each_write_and_both_are_at_the_end(store: SqliteStore) -> None:
    """The file must not reveal which reports arrived with the last group."""
    asked, file = published(store, survey()), store.data / redo_file.FILE
    for seed in range(6):
        write(store, some(asked, seed, 9 - seed))
        halves = file.read_bytes()[:HALF_BYTES], file.read_bytes()[HALF_BYTES:]
        assert [any(half) for half in halves].count(True) == 1
        ids = [row.kept.id for row in RedoFile(file).lost]
        assert ids == sorted(ids)
    assert store.forget_order()
    assert not any(file.read_bytes())
    assert file.stat().st_mode & 0o777 == 0o600


def test_no_copy_links_two_surveys_under_load(store: SqliteStore, tmp_path: Path) -> None:
    """The two reports of each install arrive in separate groups, without a pause."""
    installs, copies = crowd(11), []
    surveys = [published(store, survey(name=name)) for name in ("one", "other")]
    for number, install in enumerate(installs):
        for asked, identifier in zip(surveys, install, strict=True):
            assert write(store, [upload(asked, identifier)]) == ["accepted"]
        if number % 12 == 11:
            copies.append(copied(store, f"copy-{number}"))
    assert all(max_links(copy, installs) < TOO_MANY for copy in copies)
    assert store.forget_order()
    assert max_links(store.data, installs) < TOO_MANY
    back_up(store.data, tmp_path / "backup")
    assert max_links(tmp_path / "backup", installs) < TOO_MANY


def test_the_attack_finds_the_order_in_an_append_only_file(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redo_file, "insort", lambda members, each: members.append(each))
    installs = crowd(12)
    surveys = [published(store, survey(name=name)) for name in ("one", "other")]
    for install in installs:
        for asked, identifier in zip(surveys, install, strict=True):
            write(store, [upload(asked, identifier)])
    assert max_links(copied(store, "copy"), installs) >= TOO_MANY


def test_a_failing_disk_ends_the_writer(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = published(store, survey())

    def fails(_: int) -> None:
        raise OSError(5, os.strerror(5))

    monkeypatch.setattr(os, "fdatasync", fails)
    with pytest.raises(StoreLost, match="Input/output error"):
        write(store, some(asked, 1, 2))


def test_a_new_writer_moves_pending_reports_into_the_tables(
    store: SqliteStore,
) -> None:
    asked = published(store, survey())
    write(store, some(asked, 1, 30))
    with SqliteStore.open(copied(store, "left")) as again:
        writer = Writer(again, Catalogue(again))
        writer.start()
        eventually(lambda: in_tables(again.data) == 30, "recovered")
        eventually(lambda: not any((again.data / redo_file.FILE).read_bytes()), "emptied")
        writer.stop()


def test_other_processes_can_write_while_groups_arrive_continuously(
    store: SqliteStore,
) -> None:
    """If the writer kept its transaction open, others would wait ten times longer than they can."""
    asked, stopped = published(store, survey()), threading.Event()

    def crowd() -> None:
        for seed in count():
            if stopped.is_set():
                break
            write(store, some(asked, seed, 3))

    busy = threading.Thread(target=crowd)
    busy.start()
    try:
        eventually(lambda: store._writer.redo.pending, "groups come")
        with SqliteStore.open(store.data) as other:
            for number in range(5):
                other.keep_day(date(2026, 12, 1 + number))
    finally:
        stopped.set()
        busy.join()
    assert store.latest_day() == date(2026, 12, 5)


def test_a_stopped_command_delays_groups_only_once(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that was stopped while it held the lock would delay every group."""
    monkeypatch.setattr(write_connection, "LOCK_PATIENCE_SECONDS", 0.5)
    asked = published(store, survey())
    with WriteLock(store.data / LOCK_FILE).hold():
        began = time.monotonic()
        for seed in range(20):
            write(store, some(asked, seed, 1))
        assert time.monotonic() - began < 20 * 0.5 / 2
        assert store._writer.redo.pending  # later groups stay together


def test_pending_reports_of_a_deleted_survey_are_dropped(store: SqliteStore) -> None:
    kept, deleted = (published(store, survey(name=name)) for name in ("kept", "deleted"))
    write(store, [*some(kept, 1, 2), *some(deleted, 2, 3)])
    left = copied(store, "left")
    with SqliteStore.open(left) as again:
        again.delete_survey(deleted.sequence)
    with open_recovered(left) as again:
        assert again.report_totals() == {kept.sequence: 2}


def test_a_writer_that_stops_leaves_nothing_to_recover(store: SqliteStore) -> None:
    """A group that arrives while another is being written may not be in the tables yet."""
    asked, answers = published(store, survey()), list[object]()
    writer = Writer(store, Catalogue(store))
    writer.start()
    assert writer.write(some(asked, 2, 1)) == ["accepted"]
    eventually(lambda: store._writer._covered_bytes > 0)
    with writer._ready:
        for waiting in some(asked, 1, 20):
            writer._waiting.append(_Request([waiting], waiting.size, answers.append))
        writer._state = "stopping"
    writer.stop()
    assert answers == [["accepted"]] * 20
    assert in_tables(store.data) == 21
    assert not any((store.data / redo_file.FILE).read_bytes())


def test_no_trace_of_a_deleted_survey_is_left_after_a_start(store: SqliteStore) -> None:
    asked = published(store, survey())
    write(store, some(asked, 1, 3))
    with SqliteStore.open(copied(store, "left")) as again:
        again.delete_survey(asked.sequence)
        assert any((again.data / redo_file.FILE).read_bytes())
        writer = Writer(again, Catalogue(again))
        writer.start()
        eventually(lambda: not any((again.data / redo_file.FILE).read_bytes()), "emptied")
        writer.stop()


def test_a_round_is_not_sealed_before_pending_reports_are_counted(store: SqliteStore) -> None:
    """The server is killed, and starts again after the end of the round."""
    asked = published(store, survey())
    write(store, some(asked, 1, 3), later=False)
    write(store, some(asked, 2, 4))
    later = purged_from(asked, DECEMBER) + timedelta(days=1)
    with SqliteStore.open(copied(store, "left")) as again:
        writer = Writer(again, Catalogue(again), Clock(now=lambda: later))
        writer.start()
        eventually(lambda: again.unsealed_rounds() == {}, "sealed")
        writer.stop()
        assert again.report_totals() == {asked.sequence: 7}


def test_the_file_is_created_page_by_page(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the kernel may rewrite the whole file for each group.

    A file system in memory does not show such writes; `tests/bench/written.py` measures them on a
    disk.
    """
    sizes = list[int]()
    put = redo_file._put

    def recorded(handle: int, content: bytes, offset: int) -> None:
        sizes.append(len(content))
        put(handle, content, offset)

    monkeypatch.setattr(redo_file, "_put", recorded)
    store._writer.redo.begin()
    assert sum(sizes) == 2 * HALF_BYTES
    assert max(sizes) <= os.sysconf("SC_PAGE_SIZE")
