"""`deniable token`: make, list and revoke tokens."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from deniable.server.cli.store_arguments import add_place, option
from deniable.shared.cli.verb import Verb
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
    show = actions.add_parser("list", help="list the tokens by their ids")
    revoke = actions.add_parser("revoke", help="revoke a token immediately")
    revoke.add_argument("token", metavar="ID", help="the id that `list` shows, or its beginning")
    for action in (create, show, revoke):
        add_place(action)
        action.add_argument("--json", action="store_true", help="print one JSON document")


def run(chosen: Namespace) -> int:
    action = {"create": _create, "list": _list, "revoke": _revoke}[chosen.action]
    return action(chosen)


def _create(chosen: Namespace) -> int:
    from deniable.server.http.tokens import check_role, new_token
    from deniable.server.store import open_store

    role = check_role(chosen.role)
    if not 1 <= chosen.days <= MOST_DAYS:
        raise WrongUse(f"a token lasts 1 to {MOST_DAYS} days, got {chosen.days}")
    now = datetime.now(UTC)
    expires = now + timedelta(days=chosen.days)
    token = new_token()
    with open_store(chosen.data) as store:
        store.add_token(token, role, now, expires)
    made = {"token": token, "role": role, "expires": expires.isoformat(timespec="seconds")}
    if chosen.json:
        print(json.dumps(made))
    else:
        print(token)
        says = f"role {role}, until {expires:%Y-%m-%d}; it is not shown again"
        print(says, file=sys.stderr)  # so that a script has the token alone
    return 0


def _list(chosen: Namespace) -> int:
    from deniable.server.store import open_store

    with open_store(chosen.data) as store:
        tokens = store.tokens()
    if chosen.json:
        rows = [
            {
                "id": token.id,
                "role": token.role,
                "created": token.created.isoformat(),
                "expires": token.expires.isoformat(),
            }
            for token in tokens
        ]
        print(json.dumps({"tokens": rows}))
        return 0
    for token in tokens:
        expired = " (expired)" if token.expires <= datetime.now(UTC) else ""
        print(f"{token.id}  {token.role:8}  until {token.expires:%Y-%m-%d}{expired}")
    if not tokens:
        print(f"no tokens; make one: deniable token create --role analyst {option(chosen.data)}")
    return 0


def _revoke(chosen: Namespace) -> int:
    from deniable.server.store import open_store

    with open_store(chosen.data) as store:
        token = _the_one(store.tokens(), chosen.token)
        store.revoke_token(token.id)
    if chosen.json:
        print(json.dumps({"revoked": token.id, "role": token.role}))
    else:
        print(f"revoked {token.id} (role {token.role})")
    return 0


def _the_one(tokens: Sequence[Token], beginning: str) -> Token:
    """The token whose id begins so; exactly one must."""
    found = [token for token in tokens if token.id.startswith(beginning)]
    if len(found) != 1 or not beginning:
        raise Refused(
            f"{len(found)} tokens have an id that begins with {beginning!r}, and exactly one must; "
            "`deniable token list --data DIR` lists them all"
        )
    return found[0]


TOKEN = Verb(
    "token",
    "make, list and revoke tokens",
    arguments,
    run,
    example="deniable token create --role analyst --data ./data",
)
