"""A web app with Flask that asks its users once, and shows them their reports.

    DENIABLE_SURVEY=app-health.json flask --app client/examples/flask_app.py run --port 5000

The file is the survey that ships with the app. Section "A page" of client/RECIPES.md shows how to
make it. Anyone can sign in here under any name; your app takes the id from its own login.
"""

from __future__ import annotations

import json
import os
import secrets
from html import escape
from pathlib import Path

from flask import Flask, redirect, request, session
from werkzeug.wrappers import Response

from deniable.client import Client, Description, Person, Policy, state_folder

ASKED = {"crashed": "bit", "minutes": "number", "browser": "choice"}
BROWSERS = ("firefox", "edg", "chrome", "safari")  # Edge also names Chrome, and Chrome names Safari

ASK = "<pre style=white-space:pre-wrap>{}</pre><form method=post action=/consent>{}</form>"
AGREE = "<button name=agreed value=yes>Yes</button> <button name=agreed value=no>No</button>"
LOGIN = (
    "<form method=post action=/login>Your name: <input name=user> <button>Sign in</button></form>"
)
LEAVE = "<pre>{}</pre><form method=post action=/leave><button>Sign out</button></form>"


def create_app() -> Flask:
    shipped = Path(os.environ["DENIABLE_SURVEY"]).read_bytes()
    policy = Policy(keys=[json.loads(shipped)["key"]], questions=ASKED)
    server = os.environ.get("DENIABLE_SERVER", "http://127.0.0.1:8000")
    client = Client(server, policy=policy, state=state_folder("deniable-flask-example"))
    app = Flask(__name__)
    app.config.update(SECRET_KEY=secrets.token_bytes(), SESSION_COOKIE_SAMESITE="Strict")

    def person() -> Person:
        return client.person(session["user"])

    @app.get("/")
    def page() -> str:
        if "user" not in session:
            return LOGIN
        description = client.describe("app-health", shipped=shipped)
        if person().consented is None and isinstance(description, Description):
            return ASK.format(escape(description.text), AGREE)
        return LEAVE.format(escape(getattr(person().sent(), "text", "")))

    @app.post("/login")
    def login() -> Response:
        session["user"] = request.form["user"] or "guest"
        return redirect("/")

    @app.post("/consent")
    def consent() -> Response:
        person().consent(request.form["agreed"] == "yes")
        return redirect("/")

    @app.post("/leave")
    def leave() -> Response:
        """Answer for everyone, whatever the true answer is, so that the call reveals nothing."""
        person().answer("app-health", crashed=False, minutes=12, browser=_browser())
        session.clear()
        return redirect("/")

    return app


def _browser() -> str:
    agent = request.headers.get("User-Agent", "").lower()
    named = next((name for name in BROWSERS if name in agent), "other")
    return "edge" if named == "edg" else named
