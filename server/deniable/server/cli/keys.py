"""`deniable keys`: make signing and sealing keys, and manage the keys that a server trusts."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections import Counter

from deniable.server.cli.store_arguments import add_place, option
from deniable.shared.cli.verb import Verb, add_json, show
from deniable.shared.errors import Refused, WrongUse

PUBLIC_KEY = re.compile(r"[0-9a-f]{64}")

SIGNING = (
    "{public}\nis the public key, for Policy(keys=[...]) in the app. The signing key is in "
    "{file}: keep a copy, and keep it away from the server."
)
SEALING = (
    '{public}\nis the public key, for surveys: sealed_to = "{public}". The sealing key is in\n'
    "{file}: keep a copy, and start the server with it: deniable serve --sealing-key {file}.\n"
    "Backups of the data do not contain it, and without it sealed reports cannot be opened."
)


def arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    new = actions.add_parser("new", help="make a signing key; keep it away from the server")
    show_ = actions.add_parser("show", help="print the public key that apps trust")
    for action in (new, show_):
        action.add_argument("file", metavar="FILE", help="the key, in PEM form")
        action.add_argument(
            "--sealing",
            action="store_true",
            help="a sealing key: apps seal reports to it, and the server opens them",
        )
    enrol = actions.add_parser("enrol", help="accept surveys that this key has signed")
    retire = actions.add_parser("retire", help="accept no further surveys that this key has signed")
    for action in (enrol, retire):
        action.add_argument("key", metavar="KEY", help="the public key, 64 hex digits")
    listed = actions.add_parser("list", help="list the keys and the number of their surveys")
    for action in (enrol, retire, listed):
        add_place(action)
    add_json(new, show_, enrol, retire, listed)


def run(args: Namespace) -> int:
    actions = {"list": _list, "enrol": _enrol, "retire": _retire}
    return actions.get(args.action, _file)(args)


def _file(args: Namespace) -> int:
    from deniable.shared.survey import keys

    new = args.action == "new"
    signing = keys.create_key if new else keys.load_key
    sealing = keys.create_sealing_key if new else keys.load_sealing_key
    file = args.file
    public = keys.public_hex(sealing(file) if args.sealing else signing(file))
    text = "{public}" if args.action == "show" else SEALING if args.sealing else SIGNING
    return show(args, {"file": file, "key": public}, [text.format(public=public, file=file)])


def _list(args: Namespace) -> int:
    from deniable.server.store import open_store

    with open_store(args.data) as store, store.snapshot() as reader:
        open_surveys = Counter(row.key for row in reader.surveys() if not row.closed)
        enrolled, retired = reader.enrolled_keys(), reader.retired_keys()
    states = {
        key: "retired" if key in retired else "enrolled"
        for key in sorted(enrolled | retired | open_surveys.keys())
    }
    rows = [
        {"key": key, "state": state, "surveys": open_surveys[key]} for key, state in states.items()
    ]
    lines = [
        f"{key}  {state:8}  surveys not closed: {open_surveys[key]}"
        for key, state in states.items()
    ]
    empty = f"no keys; enrol one: deniable keys enrol KEY {option(args.data)}"
    return show(args, {"keys": rows}, lines or [empty])


def _enrol(args: Namespace) -> int:
    from deniable.server.store import create_store

    if not PUBLIC_KEY.fullmatch(args.key):
        raise WrongUse("a public key must be 64 hex digits; deniable keys show FILE prints it")
    with create_store(args.data) as store:
        store.enrol_key(args.key)
    return _state(args, "enrolled", "add it to your apps' Policy before it signs their surveys")


def _retire(args: Namespace) -> int:
    from deniable.server.store import open_store

    with open_store(args.data) as store:
        if args.key not in store.enrolled_keys() | store.retired_keys():
            raise Refused(
                "that key is not enrolled here; deniable keys list shows the enrolled keys"
            )
        store.retire_key(args.key)
        left = sum(row.key == args.key and not row.closed for row in store.surveys())
    advice = (
        f"{left} of its surveys are not closed and stay open. If the key was stolen, close the "
        "surveys that are not yours"
    )
    return _state(args, "retired", advice)


def _state(args: Namespace, state: str, advice: str) -> int:
    document = {"key": args.key, "state": state}
    return show(args, document, [f"{args.key[:16]}… is {state}; {advice}"])


KEYS = Verb(
    "keys",
    "make, list, enrol and retire keys",
    arguments,
    run,
    example="deniable keys new signing-key.pem",
)
