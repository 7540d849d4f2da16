"""Power cuts at any moment: acknowledged reports are stored, and counted once.

The real store and writer run on top of a recorder. From the recording, each test creates a folder
as a power cut may leave it, opens it with the real store, and compares it with the
acknowledgements. SIGKILL cannot test this, because the kernel still writes the data of a dead
process.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deniable.server.intake.commit import open_recovered
from deniable.server.intake.recount import compare
from deniable.server.store import SqliteStore, Upload
from deniable.server.store.sqlite.inspection import Inspection
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.errors import StoreUnusable
from tests.server.power.disk import LOSSES, Disk, Loss, Operation, recorded
from tests.server.power.recorded import ACKNOWLEDGED, CLIENTS, reports_of
from tests.server.surveys import DECEMBER, published, survey
from tests.server.world import NOON

RECORDER, FULL = (Path(__file__).with_name(f"{name}.c") for name in ("recorder", "full"))
ROOT = Path(__file__).resolve().parents[3]
SHARED = "deniable.sqlite3-shm"  # memory-mapped, so not recorded: SQLite recreates it

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None, reason="compiling the recorder needs cc"
)


def compiled(source: Path, folder: Path) -> Path:
    shared_object = folder / f"{source.stem}.so"
    command = f"cc -shared -fPIC -O1 -o {shared_object} {source} -ldl".split()
    subprocess.run(command, check=True)
    return shared_object


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(RECORDER, tmp_path_factory.mktemp("recorder"))


def run_beneath(shared_object: Path, data: Path, envelopes: int, syncs: str, **more: str) -> None:
    """Run the store and the writer with this library preloaded."""
    subprocess.run(
        [sys.executable, "-m", "tests.server.power.recorded", data, str(envelopes), syncs],
        env={**os.environ, "LD_PRELOAD": str(shared_object), **more},
        cwd=ROOT,
        check=True,
        capture_output=True,
    )


class Run:
    """Recorded run, starting from a folder with one survey."""

    def __init__(self, folder: Path, recorder: Path, envelopes: int, syncs: str = "FULL") -> None:
        data, log = folder / "data", folder / "log"
        with SqliteStore.create(data) as store:
            published(store, survey())
        self.start = Path(shutil.copytree(data, folder / "start"))
        names = {"RECORD_FOLDER": str(data), "RECORD_LOG": str(log)}
        run_beneath(recorder, data, envelopes, syncs, **names)
        self.operations = [operation for operation in recorded(log) if operation.name != SHARED]
        self.folder = folder

    def faults(self, cuts: int, losses: tuple[Loss, ...] = LOSSES) -> list[str]:
        """Return the faults after this many cuts.

        Half of the cuts are spread over the run. The other half come just after an acknowledgement,
        the worst moment.
        """
        chance, places = random.Random(20261118), range(len(self.operations))
        worst = [index + 1 for index in places if self.operations[index].name == ACKNOWLEDGED]
        moments = sorted(chance.choices(places, k=cuts // 2) + chance.choices(worst, k=cuts // 2))
        disk, acknowledged, done, faults = Disk(self.start), bytearray(), 0, list[str]()
        for number, moment in enumerate(moments):
            for operation in self.operations[done:moment]:
                if operation.name == ACKNOWLEDGED:
                    acknowledged += operation.data
                else:
                    disk.do(operation)
            done = moment
            target, loss = self.folder / "cut", losses[number % len(losses)]
            disk.cut(target, loss, chance)
            try:
                found = fault(target, ids(acknowledged))
            except StoreUnusable as error:
                found = str(error)
            faults += [f"cut at {moment}, lost: {loss}: {found}"] if found else []
            shutil.rmtree(target)
        return faults


def ids(content: bytes | bytearray) -> set[bytes]:
    return {bytes(content[start : start + 16]) for start in range(0, len(content), 16)}


def fault(data: Path, acknowledged: set[bytes]) -> str | None:
    """Return the fault of a folder that must contain each of these ids once, or None."""
    with open_recovered(data) as store, Inspection.of(data) as inspection:
        if (damage := inspection.damage()) is not None:
            return damage
        catalogue = Catalogue(store)
        (asked,) = catalogue.surveys()
        found = [envelope.id for envelope in inspection.envelopes(asked.sequence, DECEMBER)]
        if lost := acknowledged - set(found):
            return f"{len(lost)} of {len(acknowledged)} acknowledged envelopes are lost"
        verdicts = {
            difference.verdict for difference in compare(inspection, {asked.sequence: asked}, NOON)
        }
        if verdicts - {"equal"}:
            return f"the tally and the envelopes: {verdicts}"
        reports = sum(tally.reports for tally in store.tallies(asked.sequence))
        if len(found) != len(set(found)) or reports != sum(map(reports_of, found)):
            return "something is counted twice"
    return None


def come_again(data: Path, acknowledged: set[bytes]) -> int:
    """Return how many of these ids a store accepts as new."""
    with open_recovered(data) as store, store.transaction() as transaction:
        (asked,) = Catalogue(store).surveys()
        sizes = [(id_, reports_of(id_)) for id_ in acknowledged]
        uploads = [Upload(asked, DECEMBER, id_, size, bytes(size)) for id_, size in sizes]
        return len(transaction.insert(uploads))


def acknowledgements(operations: list[Operation]) -> int:
    return sum(operation.name == ACKNOWLEDGED for operation in operations)


def test_a_power_cut_loses_nothing_that_was_acknowledged(tmp_path: Path, recorder: Path) -> None:
    run = Run(tmp_path, recorder, 200)
    assert acknowledgements(run.operations) > 30
    assert run.faults(60) == []


@pytest.mark.long
def test_a_thousand_power_cuts_lose_nothing(tmp_path: Path, recorder: Path) -> None:
    run = Run(tmp_path, recorder, 4_000)
    assert run.faults(2_000) == []
    print(f"2,000 cuts among {len(run.operations):,} operations, no fault")


@pytest.mark.parametrize("syncs", ["OFF", pytest.param("TABLES", marks=pytest.mark.long)])
def test_without_syncs_the_same_cuts_lose_data(tmp_path: Path, recorder: Path, syncs: str) -> None:
    """If nothing or only the tables are synced, cuts lose acknowledged envelopes or the whole file.

    The first loss comes after some 23 cuts, or earlier if a busy machine makes groups larger.
    """
    assert len(Run(tmp_path, recorder, 100, syncs).faults(40, ("all", "sectors"))) >= 8


def test_a_store_continues_after_a_cut_and_counts_nothing_twice(
    tmp_path: Path, recorder: Path
) -> None:
    run = Run(tmp_path, recorder, 60)
    disk, acknowledged = Disk(run.start), bytearray()
    for operation in run.operations:
        if operation.name == ACKNOWLEDGED:
            acknowledged += operation.data
        else:
            disk.do(operation)
    disk.cut(tmp_path / "cut", "sectors", random.Random(1))
    assert come_again(tmp_path / "cut", ids(acknowledged)) == 0
    assert come_again(tmp_path / "cut", {bytes(16)}) == 1
    assert fault(tmp_path / "cut", {*ids(acknowledged)}) is not None, (
        "expected a fault, because the new envelope is not in the list"
    )


def fill_up(tmp_path: Path, envelopes: int) -> int:
    """Return how often the disk was full while clients sent and resent `envelopes` envelopes."""
    data, log = tmp_path / "data", tmp_path / "log"
    with SqliteStore.create(data) as store:
        published(store, survey())
    names = {"FULL_FOLDER": str(data), "FULL_LOG": str(log)}
    run_beneath(compiled(FULL, tmp_path), data, envelopes, "FULL", **names)
    acknowledged = ids((data / ACKNOWLEDGED).read_bytes())
    assert len(acknowledged) == envelopes // CLIENTS * CLIENTS
    assert fault(data, acknowledged) is None
    return log.stat().st_size


def times_full(tmp_path: Path, folders: int) -> int:
    """Run on an often full disk for several folders, and return how often the disk was full.

    One folder would not do: a large folder needs more writes per commit, and while every twentieth
    write fails, hardly any such commit succeeds.
    """
    paths = [tmp_path / str(number) for number in range(folders)]
    for path in paths:
        path.mkdir()
    return sum(fill_up(path, 400) for path in paths)


def test_a_disk_that_is_sometimes_full_loses_nothing(tmp_path: Path) -> None:
    assert times_full(tmp_path, 3) > 20


@pytest.mark.long
def test_a_disk_that_is_full_hundreds_of_times_loses_nothing(tmp_path: Path) -> None:
    times = times_full(tmp_path, 24)
    assert times >= 200
    print(f"the disk was full {times} times, nothing lost, nothing double")
