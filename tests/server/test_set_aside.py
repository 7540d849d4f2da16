"""`doctor --repair`: it sets changed files aside, invents no reports, and requires enough space."""

from __future__ import annotations

import random
import resource
import shutil
from pathlib import Path
from typing import Any

import pytest

from deniable.server.intake.commit import open_recovered
from deniable.server.store import FILE, SqliteStore
from deniable.server.store.sqlite import redo_file, sqlite_database
from deniable.server.store.sqlite.redo_file import FILE_BYTES, HALF_BYTES, RedoFile
from deniable.shared.errors import StoreUnusable
from tests.server.surveys import published, survey
from tests.server.test_damage import LOG, Left, left, served
from tests.server.test_damaged_files import FRAME, MANY, ruined
from tests.server.test_doctor import doctor, run
from tests.server.test_redo import some, write

__all__ = ["left"]  # a fixture


def half_of(data: Path) -> int:
    return 0 if any((data / redo_file.FILE).read_bytes()[:HALF_BYTES]) else HALF_BYTES


def emptied(data: Path, sector: int) -> None:
    """Fill a sector with zeros, as if a power cut had prevented its write."""
    content = bytearray((data / redo_file.FILE).read_bytes())
    place = half_of(data) + sector * redo_file.SECTOR_BYTES
    content[place : place + redo_file.SECTOR_BYTES] = bytes(redo_file.SECTOR_BYTES)
    (data / redo_file.FILE).write_bytes(content)


@pytest.mark.parametrize("ruin", [0, 5, 12])
def test_a_ruined_half_yields_no_invented_reports(tmp_path: Path, ruin: int) -> None:
    """A power cut may have left zeros before the damage; lost reports count when sent again."""
    with SqliteStore.create(tmp_path / "data") as store:
        asked = published(store, survey())
        uploads = some(asked, 1, 600)
        write(store, uploads)
        data = Path(shutil.copytree(store.data, tmp_path / "left"))
    half = half_of(data)
    emptied(data, 4)
    ruined(data, redo_file.FILE, half + ruin * redo_file.SECTOR_BYTES)
    code, (found, *_) = doctor(data, "--repair")
    assert (code, "cannot be read" in found["says"]) == (1, True)
    assert doctor(data) == (0, [])
    with open_recovered(data) as again:
        assert again.report_totals() == {}
        assert write(again, uploads) == ["accepted"] * 600


def test_an_intact_half_is_kept_next_to_a_ruined_one(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "data") as store:
        asked = published(store, survey())
    file, halves = tmp_path / redo_file.FILE, list[bytes]()
    for seed in (1, 2):
        kept = RedoFile(file)
        assert kept.keep(some(asked, seed, 200), 0)
        kept.close()
        halves.append(file.read_bytes().strip(b"\0").ljust(HALF_BYTES, b"\0"))
        file.unlink()
    file.write_bytes(b"".join(halves))
    assert len(RedoFile(file).lost) == 400
    ruins = bytearray(file.read_bytes())
    ruins[5 * redo_file.SECTOR_BYTES + 6] ^= 0xFF
    file.write_bytes(bytes(ruins))
    content, lost = redo_file.without_damage(file)
    assert lost == 0, "the other half is as long, so no acknowledged report is lost"
    file.write_bytes(content)
    assert {row.kept.id for row in RedoFile(file).lost} == {
        upload.id for upload in some(asked, 2, 200)
    }


@pytest.mark.parametrize("size", [1, 100_000, FILE_BYTES - 1])
def test_a_truncated_redo_file_is_damaged(tmp_path: Path, size: int) -> None:
    with SqliteStore.create(tmp_path / "data") as store:
        write(store, some(published(store, survey()), 1, 600))
        data = Path(shutil.copytree(store.data, tmp_path / "left"))
    file = data / redo_file.FILE
    content = file.read_bytes()
    whole = content[HALF_BYTES:] + content[:HALF_BYTES] if half_of(data) else content
    file.write_bytes(whole[:size])
    with pytest.raises(StoreUnusable, match="a disk has damaged"):
        SqliteStore.open(data)
    code, faults = doctor(data, "--repair")
    with open_recovered(data) as again:
        assert [*again.report_totals().values()] == ([] if code else [600])
    assert code == 0 or "cannot be read" in faults[0]["says"]


def test_two_writes_in_one_half_invent_no_envelope(tmp_path: Path) -> None:
    """A power cut mixes sectors of an older write with newer ones, each with a valid checksum."""
    with SqliteStore.create(tmp_path / "data") as store:
        asked = published(store, survey())
    uploads, chance, file = some(asked, 1, 600), random.Random(3), tmp_path / redo_file.FILE
    kept, halves = RedoFile(file), list[bytes]()
    for group in (uploads[:200], uploads[200:400], uploads[400:]):
        assert kept.keep(group, 0)
        content = file.read_bytes()
        halves.append(content[: 2 * HALF_BYTES].strip(b"\0").ljust(HALF_BYTES, b"\0"))
    kept.close()
    older, whole, last = halves
    for _ in range(20):
        mixed = bytearray(last)
        for offset in range(
            0, len(older.rstrip(b"\0")) // redo_file.SECTOR_BYTES * redo_file.SECTOR_BYTES, 512
        ):
            if chance.random() < 0.5:
                mixed[offset : offset + redo_file.SECTOR_BYTES] = older[
                    offset : offset + redo_file.SECTOR_BYTES
                ]
        mixed[8 * 512 : 8 * 512 + MANY] = b"\xa5" * MANY
        sides = [bytes(mixed), whole]
        chance.shuffle(sides)
        file.write_bytes(b"".join(sides).ljust(FILE_BYTES, b"\0"))
        content, lost = redo_file.without_damage(file)
        file.write_bytes(content)
        assert lost == (0 if mixed[:4] == older[:4] else 200 * 23), (
            "only the last group may be lost"
        )
        assert {row.kept.id for row in RedoFile(file).lost} == {
            upload.id for upload in uploads[:400]
        }


@pytest.mark.parametrize("checkpointed", [True, False])
def test_the_rest_of_a_log_is_set_aside_with_its_database(
    left: Left, tmp_path: Path, checkpointed: bool
) -> None:
    """The intact start of the log may belong to a state of the database that no longer exists."""
    data = Path(shutil.copytree(left.data, tmp_path / "data"))
    if checkpointed:
        bring_into_the_database(data, pages=20)
    ruined(data, LOG, 32 + 2 * FRAME + 200)
    before = {name: (data / name).read_bytes() for name in (FILE, LOG)}
    code, found = doctor(data, "--repair")
    assert code == 1
    assert f"{LOG}.damaged, and {FILE}.damaged" in found[0]["says"]
    assert "the checks below show whether the database is otherwise intact" in found[0]["says"]
    assert found[0]["cure"].startswith("if the checks below report a damaged database or round")
    faults = [check for check in found if not check["well"]]
    assert (len(faults) > 1) == checkpointed
    assert all("restore the newest backup" in fault["cure"] for fault in faults)
    for name, content in before.items():
        assert (data / f"{name}.damaged").read_bytes() == content
        assert (data / f"{name}.damaged").stat().st_mode & 0o777 == 0o600


def bring_into_the_database(data: Path, pages: int) -> None:
    """Copy the latest version of the first pages from the log, as a killed checkpoint does."""
    log, content = (data / LOG).read_bytes(), bytearray((data / FILE).read_bytes())
    for start in range(32, len(log), FRAME):
        page = int.from_bytes(log[start : start + 4], "big")
        if page <= pages:
            content[(page - 1) * 1_024 : page * 1_024] = log[start + 24 : start + FRAME]
    (data / FILE).write_bytes(bytes(content))


def limited(data: Path, limit: int) -> tuple[int, list[dict[str, Any]]]:
    """Run a repair with a limit on the size of files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        return doctor(data, "--repair")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("damaged", [LOG, redo_file.FILE])
@pytest.mark.parametrize("limit", [0, 20_000])
def test_a_repair_without_space_changes_nothing_and_reports_it(
    left: Left, tmp_path: Path, damaged: str, limit: int
) -> None:
    """A limit on the file size makes either the copy or the replacement fail."""
    data = Path(shutil.copytree(left.data, tmp_path / "data"))
    ruined(
        data, damaged, redo_file.HALF_BYTES if damaged == redo_file.FILE else 32 + 9 * FRAME + 200
    )
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    for _ in range(2):
        code, (found,) = limited(data, limit)
        assert (code, f"{damaged} is unchanged" in found["says"]) == (1, True)
        assert "free space" in found["cure"]
        after = {path.name: path.read_bytes() for path in data.iterdir()}
        assert after.pop("serve.lock") == b""
        assert after == before
    assert "set aside" in run("--data", data, "--repair")[1]


def test_a_full_disk_is_not_mistaken_for_damage(
    left: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Path(shutil.copytree(left.data, tmp_path / "data"))
    with monkeypatch.context() as patched:
        patched.setattr(
            sqlite_database, "PRAGMAS", (*sqlite_database.PRAGMAS, "max_page_count = 1")
        )
        code, found = doctor(data, "--repair")
    assert code == 1
    assert found[-1]["says"].endswith("database or disk is full")
    assert found[-1]["cure"].startswith("free space on that disk")
    assert doctor(data, "--repair") == (0, [])
    assert served(data) == left.counts


def test_files_set_aside_are_named_while_they_exist(left: Left, tmp_path: Path) -> None:
    data = Path(shutil.copytree(left.data, tmp_path / "data"))
    for name in (redo_file.FILE, LOG):
        ruined(
            data,
            name,
            redo_file.HALF_BYTES + 512 if name == redo_file.FILE else 32 + 9 * FRAME + 200,
        )
    assert doctor(data, "--repair")[0] == 1
    code, text, _ = run("--data", data)
    assert code == 0
    kept = [f"{FILE}-wal.damaged", f"{FILE}.damaged", f"{redo_file.FILE}.damaged"]
    for name in kept:
        assert f"ok     aside: {name} was set aside. It holds reports" in text
        assert f"no longer need it: rm {data / name}" in text
        (data / name).unlink()
    assert "set aside" not in run("--data", data)[1]


def test_a_repair_removes_unfinished_files_of_a_killed_repair(left: Left, tmp_path: Path) -> None:
    data = Path(shutil.copytree(left.data, tmp_path / "data"))
    names = (f"{LOG}.unfinished", f"{redo_file.FILE}.unfinished")
    for name in names:
        (data / name).write_bytes(b"reports")
    (data / "notes.unfinished").write_bytes(b"somebody's own")
    assert doctor(data) == (0, [])
    assert (data / names[0]).exists(), "a check without repair removed it"
    assert doctor(data, "--repair") == (0, [])
    assert [path.name for path in data.glob("*.unfinished*")] == ["notes.unfinished"]


def test_no_copy_of_the_log_is_left_without_space_for_the_database(
    left: Left, tmp_path: Path
) -> None:
    data = Path(shutil.copytree(left.data, tmp_path / "data"))
    ruined(data, LOG, 32 + 9 * FRAME + 200)
    limit = (data / LOG).stat().st_size
    with (data / FILE).open("ab") as opened:
        opened.write(bytes(limit))
    code, found = limited(data, limit)
    assert (code, f"{LOG} is unchanged" in found[0]["says"]) == (1, True)
    assert not [*data.glob("*.damaged*"), *data.glob("*.unfinished*")]
