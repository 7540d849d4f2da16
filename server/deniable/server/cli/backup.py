"""`deniable backup` and `deniable restore`: copy a store to one file, and back."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from deniable.server.cli.store_arguments import add_place, folder
from deniable.shared.cli.verb import Verb, add_json, show

BY_PG_DUMP = (
    "back up a database with PostgreSQL's own tools, also while servers use it: "
    "pg_dump --format=custom --file=FILE DATABASE"
)
BY_PG_RESTORE = (
    "restore a database with PostgreSQL's own tools, into a new one: createdb NEW, then "
    "pg_restore --exit-on-error --dbname=NEW FILE"
)


def backup_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument("--to", type=Path, required=True, metavar="FILE", help="a new file")
    add_json(parser)


def restore_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a backup")
    add_place(parser)
    add_json(parser)


def run_backup(args: Namespace) -> int:
    from deniable.server.intake.commit import open_recovered
    from deniable.server.store.sqlite.backup_file import back_up

    data = folder(args.data, BY_PG_DUMP)
    with open_recovered(data):
        size = back_up(data, args.to)
    text = f"{args.to}: {size:,} bytes, checked. It holds reports and hashed tokens: "
    return show(args, {"file": str(args.to), "bytes": size}, [f"{text}keep it private."])


def run_restore(args: Namespace) -> int:
    from deniable.server.store.sqlite.backup_file import restore

    reports = restore(args.file, folder(args.data, BY_PG_RESTORE))
    counted = "1 report" if reports == 1 else f"{reports:,} reports"
    text = (
        f"{args.data} is restored, with {counted} counted. Reports acknowledged after the backup "
        f"are lost: devices do not send them again.\nStart it: deniable serve --data {args.data}"
    )
    return show(args, {"data": str(args.data), "reports": reports}, [text])


BACKUP = Verb(
    "backup",
    "copy the store to a file, also while serving",
    backup_arguments,
    run_backup,
    example="deniable backup --data ./data --to backup.sqlite3",
)
RESTORE = Verb(
    "restore",
    "make a data folder from a backup",
    restore_arguments,
    run_restore,
    example="deniable restore backup.sqlite3 --data ./restored",
)
