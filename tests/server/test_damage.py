"""Flipped bits in the data folder of a killed server: results stay equal, or damage is reported."""

from __future__ import annotations

import logging
import random
import shutil
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from deniable.server.intake.commit import commit, open_recovered
from deniable.server.process.roles import _prepare
from deniable.server.store import FILE, PublishedSurvey, SqliteStore, Store, Upload
from deniable.server.store.sqlite import redo_file
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.errors import DeniableError, StoreUnusable
from tests.server.surveys import BIT, DECEMBER, choice, envelope, published, survey

LOG = f"{FILE}-wal"
FILES = (FILE, LOG, redo_file.FILE)
GROUPS, EACH = 10, 3  # per survey

Counts = dict[tuple[str, bytes, int], list[int]]  # by survey name, document and round


class Left(NamedTuple):
    """Data folder of a killed server, and the counts of all reports that it had acknowledged."""

    data: Path
    counts: Counts


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    folder = tmp_path_factory.mktemp("damage")
    with SqliteStore.create(folder / "data") as store:
        asked = [
            published(store, survey(questions, name=name))
            for name, questions in (
                ("one", BIT),
                ("two", BIT + choice(20, "unary")),
                ("three", BIT),
            )
        ]
        write(store, asked, range(GROUPS), later=False)
        store.forget_order()
        write(store, asked, range(GROUPS, 2 * GROUPS), later=False)
        write(store, asked, range(2 * GROUPS, 3 * GROUPS), later=True)
        data = Path(shutil.copytree(store.data, folder / "left"))
    with open_recovered(Path(shutil.copytree(data, folder / "whole"))) as store:
        counts = shown(store, Catalogue(store))
    reports = sum(count[0] for count in counts.values())
    assert reports == len(asked) * 3 * GROUPS * EACH
    return Left(data, counts)


def write(
    store: SqliteStore, asked: Sequence[PublishedSurvey], groups: range, *, later: bool
) -> None:
    for group in groups:
        for target in asked:
            with store.transaction(later=later) as transaction:
                done = commit(transaction, [upload(target, group, n) for n in range(EACH)])
            assert done == ["accepted"] * EACH


def upload(asked: PublishedSurvey, group: int, number: int) -> Upload:
    made = envelope(asked, 1 + group * EACH + number, round_number=DECEMBER - group % 2)
    identifier = random.Random(f"{asked.id} {made.id.hex()}").randbytes(16)
    return Upload(asked, made.round, identifier, 1, made.payload)


def shown(store: Store, catalogue: Catalogue) -> Counts:
    return {
        (survey.name, survey.document, tally.round): [tally.reports, *tally.cells.tolist()]
        for survey in catalogue.surveys()
        for tally in store.tallies(survey.sequence)
    }


def turned(left: Left, target: Path, file: str, place: int, bit: int) -> Path:
    data = Path(shutil.copytree(left.data, target))
    content = bytearray((data / file).read_bytes())
    content[place] ^= 1 << bit
    (data / file).write_bytes(content)
    return data


def served(data: Path) -> Counts:
    """Return the counts that a server shows after it starts on this folder."""
    _prepare(data)
    with open_recovered(data) as store:
        return shown(store, Catalogue(store))


def fault(data: Path, counts: Counts, log: pytest.LogCaptureFixture) -> str | None:
    """Describe a traceback, or a wrong result without a warning; return None if neither occurs."""
    log.clear()
    try:
        found = served(data)
    except DeniableError:
        return None  # the folder is refused with a reason
    except Exception as error:  # noqa: BLE001  # of any kind: the user would see a traceback
        return f"{type(error).__name__}: {error} {traceback.extract_tb(error.__traceback__)[-1]}"
    said = any(record.levelno >= logging.WARNING for record in log.records)
    if found == counts or (said and found.items() <= counts.items()):
        return None
    less = all(
        key in counts and all(a <= b for a, b in zip(found[key], counts[key], strict=True))
        for key in found
    )
    cut_off = any("is incomplete" in record.getMessage() for record in log.records)
    wrong = {key[::2]: (found.get(key), of) for key, of in counts.items() if found.get(key) != of}
    return None if cut_off and less else f"shown and {'' if said else 'not '}said: {wrong}"


def faults(
    left: Left, folder: Path, log: pytest.LogCaptureFixture, number: int, seed: int
) -> list[str]:
    chance, found = random.Random(seed), list[str]()
    for file in FILES:
        content = (left.data / file).read_bytes()
        used = [offset for offset in range(len(content)) if content[offset]]
        for _ in range(number):
            place = chance.choice(used) if chance.random() < 0.8 else chance.randrange(len(content))
            data = turned(left, folder / "turned", file, place, bit := chance.randrange(8))
            wrong = fault(data, left.counts, log)
            found += [f"{file} at {place}, bit {bit}: {wrong}"] if wrong else []
            shutil.rmtree(data)
    return found


def test_one_flipped_bit_never_changes_results(
    left: Left, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert faults(left, tmp_path, caplog, 60, seed=1) == []


@pytest.mark.parametrize("place", ["'text'", "17"])
def test_a_bucket_without_a_valid_key_is_damage(left: Left, tmp_path: Path, place: str) -> None:
    """A flipped bit in a row's header can change the types of its columns."""
    data = Path(shutil.copytree(left.data, tmp_path / "data"))
    with open_recovered(data) as store:
        assert isinstance(store, SqliteStore)
        asked = Catalogue(store).find("one")
        with store._writing("damage it") as driver:
            driver.execute(
                "DELETE FROM envelopes WHERE survey <> ? OR round <> ?", (asked.sequence, DECEMBER)
            )
            driver.execute(f"UPDATE OR IGNORE envelopes SET place = {place}")
        with pytest.raises(StoreUnusable, match="damaged"):
            check(store, asked)
        store.seal(asked.sequence, [DECEMBER])
        assert store.purge(32).rows > 0
        assert store.purge(32).rows == 0


def check(store: SqliteStore, asked: PublishedSurvey) -> None:
    with store.transaction() as transaction:
        commit(transaction, [upload(asked, 0, 0)])
    list(store.envelopes(asked.sequence, DECEMBER))


@pytest.mark.long
def test_thousands_of_flipped_bits_never_change_results(
    left: Left, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert faults(left, tmp_path, caplog, 2_000, seed=2) == []
