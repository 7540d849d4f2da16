"""`deniable backup` and `deniable restore`: the whole store as one file."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from deniable.shared.cli.verb import Verb


def backup_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the data folder")
    parser.add_argument("--to", type=Path, required=True, metavar="FILE", help="a new file")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def restore_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a backup")
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="a new or empty folder"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run_backup(chosen: Namespace) -> int:
    from deniable.server.store import back_up

    size = back_up(chosen.data, chosen.to)
    if chosen.json:
        print(json.dumps({"file": str(chosen.to), "bytes": size}))
    else:
        print(
            f"{chosen.to}: {size:,} bytes, checked. "
            "It holds reports and hashed tokens: keep it private."
        )
    return 0


def run_restore(chosen: Namespace) -> int:
    from deniable.server.store import restore

    restore(chosen.file, chosen.data)
    if chosen.json:
        print(json.dumps({"data": str(chosen.data)}))
    else:
        print(f"{chosen.data} is restored; start it: deniable serve --data {chosen.data}")
    return 0


BACKUP = Verb(
    "backup", "copy the store to a file, also while serving", backup_arguments, run_backup
)
RESTORE = Verb("restore", "make a data folder from a backup", restore_arguments, run_restore)
