"""Public pages, which the reader renders and publishes into the store for intake.

A survey's page states who asks, why, what an answer reveals and how to stop. It has no results, no
token and no cookie, and exists only with `deniable serve --public`. Its facts are in the signed
document and in the register, which anyone may read. Each kind of problem has a page that explains
it (`problems.toml`); the reader serves these pages too.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from mimetypes import guess_type
from pathlib import Path
from typing import Any

import msgspec
from flask import Blueprint, Flask, render_template
from flask.typing import ResponseReturnValue
from msgspec import Struct
from werkzeug.exceptions import NotFound

from deniable.server.http.context import answer, parts_of
from deniable.server.http.messages import (
    ASK_PAGES,
    HTML,
    JSON,
    PROBLEM_PAGES,
    HttpError,
)
from deniable.server.pages.access import restricted
from deniable.server.pages.respondent.page_files import ask_pages, unregistered
from deniable.server.pages.shared_pages import SharePublisher, missing_page
from deniable.server.store import PublicPage, PublishedSurvey, RegisterEntry, State
from deniable.server.surveys.shared_results import SHARED_PAGES
from deniable.shared.errors import StoreUnusable
from deniable.shared.survey.phrases import asked_about, default_participation, explain_survey

PAUSE_SECONDS = 0.5
STATIC = "/static/"
SURVEYS = "/public/"
STATIC_FILES = ("style.css", "chart.css", "icon.svg")  # files that public pages load

log = logging.getLogger("deniable.server")


class PagePublisher:
    """Publisher that keeps the public pages in the store up to date."""

    def __init__(self, app: Flask) -> None:
        self._app, self._parts = app, parts_of(app)
        self._shares = SharePublisher(self._parts)
        self._published: object = None  # inputs of the last rendered survey pages
        self._asked: object = None  # inputs of the respondent pages that were rendered last
        self._has_fixed_pages = False

    def start(self) -> None:
        """Start a thread that checks for changes twice a second until the process ends."""
        threading.Thread(target=self._run, name="pages", daemon=True).start()

    def publish(self) -> None:
        """Publish the pages that have changed."""
        here, now = self._parts, self._parts.clock.now()
        with self._app.app_context():
            if not self._has_fixed_pages:
                problems = {f"{PROBLEM_PAGES}{kind}": problem for kind, problem in PROBLEMS.items()}
                here.store.replace_public_pages(PROBLEM_PAGES, _pages("problem.html", problems))
                here.store.replace_public_pages(STATIC, _static_files(self._app))
                here.store.replace_public_pages(SHARED_PAGES, missing_page())
                self._has_fixed_pages = True
            self._shares.publish()
            self._publish_ask_pages()
            if not here.has_public_pages:
                return
            surveys = [(survey, survey.state_at(now)) for survey in here.catalogue.surveys()]
            inputs = here.catalogue.mark, [state for _, state in surveys]
            if inputs != self._published:
                entries: dict[str, list[RegisterEntry]] = {}
                for entry in here.store.register():
                    entries.setdefault(entry.survey, []).append(entry)
                facts = {
                    f"{SURVEYS}{survey.id}{ending}": public_facts(
                        survey.in_language(ending[1:]), state, entries.get(survey.id, ())
                    )
                    for survey, state in surveys
                    for ending in survey.page_endings
                }
                here.store.replace_public_pages(SURVEYS, _pages("public.html", facts))
                self._published = inputs

    def _publish_ask_pages(self) -> None:
        """Publish the respondent pages, and register those that are new or have changed."""
        here = self._parts
        surveys, today = here.catalogue.surveys(), here.clock.now().date()
        shares = [one for one in here.store.shares() if one.is_linked and one.expires >= today]
        results = {one.survey: one.path for one in shares}  # the last to expire
        inputs = [(one.id, one.closed, results.get(one.sequence)) for one in surveys]
        if inputs == self._asked:
            return
        pages = ask_pages(surveys, results)
        for survey, digest in unregistered(pages, here.store.register()).items():
            here.store.register_page(survey, digest)
        here.store.replace_public_pages(ASK_PAGES, pages)
        self._asked = inputs

    def _run(self) -> None:
        while True:
            try:
                self.publish()
            except StoreUnusable as error:
                log.warning("%s; will retry publishing public pages", error)
            except Exception:
                log.exception("public pages could not be rendered")
            time.sleep(PAUSE_SECONDS)


def _pages(template: str, facts_by_path: Mapping[str, object]) -> dict[str, PublicPage]:
    """Return a page for each path, as HTML and as JSON."""
    pages: dict[str, PublicPage] = {}
    for path, facts in facts_by_path.items():
        pages[path] = PublicPage(HTML, render_template(template, facts=facts).encode())
        pages[f"{path}.json"] = PublicPage(JSON, msgspec.json.encode(facts))
    return pages


def _static_files(app: Flask) -> dict[str, PublicPage]:
    folder = Path(str(app.static_folder))
    return {
        f"{STATIC}{name}": PublicPage(guess_type(name)[0] or JSON, (folder / name).read_bytes())
        for name in STATIC_FILES
    }


def public_facts(
    published: PublishedSurvey, state: State, register: Sequence[RegisterEntry]
) -> Mapping[str, Any]:  # Any: JSON
    """Return the facts about a survey for the people it asks."""
    survey, told = published.survey, explain_survey(published.survey)
    return {
        "survey": published.id,
        "name": survey.name,
        "language": survey.language,
        "languages": survey.languages,
        "title": survey.title,
        "purpose": survey.purpose,
        "owner": survey.owner,
        "state": state,
        "when": told.when,
        "rounds": survey.rounds,
        "intro": told.intro,
        "questions": [
            {
                "name": question.name,
                "title": question.title,
                "asked": text.asked,
                "over": asked_about(survey, question),
                "epsilon": str(question.epsilon),
                "odds": text.odds,
            }
            for question, text in zip(survey.questions, told.questions, strict=True)
        ],
        "privacy": (*told.privacy, *default_participation(survey)),
        "stop": told.stop,
        "kept": told.kept,
        "kept_days": survey.retention_days,
        "key": published.key,
        "register": [
            {key: getattr(entry, key) for key in ("number", "event", "key", "head")}
            for entry in register
            if entry.event != "page"
        ],
    }


class Problem(Struct, frozen=True):
    """Explanation of a kind of problem, at the address in a problem document's `type`."""

    title: str
    happened: str
    cure: str


PROBLEMS: Mapping[str, Problem] = msgspec.toml.decode(
    Path(__file__).with_name("problems.toml").read_bytes(), type=dict[str, Problem]
)

blueprint = Blueprint("problems", __name__)
blueprint.after_request(restricted)


@blueprint.get(f"{PROBLEM_PAGES}<kind>")
def explain(kind: str) -> str:
    if kind not in PROBLEMS:
        raise NotFound
    return render_template("problem.html", facts=PROBLEMS[kind])


@blueprint.get(f"{PROBLEM_PAGES}<kind>.json")
def explain_json(kind: str) -> ResponseReturnValue:
    if kind not in PROBLEMS:
        raise HttpError(404, "no such kind of problem exists")
    return answer(PROBLEMS[kind])
