"""What every page has in common: who sees it, who may act on it, and what it may load.

A form acts only with a token that pages of the same session have, made from the session's cookie,
and not where the browser says that another site has sent it: no other page can act for whoever is
signed in.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from functools import wraps
from hashlib import sha256
from typing import Any, ParamSpec, cast

from flask import (
    Blueprint,
    Response,
    g,
    has_request_context,
    redirect,
    render_template,
    request,
    url_for,
)
from flask.typing import ResponseReturnValue
from markupsafe import Markup

from deniable.server.http.auth import COOKIE, grants, signed_in_role
from deniable.server.pages import sessions
from deniable.shared.survey.phrases import upper_first

POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
SCRIPTS = "; script-src 'self'; connect-src 'self'"  # on pages that have any
FIELD = "form_token"
NOT_AN_OPERATOR = "This page is for operators, and you are signed in as an analyst"
NOT_FROM_HERE = "This did not come from a page of yours; open the page again and repeat it there"

P = ParamSpec("P")


def pages(name: str, *, public: tuple[str, ...] = ()) -> Blueprint:
    """A blueprint whose pages take signing in, but for those named."""
    blueprint = Blueprint(name, __name__)
    open_to_all = {f"{name}.{each}" for each in public}

    @blueprint.before_request
    def sign_in_first() -> ResponseReturnValue | None:
        return None if request.endpoint in open_to_all else sessions.sign_in_first()

    @blueprint.after_request
    def only_our_own(response: Response) -> Response:
        return restricted(response)

    @blueprint.app_context_processor
    def for_every_page() -> dict[str, Any]:  # Any: what templates read
        root = request.script_root if has_request_context() else ""
        return {
            "form_token": form_token, "is_operator": is_operator, "root": root, "script": script,
        }  # fmt: skip

    blueprint.add_app_template_filter(upper_first)
    return blueprint


def restricted(response: Response) -> Response:
    policy = POLICY + (SCRIPTS if g.get("scripts") else "")
    response.headers.setdefault("Content-Security-Policy", policy)
    return response


def script(name: str) -> Markup:
    """What makes a page handier, from a file of ours; the page allows it, and is whole without."""
    g.scripts = True
    address = url_for("static", filename=name)
    return Markup('<script src="{}" defer></script>').format(address)


def go(path: str) -> Response:
    """On to another of our pages, wherever a proxy has them."""
    return cast(Response, redirect(request.script_root + path, 303))


def is_operator() -> bool:
    return grants(signed_in_role(), "operator")


def form_token() -> str:
    """What a form of this session sends along; nothing of the cookie can be read from it."""
    cookie = request.cookies.get(COOKIE, "").encode()
    return hmac.new(cookie, b"form", sha256).hexdigest()


def for_operators(
    view: Callable[P, ResponseReturnValue],
) -> Callable[P, ResponseReturnValue]:
    """Only for them; and where it changes something, only from one of their own pages."""

    @wraps(view)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> ResponseReturnValue:
        if not is_operator():
            return refused(NOT_AN_OPERATOR)
        if request.method not in ("GET", "HEAD") and not _from_a_page_of_ours():
            return refused(NOT_FROM_HERE)
        return view(*args, **kwargs)

    return guarded


def refused(reason: str, status: int = 403) -> tuple[str, int]:
    return render_template("refused.html", reason=reason), status


def _from_a_page_of_ours() -> bool:
    sent = request.form.get(FIELD, "").encode()
    return hmac.compare_digest(sent, form_token().encode()) and not sessions.from_elsewhere()
