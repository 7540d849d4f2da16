"""`deniable keys`: make a signing key, and show its public half."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from deniable.shared.cli.verb import Verb


def arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    new = actions.add_parser("new", help="make a signing key; keep it away from the server")
    show = actions.add_parser("show", help="print the public key that apps trust")
    for action in (new, show):
        action.add_argument("file", metavar="FILE", help="the signing key, in PEM form")
        action.add_argument("--json", action="store_true", help="print one JSON document")


def run(chosen: Namespace) -> int:
    from deniable.shared.survey.signing import create_key, load_key, public_hex

    make = create_key if chosen.action == "new" else load_key
    public = public_hex(make(chosen.file))
    if chosen.json:
        print(json.dumps({"file": chosen.file, "key": public}))
    elif chosen.action == "new":
        print(
            f"{public}\nis the public key, for Policy(keys=[...]) in the app. The signing key is "
            f"{chosen.file}: keep a copy, and keep it away from the server."
        )
    else:
        print(public)
    return 0


KEYS = Verb(
    "keys",
    "make and show signing keys",
    arguments,
    run,
    example="deniable keys new signing-key.pem",
)
