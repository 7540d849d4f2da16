"""The reader's Flask application: all views for people and their programs, on one store."""

from __future__ import annotations

from flask import Flask
from jinja2 import StrictUndefined

from deniable.server.http import api
from deniable.server.http.context import EXTENSION, Parts, set_hooks
from deniable.server.pages import (
    dashboard,
    operator_pages,
    planner,
    public_pages,
    shared_pages,
    survey_page,
    waiting_page,
)
from deniable.shared.envelope import MAX_BODY_BYTES


def create_app(parts: Parts) -> Flask:
    app = Flask("deniable.server.pages")  # for its templates and static files
    # One byte more than allowed: `read_body` refuses a longer body, which Flask would truncate.
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES + 1
    app.jinja_env.undefined = StrictUndefined  # an unknown name raises an error
    app.json.sort_keys = False  # type: ignore[attr-defined]  # the default provider has it
    app.extensions[EXTENSION] = parts
    views = (dashboard, survey_page, shared_pages, operator_pages, planner, waiting_page)
    for part in (api, *views, public_pages):
        app.register_blueprint(part.blueprint)
    set_hooks(app)
    return app
