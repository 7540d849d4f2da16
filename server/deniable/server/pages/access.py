"""Access to pages: signing in, permission to act, and what a page may load.

A token starts a session, whose cookie no script can read. A form needs a form token, which is made
from the session's cookie and appears only on pages of that session. The server also refuses a form
if the browser reports that another site sent it. So no other site can act for a signed-in person.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from hashlib import sha256
from typing import Any, ParamSpec, cast
from urllib.parse import urlencode, urlsplit

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

from deniable.server.http.context import COOKIE, parts, reader_role
from deniable.server.http.messages import PAGE_POLICY
from deniable.server.http.tokens import grants, used_token
from deniable.shared.errors import StoreUnusable, quantity
from deniable.shared.privacy.epsilon import odds_factor
from deniable.shared.survey.phrases import upper_first

SCRIPTS = "; script-src 'self'; connect-src 'self'"  # added on pages with scripts
FIELD = "form_token"
NOT_AN_OPERATOR = "This page is for operators, but you are signed in as an analyst"
NOT_FROM_HERE = "This form is not from your session; reload its page and submit it again"
UNKNOWN_TOKEN = "This token is unknown, or it has expired."  # noqa: S105 - a sentence
OTHER_SITE = "Another site sent you here to sign in. If you intended this, sign in here."
APP_TOKEN = (
    "This token is for apps that send reports; pages need the token of an analyst or an operator."  # noqa: S105 - a sentence
)

P = ParamSpec("P")


def pages(name: str, *, public: tuple[str, ...] = ()) -> Blueprint:
    """Return a blueprint whose views require signing in, except those in `public`."""
    blueprint = Blueprint(name, __name__)
    open_to_all = {f"{name}.{view}" for view in public}

    @blueprint.before_request
    def require_session() -> ResponseReturnValue | None:
        return None if request.endpoint in open_to_all else sign_in_first()

    @blueprint.app_context_processor
    def for_every_page() -> dict[str, Any]:  # Any: values for templates
        return {
            "form_token": form_token,
            "is_operator": is_operator,
            "root": request.script_root if has_request_context() else None,
            "script": script,
            "static_file": static_file,
        }

    blueprint.after_request(restricted)
    blueprint.add_app_template_filter(odds_factor)
    blueprint.add_app_template_filter(upper_first)
    blueprint.add_app_template_filter(quantity)
    return blueprint


def restricted(response: Response) -> Response:
    """Forbid a page from loading anything from other origins."""
    policy = PAGE_POLICY + (SCRIPTS if g.get("scripts") else "")
    response.headers.setdefault("Content-Security-Policy", policy)
    return response


def static_file(name: str) -> str:
    """Return the address of a static file; outside requests, relative to a public page."""
    return url_for("static", filename=name) if has_request_context() else f"../static/{name}"


def script(name: str) -> Markup:
    """Return the tag of a script, and allow scripts on this page."""
    g.scripts = True
    return Markup('<script src="{}" defer></script>').format(static_file(name))


def go(path: str) -> Response:
    """Redirect to another page of the server, below the base path."""
    return cast(Response, redirect(request.script_root + path, 303))


# Acting


def is_operator() -> bool:
    return grants(reader_role(), "operator")


def form_token() -> str:
    """Return the token that forms of this session send; it does not reveal the cookie."""
    cookie = request.cookies.get(COOKIE, "").encode()
    return hmac.new(cookie, b"form", sha256).hexdigest()


def for_operators(view: Callable[P, ResponseReturnValue]) -> Callable[P, ResponseReturnValue]:
    """Restrict a view to operators, and its changes to requests from forms of the same session."""
    from_form = from_own_form(view)

    @wraps(view)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> ResponseReturnValue:
        return from_form(*args, **kwargs) if is_operator() else refused(NOT_AN_OPERATOR)

    return guarded


def from_own_form(view: Callable[P, ResponseReturnValue]) -> Callable[P, ResponseReturnValue]:
    """Restrict a view's changes to requests from forms of the same session."""

    @wraps(view)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> ResponseReturnValue:
        if request.method not in ("GET", "HEAD"):
            sent = request.form.get(FIELD, "").encode()
            if not hmac.compare_digest(sent, form_token().encode()) or from_other_site():
                return refused(NOT_FROM_HERE)
        return view(*args, **kwargs)

    return guarded


def refused(reason: str, status: int = 403) -> tuple[str, int]:
    return render_template("refused.html", reason=reason), status


def missing(reason: str) -> tuple[str, int]:
    return render_template("missing.html", reason=upper_first(reason)), 404


# Signing in


def sign_in_first() -> ResponseReturnValue | None:
    """Sign in with a token in the address, or ask for one; return None if already signed in."""
    if "token" in request.args and not from_other_site():
        rest = urlencode(
            [(key, value) for key, value in request.args.items(True) if key != "token"]
        )
        return sign_in(request.args["token"], request.path + (f"?{rest}" if rest else ""))
    if reader_role() is None:
        target = request.path if "token" in request.args else request.full_path.rstrip("?")
        return sign_in_page(None, target)
    return None


def sign_in(token: str, target: str) -> ResponseReturnValue:
    """Set the cookie, and redirect to the address without the token."""
    if from_other_site():
        return sign_in_page(OTHER_SITE, "/")
    here = parts()
    found = used_token(token.strip(), here.store, here.clock.now())
    if found is None or not grants(found.role, "analyst"):
        return sign_in_page(APP_TOKEN if found else UNKNOWN_TOKEN, target)
    with suppress(StoreUnusable):  # a full disk does not keep an operator out
        here.store.record_sign_in(found.name)
    response = go(local_target(target))
    secure = request.is_secure or request.headers.get("X-Forwarded-Proto") == "https"
    cookie, path = here.sessions.begin(token.strip()), request.script_root or "/"
    response.set_cookie(COOKIE, cookie, path=path, httponly=True, samesite="Strict", secure=secure)
    return response


def sign_out() -> Response:
    if not from_other_site():
        parts().sessions.end(request.cookies.get(COOKIE, ""))
    response, path = go("/"), request.script_root or "/"
    response.delete_cookie(COOKIE, path=path, httponly=True, samesite="Strict")
    return response


def sign_in_page(problem: str | None, target: str) -> tuple[str, int]:
    return render_template("sign_in.html", problem=problem, target=local_target(target)), 401


def local_target(target: str) -> str:
    """Return the target if it is an address of this server, else the first page.

    >>> local_target("/surveys/ab?round=3"), local_target("//elsewhere.example")
    ('/surveys/ab?round=3', '/')
    >>> local_target("https://elsewhere.example")
    '/'
    """
    local = target.startswith("/") and not target.startswith(("//", "/\\"))
    return target if local and target.isprintable() else "/"


def from_other_site() -> bool:
    """Return whether a page of another site made the browser send this request.

    Such a page could sign its reader in as someone else. A request for an address that a person
    typed, pasted or clicked in a terminal comes from no site.
    """
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc != request.host
