"""For operators: how the server is doing, its tokens and keys, closing, and a look before
publishing."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from flask import render_template, request
from flask.typing import ResponseReturnValue

from deniable.server.http.auth import ROLES, new_token
from deniable.server.http.context import Parts, parts
from deniable.server.http.operations import readiness
from deniable.server.intake.upkeep import purged_from
from deniable.server.pages.guards import for_operators, go, pages, refused
from deniable.server.pages.survey_page import outcome_rows
from deniable.server.results.advice import describe, warnings
from deniable.server.results.annotating import read_annotation
from deniable.server.store import NO_SURVEY, PublishedSurvey, Token
from deniable.server.surveys.replacement import asked_again, differences, survey_to_replace
from deniable.server.surveys.survey_file import parse_survey_file
from deniable.shared.errors import InvalidSurvey, Refused, WrongUse
from deniable.shared.survey.document import Survey, render_document
from deniable.shared.survey.phrases import upper_first

MOST_DAYS = 3_660
MOST_TEXT = 2**18
GIGABYTE = 10**9

blueprint = pages("operating")


@dataclass(frozen=True)
class Kept:
    """A survey whose reports are still there."""

    published: PublishedSurvey
    rounds: int
    until: datetime  # when the last of them goes


@dataclass(frozen=True)
class Health:
    problem: str | None  # why reports cannot be taken
    waiting: int
    commits: Sequence[tuple[str, str]]  # so many of them took at most so long
    free_gigabytes: float | None  # of the disk that holds the folder
    outcomes: Sequence[tuple[str, int]]  # of all surveys


@dataclass(frozen=True)
class Draft:
    """A survey that is looked at before anybody publishes it."""

    text: str
    problem: str | None = None
    said: Sequence[str] = ()
    warnings: Sequence[str] = ()
    earlier: PublishedSurvey | None = None
    changes: Sequence[str] = ()


@blueprint.get("/operate")
@for_operators
def operate() -> str:
    return _operate()


@blueprint.post("/operate/tokens")
@for_operators
def make_token() -> ResponseReturnValue:
    """Shown once, on the page that answers."""
    here, role, days = parts(), request.form.get("role", ""), request.form.get("days", "")
    if role not in ROLES or not days.isdecimal() or not 1 <= int(days) <= MOST_DAYS:
        return refused(f"A token has one of the roles, and lasts 1 to {MOST_DAYS:,} days", 400)
    token, now = new_token(), here.clock.now()
    here.store.add_token(token, role, now, now + timedelta(days=int(days)))
    return _operate((role, token))


@blueprint.post("/operate/tokens/<identifier>/revoke")
@for_operators
def revoke_token(identifier: str) -> ResponseReturnValue:
    if identifier not in {token.id for token in parts().store.tokens()}:
        return refused("There is no such token; it may be revoked already", 404)
    parts().store.revoke_token(identifier)
    return go("/operate#tokens")


@blueprint.get("/operate/check")
@for_operators
def look() -> str:
    return render_template("check.html", draft=Draft(""))


@blueprint.post("/operate/check")
@for_operators
def check() -> ResponseReturnValue:
    """Nothing is kept: publishing takes the signing key, which is not here."""
    text = request.form.get("survey", "")
    if len(text) > MOST_TEXT:
        return refused("A survey of this size cannot be published", 413)
    return render_template("check.html", draft=_draft(text, parts()))


@blueprint.get("/surveys/<identifier>/close")
@for_operators
def ask_to_close(identifier: str) -> ResponseReturnValue:
    try:
        return render_template("close.html", published=parts().catalogue.find(identifier))
    except Refused as error:
        return refused(str(error), 404)


@blueprint.post("/surveys/<identifier>/close")
@for_operators
def close(identifier: str) -> ResponseReturnValue:
    """For good, so its name is typed; by its id, so it is the one on the page."""
    catalogue = parts().catalogue
    published = catalogue.get(identifier)
    if published is None:
        return refused("There is no survey with this id", 404)
    if request.form.get("name", "").strip() != published.name:
        return refused(f"To close it, type its name: {published.name}", 400)
    catalogue.close(published)
    return go(f"/surveys/{published.id}")


@blueprint.post("/surveys/<identifier>/annotations")
@for_operators
def annotate(identifier: str) -> ResponseReturnValue:
    """Or take one away, where the form says so."""
    here = parts()
    published = here.catalogue.get(identifier)
    if published is None:
        return refused("There is no survey with this id", 404)
    try:
        day, words = (request.form.get(key, "") for key in ("day", "words"))
        annotation = read_annotation(day, words)
    except WrongUse as error:
        return refused(upper_first(str(error)), 400)
    if "remove" in request.form:
        here.store.remove_annotation(published.sequence, annotation)
    else:
        here.store.annotate(published.sequence, annotation)
    return go(f"/surveys/{published.id}#annotations")


def _operate(made: tuple[str, str] | None = None) -> str:
    here = parts()
    return render_template(
        "operate.html",
        health=health(here),
        tokens=tokens_by_end(here),
        made=made,
        roles=ROLES,
        most_days=MOST_DAYS,
        keys=signing_keys(here),
        kept=kept(here),
    )


def health(here: Parts) -> Health:
    counted = Counter[str]()
    for sequence in [NO_SURVEY, *(each.sequence for each in here.catalogue.surveys())]:
        counted.update(here.store.counters(sequence))
    return Health(
        problem=readiness(here),
        waiting=here.writer.waiting,
        commits=here.metrics.commit_times(),
        free_gigabytes=_free(here),
        outcomes=outcome_rows(counted),
    )


def _free(here: Parts) -> float | None:
    """None where the store is not a folder of this machine."""
    option, _, place = here.store.option.partition(" ")
    return shutil.disk_usage(Path(place)).free / GIGABYTE if option == "--data" else None


def tokens_by_end(here: Parts) -> list[tuple[Token, bool]]:
    """With whether each has expired; what lasts longest first."""
    now = here.clock.now()
    ordered = sorted(here.store.tokens(), key=lambda token: token.expires, reverse=True)
    return [(token, token.expires <= now) for token in ordered]


def signing_keys(here: Parts) -> list[tuple[str, int]]:
    """Those enrolled, each with how many surveys it has signed."""
    signed = Counter(each.key for each in here.catalogue.surveys())
    return [(key, signed[key]) for key in sorted(here.store.enrolled_keys())]


def kept(here: Parts) -> list[Kept]:
    rounds = here.store.unsealed_rounds()
    return [
        Kept(each, len(numbers), max(purged_from(each, number) for number in numbers))
        for each in here.catalogue.surveys()
        if (numbers := rounds.get(each.sequence, ()))
    ]


def _draft(text: str, here: Parts) -> Draft:
    try:
        survey = parse_survey_file(text)
    except InvalidSurvey as error:
        return Draft(text, problem=str(error))
    today = here.clock.now().date()
    earlier = survey_to_replace(here.catalogue.surveys(), survey, render_document(survey), today)
    return Draft(
        text,
        said=describe(survey),
        warnings=warnings(survey, today),
        earlier=earlier,
        changes=_changes(earlier, survey) if earlier else (),
    )


def _changes(earlier: PublishedSurvey, survey: Survey) -> list[str]:
    return [*differences(earlier.survey, survey), asked_again(earlier, survey)]
