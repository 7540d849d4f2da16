"""Signing in to the pages: a token, kept in a cookie that no script can read."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

from flask import Response, make_response, redirect, render_template, request
from flask.typing import ResponseReturnValue

from deniable.server.http.auth import COOKIE, GRANTS, grants, role_of, signed_in_role

NO_SUCH_TOKEN = "This token is not known here, or it has expired."  # noqa: S105 - a sentence
NOT_FOR_PAGES = (
    "This token is for apps that send reports; the pages need an analyst's or an operator's."
)


def sign_in_first() -> ResponseReturnValue | None:
    """Before every page: take a token out of the address, or ask for one."""
    if "token" in request.args:
        rest = urlencode(
            [(key, value) for key, value in request.args.items(True) if key != "token"]
        )
        return sign_in(request.args["token"], request.path + (f"?{rest}" if rest else ""))
    if signed_in_role() is None:
        return sign_in_page(None, request.full_path.rstrip("?"))
    return None


def sign_in(token: str, target: str) -> ResponseReturnValue:
    """Set the cookie, and go on to the address without the token in it."""
    role = role_of(token.strip())
    if not grants(role, "analyst"):
        return sign_in_page(NOT_FOR_PAGES if role in GRANTS else NO_SUCH_TOKEN, target)
    response = make_response(redirect(inside(target), 303))
    secure = request.is_secure or request.headers.get("X-Forwarded-Proto") == "https"
    response.set_cookie(COOKIE, token.strip(), httponly=True, samesite="Strict", secure=secure)
    return response


def sign_out() -> Response:
    response = make_response(redirect("/", 303))
    response.delete_cookie(COOKIE, httponly=True, samesite="Strict")
    return response


def sign_in_page(problem: str | None, target: str) -> tuple[str, int]:
    return render_template("sign_in.html", problem=problem, target=inside(target)), 401


def inside(target: str) -> str:
    """An address of this server, whatever was asked for.

    >>> inside("/surveys/ab?round=3"), inside("//elsewhere.example"), inside("https://x.example")
    ('/surveys/ab?round=3', '/', '/')
    """
    parts = urlsplit(target.replace("\\", "/"))
    local = not parts.scheme and not parts.netloc and target.startswith("/")
    return target if local and target.isprintable() else "/"
