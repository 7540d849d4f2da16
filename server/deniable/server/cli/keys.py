"""`deniable keys`: make signing keys and sealing keys, and say whose surveys are published."""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser, Namespace
from collections import Counter

from deniable.server.cli.place import add_place, option
from deniable.shared.cli.verb import Verb
from deniable.shared.errors import Refused, WrongUse

PUBLIC = re.compile(r"[0-9a-f]{64}")

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
    enrol = actions.add_parser("enrol", help="publish what this key has signed, too")
    retire = actions.add_parser("retire", help="publish nothing more that this key has signed")
    for action in (enrol, retire):
        action.add_argument("key", metavar="KEY", help="the public key, in 64 hex digits")
    listed = actions.add_parser("list", help="list whose surveys are published")
    for action in (enrol, retire, listed):
        add_place(action)
    for action in (new, show, enrol, retire, listed):
        action.add_argument("--json", action="store_true", help="print one JSON document")


def run(chosen: Namespace) -> int:
    actions = {"list": _list, "enrol": _enrol, "retire": _retire}
    return actions.get(chosen.action, _file)(chosen)


def _file(chosen: Namespace) -> int:
    public = _sealing(chosen) if chosen.sealing else _signing(chosen)
    if chosen.json:
        print(json.dumps({"file": chosen.file, "key": public}))
    elif chosen.action == "new":
        said = SEALING if chosen.sealing else SIGNING
        print(said.format(public=public, file=chosen.file))
    else:
        print(public)
    return 0


def _list(chosen: Namespace) -> int:
    from deniable.server.glance import glance

    seen = glance(chosen.data)
    signed = Counter(each.key for each in seen.surveys if not each.closed)
    rows = [
        {
            "key": key,
            "state": "retired" if key in seen.retired else "enrolled",
            "surveys": signed[key],
        }
        for key in sorted(seen.enrolled | seen.retired | signed.keys())
    ]
    if chosen.json:
        print(json.dumps({"keys": rows}))
        return 0
    for row in rows:
        print(f"{row['key']}  {row['state']:8}  surveys not closed: {row['surveys']}")
    if not rows:
        print(f"no keys; enrol one: deniable keys enrol KEY {option(chosen.data)}")
    return 0


def _enrol(chosen: Namespace) -> int:
    from deniable.server.store import create_store

    if not PUBLIC.fullmatch(chosen.key):
        raise WrongUse("a public key is 64 hex digits; deniable keys show FILE prints it")
    with create_store(chosen.data) as store:
        store.enrol_key(chosen.key)
    _say(chosen, "enrolled", "ship it in the apps' Policy before it signs what they shall answer")
    return 0


def _retire(chosen: Namespace) -> int:
    from deniable.server.store import open_store

    with open_store(chosen.data) as store:
        if chosen.key not in store.enrolled_keys() | store.retired_keys():
            raise Refused("that key is not enrolled here; deniable keys list shows those that are")
        store.retire_key(chosen.key)
        left = sum(row.key == chosen.key and not row.closed for row in store.surveys())
    _say(
        chosen,
        "retired",
        f"surveys that it has signed and that are not closed: {left}. They go on; where the key "
        "was stolen, close those that are not yours",
    )
    return 0


def _say(chosen: Namespace, state: str, more: str) -> None:
    if chosen.json:
        print(json.dumps({"key": chosen.key, "state": state}))
    else:
        print(f"{chosen.key[:16]}… is {state}; {more}")


def _signing(chosen: Namespace) -> str:
    from deniable.shared.survey.keys import create_key, load_key, public_hex

    return public_hex((create_key if chosen.action == "new" else load_key)(chosen.file))


def _sealing(chosen: Namespace) -> str:
    from deniable.shared.survey.keys import (
        create_sealing_key,
        load_sealing_key,
        public_hex,
    )

    make = create_sealing_key if chosen.action == "new" else load_sealing_key
    return public_hex(make(chosen.file))


KEYS = Verb(
    "keys",
    "make signing and sealing keys, and list, enrol and retire them",
    arguments,
    run,
    example="deniable keys new signing-key.pem",
)
