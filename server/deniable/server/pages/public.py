"""The public page of a survey, for the people who are asked: who asks, why, what an answer gives
away, how to stop, and what the register says. No results, no token, no cookie.

It is there only if the operator wants it (`deniable serve --public`); all of it is in the signed
document and in the register, which anyone may read anyway.
"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, current_app, jsonify, make_response, render_template
from werkzeug.exceptions import NotFound

from deniable.server.http.context import asked_for, parts
from deniable.server.http.register import entry_of
from deniable.server.http.surveys import CACHE
from deniable.server.pages.guards import restricted
from deniable.server.results import state_at
from deniable.server.store import PublishedSurvey
from deniable.server.surveys.catalogue import UnknownSurvey
from deniable.shared.privacy.promises import odds_change
from deniable.shared.survey.phrases import asked_when, gives_away, repeated

STOP = (
    "Take your consent back in the app that asks: nothing more is sent then, and what has not been "
    "sent yet is deleted. What was counted stays counted, since nothing in it says whose it is."
)
ONE_OF = "Each install is asked one of these questions, and draws which at random."

blueprint = Blueprint("public", __name__)
blueprint.after_request(restricted)


@blueprint.get("/public/<identifier>")
def page(identifier: str) -> Response:
    try:
        published = parts().catalogue.find(identifier)
    except UnknownSurvey:
        raise NotFound from None
    return _cached(make_response(render_template("public.html", public=public(published))))


@blueprint.get("/public/<identifier>.json")
def as_json(identifier: str) -> Response:
    return _cached(jsonify(public(asked_for(identifier))))


def has_public_pages() -> bool:
    return blueprint.name in current_app.blueprints


def public(published: PublishedSurvey) -> dict[str, Any]:  # Any: JSON
    """What the people who are asked may want to know."""
    here, survey = parts(), published.survey
    return {
        "survey": published.id,
        "name": survey.name,
        "title": survey.title,
        "purpose": survey.purpose,
        "owner": survey.owner,
        "state": state_at(published, here.clock.now()),
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
            {"number": each.number, "event": each.event, "key": each.key, "head": each.head}
            for each in map(entry_of, here.store.register())
            if each.survey == published.id
        ],
    }


def _cached(response: Response) -> Response:
    """The same for everyone, so any cache may answer."""
    response.headers["Cache-Control"] = CACHE
    return response
