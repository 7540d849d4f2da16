"""Damage in the write-ahead log: a fault is certain only if no power cut can explain it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from deniable.server.store import FILE, SqliteStore, is_begun
from deniable.server.store.sqlite.sqlite_database import connect
from deniable.server.store.sqlite.wal_check import fault_of, log_of
from deniable.server.store.sqlite.write_connection import COVER

FRAME = 24 + 1_024
TABLE = "CREATE TABLE rows (number INTEGER PRIMARY KEY, content BLOB)"


def test_a_first_start_cut_short_by_a_power_cut_is_repeated(tmp_path: Path) -> None:
    """The log lacks one page of the transaction that creates the tables, so no table exists."""
    made = tmp_path / "made" / FILE
    made.parent.mkdir()
    driver = connect(made)
    driver.execute("PRAGMA wal_autocheckpoint = 0")
    driver.execute("BEGIN")
    for number in range(9):
        driver.execute(TABLE.replace("rows", f"rows_{number}"))
    driver.execute("COMMIT")
    data = Path(shutil.copytree(made.parent, tmp_path / "data"))
    assert is_begun(data)
    put(data / FILE, frames(data / FILE) - 2, bytes(FRAME))
    assert fault_of(data / FILE) is not None
    assert not is_begun(data)
    SqliteStore.create(data).close()
    assert is_begun(data)
    driver.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a database file with one table and no log."""
    made = tmp_path / FILE
    driver = connect(made)
    driver.execute(TABLE)
    driver.close()
    return made


def written(file: Path, *transactions: int, covers: int = 0) -> None:
    """Commit transactions of these numbers of one-page rows; leave the folder as a kill does."""
    alive = Path(shutil.copytree(file.parent, file.parent / "alive"))
    driver = connect(alive / FILE)
    for statement in COVER * covers:
        driver.execute(statement)
    for rows in transactions:
        driver.execute("BEGIN")
        for _ in range(rows):
            driver.execute("INSERT INTO rows (content) VALUES (randomblob(900))")
        driver.execute("COMMIT")
    for path in (file, log_of(file)):
        shutil.copy(alive / path.name, path)
    driver.close()
    shutil.rmtree(alive)


def frame(file: Path, number: int) -> bytes:
    start = 32 + number * FRAME
    return log_of(file).read_bytes()[start : start + FRAME]


def put(file: Path, number: int, content: bytes) -> None:
    log = bytearray(log_of(file).read_bytes())
    log[32 + number * FRAME : 32 + (number + 1) * FRAME] = content
    log_of(file).write_bytes(log)


def frames(file: Path) -> int:
    return (log_of(file).stat().st_size - 32) // FRAME


def is_certain(file: Path) -> bool | None:
    found = fault_of(file)
    return None if found is None else found.certain


def test_an_intact_log_has_no_fault(file: Path) -> None:
    written(file, 1, 3, 5)
    assert is_certain(file) is None


def test_a_frame_before_two_later_commits_must_be_intact(file: Path) -> None:
    written(file, 3, 3, 3)
    put(file, 0, bytes(FRAME))
    assert is_certain(file) is True


def test_the_last_commit_may_be_torn_in_any_order(file: Path) -> None:
    written(file, 3, 9)
    last = frames(file) - 5
    put(file, last, bytes(FRAME))
    assert is_certain(file) is False


def test_unsynced_commits_prove_nothing(file: Path) -> None:
    """Two processes emptied the log; neither's marker reached the disk before the next commit."""
    written(file, 3, covers=2)
    put(file, 0, bytes(FRAME))
    assert is_certain(file) is False


def test_remains_of_an_earlier_power_cut_prove_nothing(file: Path) -> None:
    """The remains have the log's own salts and a commit, and are followed by later writes."""
    written(file, 2, 4)
    first = next(n for n in range(frames(file)) if frame(file, n)[4:8] != bytes(4)) + 1
    torn, commit = frames(file), frame(file, frames(file) - 1)
    put(file, first, bytes(FRAME))
    assert is_certain(file) is False
    written(file, 12)
    assert frames(file) > torn, "the log does not continue from its last intact commit"
    assert is_certain(file) is None
    put(file, first, bytes(FRAME))
    put(file, torn - 1, commit)
    assert is_certain(file) is False


def test_frames_of_the_previous_log_prove_nothing(file: Path) -> None:
    written(file, 3, 3, 3)
    old = log_of(file).read_bytes()
    driver = connect(file)
    driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    driver.close()
    written(file, 2)
    new = log_of(file).read_bytes()
    log_of(file).write_bytes(new + old[len(new) :])
    assert is_certain(file) is None


@pytest.mark.parametrize("place", [17, 26])
def test_a_frame_that_continues_from_the_header_follows_an_intact_one(
    file: Path, place: int
) -> None:
    written(file, 2)
    log = bytearray(log_of(file).read_bytes())
    log[place] ^= 1
    log_of(file).write_bytes(log)
    assert is_certain(file) is True
