"""Pages for anyone, which the reader renders and publishes into the store for intake to serve.

The page of a survey names who asks, why, what an answer reveals and how to stop. It has no
results, no token and no cookie, and exists only with `deniable serve --public`. All of it is in the
signed document and in the register, which anyone may read anyway. Each problem has a page that
explains it, which the reader also serves itself.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from mimetypes import guess_type
from pathlib import Path
from typing import Any, NamedTuple

from flask import Blueprint, Flask, render_template
from flask.typing import ResponseReturnValue
from msgspec import Struct
from werkzeug.exceptions import NotFound

from deniable.server.http.context import answer, parts_of
from deniable.server.http.messages import JSON, PROBLEM_PAGES, HttpError
from deniable.server.pages.access import restricted
from deniable.server.results import state_at
from deniable.server.store import PublicPage, PublishedSurvey, RegisterEntry
from deniable.server.surveys.clock import State
from deniable.shared.errors import StoreUnusable
from deniable.shared.privacy.promises import odds_change
from deniable.shared.survey.phrases import asked_when, gives_away, repeated

PAUSE_SECONDS = 0.5
HTML = "text/html; charset=utf-8"
STATIC = "/static/"
SURVEYS = "/public/"
STATIC_FILES = ("style.css", "chart.css", "icon.svg")  # those that public pages load
STOP = (
    "Switch it off in the app. Nothing more is sent, and unsent answers are deleted. What was "
    "counted stays counted, because nothing in it shows whose it is."
)
ONE_OF = "Each install is asked one of these questions, drawn at random on the device."

log = logging.getLogger("deniable.server")


class PagePublisher:
    """Keeps the public pages in the store up to date."""

    def __init__(self, app: Flask) -> None:
        self._app, self._parts = app, parts_of(app)
        self._published: object = None  # what the pages of surveys were last made of
        self._has_fixed_pages = False

    def start(self) -> None:
        """Look twice a second, in a thread, for as long as the process lives."""
        threading.Thread(target=self._run, name="pages", daemon=True).start()

    def publish(self) -> None:
        """Publish what has changed since the last time."""
        store = self._parts.store
        with self._app.app_context():
            if not self._has_fixed_pages:
                store.replace_public_pages(PROBLEM_PAGES, problem_pages())
                store.replace_public_pages(STATIC, static_files(self._app))
                self._has_fixed_pages = True
            if self._parts.public_pages:
                self._publish_surveys()

    def _publish_surveys(self) -> None:
        here, now = self._parts, self._parts.clock.now()
        surveys = [(survey, state_at(survey, now)) for survey in here.catalogue.surveys()]
        made_of = here.catalogue.mark, [state for _, state in surveys]
        if made_of != self._published:
            here.store.replace_public_pages(SURVEYS, survey_pages(surveys, here.store.register()))
            self._published = made_of

    def _run(self) -> None:
        while True:
            try:
                self.publish()
            except StoreUnusable as error:
                log.warning("%s; public pages are published later", error)
            except Exception:
                log.exception("public pages could not be made")
            threading.Event().wait(PAUSE_SECONDS)


def problem_pages() -> dict[str, PublicPage]:
    """Return the page of each kind of problem, and the same as JSON."""
    pages = {}
    for kind, words in WORDS.items():
        text = render_template("problem.html", words=words)
        pages[f"{PROBLEM_PAGES}{kind}"] = PublicPage(HTML, text.encode())
        content = json.dumps(words._asdict()).encode()
        pages[f"{PROBLEM_PAGES}{kind}.json"] = PublicPage(JSON, content)
    return pages


def static_files(app: Flask) -> dict[str, PublicPage]:
    folder = Path(str(app.static_folder))
    return {
        f"{STATIC}{name}": PublicPage(guess_type(name)[0] or JSON, (folder / name).read_bytes())
        for name in STATIC_FILES
    }


def survey_pages(
    surveys: Sequence[tuple[PublishedSurvey, State]], register: Sequence[RegisterEntry]
) -> dict[str, PublicPage]:
    """Return each survey's page, and the same as JSON."""
    entries: dict[str, list[RegisterEntry]] = {}
    for entry in register:
        entries.setdefault(entry.survey, []).append(entry)
    pages = {}
    for published, state in surveys:
        facts = public_facts(published, state, entries.get(published.id, ()))
        text = render_template("public.html", public=facts)
        pages[f"{SURVEYS}{published.id}"] = PublicPage(HTML, text.encode())
        pages[f"{SURVEYS}{published.id}.json"] = PublicPage(JSON, json.dumps(facts).encode())
    return pages


def public_facts(
    published: PublishedSurvey, state: State, register: Sequence[RegisterEntry]
) -> Mapping[str, Any]:  # Any: JSON
    """Return what the people who are asked may want to know."""
    survey = published.survey
    return {
        "survey": published.id,
        "name": survey.name,
        "title": survey.title,
        "purpose": survey.purpose,
        "owner": survey.owner,
        "state": state,
        "asked": asked_when(survey),
        "rounds": survey.rounds,
        "questions": [
            {
                "name": question.name,
                "title": question.title,
                "asked": question.asked,
                "epsilon": str(question.epsilon),
                "odds": odds_change(question.epsilon.billionths),
            }
            for question in survey.questions
        ],
        "gives_away": [
            *([ONE_OF] if survey.asks_one else []),
            " ".join(gives_away(survey)),
            *repeated(survey),
        ],
        "stop": STOP,
        "kept_days": survey.retention_days,
        "key": published.key,
        "register": [
            {"number": entry.number, "event": entry.event, "key": entry.key, "head": entry.head}
            for entry in register
        ],
    }


# Problems: the `type` of a problem document leads here


class Words(NamedTuple):
    title: str
    happened: str
    cure: str


class Explained(Struct, frozen=True):
    title: str
    happened: str
    cure: str


FINAL = "Sending the same request again will not help."
LATER = "Try again later (see the Retry-After header)."

# By the code of a problem document, or by its status where it has no code
WORDS = {
    "bad-body": Words(
        "The body cannot be read",
        "It ends too early, begins with the wrong bytes, is empty, or is not the JSON described.",
        f"{FINAL} The detail tells where it goes wrong.",
    ),
    "too-many": Words(
        "Too many envelopes",
        "The body holds more envelopes than its sender may send: without an app token, one.",
        "Send several bodies, or send with an app token.",
    ),
    "too-long": Words(
        "Too much JSON",
        "Reading JSON takes many times its length in memory, so a body may hold less of it.",
        "Send the binary form, or several bodies.",
    ),
    "rate-limited": Words(
        "Many reports came from near this address",
        "Each range of addresses may send a limited number of reports of one survey per hour.",
        LATER,
    ),
    "invalid-survey": Words(
        "This is not a survey",
        "The document to publish breaks a rule for surveys.",
        "The detail names the key and the fix; `deniable survey check` reports it beforehand.",
    ),
    "untrusted-survey": Words(
        "The survey is not signed by a key that is known here",
        "Over HTTP, a server publishes only surveys signed by a key that is enrolled in its store.",
        "Publish directly into its store once with that key; this enrols it.",
    ),
    "other-questions": Words(
        "Other questions are open under this name",
        "Apps ask by name: other questions under a name in use would change what they ask.",
        "Choose another name, or publish with ?replace=true to replace them.",
    ),
    "list-full": Words(
        "The public list is full",
        "Devices fetch the whole list of surveys, so its size is limited.",
        "Wait until the grace period of other surveys is over, or serve another store.",
    ),
    "400": Words("Malformed request", "The request is malformed.", FINAL),
    "401": Words(
        "A token is needed",
        "The request had no token, or its token is unknown here or has expired.",
        "Send a valid token as Authorization: Bearer; `deniable token create` makes one.",
    ),
    "403": Words(
        "The token has another role",
        "Each token has one role, and this address needs a different one.",
        "Use a token with the role that the detail names.",
    ),
    "404": Words(
        "There is nothing here",
        "This server knows no such address, survey or round.",
        "/v1/surveys lists the surveys, /v1/openapi.json the addresses.",
    ),
    "405": Words(
        "This address does not accept that method",
        "The Allow header names the methods that it accepts.",
        "/v1/openapi.json lists all of them.",
    ),
    "408": Words(
        "The body came too slowly", "It did not arrive in time; nothing was counted.", LATER
    ),
    "409": Words("Conflict with the current state", "The detail tells what is in the way.", FINAL),
    "413": Words("The body is too long", "Nothing of it was counted.", "Send several bodies."),
    "415": Words(
        "The body has another type",
        "Its Content-Type is not accepted here, or it is compressed.",
        "Send one of the types in /v1/openapi.json, uncompressed.",
    ),
    "429": Words("Too many requests", "This sender's limit is reached for now.", LATER),
    "500": Words(
        "The server made a mistake", "It is in the server's log; nothing was counted.", LATER
    ),
    "503": Words(
        "Temporarily unavailable",
        "Server is busy or cannot write to its disk; nothing was counted.",
        LATER,
    ),
}

blueprint = Blueprint("problems", __name__)
blueprint.after_request(restricted)


@blueprint.get(f"{PROBLEM_PAGES}<kind>")
def explain(kind: str) -> str:
    if kind not in WORDS:
        raise NotFound
    return render_template("problem.html", words=WORDS[kind])


@blueprint.get(f"{PROBLEM_PAGES}<kind>.json")
def explain_json(kind: str) -> ResponseReturnValue:
    if kind not in WORDS:
        raise HttpError(404, "there is no such kind of problem")
    return answer(Explained(*WORDS[kind]))
