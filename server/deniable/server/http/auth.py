"""Who may do what: bearer tokens with a role; for pages, a session that began with one.

operator   publishes and closes surveys, and whatever an analyst may
analyst    reads results and counters
app        sends many reports in one envelope; nothing else
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, cast

from flask import g, request
from flask.typing import ResponseReturnValue

from deniable.server.http.context import Parts, parts
from deniable.server.http.messages import problem
from deniable.shared.errors import WrongUse

COOKIE = "deniable_session"
GRANTS = {
    "operator": frozenset({"operator", "analyst"}),
    "analyst": frozenset({"analyst"}),
    "app": frozenset({"app"}),
}
ROLES = tuple(GRANTS)
_TOKEN = re.compile(r"[A-Za-z0-9_-]{20,200}", re.ASCII)

P = ParamSpec("P")


def new_token() -> str:
    """256 random bits, written so that they can be pasted anywhere: after `--token` too, where what
    begins with a dash would be another option."""
    return secrets.token_hex(32)


def check_role(role: str) -> str:
    if role not in GRANTS:
        raise WrongUse(f"a role must be one of {', '.join(ROLES)}; got {role!r}")
    return role


def grants(role: str | None, wanted: str) -> bool:
    """Whether somebody in this role may do what takes the wanted one."""
    return wanted in GRANTS.get(role or "", ())


def role_of(token: str) -> str | None:
    """The role of a token that is known here and has not expired."""
    return _role(token, parts())


def bearer_role() -> str | None:
    """The role of this request's `Authorization: Bearer`, if its token is valid."""
    return authorized_role(request.headers.get("Authorization", ""), parts())


def authorized_role(authorization: str, here: Parts) -> str | None:
    """The role of the token in such a header, if it is valid."""
    scheme, _, token = authorization.partition(" ")
    return _role(token.strip(), here) if scheme.lower() == "bearer" else None


def _role(token: str, here: Parts) -> str | None:
    return here.store.role_of(token, here.clock.now()) if _TOKEN.fullmatch(token) else None


def signed_in_role() -> str | None:
    """Return the role of the session's cookie, or of the bearer token, if it is an operator or an
    analyst. Pages ask several times; it is looked up once per request."""
    if "signed_in_role" not in g:
        session = parts().sessions.token(request.cookies.get(COOKIE, ""))
        role = role_of(session) or bearer_role()
        g.signed_in_role = role if grants(role, "analyst") else None
    return cast("str | None", g.signed_in_role)


def require(
    wanted: str,
) -> Callable[[Callable[P, ResponseReturnValue]], Callable[P, ResponseReturnValue]]:
    """For views under /v1: answer 401 without a valid token, 403 with one of another role.

    Reading with a session's cookie is allowed, so that pages can link to JSON and CSV. Changing is
    not: a browser sends a cookie along with a request that any page has made.
    """

    def decorate(view: Callable[P, ResponseReturnValue]) -> Callable[P, ResponseReturnValue]:
        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> ResponseReturnValue:
            reading = request.method in ("GET", "HEAD")
            role = bearer_role() or (signed_in_role() if reading else None)
            if role is None:
                return problem(
                    401, f"send a token with the role {wanted}: Authorization: Bearer TOKEN"
                )
            if not grants(role, wanted):
                return problem(403, f"this takes the role {wanted}, and the token's role is {role}")
            return view(*args, **kwargs)

        return guarded

    return decorate
