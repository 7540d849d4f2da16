"""Backups: a copy of a store in one file, made while it is in use, and put in place again."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from deniable.server.disk import PRIVATE_FILE, sync
from deniable.server.store.protocol import Damaged
from deniable.server.store.sqlite.inspection import check_rows
from deniable.server.store.sqlite.sqlite_database import FILE, check_version, create_folder
from deniable.shared.errors import Refused, StoreUnusable, WrongUse

COPIED_AT_ONCE = 2**20


def back_up(data: Path, target: Path) -> int:
    """Make one consistent copy in one file, also while a server runs. Return its bytes."""
    check_version(data / FILE)
    unfinished = target.with_name(target.name + ".unfinished")
    _new_file(target).unlink()
    _new_file(unfinished)
    try:
        with closing(sqlite3.connect(data / FILE)) as source:
            # In the order of keys and without free pages: a copy of the pages would keep theirs.
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
    """Make a data folder from a whole backup, never over another, and return its reports."""
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
        reports = _check_backup(unfinished)
        sync(unfinished)
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
    """Refuse a file that is not whole, or of another version. Return the number of reports."""
    check_version(file)
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as driver:
            (found,) = driver.execute("PRAGMA integrity_check(1)").fetchone()
            if found != "ok":
                raise StoreUnusable(f"{file} is damaged: {found}; use another backup")
            return check_rows(driver)
    except sqlite3.Error as error:
        raise StoreUnusable(f"{file} is not a backup of deniable: {error}") from None


def _new_file(path: Path) -> Path:
    """Make an empty file that only its owner may read; one that exists is left alone."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
    except FileExistsError:
        raise WrongUse(f"{path} already exists; name a new file") from None
    except OSError as error:
        raise WrongUse(f"{path} cannot be written: {error.strerror}") from None
    return path
