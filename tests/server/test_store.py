"""Store: its version, surveys, and backups."""

import re
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.server.store import FILE, RoundTally, SqliteStore
from deniable.server.store.records import is_whole, tally_row
from deniable.server.store.sqlite.backup_file import back_up, restore
from deniable.server.store.sqlite.sqlite_database import SCHEMA, VERSION
from deniable.shared.errors import Refused, StoreUnusable, WrongUse
from tests.server.surveys import DECEMBER, envelope, published, survey
from tests.server.world import World


def set_version(data: Path, version: str) -> None:
    with closing(sqlite3.connect(data / FILE)) as connection, connection:
        connection.execute("UPDATE about SET value = ? WHERE key = 'schema'", [version])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    SqliteStore.create(folder).close()
    return folder


# Versions


@pytest.mark.parametrize("version", [str(VERSION + 1), str(VERSION - 1), "0", "x", ""])
def test_another_version_is_refused_and_not_touched(data: Path, version: str) -> None:
    set_version(data, version)
    before = (data / FILE).read_bytes()
    for opening in (SqliteStore.open, SqliteStore.create):
        with pytest.raises(StoreUnusable, match=r"schema version.*use the version of.*Nothing"):
            opening(data)
    assert (data / FILE).read_bytes() == before


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE)) as connection, connection:
        connection.execute("CREATE TABLE theirs (column)")
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(StoreUnusable, match="is not a deniable database"):
        SqliteStore.create(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


def test_the_rows_of_the_audit_log_have_no_number(data: Path) -> None:
    """The number of a row would show in which order the actions of a day happened."""
    with closing(sqlite3.connect(data / FILE)) as connection:
        with pytest.raises(sqlite3.OperationalError, match="no such column: rowid"):
            connection.execute("SELECT rowid FROM audit")
        connection.execute("SELECT rowid FROM tokens")  # twin: other tables have numbers


def test_reading_a_missing_folder_does_not_create_it(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="holds no deniable data"):
        SqliteStore.open(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_every_column_has_a_comment() -> None:
    """The comments are part of the schema, which the database stores."""
    for table in re.findall(r"CREATE TABLE \w+ \(\n(.*?)\n\)", SCHEMA, re.DOTALL):
        for line in table.splitlines():
            if line.strip().startswith(("PRIMARY KEY", "GENERATED")):
                continue
            assert "  -- " in line, line


@pytest.mark.parametrize(
    "change",
    [{"survey": 2}, {"round": DECEMBER + 1}, {"node": "b"}, {"reports": 8}, {"sealed": True},
     {"cells": bytes(16)}],
    ids=str,
)  # fmt: skip
def test_a_tally_that_differs_in_any_column_is_damaged(change: dict[str, Any]) -> None:
    row = tally_row(1, DECEMBER, "a", 7, False, bytes(15) + b"\1", b"")
    assert is_whole(row)
    assert not is_whole(row._replace(**change))


def test_commits_reach_the_disk(data: Path) -> None:
    """With WAL and synchronous FULL (2), a commit survives a power cut."""
    with (
        SqliteStore.open(data) as store,
        store._reading() as reader,
        store._writing("write") as writer,
    ):
        for driver in (reader, writer):
            modes = [
                driver.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("journal_mode", "synchronous", "foreign_keys", "secure_delete")
            ]
            assert modes == ["wal", 2, 1, 1]


def test_a_reader_cannot_write(data: Path) -> None:
    with (
        SqliteStore.open(data) as store,
        pytest.raises(StoreUnusable, match="readonly"),
        store._reading() as driver,
    ):
        driver.execute("INSERT INTO keys VALUES ('00')")


# Surveys


def test_publishing_the_same_survey_again_changes_nothing(here: World) -> None:
    first, second = here.publish(survey()), here.publish(survey())
    assert first == second
    assert len(here.store.surveys()) == 1


# Backups


def test_a_backup_holds_everything_and_is_private(here: World, tmp_path: Path) -> None:
    asked = here.publish(survey())
    here.send(envelope(asked, 1), envelope(asked, 2), app=True)
    copy = tmp_path / "copy"
    assert back_up(here.store.data, copy) == copy.stat().st_size
    assert copy.stat().st_mode & 0o077 == 0
    restore(copy, tmp_path / "again")
    with SqliteStore.open(tmp_path / "again") as store:
        assert [(t.round, t.reports, t.cells.tolist()) for t in store.tallies(asked.sequence)] == [
            (number, reports, cells) for number, (reports, cells) in here.tallies(asked).items()
        ]


def test_a_backup_never_overwrites(data: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").write_text("precious")
    with pytest.raises(WrongUse, match="already exists"):
        back_up(data, tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "precious"


def test_a_restore_never_overwrites(data: Path, tmp_path: Path) -> None:
    back_up(data, tmp_path / "copy")
    with pytest.raises(Refused, match="never overwrites"):
        restore(tmp_path / "copy", data)


def test_a_damaged_backup_is_not_restored(data: Path, tmp_path: Path) -> None:
    copy, target = tmp_path / "copy", tmp_path / "again"
    back_up(data, copy)
    whole = copy.read_bytes()
    size = int.from_bytes(whole[28:32], "big") + 1  # an unused page that the header declares
    for damaged in (
        whole[:28] + size.to_bytes(4, "big") + whole[32:] + bytes(1024),
        whole[: len(whole) // 2],
        whole[:1024] + bytes(100) + whole[1124:],
        b"nonsense",
    ):
        copy.write_bytes(damaged)
        with pytest.raises(StoreUnusable):
            restore(copy, target)
        assert not (target / FILE).exists()


def test_a_backup_of_another_version_is_not_restored(data: Path, tmp_path: Path) -> None:
    set_version(data, str(VERSION))
    back_up(data, tmp_path / "copy")
    with closing(sqlite3.connect(tmp_path / "copy")) as connection, connection:
        connection.execute("UPDATE about SET value = '99' WHERE key = 'schema'")
    with pytest.raises(StoreUnusable, match="schema version 99"):
        restore(tmp_path / "copy", tmp_path / "again")


def test_each_survey_has_its_own_tallies(here: World) -> None:
    one, other = here.publish(survey(name="one")), here.publish(survey(name="other"))
    here.send(envelope(one, 1), envelope(other, 1), envelope(other, 2), app=True)
    assert [here.tallies(published)[683][0] for published in (one, other)] == [1, 2]


def test_a_survey_signed_by_another_key_does_not_replace_the_first(here: World) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from deniable.shared.errors import UntrustedSurvey
    from deniable.shared.survey.keys import public_hex, sign

    first = published(here.store, survey())
    other = Ed25519PrivateKey.generate()
    with pytest.raises(UntrustedSurvey, match="not enrolled"):
        here.catalogue.publish(first.document, sign(first.document, other), public_hex(other))
    here.store.enrol_key(public_hex(other))
    with pytest.raises(UntrustedSurvey, match="already published"):
        here.catalogue.publish(first.document, sign(first.document, other), public_hex(other))


# Damage


def damage(data: Path, statement: str) -> None:
    """Damage the data as a disk's flipped bits would: the file stays a valid database."""
    with closing(sqlite3.connect(data / FILE)) as connection, connection:
        assert connection.execute(statement).rowcount == 1


@pytest.mark.parametrize(
    "change",
    [
        "cells = CAST(x'02' || substr(cells, 2) AS BLOB)",
        "reports = reports + 1",
        "sealed = 1",
        "labels = cells",
        "round = round - 1",
        "digest = x'00'",
    ],
)
def test_a_damaged_tally_is_neither_shown_nor_added_to_nor_purged(here: World, change: str) -> None:
    asked = here.publish(survey(minimum_reports=1))
    here.send(envelope(asked, 1), envelope(asked, 2), app=True)
    damage(here.store.data, f"UPDATE tallies SET {change}")
    assert here.send(envelope(asked, 3)).status_code == 200
    with here.store.transaction() as transaction:
        transaction.add(asked.sequence, RoundTally(DECEMBER, 1, np.ones(2, np.int64)))
    here.store.seal(asked.sequence, [DECEMBER, DECEMBER - 1])
    for read in (partial(here.store.tallies, asked.sequence), here.store.report_totals):
        with pytest.raises(StoreUnusable, match="is damaged"):
            read()
    with pytest.raises(StoreUnusable, match="is damaged"):
        back_up(here.store.data, here.store.data / "copy")
    assert not (here.store.data / "copy").exists()
    address = f"/v1/surveys/{asked.id}/results"
    assert here.client.get(address, headers=here.bearer("analyst")).status_code == 503
    if not change.startswith("round"):
        assert here.store.purge(100).envelopes == 0


def test_a_round_with_damaged_envelopes_accepts_nothing(here: World) -> None:
    """The store cannot determine whether a report has already been counted."""
    asked = here.publish(survey())
    here.send(envelope(asked, 1))
    damage(
        here.store.data, "UPDATE envelopes SET rows = CAST(x'0100ff' || substr(rows, 4) AS BLOB)"
    )
    assert here.send(envelope(asked, 1)).status_code == 503
    assert here.tallies(asked)[DECEMBER][0] == 1
