"""Copying a store while it is in use, and putting a copy in place."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Engine

from deniable.server.disk import PRIVATE_FILE, sync
from deniable.server.store.protocol import Damaged
from deniable.server.store.sql.reports import report_totals
from deniable.server.store.sqlite.database import (
    FILE,
    OLDER,
    check_version,
    create_folder,
    engine_of,
    transaction,
    version_of,
)
from deniable.server.store.sqlite.inspection import check_rows
from deniable.server.store.sqlite.migration import migrate_file
from deniable.server.store.sqlite.schema import VERSION
from deniable.shared.errors import Refused, StoreUnusable, WrongUse

COPIED_AT_ONCE = 2**20
LOGS = ("-wal", "-shm")


def back_up(data: Path, target: Path) -> int:
    """One consistent copy in one file, taken while the server serves. Its size in bytes."""
    check_version(data / FILE)
    unfinished = target.with_name(target.name + ".unfinished")
    _new_file(target).unlink()
    _new_file(unfinished)
    try:
        with closing(sqlite3.connect(data / FILE)) as source:
            # In the order of keys and without free pages: a copy of the pages would keep theirs.
            source.execute("VACUUM INTO ?", [str(unfinished)])
        check(unfinished)
        sync(unfinished)
        unfinished.replace(target)
    except sqlite3.Error as error:
        raise StoreUnusable(f"the backup failed: {error}; {target} was not written") from error
    except Damaged as error:
        raise Damaged(
            f"{error}, so {target} was not written: keep the backups that there are, and look: "
            f"deniable doctor --data {data}"
        ) from None
    finally:
        unfinished.unlink(missing_ok=True)
    sync(target.parent)
    return target.stat().st_size


def restore(source: Path, data: Path) -> int:
    """Make a data folder from a backup that has been found whole; never over another.

    A backup of an older version is migrated in its new place. How many reports it has counted."""
    if not source.is_file():
        raise WrongUse(f"there is no backup at {source}")
    _check_backup(source)
    create_folder(data)
    target = data / FILE
    unfinished = target.with_name(FILE + ".unfinished")
    if target.exists():
        raise Refused(
            f"{data} holds data already, and a restore never overwrites; name another folder"
        )
    unfinished.unlink(missing_ok=True)
    try:
        with source.open("rb") as copied, _new_file(unfinished).open("wb") as file:
            shutil.copyfileobj(copied, file, COPIED_AT_ONCE)
        migrate_file(unfinished)
        _check_backup(unfinished)
        reports = _reports(engine_of(unfinished))
        sync(unfinished)
        unfinished.replace(target)
    except OSError as error:
        raise StoreUnusable(f"the restore failed: {error.strerror}; {target} is not made") from None
    finally:
        for end in ("", *LOGS):
            unfinished.with_name(unfinished.name + end).unlink(missing_ok=True)
    sync(data)
    return reports


def _check_backup(file: Path) -> None:
    try:
        check(file)
    except Damaged as error:
        raise Damaged(f"{error} in {file}; use another backup") from None


def check(file: Path) -> None:
    """Refuse a file that is not whole, or whose schema version is not ours. The rows of an older
    one are looked at when it is migrated."""
    version = version_of(file)
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if found == "ok" and version == str(VERSION):
                check_rows(connection)
    except sqlite3.Error as error:
        raise StoreUnusable(f"{file} is not a backup of deniable: {error}") from None
    if found != "ok":
        raise StoreUnusable(f"{file} is damaged: {found}; use another backup")
    if version not in OLDER:
        check_version(file)


def _reports(engine: Engine) -> int:
    """All that are counted; Damaged where a tally is not what was written."""
    try:
        with transaction(engine, "read tallies", writes=False) as connection:
            return sum(report_totals(connection).values())
    finally:
        engine.dispose()


def _new_file(path: Path) -> Path:
    """An empty file that only its owner may read; one that is there already is left alone."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
    except FileExistsError:
        raise WrongUse(f"{path} already exists; name a new file") from None
    except OSError as error:
        raise WrongUse(f"{path} cannot be written: {error.strerror}") from None
    return path
