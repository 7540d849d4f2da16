"""`--data DIR` or `--store URL`: which store a command uses, and the same in words."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.shared.errors import DeniableError, WrongUse

if TYPE_CHECKING:
    from deniable.server.store import Database, Place


def add_place(parser: ArgumentParser, *, required: bool = True) -> None:
    """As `data` of what is chosen."""
    one = parser.add_mutually_exclusive_group(required=required)
    one.add_argument("--data", type=Path, metavar="DIR", help="the data folder")
    one.add_argument(
        "--store",
        type=_database,
        dest="data",
        metavar="URL",
        help="a PostgreSQL database instead: postgresql://USER@HOST/DATABASE",
    )


def option(place: Place) -> str:
    """How to name it in another command; without a password."""
    return f"--data {place}" if isinstance(place, Path) else f"--store {place}"


def folder(place: Place, instead: str) -> Path:
    """For what is done with folders only."""
    if not isinstance(place, Path):
        raise WrongUse(instead)
    return place


def _database(text: str) -> Database:
    from deniable.server.store import Database

    try:
        database = Database(text)
        str(database)  # libpq reads it, too
    except DeniableError as error:
        raise ArgumentTypeError(str(error)) from None
    return database
