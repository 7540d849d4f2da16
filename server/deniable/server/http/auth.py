"""Access to the reader: bearer tokens with a role; for pages, a session that began with one.

The caller is looked up once in each request (`caller`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, ParamSpec, cast

from flask import g, request
from flask.typing import ResponseReturnValue

from deniable.server.http.context import parts
from deniable.server.http.messages import HttpError
from deniable.server.http.tokens import authorized_role, grants, role_of

COOKIE = "deniable_session"

P = ParamSpec("P")


class Caller(NamedTuple):
    role: str | None  # None: no valid token
    has_session: bool = False  # the role is that of a session, whose cookie a browser sends along


def caller() -> Caller:
    """Return who has sent this request: by its token, else by its session."""
    if "caller" not in g:
        g.caller = _look_up()
    return cast(Caller, g.caller)


def reader_role() -> str | None:
    """Return the caller's role, if it may read pages: operator or analyst."""
    role = caller().role
    return role if grants(role, "analyst") else None


def require(
    wanted: str,
) -> Callable[[Callable[P, ResponseReturnValue]], Callable[P, ResponseReturnValue]]:
    """Guard a view under /v1: answer 401 without a valid token, 403 with one of another role.

    Reading with a session's cookie is allowed, so that pages can link to JSON and CSV. Changing is
    not: a browser sends a cookie along with a request that any page has made.
    """

    def decorate(view: Callable[P, ResponseReturnValue]) -> Callable[P, ResponseReturnValue]:
        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> ResponseReturnValue:
            role, has_session = caller()
            changes = request.method not in ("GET", "HEAD")
            if role is None or (has_session and (changes or not grants(role, "analyst"))):
                raise HttpError(
                    401, f"send a token with the role {wanted}: Authorization: Bearer TOKEN"
                )
            if not grants(role, wanted):
                raise HttpError(
                    403, f"this takes the role {wanted}, and the token's role is {role}"
                )
            return view(*args, **kwargs)

        return guarded

    return decorate


def _look_up() -> Caller:
    here = parts()
    now = here.clock.now()
    header = request.headers.get("Authorization", "")
    if header and (role := authorized_role(header, here.store, now)):
        return Caller(role)
    if token := here.sessions.token(request.cookies.get(COOKIE, "")):
        return Caller(role_of(token, here.store, now), has_session=True)
    return Caller(None)
