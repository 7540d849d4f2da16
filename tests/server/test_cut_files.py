"""Truncated or older logs and redo files: no acknowledged report is lost silently."""

from __future__ import annotations

import logging
import random
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from deniable.server.intake.commit import commit, open_recovered
from deniable.server.process.roles import _prepare
from deniable.server.store import FILE, SqliteStore, Upload
from deniable.server.store.sqlite import receipt_count, redo_file
from deniable.server.store.sqlite.backup_file import back_up, restore
from deniable.server.store.sqlite.receipt_count import loss_of
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.errors import DeniableError
from tests.eventually import eventually
from tests.server.surveys import DECEMBER, published, survey
from tests.server.test_doctor import doctor
from tests.server.test_kills import BATCH, CLIENTS, Trial
from tests.server.world import serving

LOG, REDO = f"{FILE}-wal", redo_file.FILE
GROUPS, EACH = 12, 5
TODAY = date(2026, 11, 20)
EMPTIED = 6  # groups before the log was emptied
FRAME = 24 + 1_024


class Killed(NamedTuple):
    """Folder of a killed server that had acknowledged some reports, and older copies of it."""

    data: Path
    reports: int
    older: list[Path]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """The log holds some groups, and the redo file others, of a server that was killed."""
    folder, chance, older = tmp_path_factory.mktemp("cut"), random.Random(5), list[Path]()
    with SqliteStore.create(folder / "data") as store:
        asked = published(store, survey())
        store.keep_day(TODAY)

        def write(later: bool) -> None:
            ids = [chance.randbytes(16) for _ in range(EACH)]
            uploads = [Upload(asked, DECEMBER, id_, 1, bytes(1)) for id_ in ids]
            with store.transaction(later=later) as transaction:
                assert commit(transaction, uploads) == ["accepted"] * EACH
            older.append(Path(shutil.copytree(store.data, folder / f"{len(older)}")))

        for later in [True] * 3 + [False] * 3:
            write(later)
        store.forget_order()
        for later in [False] * 3 + [True] * 3:
            write(later)
    *older, data = older
    return Killed(data, GROUPS * EACH, older)


def cut(data: Path, name: str, size: int) -> None:
    with (data / name).open("r+b") as file:
        file.truncate(size)


def counted(data: Path) -> int:
    """Return the number of reports that a server shows after it starts on this folder."""
    _prepare(data)
    with open_recovered(data) as store:
        (asked,) = Catalogue(store).surveys()
        return sum(tally.reports for tally in store.tallies(asked.sequence))


def unstated(
    data: Path, reports: int, log: pytest.LogCaptureFixture, *, mixed: bool = False
) -> str:
    """Return the fault, if reports are missing and the server states none or a wrong number.

    If pages of different ages are mixed, the count may be older than a tally.
    """
    log.clear()
    try:
        found = counted(data)
    except DeniableError:
        return ""  # the folder is refused with a reason
    said = [int(n) for n in re.findall(r"account for (\d+) fewer", log.text)]
    shutil.rmtree(data)
    lost = reports - found
    right = said == [lost] * (lost > 0) or (mixed and said and said[0] >= lost)
    return "" if right else f"{found} found, {said} stated"


def test_an_intact_folder_states_no_loss(
    killed: Killed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number, folder in enumerate([*killed.older, killed.data], 1):
        data = Path(shutil.copytree(folder, tmp_path / f"{number}"))
        assert unstated(data, number * EACH, caplog) == ""


@pytest.mark.parametrize("name", [LOG, REDO])
def test_a_file_that_was_cut_anywhere_loses_nothing_silently(
    killed: Killed, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    size = (killed.data / name).stat().st_size
    used = 2 * redo_file.HALF_BYTES if name == REDO else size
    chance = random.Random(7)
    sizes = {
        0,
        1,
        32,
        32 + FRAME,
        used // 2,
        used - 1,
        *(chance.randrange(used) for _ in range(30)),
    }
    for length in sorted(sizes):
        data = Path(shutil.copytree(killed.data, tmp_path / "data", dirs_exist_ok=True))
        cut(data, name, length)
        assert unstated(data, killed.reports, caplog) == "", f"cut to {length}"


@pytest.mark.parametrize("names", [(LOG,), (REDO,), (LOG, REDO), (FILE, LOG, REDO)])
def test_an_older_copy_loses_nothing_silently(
    killed: Killed, tmp_path: Path, names: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    for number, folder in enumerate(killed.older):
        data = Path(shutil.copytree(killed.data, tmp_path / "data", dirs_exist_ok=True))
        for name in names:
            shutil.copy(folder / name, data / name)
        mixed = LOG in names and FILE not in names and number < EMPTIED
        assert unstated(data, killed.reports, caplog, mixed=mixed) == "", f"copy {number}"


def test_a_missing_redo_file_is_stated(
    killed: Killed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = Path(shutil.copytree(killed.data, tmp_path / "data"))
    (data / REDO).unlink()
    assert unstated(data, killed.reports, caplog) == ""
    assert (
        f"account for {3 * EACH} fewer than the server has acknowledged since {TODAY}"
        in caplog.text
    )


def test_a_log_that_was_cut_while_the_redo_file_was_empty_is_stated(
    killed: Killed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = Path(shutil.copytree(killed.older[8], tmp_path / "data"))
    assert not any((data / REDO).read_bytes())
    cut(data, LOG, 0)
    assert unstated(data, 9 * EACH, caplog) == ""
    assert "reports are lost:" in caplog.text


def test_a_loss_is_recorded_once_and_stays_known(
    killed: Killed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The doctor fails until a server has recorded the loss. Later, it only mentions the loss."""
    data = Path(shutil.copytree(killed.data, tmp_path / "data"))
    cut(data, REDO, 0)
    code, (found,) = doctor(data)
    assert (code, f"for {3 * EACH} fewer" in found["says"]) == (1, True)
    for _ in range(2):
        _prepare(data)
    assert caplog.text.count("reports are lost:") == 1
    assert caplog.text.count(f"were missing: {3 * EACH} in all") == 1
    assert loss_of(data / FILE) is None
    assert doctor(data) == (0, [])
    with SqliteStore.open(data) as store:
        (asked,) = Catalogue(store).surveys()
        with store.transaction() as transaction:
            commit(transaction, [Upload(asked, DECEMBER, bytes(16), 1, bytes(1))])
    assert loss_of(data / FILE) is None


def test_a_repair_records_a_loss_and_states_it(killed: Killed, tmp_path: Path) -> None:
    data = Path(shutil.copytree(killed.data, tmp_path / "data"))
    cut(data, REDO, 0)
    code, found = doctor(data, "--repair")
    (stated,) = [check for check in found if "fewer" in check["says"]]
    assert (code, stated["well"]) == (1, False)
    assert doctor(data) == (0, [])


def test_a_restored_backup_states_no_loss(killed: Killed, tmp_path: Path) -> None:
    data = Path(shutil.copytree(killed.data, tmp_path / "data"))
    with open_recovered(data):
        pass
    back_up(data, tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "restored")
    assert counted(tmp_path / "restored") == killed.reports
    assert loss_of(tmp_path / "restored" / FILE) is None


def test_a_damaged_count_is_ignored(killed: Killed, tmp_path: Path) -> None:
    data = Path(shutil.copytree(killed.data, tmp_path / "data"))
    content = bytearray((data / receipt_count.FILE).read_bytes())
    content[7] ^= 1
    (data / receipt_count.FILE).write_bytes(content)
    assert loss_of(data / FILE) is None
    assert counted(data) == killed.reports


DAMAGES: dict[str, Callable[[Path, Path], object]] = {
    "none": lambda _data, _early: None,
    "cut log": lambda data, _early: cut(data, LOG, 0),
    "cut redo file": lambda data, _early: cut(data, REDO, 0),
    "older log": lambda data, early: shutil.copy(early / LOG, data / LOG),
    "older redo file": lambda data, early: shutil.copy(early / REDO, data / REDO),
}


def test_a_killed_server_states_what_its_cut_files_lost(tmp_path: Path) -> None:
    """A server is killed under load, and started again on each damaged copy of its folder."""
    folder = tmp_path / "data"
    trial = Trial(folder, batches=0, kills=0)
    trial.publish()
    reports = killed_under_load(trial, tmp_path / "early")
    # The kill can come between a commit and its replies.
    extra, _ = lost_and_stated(Path(shutil.copytree(folder, tmp_path / "whole")), reports)
    assert extra is not None
    assert -BATCH * CLIENTS <= extra <= 0
    reports -= extra
    faults, losses = list[str](), 0
    for name, damage in DAMAGES.items():
        data = Path(shutil.copytree(folder, tmp_path / "copy"))
        damage(data, tmp_path / "early")
        lost, stated = lost_and_stated(data, reports)
        losses += lost is None or lost > 0
        if lost and stated != [f"{lost:,}"]:
            faults.append(f"{name}: {lost} of {reports} lost, stated: {stated}")
        if lost is None and doctor(data)[0] == 0:
            faults.append(f"{name}: damaged, and not noticed")
        shutil.rmtree(data)
    assert faults == []
    assert losses, "no damage lost a report"


def lost_and_stated(data: Path, reports: int) -> tuple[int | None, list[str]]:
    """Start a server on the folder. Return the lost reports (None: it is damaged), and its words.

    A server refuses most damaged files. An older log can damage pages that it reads only later.
    """
    try:
        with serving(data) as server:
            _, said = server.stop()
        with open_recovered(data) as store:
            lost = reports - sum(store.report_totals().values())
    except (AssertionError, DeniableError):
        return None, []
    return lost, re.findall(r"account for ([\d,]+) fewer", said)


def killed_under_load(trial: Trial, early: Path) -> int:
    """Copy the folder under load, kill the server later, and return its acknowledged reports."""
    data = trial.data
    assert isinstance(data, Path)
    with trial.supervised(), ThreadPoolExecutor(CLIENTS) as pool:
        for number in range(CLIENTS):
            pool.submit(send_until_killed, trial, number)
        eventually(partial(trial.has_acknowledged, 20))
        shutil.copytree(data, early)
        eventually(lambda: trial.has_acknowledged(40) and any((data / REDO).read_bytes()))
        trial.server.kill_group()
    return BATCH * trial.acknowledged


def send_until_killed(trial: Trial, number: int) -> None:
    batch = number
    while trial.send(trial.envelope(batch)):
        with trial.lock:
            trial.acknowledged += 1
        batch += CLIENTS
