"""`deniable register`: what has become of every survey that was ever published here."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.server.cli.place import add_place
from deniable.shared.cli.verb import Verb
from deniable.shared.errors import WrongUse

if TYPE_CHECKING:
    from deniable.server.store import RegisterEntry

ALONE = (
    "the chain fits together, which alone detects nothing: whoever runs a server can show "
    "everybody another one. Keep what --json prints elsewhere, and compare: --check FILE"
)


def arguments(parser: ArgumentParser) -> None:
    add_place(parser).add_argument("--server", metavar="URL", help="ask a server, over HTTP")
    parser.add_argument(
        "--check",
        nargs="?",
        const="",
        metavar="FILE",
        help="whether the chain fits together, and goes on from what --json printed earlier",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(chosen: Namespace) -> int:
    entries = _entries(chosen)
    fault = None if chosen.check is None else _fault(entries, chosen.check)
    if chosen.json:
        document = {"entries": [vars(each) for each in entries]}
        checked = {} if chosen.check is None else {"well": fault is None, "fault": fault}
        print(json.dumps(document | checked))
    else:
        print("\n".join([*map(_line, entries), *_verdict(entries, chosen.check, fault)]))
    return 1 if fault else 0


def _entries(chosen: Namespace) -> list[RegisterEntry]:
    if chosen.server:
        from deniable.server.analysis.remote import remote_register

        return remote_register(chosen.server)
    from deniable.server.store import open_store

    with open_store(chosen.data) as store:
        return store.register()


def _fault(entries: Sequence[RegisterEntry], file: str) -> str | None:
    from deniable.server.store import first_fault

    fault = first_fault(entries)
    if fault is None and file:
        kept = _mirrored(Path(file))
        if list(entries[: len(kept)]) != kept:
            same = (one == other for one, other in zip(entries, kept, strict=False))
            at = next((n for n, well in enumerate(same, 1) if not well), len(entries) + 1)
            fault = f"entry {at} is not what {file} says: what was published has been changed"
    return fault


def _mirrored(file: Path) -> list[RegisterEntry]:
    from deniable.server.store import RegisterEntry

    try:
        return [RegisterEntry(**each) for each in json.loads(file.read_text("utf-8"))["entries"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise WrongUse(
            f"{file} cannot be read as a register; write one: deniable register --json > {file}"
        ) from None


def _line(entry: RegisterEntry) -> str:
    return (
        f"{entry.number:6}  {entry.event:9}  {entry.survey}  key {entry.key[:12]}  "
        f"head {entry.head[:12]}"
    )


def _verdict(entries: Sequence[RegisterEntry], check: str | None, fault: str | None) -> list[str]:
    if not entries:
        return ["nothing was ever published here"]
    if check is None:
        return []
    if fault is not None:
        return [f"FAULT: {fault}"]
    return [f"the chain goes on from {check}" if check else ALONE]


REGISTER = Verb(
    "register",
    "show the public register of surveys, and check it",
    arguments,
    run,
    example="deniable register --data ./data --check",
)
