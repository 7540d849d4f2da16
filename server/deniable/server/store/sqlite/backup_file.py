"""Backups: copying a store to one file, even while a server runs, and restoring it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from deniable.server.disk import create_private, sync, write_new
from deniable.server.store.protocol import Damaged
from deniable.server.store.sqlite.inspection import check_rows
from deniable.server.store.sqlite.sqlite_database import FILE, check_version, create_folder
from deniable.shared.errors import Refused, StoreUnusable, WrongUse


def back_up(data: Path, target: Path) -> int:
    """Copy the store to one consistent file, and return the file's size."""
    check_version(data / FILE)
    unfinished = target.with_name(target.name + ".unfinished")
    _create_file(target)
    target.unlink()
    _create_file(unfinished)
    try:
        with closing(sqlite3.connect(data / FILE)) as source:
            # VACUUM writes rows in the order of their keys, without free pages. A copy of the pages
            # would show deleted rows, and the order in which rows were written.
            source.execute("VACUUM INTO ?", [str(unfinished)])
        _check(unfinished)
        sync(unfinished)
        unfinished.replace(target)
    except sqlite3.Error as error:
        raise StoreUnusable(f"the backup failed: {error}; {target} was not written") from error
    except Damaged as error:
        raise Damaged(
            f"{error}, so {target} was not written. Keep all existing backups, and run: "
            f"deniable doctor --data {data}"
        ) from None
    finally:
        unfinished.unlink(missing_ok=True)
    sync(target.parent)
    return target.stat().st_size


def restore(source: Path, data: Path) -> int:
    """Create a data folder from an intact backup, and return its number of counted reports."""
    if not source.is_file():
        raise WrongUse(f"no backup exists at {source}")
    _check_backup(source)
    create_folder(data)
    target = data / FILE
    unfinished = target.with_name(FILE + ".unfinished")
    if target.exists():
        raise Refused(
            f"{data} already holds data, and a restore never overwrites; name another folder"
        )
    unfinished.unlink(missing_ok=True)
    try:
        with source.open("rb") as content:
            write_new(unfinished, content)
        reports = _check_backup(unfinished)
        unfinished.replace(target)
    except OSError as error:
        raise StoreUnusable(
            f"the restore failed: {error.strerror}; {target} was not created"
        ) from None
    finally:
        unfinished.unlink(missing_ok=True)
    sync(data)
    return reports


def _check_backup(file: Path) -> int:
    try:
        return _check(file)
    except Damaged as error:
        raise Damaged(f"{error} in {file}; use another backup") from None


def _check(file: Path) -> int:
    """Raise Damaged or StoreUnusable for a faulty file; return its number of counted reports."""
    check_version(file)
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as driver:
            (fault,) = driver.execute("PRAGMA integrity_check(1)").fetchone()
            if fault != "ok":
                raise StoreUnusable(f"{file} is damaged: {fault}; use another backup")
            return check_rows(driver)
    except sqlite3.Error as error:
        raise StoreUnusable(f"{file} is not a deniable backup: {error}") from None


def _create_file(path: Path) -> None:
    try:
        create_private(path).close()
    except FileExistsError:
        raise WrongUse(f"{path} already exists; name a new file") from None
    except OSError as error:
        raise WrongUse(f"{path} cannot be written: {error.strerror}") from None
