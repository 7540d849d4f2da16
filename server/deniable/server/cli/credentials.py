"""`deniable keys` and `deniable token`: manage the keys and tokens that a server accepts."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from deniable.server.cli.store_arguments import add_place, opened, option
from deniable.shared.cli.verb import Verb, add_json, show
from deniable.shared.errors import Refused, WrongUse

if TYPE_CHECKING:
    from deniable.server.store import Token

DEFAULT_DAYS = 365
PUBLIC_KEY = re.compile(r"[0-9a-f]{64}")

SIGNING = (
    "{public}\nis the public key, for Policy(keys=[...]) in the app. The signing key is in "
    "{file}: keep a copy of it, but not on the server."
)
SEALING = (
    '{public}\nis the public key, for surveys: sealed_to = "{public}". The sealing key is in\n'
    "{file}: keep a copy, and start the server with it: deniable serve --sealing-key {file}.\n"
    "Backups of the data do not contain it, and nothing else opens sealed reports."
)


def keys_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    new = actions.add_parser("new", help="create a signing key; do not store it on the server")
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


def run_keys(args: Namespace) -> int:
    actions = {"list": _list_keys, "enrol": _enrol, "retire": _retire}
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


def _list_keys(args: Namespace) -> int:
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
    lines = ["{key}  {state:8}  surveys not closed: {surveys}".format(**row) for row in rows]
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
        f"{left} of its surveys stay open. If the key was stolen, close the surveys that are not "
        "yours"
    )
    return _state(args, "retired", advice)


def _state(args: Namespace, state: str, advice: str) -> int:
    document = {"key": args.key, "state": state}
    return show(args, document, [f"{args.key[:16]}… is {state}; {advice}"])


def token_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="create a token; it is shown only once")
    create.add_argument("--role", required=True, help="operator, analyst or app")
    create.add_argument(
        "--days", type=int, default=DEFAULT_DAYS, help="until it expires (default: %(default)s)"
    )
    create.add_argument(
        "--name", default="", help="its name in lists and in the audit log (default: its id)"
    )
    create.add_argument(
        "--label",
        default="",
        metavar="NAME=VALUE",
        help="for an app token: the class of installs that it stands for, such as channel=ci",
    )
    create.add_argument(
        "--limit",
        type=int,
        default=0,
        metavar="N",
        help="for an app token: maximum reports of each survey per hour (default: no limit)",
    )
    listed = actions.add_parser("list", help="list the tokens with their ids")
    revoke = actions.add_parser("revoke", help="revoke a token immediately")
    revoke.add_argument("token", metavar="ID", help="the id that `list` shows, or its beginning")
    for action in (create, listed, revoke):
        add_place(action)
    add_json(create, listed, revoke)


def run_token(args: Namespace) -> int:
    actions = {"create": _create_token, "list": _list_tokens, "revoke": _revoke_token}
    return actions[args.action](args)


def _create_token(args: Namespace) -> int:
    from deniable.server.http.tokens import (
        MAX_TOKEN_DAYS,
        check_class,
        check_name,
        check_role,
        new_token,
    )
    from deniable.server.store import open_store

    role, name = check_role(args.role), check_name(args.name)
    if not 1 <= args.days <= MAX_TOKEN_DAYS:
        raise WrongUse(f"a token lasts 1 to {MAX_TOKEN_DAYS} days, got {args.days}")
    check_class(role, args.label, args.limit)
    token, now = new_token(), datetime.now(UTC)
    expires = now + timedelta(days=args.days)
    with open_store(args.data) as store:
        store.add_token(token, role, now, expires, name, label=args.label, limit=args.limit)
    made = {
        "token": token,
        "name": name,
        "role": role,
        "expires": expires.isoformat(timespec="seconds"),
    }
    if not args.json:  # on standard error, so that scripts get only the token
        print(f"role {role}, until {expires:%Y-%m-%d}; it is not shown again", file=sys.stderr)
        if args.label:
            bound = args.label.partition("=")[0]
            warning = f"from now on, reports that name any {bound} need a token bound to its value"
            print(warning, file=sys.stderr)
    return show(args, made, [token])


def _list_tokens(args: Namespace) -> int:
    from deniable.server.store import open_store

    with open_store(args.data) as store:
        tokens = store.tokens()
    rows = [
        vars(token)
        | {"created": token.created.isoformat(), "expires": token.expires.isoformat()}
        | {"used": token.used and token.used.isoformat()}
        for token in tokens
    ]
    empty = f"no tokens; create one: deniable token create --role analyst {option(args.data)}"
    return show(args, {"tokens": rows}, [_token_line(token) for token in tokens] or [empty])


def _token_line(token: Token) -> str:
    expired = " (expired)" if token.expires <= datetime.now(UTC) else ""
    used = f"last used {token.used}" if token.used else "never used"
    name = "" if token.name == token.id else f"  {token.name}"
    installs = f"  {token.label}" if token.label else ""
    limit = f"  at most {token.limit:,} an hour" if token.limit else ""
    until = f"until {token.expires:%Y-%m-%d}{expired}, {used}"
    return f"{token.id}  {token.role:8}  {until}{name}{installs}{limit}"


def _revoke_token(args: Namespace) -> int:
    from deniable.server.store import open_store

    with open_store(args.data) as store:
        matches = [token for token in store.tokens() if token.id.startswith(args.token)]
        if len(matches) != 1 or not args.token:
            raise Refused(
                f"the ids of {len(matches)} tokens begin with {args.token!r}, but exactly one "
                "must; `deniable token list --data DIR` lists all tokens"
            )
        (token,) = matches
        store.revoke_token(token.id)
        bound = any(other.id == token.id for other in store.tokens())
    document = {"revoked": token.id, "name": token.name, "role": token.role}
    lines = [f"revoked {token.id} (role {token.role})"]
    if bound:
        document["still_bound"] = token.label
        name, _, value = token.label.partition("=")
        lines.append(
            f"reports still need a token to name {value} or another {name}; to let anyone name "
            "them, revoke each token of this label once more"
        )
    return show(args, document, lines)


def audit_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    add_json(parser)


def run_audit(args: Namespace) -> int:
    from deniable.server.store import named_surveys

    with opened(args) as (store, catalogue):
        entries = named_surveys(store.audit(), catalogue.surveys())
    rows = [entry._asdict() | {"day": entry.day.isoformat()} for entry in entries]
    lines = ["{day}  {actor:20}  {action:16}  {subject}".format(**row).rstrip() for row in rows]
    return show(args, {"audit": rows}, lines or ["the audit log is empty"])


KEYS = Verb(
    "keys",
    "create, list, enrol and retire keys",
    keys_arguments,
    run_keys,
    group="server",
    example="deniable keys new signing-key.pem",
)
TOKEN = Verb(
    "token",
    "create, list and revoke tokens",
    token_arguments,
    run_token,
    group="server",
    example="deniable token create --role analyst --data ./data",
)
AUDIT = Verb(
    "audit",
    "show who published, closed, deleted, revoked or signed in, and on which day",
    audit_arguments,
    run_audit,
    group="server",
    example="deniable audit --data ./data",
)
