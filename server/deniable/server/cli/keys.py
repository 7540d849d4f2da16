"""`deniable keys`: make a signing key or a sealing key, and show its public half."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from deniable.shared.cli.verb import Verb

SIGNING = (
    "{public}\nis the public key, for Policy(keys=[...]) in the app. The signing key is "
    "{file}: keep a copy, and keep it away from the server."
)
SEALING = (
    '{public}\nis the public key, for surveys: sealed_to = "{public}". The sealing key is {file}: '
    "keep a copy,\nand start the server with it: deniable serve --sealing-key {file}. It is in no "
    "backup of the data, and\nwithout it nothing that was sealed to it can be opened."
)


def arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    new = actions.add_parser("new", help="make a signing key; keep it away from the server")
    show = actions.add_parser("show", help="print the public key that apps trust")
    for action in (new, show):
        action.add_argument("file", metavar="FILE", help="the key, in PEM form")
        action.add_argument(
            "--sealing",
            action="store_true",
            help="one that reports are sealed to, and opened with on the server",
        )
        action.add_argument("--json", action="store_true", help="print one JSON document")


def run(chosen: Namespace) -> int:
    public = _sealing(chosen) if chosen.sealing else _signing(chosen)
    if chosen.json:
        print(json.dumps({"file": chosen.file, "key": public}))
    elif chosen.action == "new":
        said = SEALING if chosen.sealing else SIGNING
        print(said.format(public=public, file=chosen.file))
    else:
        print(public)
    return 0


def _signing(chosen: Namespace) -> str:
    from deniable.shared.survey.signing import create_key, load_key, public_hex

    return public_hex((create_key if chosen.action == "new" else load_key)(chosen.file))


def _sealing(chosen: Namespace) -> str:
    from deniable.shared.survey.sealing_key import (
        create_sealing_key,
        load_sealing_key,
        sealing_hex,
    )

    make = create_sealing_key if chosen.action == "new" else load_sealing_key
    return sealing_hex(make(chosen.file))


KEYS = Verb(
    "keys",
    "make and show signing keys and sealing keys",
    arguments,
    run,
    example="deniable keys new signing-key.pem",
)
