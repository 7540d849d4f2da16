"""`deniable token`: make, list and revoke tokens."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from deniable.server.cli.store_arguments import add_place, option
from deniable.shared.cli.verb import Verb, add_json, show
from deniable.shared.errors import Refused, WrongUse

if TYPE_CHECKING:
    from deniable.server.store import Token

DAYS = 365
MOST_DAYS = 3_660


def arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="make a token; it is shown once")
    create.add_argument("--role", required=True, help="operator, analyst or app")
    create.add_argument(
        "--days", type=int, default=DAYS, help="until it expires (default: %(default)s)"
    )
    listed = actions.add_parser("list", help="list the tokens by their ids")
    revoke = actions.add_parser("revoke", help="revoke a token immediately")
    revoke.add_argument("token", metavar="ID", help="the id that `list` shows, or its beginning")
    for action in (create, listed, revoke):
        add_place(action)
    add_json(create, listed, revoke)


def run(args: Namespace) -> int:
    return {"create": _create, "list": _list, "revoke": _revoke}[args.action](args)


def _create(args: Namespace) -> int:
    from deniable.server.http.tokens import check_role, new_token
    from deniable.server.store import open_store

    role = check_role(args.role)
    if not 1 <= args.days <= MOST_DAYS:
        raise WrongUse(f"a token lasts 1 to {MOST_DAYS} days, got {args.days}")
    now = datetime.now(UTC)
    expires = now + timedelta(days=args.days)
    token = new_token()
    with open_store(args.data) as store:
        store.add_token(token, role, now, expires)
    made = {"token": token, "role": role, "expires": expires.isoformat(timespec="seconds")}
    if not args.json:  # on standard error, so that scripts get only the token
        print(f"role {role}, until {expires:%Y-%m-%d}; it is not shown again", file=sys.stderr)
    return show(args, made, [token])


def _list(args: Namespace) -> int:
    from deniable.server.store import open_store

    with open_store(args.data) as store:
        tokens = store.tokens()
    rows = [
        vars(token) | {"created": token.created.isoformat(), "expires": token.expires.isoformat()}
        for token in tokens
    ]
    empty = f"no tokens; make one: deniable token create --role analyst {option(args.data)}"
    return show(args, {"tokens": rows}, [_line(token) for token in tokens] or [empty])


def _line(token: Token) -> str:
    expired = " (expired)" if token.expires <= datetime.now(UTC) else ""
    return f"{token.id}  {token.role:8}  until {token.expires:%Y-%m-%d}{expired}"


def _revoke(args: Namespace) -> int:
    from deniable.server.store import open_store

    with open_store(args.data) as store:
        matches = [token for token in store.tokens() if token.id.startswith(args.token)]
        if len(matches) != 1 or not args.token:
            raise Refused(
                f"{len(matches)} tokens have an id that begins with {args.token!r}, and exactly "
                "one must; `deniable token list --data DIR` lists them all"
            )
        (token,) = matches
        store.revoke_token(token.id)
    document = {"revoked": token.id, "role": token.role}
    return show(args, document, [f"revoked {token.id} (role {token.role})"])


TOKEN = Verb(
    "token",
    "make, list and revoke tokens",
    arguments,
    run,
    example="deniable token create --role analyst --data ./data",
)
