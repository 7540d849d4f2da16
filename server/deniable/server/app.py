"""The reader's Flask application: all views for people and their programs, on one store."""

from __future__ import annotations

from collections.abc import Callable

from flask import Flask
from jinja2 import StrictUndefined

from deniable.server.http import api
from deniable.server.http.context import EXTENSION, Parts, ReaderMetrics, set_hooks
from deniable.server.http.tokens import Sessions
from deniable.server.intake.status import IntakeStatus
from deniable.server.pages import (
    dashboard,
    operator_pages,
    planner,
    public_pages,
    survey_page,
    waiting_page,
)
from deniable.server.results import EstimateCache
from deniable.server.results.annotations import ReferenceValues
from deniable.server.results.forgery_monitor import ForgeryMonitor
from deniable.server.store import Store
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.clock import Clock
from deniable.shared.envelope import MAX_BODY_BYTES


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
    """Return the application; `intake_status` returns the status of the intake process."""
    app = Flask("deniable.server.pages")  # for its templates and static files
    # One byte more than allowed, so that `read_body` refuses first: the framework would truncate
    # silently.
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES + 1
    app.jinja_env.undefined = StrictUndefined  # an unknown name raises an error
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
    for part in (api, dashboard, survey_page, operator_pages, planner, public_pages, waiting_page):
        app.register_blueprint(part.blueprint)
    set_hooks(app)
    return app
