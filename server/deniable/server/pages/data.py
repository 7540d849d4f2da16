"""What the pages show, as JSON: each at the address of its page with .json behind it.

A survey's is the document of its results, the same as under /v1; what signing in asks of people is
asked of programs by a token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from flask import Blueprint, Response
from flask.typing import ResponseReturnValue
from msgspec import Struct

from deniable.server.http.auth import require
from deniable.server.http.context import parts
from deniable.server.http.messages import PROBLEMS, HttpError, answer
from deniable.server.http.results import results_of
from deniable.server.pages.dashboard import overviews
from deniable.server.pages.operating import health, kept, signing_keys, tokens_by_end
from deniable.server.pages.problems import WORDS
from deniable.server.results import State

blueprint = Blueprint("data", __name__)


class ListedSurvey(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    title: str
    state: State
    opens: date
    closes: date
    round: str
    epsilon: str  # of one round
    questions: int
    reports: int


class ListedSurveys(Struct, frozen=True):
    surveys: Sequence[ListedSurvey]


class ListedToken(Struct, frozen=True, kw_only=True):
    id: str
    role: str
    created: date
    expires: date
    expired: bool


class KeptReports(Struct, frozen=True, kw_only=True):
    survey: str
    name: str
    rounds: int
    until: date


class Operating(Struct, frozen=True, kw_only=True):
    problem: str | None  # why reports cannot be taken
    waiting: int
    commits: Mapping[str, str]
    free_gigabytes: float | None
    outcomes: Mapping[str, int]
    tokens: Sequence[ListedToken]
    keys: Mapping[str, int]  # how many surveys each has signed
    kept: Sequence[KeptReports]


class Explained(Struct, frozen=True):
    title: str
    happened: str
    cure: str


@blueprint.get("/surveys.json")
@require("analyst")
def surveys() -> Response:
    return answer(
        ListedSurveys(
            [
                ListedSurvey(
                    id=each.published.id,
                    name=each.published.name,
                    title=each.published.survey.title,
                    state=each.state,
                    opens=each.published.survey.opens,
                    closes=each.published.survey.closes,
                    round=each.published.survey.period,
                    epsilon=each.published.survey.round_epsilon,
                    questions=len(each.published.survey.questions),
                    reports=each.reports,
                )
                for each in overviews()
            ]
        )
    )


@blueprint.get("/surveys/<identifier>.json")
@require("analyst")
def survey(identifier: str) -> Response:
    return answer(results_of(identifier))


@blueprint.get("/operate.json")
@require("operator")
def operate() -> Response:
    here = parts()
    found = health(here)
    return answer(
        Operating(
            problem=found.problem,
            waiting=found.waiting,
            commits=dict(found.commits),
            free_gigabytes=found.free_gigabytes,
            outcomes=dict(found.outcomes),
            tokens=[
                ListedToken(
                    id=token.id,
                    role=token.role,
                    created=token.created.date(),
                    expires=token.expires.date(),
                    expired=expired,
                )
                for token, expired in tokens_by_end(here)
            ],
            keys=dict(signing_keys(here)),
            kept=[
                KeptReports(
                    survey=each.published.id,
                    name=each.published.name,
                    rounds=each.rounds,
                    until=each.until.date(),
                )
                for each in kept(here)
            ],
        )
    )


@blueprint.get(f"{PROBLEMS}<kind>.json")
def explain(kind: str) -> ResponseReturnValue:
    """For anyone."""
    if kind not in WORDS:
        raise HttpError(404, "there is no such kind of problem")
    return answer(Explained(*WORDS[kind]))
