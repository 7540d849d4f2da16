"""`deniable register`: the history of every survey that this server ever published."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.server.cli.store_arguments import add_place
from deniable.shared.cli.verb import Verb, add_json, show
from deniable.shared.errors import WrongUse

if TYPE_CHECKING:
    from deniable.server.store import RegisterEntry

UNWITNESSED = (
    "the chain is consistent. That alone proves nothing: an operator can replace the whole chain. "
    "Keep the output of --json on another machine, and compare it later with --check FILE"
)


def arguments(parser: ArgumentParser) -> None:
    add_place(parser).add_argument("--server", metavar="URL", help="ask a server over HTTP")
    parser.add_argument(
        "--check",
        nargs="?",
        const="",
        metavar="FILE",
        help="check the chain, and that it continues the earlier output of --json in FILE",
    )
    add_json(parser)


def run(args: Namespace) -> int:
    entries = _entries(args)
    fault = None if args.check is None else _fault(entries, args.check)
    checked = {} if args.check is None else {"well": fault is None, "fault": fault}
    document = {"entries": [vars(entry) for entry in entries], **checked}
    lines = [
        f"{entry.number:6}  {entry.event:10}  {entry.survey}  key {entry.key[:12]}  "
        f"head {entry.head[:12]}"
        for entry in entries
    ]
    if not entries:
        lines = ["no survey has been published here"]
    elif fault is not None:
        lines.append(f"FAULT: {fault}")
    elif args.check is not None:
        consistent = f"the chain is consistent and continues {args.check}"
        lines.append(consistent if args.check else UNWITNESSED)
    show(args, document, lines)
    return 1 if fault else 0


def _entries(args: Namespace) -> list[RegisterEntry]:
    if args.server:
        from deniable.server.analysis import remote_register

        return remote_register(args.server)
    from deniable.server.store import open_store

    with open_store(args.data) as store:
        return store.register()


def _fault(entries: Sequence[RegisterEntry], file: str) -> str | None:
    from deniable.server.store import first_fault

    fault = first_fault(entries)
    if fault is None and file:
        kept = _read_copy(Path(file))
        if list(entries[: len(kept)]) != kept:
            pairs = enumerate(zip(entries, kept, strict=False), 1)
            number = next((n for n, (now, then) in pairs if now != then), len(entries) + 1)
            fault = f"entry {number} differs from {file}: the published history has been changed"
    return fault


def _read_copy(file: Path) -> list[RegisterEntry]:
    from deniable.server.store import RegisterEntry

    try:
        return [RegisterEntry(**entry) for entry in json.loads(file.read_text("utf-8"))["entries"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise WrongUse(
            f"{file} cannot be read as a register; write one: deniable register --json > {file}"
        ) from None


REGISTER = Verb(
    "register",
    "show and check the public register of surveys",
    arguments,
    run,
    group="server",
    example="deniable register --data ./data --check",
)
