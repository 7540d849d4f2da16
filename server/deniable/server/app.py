"""The Flask application: every view, around one store and one writer."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from flask import Flask, Response, request
from jinja2 import StrictUndefined
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from deniable.server.http import envelopes, operations, register, results, surveys
from deniable.server.http.app_tokens import AppTokens
from deniable.server.http.context import EXTENSION, Parts
from deniable.server.http.messages import HttpError, problem, problem_of
from deniable.server.http.sessions import Sessions
from deniable.server.intake.limits import Limits
from deniable.server.intake.metrics import Metrics
from deniable.server.intake.writer import Writer
from deniable.server.pages import (
    dashboard,
    downloads,
    operator_pages,
    planner,
    waiting_page,
)
from deniable.server.pages import public_pages as pages_for_anyone
from deniable.server.results import EstimateCache
from deniable.server.results.annotations import ReferenceValues
from deniable.server.results.forgery import ForgeryMonitor
from deniable.server.store import Store
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.clock import Clock
from deniable.shared.envelope import MAX_BODY_BYTES
from deniable.shared.errors import StoreUnusable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

log = logging.getLogger("deniable.server")


def create_app(
    store: Store,
    catalogue: Catalogue,
    writer: Writer,
    clock: Clock | None = None,
    limits: Limits | None = None,
    sealing: Mapping[bytes, X25519PrivateKey] | None = None,
    *,
    public_pages: bool = False,
    known: ReferenceValues | None = None,
) -> Flask:
    """The application; its caller starts and stops the writer."""
    app = Flask("deniable.server.pages")  # its templates and static files
    # One more than may come: the framework stops at its limit in silence, `read_body` does not.
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES + 1
    app.jinja_env.undefined = StrictUndefined  # a wrong name is an error, not nothing
    app.json.sort_keys = False  # type: ignore[attr-defined]  # the default provider has it
    time = clock or Clock()
    metrics, estimates = Metrics(writer, time), EstimateCache()
    app.extensions[EXTENSION] = Parts(
        store,
        catalogue,
        writer,
        time,
        metrics,
        ForgeryMonitor(store, catalogue, time, metrics.forged, estimates),
        Sessions(time),
        AppTokens(time),
        limits,
        known or ReferenceValues(),
        estimates,
        sealing or {},
    )
    api = (envelopes, surveys, register, operations, results)
    for part in (*api, dashboard, downloads, operator_pages, planner, waiting_page):
        app.register_blueprint(part.blueprint)
    app.register_blueprint(pages_for_anyone.problems)
    if public_pages:
        app.register_blueprint(pages_for_anyone.blueprint)
    app.register_error_handler(HttpError, _http_problem)
    app.register_error_handler(StoreUnusable, _store_unusable)
    app.register_error_handler(HTTPException, _http_error)
    app.after_request(_secure)
    return app


def _http_problem(error: HttpError) -> Response:
    return problem_of(error)


def _store_unusable(error: StoreUnusable) -> Response:
    log.error("%s", error)
    return problem(503, "the store cannot be read or written now; try again later")


def _http_error(error: HTTPException) -> Response:
    """Errors of the framework, in the form of our own; what it says of an input is left out."""
    status = error.code or 500
    if status < 400:  # a redirect to the address as it is written
        return cast(Response, error.get_response())
    response = problem(status, _DETAILS.get(status, "the request cannot be answered"))
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        response.headers["Allow"] = ", ".join(error.valid_methods)
    return response


_DETAILS = {
    404: "there is nothing at this address; /v1/openapi.json lists what there is",
    405: "this address does not take that method; /v1/openapi.json lists what there is",
    413: f"a body has at most {MAX_BODY_BYTES} bytes; split it into several",
    500: "the server made a mistake, which is in its log; nothing was counted",
}


def _secure(response: Response) -> Response:
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)
    if request.endpoint != "static":
        response.headers.setdefault("Cache-Control", "no-store")
    return response
