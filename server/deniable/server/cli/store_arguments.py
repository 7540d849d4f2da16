"""Options that name a command's store: `--data DIR` or `--store URL`.

Without either, a command uses DENIABLE_DATA from the environment: a folder or a database.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace, _MutuallyExclusiveGroup
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.shared.errors import DeniableError, WrongUse

if TYPE_CHECKING:
    from deniable.server.store import Database, Place, Store
    from deniable.server.surveys.catalogue import Catalogue

DATA = "DENIABLE_DATA"
STILL_READ = "another process is reading the store; until it ends, files contain the deleted data"


def add_place(
    parser: ArgumentParser, *, required: bool = True, otherwise: str | None = None
) -> _MutuallyExclusiveGroup:
    """Add the options that set `data`; DENIABLE_DATA is a default only where one is required."""
    usual = os.environ.get(DATA, otherwise) if required else None
    one = parser.add_mutually_exclusive_group(required=required and not usual)
    one.add_argument(
        "--data",
        type=_folder,
        metavar="DIR",
        default=usual,
        help=f"the data folder (default: ${DATA}{f' or {otherwise}' if otherwise else ''})",
    )
    one.add_argument(
        "--store",
        type=_database,
        dest="data",
        metavar="URL",
        help="a PostgreSQL database instead: postgresql://USER@HOST/DATABASE",
    )
    return one


@contextmanager
def opened(args: Namespace) -> Iterator[tuple[Store, Catalogue]]:
    """Open the store that a command names, with the catalogue of its surveys."""
    from deniable.server.store import open_store
    from deniable.server.surveys.catalogue import Catalogue

    with open_store(args.data) as store:
        yield store, Catalogue(store)


def option(place: Place) -> str:
    """Return the option that names this store in another command, without a password."""
    return f"--data {place}" if isinstance(place, Path) else f"--store {place}"


def folder(place: Place, instead: str) -> Path:
    """Return the data folder, or raise WrongUse with `instead` for a database."""
    if not isinstance(place, Path):
        raise WrongUse(instead)
    return place


def _folder(text: str) -> Place:
    if "://" in text:
        if text == os.environ.get(DATA):
            return _database(text)
        raise ArgumentTypeError("expected a folder, got an address; use --store for a database")
    return Path(text)


def _database(text: str) -> Database:
    from deniable.server.store import Database

    try:
        database = Database(text)
        str(database)  # libpq parses the URL
    except DeniableError as error:
        raise ArgumentTypeError(str(error)) from None
    return database
