"""Damaged files are refused, named and set aside; intact files are kept."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from deniable.server.intake.commit import open_recovered
from deniable.server.store import FILE
from deniable.server.store.sqlite import redo_file
from deniable.server.store.sqlite.backup_file import back_up, restore
from deniable.server.store.sqlite.wal_check import fault_of
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.envelope import CONTENT_TYPE
from deniable.shared.errors import StoreUnusable
from tests.command import DENIABLE, run
from tests.eventually import PATIENCE
from tests.server.surveys import DECEMBER, envelope
from tests.server.test_damage import LOG, Left, left, served, turned
from tests.server.test_doctor import change, doctor, flip, row_of
from tests.server.world import serving

__all__ = ["left"]  # a fixture

FRAME = 24 + 1_024
MANY = 64  # bytes, too many to be explained by one flipped bit


def ruined(data: Path, file: str, place: int) -> None:
    content = bytearray((data / file).read_bytes())
    content[place : place + MANY] = bytes(byte ^ 0xA5 for byte in content[place : place + MANY])
    (data / file).write_bytes(content)


PLACES = {
    "the head's salt": (LOG, 17),
    "the head's sum": (LOG, 30),
    "the first frame's page number": (LOG, 32 + 3),
    "its salt": (LOG, 32 + 9),
    "its sum": (LOG, 32 + 20),
    "its page": (LOG, 32 + 600),
    "a later frame": (LOG, 32 + 30 * FRAME + 300),
    "the head of a half": (redo_file.FILE, redo_file.HALF_BYTES + 2),
    "its content": (redo_file.FILE, redo_file.HALF_BYTES + 700),
    "a sum there": (redo_file.FILE, redo_file.HALF_BYTES + 510),
    "zeros": (redo_file.FILE, 4_000),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_file_with_a_flipped_bit_is_refused_and_set_aside(
    left: Left, tmp_path: Path, place: str
) -> None:
    data = turned(left, tmp_path / "data", *PLACES[place], bit=1)
    damaged = PLACES[place][0]
    before = (data / damaged).read_bytes()
    with pytest.raises(StoreUnusable, match=r"a disk has damaged .* --repair"):
        served(data)
    code, (found,) = doctor(data)
    assert (code, damaged in found["says"], "--repair" in found["cure"]) == (1, True, True)
    assert (data / damaged).read_bytes() == before
    code, faults = doctor(data, "--repair")
    assert (data / f"{damaged}.damaged").read_bytes() == before
    if code:
        assert " are lost" in faults[0]["says"]
        assert all(fault["cure"] for fault in faults)
    else:
        assert served(data) == left.counts
    kept = served(data)
    assert kept.keys() <= left.counts.keys()
    assert all(kept[key][0] <= left.counts[key][0] for key in kept)


def test_commits_before_damage_in_a_log_are_kept(left: Left, tmp_path: Path) -> None:
    data = Path(shutil.copytree(left.data, tmp_path / "data"))
    frames = ((data / LOG).stat().st_size - 32) // FRAME
    ruined(data, LOG, 32 + frames // 2 * FRAME + 200)
    code, (found, *_) = doctor(data, "--repair")
    assert (code, "are left out" in found["says"], "are lost" in found["says"]) == (1, True, True)
    kept = served(data)
    assert kept.keys() == left.counts.keys()
    reports = [sum(count[0] for count in counts.values()) for counts in (kept, left.counts)]
    assert reports[1] // 2 < reports[0] < reports[1]
    assert doctor(data) == (0, [])


def test_damaged_pending_reports_are_dropped_and_reported(left: Left, tmp_path: Path) -> None:
    data = Path(shutil.copytree(left.data, tmp_path / "data"))
    half = (
        redo_file.HALF_BYTES
        if any((data / redo_file.FILE).read_bytes()[redo_file.HALF_BYTES :])
        else 0
    )
    ruined(data, redo_file.FILE, half + 2 * 512)
    code, (found, *_) = doctor(data, "--repair")
    assert (code, "cannot be read" in found["says"]) == (1, True)
    lost = sum(count[0] for count in left.counts.values()) - sum(
        counts[0] for counts in served(data).values()
    )
    assert lost == 90
    assert doctor(data) == (0, [])


def test_an_interrupted_last_write_is_not_damage(
    left: Left, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A power cut explains a torn last commit, so the server starts and only logs what it found."""
    data = Path(shutil.copytree(left.data, tmp_path / "data"))
    size = (data / LOG).stat().st_size
    ruined(data, LOG, size - FRAME + 100)
    found = fault_of(data / FILE)
    assert found is not None
    assert not found.certain
    assert served(data) != {}
    assert "is incomplete. After a kill or a power cut that is normal" in caplog.text


def test_a_server_refuses_to_start_in_one_sentence(left: Left, tmp_path: Path) -> None:
    data = turned(left, tmp_path / "data", LOG, 32 + 600, bit=1)
    command = [*DENIABLE, "serve", "--data", str(data), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    assert line.endswith(f"stop the server, then: deniable doctor --data {data} --repair")


def test_only_a_damaged_survey_is_withheld(left: Left, tmp_path: Path) -> None:
    data = Path(shutil.copytree(left.data, tmp_path / "data"))
    with open_recovered(data) as store:
        one, two, three = Catalogue(store).surveys()
    (document, identifier) = row_of(data, "SELECT document, id FROM surveys WHERE sequence = 2")
    damaged = bytes(document).replace(b"crashed", b"brashed")
    change(data, "UPDATE surveys SET document = ? WHERE sequence = 2", damaged)
    with serving(data) as server:
        with urllib.request.urlopen(f"{server.url}/v1/surveys", timeout=PATIENCE) as answer:
            listed = [survey["document"] for survey in json.load(answer)["surveys"]]
        page = f"{server.url}/v1/surveys/{identifier}"
        sent = envelope(two, 1).pack()
        headers = {"Content-Type": CONTENT_TYPE}
        reports = urllib.request.Request(f"{server.url}/v1/envelopes", sent, headers)
        for refused in (page, reports, reports):  # one of the requests takes the fast path
            with pytest.raises(urllib.error.HTTPError, match="503"):
                urllib.request.urlopen(refused, timeout=PATIENCE)
        _, said = server.stop()
    assert listed == [one.document.decode(), three.document.decode()]
    assert f"survey {identifier[:12]} is not what was signed" in said
    assert "Traceback" not in said
    listing = run("survey", "list", "--data", data)
    assert listing.returncode == 2
    assert "so a disk has damaged it" in listing.stderr


def bucket(data: Path) -> None:
    number, rows = row_of(data, "SELECT number, rows FROM envelopes WHERE survey = 1")
    change(data, "UPDATE envelopes SET rows = ? WHERE number = ?", flip(rows, 30), number)


def document(data: Path) -> None:
    (text,) = row_of(data, "SELECT document FROM surveys WHERE sequence = 1")
    changed = bytes(text).replace(b"crashed", b"brashed")
    change(data, "UPDATE surveys SET document = ? WHERE sequence = 1", changed)


def tally(data: Path) -> None:
    change(data, "UPDATE tallies SET reports = reports + 1 WHERE survey = 1")


@pytest.mark.parametrize("damage", [bucket, document, tally])
def test_damaged_files_are_neither_backed_up_nor_restored(
    left: Left, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    data = Path(shutil.copytree(left.data, tmp_path / "data"))
    with open_recovered(data):
        pass
    back_up(data, tmp_path / "copy")
    damage(data)
    with pytest.raises(
        StoreUnusable, match=r"was not written. Keep all existing backups, .* doctor --data"
    ):
        back_up(data, tmp_path / "again")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "data"]
    (tmp_path / "old").mkdir()
    shutil.move(tmp_path / "copy", tmp_path / "old" / FILE)
    damage(tmp_path / "old")
    with pytest.raises(StoreUnusable, match="use another backup"):
        restore(tmp_path / "old" / FILE, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def test_a_tally_missing_from_an_index_is_noticed_at_the_start(left: Left, tmp_path: Path) -> None:
    """Without this check, a round would disappear without a message."""
    data = Path(shutil.copytree(left.data, tmp_path / "data"))
    with open_recovered(data):
        pass
    with closing(sqlite3.connect(data / FILE)) as connection:
        query = "SELECT rootpage FROM sqlite_schema WHERE name LIKE 'sqlite_autoindex_tallies%'"
        (page,) = connection.execute(query).fetchone()
    content = bytearray((data / FILE).read_bytes())
    start = (page - 1) * 1_024
    place = content.index(DECEMBER.to_bytes(2, "big"), start, start + 1_024)
    content[place + 1] ^= 4
    (data / FILE).write_bytes(content)
    with pytest.raises(StoreUnusable, match=r"sqlite3: tallies: .* doctor --data"):
        served(data)
