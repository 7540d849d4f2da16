"""Signing in to the pages: a token begins a session, whose cookie no script can read."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

from flask import Response, make_response, redirect, render_template, request
from flask.typing import ResponseReturnValue

from deniable.server.http.auth import COOKIE, GRANTS, grants, role_of, signed_in_role
from deniable.server.http.context import parts

NO_SUCH_TOKEN = "This token is not known here, or it has expired."  # noqa: S105 - a sentence
FROM_ELSEWHERE = "Another site sent you here to sign in; if that is what you want, do it here."
NOT_FOR_PAGES = (
    "This token is for apps that send reports; the pages need an analyst's or an operator's."
)


def sign_in_first() -> ResponseReturnValue | None:
    """Before every page: take a token out of the address, or ask for one."""
    if "token" in request.args and not from_elsewhere():
        rest = urlencode(
            [(key, value) for key, value in request.args.items(True) if key != "token"]
        )
        return sign_in(request.args["token"], request.path + (f"?{rest}" if rest else ""))
    if signed_in_role() is None:
        target = request.path if "token" in request.args else request.full_path.rstrip("?")
        return sign_in_page(None, target)
    return None


def sign_in(token: str, target: str) -> ResponseReturnValue:
    """Set the cookie, and go on to the address without the token in it."""
    if from_elsewhere():
        return sign_in_page(FROM_ELSEWHERE, "/")
    role = role_of(token.strip())
    if not grants(role, "analyst"):
        return sign_in_page(NOT_FOR_PAGES if role in GRANTS else NO_SUCH_TOKEN, target)
    response = make_response(redirect(request.script_root + inside(target), 303))
    secure = request.is_secure or request.headers.get("X-Forwarded-Proto") == "https"
    cookie, path = parts().sessions.begin(token.strip()), request.script_root or "/"
    response.set_cookie(COOKIE, cookie, path=path, httponly=True, samesite="Strict", secure=secure)
    return response


def sign_out() -> Response:
    if not from_elsewhere():
        parts().sessions.end(request.cookies.get(COOKIE, ""))
    response = make_response(redirect(f"{request.script_root}/", 303))
    path = request.script_root or "/"
    response.delete_cookie(COOKIE, path=path, httponly=True, samesite="Strict")
    return response


def sign_in_page(problem: str | None, target: str) -> tuple[str, int]:
    return render_template("sign_in.html", problem=problem, target=inside(target)), 401


def inside(target: str) -> str:
    """An address of this server, whatever was asked for.

    >>> inside("/surveys/ab?round=3"), inside("//elsewhere.example"), inside("https://x.example")
    ('/surveys/ab?round=3', '/', '/')
    """
    local = target.startswith("/") and not target.startswith(("//", "/\\"))
    return target if local and target.isprintable() else "/"


def from_elsewhere() -> bool:
    """Whether a page of another site has made the browser send this: it would sign its reader in
    as somebody else. What was typed, pasted or clicked in a terminal comes from nowhere."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc != request.host
