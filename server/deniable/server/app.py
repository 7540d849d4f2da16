"""The reader's Flask application: every view for people and their programs, around one store."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import cast
from uuid import uuid4

from flask import Flask, Response, request
from jinja2 import StrictUndefined
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from deniable.server.http import api
from deniable.server.http.context import EXTENSION, Parts, ReaderMetrics, problem
from deniable.server.http.messages import (
    BUSY,
    REQUEST_ID,
    SECURITY_HEADERS,
    UNUSABLE,
    HttpError,
)
from deniable.server.http.tokens import Sessions
from deniable.server.intake.status import IntakeStatus
from deniable.server.pages import (
    dashboard,
    downloads,
    operator_pages,
    planner,
    public_pages,
    waiting_page,
)
from deniable.server.results import EstimateCache
from deniable.server.results.annotations import ReferenceValues
from deniable.server.results.forgery import ForgeryMonitor
from deniable.server.store import Store
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.clock import Clock
from deniable.shared.envelope import MAX_BODY_BYTES
from deniable.shared.errors import StoreUnusable

DETAILS = {
    404: "there is nothing at this address; /v1/openapi.json lists what there is",
    405: "this address does not take that method; /v1/openapi.json lists what there is",
    413: f"a body has at most {MAX_BODY_BYTES} bytes; split it into several",
    500: "the server made a mistake, which is in its log; nothing was counted",
}

log = logging.getLogger("deniable.server")


def create_app(
    store: Store,
    catalogue: Catalogue,
    intake_status: Callable[[], IntakeStatus],
    clock: Clock | None = None,
    *,
    has_public_pages: bool = False,
    known: ReferenceValues | None = None,
    device_url: str = "",
) -> Flask:
    """Return the application. `intake_status` says how the process does that takes reports."""
    app = Flask("deniable.server.pages")  # its templates and static files
    # One more than may come: the framework stops at its limit in silence, `read_body` does not.
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES + 1
    app.jinja_env.undefined = StrictUndefined  # a wrong name is an error, not nothing
    app.json.sort_keys = False  # type: ignore[attr-defined]  # the default provider has it
    time = clock or Clock()
    metrics, estimates = ReaderMetrics(intake_status, time), EstimateCache()
    app.extensions[EXTENSION] = Parts(
        store=store,
        catalogue=catalogue,
        clock=time,
        metrics=metrics,
        forgery=ForgeryMonitor(store, catalogue, time, metrics.forged, estimates),
        sessions=Sessions(time),
        intake_status=intake_status,
        known=known or ReferenceValues(),
        estimates=estimates,
        device_url=device_url,
        public_pages=has_public_pages,
    )
    for part in (api, dashboard, downloads, operator_pages, planner, public_pages, waiting_page):
        app.register_blueprint(part.blueprint)
    app.register_error_handler(HttpError, problem)
    app.register_error_handler(StoreUnusable, _store_unusable)
    app.register_error_handler(MemoryError, _out_of_memory)
    app.register_error_handler(HTTPException, _http_error)
    app.before_request(_begin_request)
    app.teardown_request(_end_request)
    app.after_request(_secure)
    return app


def _begin_request() -> None:
    REQUEST_ID.set(f"urn:uuid:{uuid4()}")


def _end_request(_: BaseException | None) -> None:
    REQUEST_ID.set("")


def _store_unusable(error: StoreUnusable) -> Response:
    log.error("%s", error)
    return problem(HttpError(503, UNUSABLE))


def _out_of_memory(_: MemoryError) -> Response:
    log.error("an answer would have taken more memory than the reader may use")
    return problem(HttpError(503, BUSY))


def _http_error(error: HTTPException) -> Response:
    """Convert an error of the framework to a problem document, without its text about the input."""
    status = error.code or 500
    if status < 400:  # a redirect to the address as it is written
        return cast(Response, error.get_response())
    response = problem(HttpError(status, DETAILS.get(status, "the request cannot be answered")))
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        response.headers["Allow"] = ", ".join(error.valid_methods)
    return response


def _secure(response: Response) -> Response:
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)
    if request.endpoint != "static":
        response.headers.setdefault("Cache-Control", "no-store")
    return response
