"""Pages for operators: health, tokens, keys, retention, events, new surveys, and closing them."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

from flask import Response, render_template, request
from flask.typing import ResponseReturnValue
from msgspec import Struct

from deniable.server.http.api import SignedSurvey, publish_signed
from deniable.server.http.context import Parts, answer, caller, close_survey, parts, require
from deniable.server.http.messages import HttpError
from deniable.server.http.tokens import MAX_TOKEN_DAYS, ROLES, check_name, new_token
from deniable.server.intake.upkeep import AUDIT_DAYS, purged_from
from deniable.server.pages.access import for_operators, go, pages, refused
from deniable.server.pages.survey_page import outcome_rows
from deniable.server.planning.small_groups import MAX_PEOPLE, people_sentences
from deniable.server.results.advice import describe, warnings
from deniable.server.results.annotations import parse_annotation
from deniable.server.results.survey_estimates import shown_counters
from deniable.server.store import NO_SURVEY, PublishedSurvey, named_surveys
from deniable.server.surveys.link_surveys import TEMPLATES, USUAL_EPSILON, USUAL_PEOPLE, renamed
from deniable.server.surveys.link_surveys import Draft as LinkDraft
from deniable.server.surveys.replacement import asked_again, differences, survey_to_replace
from deniable.server.surveys.survey_file import parse_survey_file
from deniable.shared.errors import InvalidSurvey, Refused, WrongUse
from deniable.shared.survey.document import render_document
from deniable.shared.survey.keys import load_key, public_hex, sign
from deniable.shared.survey.phrases import upper_first

MAX_DRAFT_CHARACTERS = 2**18
MAX_AUDIT_ROWS = 100
NOT_SIGNED = (
    "this file holds no signed survey; upload the output of: deniable survey show NAME --json"
)
KEY_ELSEWHERE = (
    "this server holds no signing key: publish with the key on your own machine, and upload the "
    "signed survey here"
)
NO_SURVEY_HERE = "There is no survey with this id"

blueprint = pages("operating", public=("operate_json",))


@dataclass(frozen=True)
class Draft:
    """Survey to check before it is published."""

    text: str
    problem: str | None = None
    description: Sequence[str] = ()
    warnings: Sequence[str] = ()
    earlier: PublishedSurvey | None = None
    changes: Sequence[str] = ()
    groups: Sequence[str] = ()  # what the expected people can show
    people: int = USUAL_PEOPLE
    options_problem: str | None = None  # shown at the field with the options


class ListedToken(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    role: str
    created: date
    label: str  # the class of installs of an app token, such as channel=ci; may be empty
    limit: int  # maximum reports of each survey per hour; 0 if there is no limit
    used: date | None  # last day of use
    expires: date
    expired: bool


class AuditedAction(Struct, frozen=True, kw_only=True):
    """Entry of the audit log; a survey that still exists has its name in `subject`."""

    day: date
    actor: str
    action: str
    subject: str


class KeptReports(Struct, frozen=True, kw_only=True):
    """Survey whose reports are still stored, with the day of the last deletion."""

    survey: str
    name: str
    rounds: int
    until: date


class Operating(Struct, frozen=True, kw_only=True):
    """State of the server, for the page and for its JSON."""

    problem: str | None  # why reports cannot be accepted
    waiting: int
    free_gigabytes: float | None  # free space on the folder's disk, if the store is a folder
    outcomes: Mapping[str, int]
    tokens: Sequence[ListedToken]
    keys: Mapping[str, int]  # number of surveys signed by each key
    kept: Sequence[KeptReports]
    audit: Sequence[AuditedAction]  # the newest MAX_AUDIT_ROWS


@blueprint.get("/operate")
@for_operators
def operate(made: tuple[str, str] | None = None) -> ResponseReturnValue:
    """Show the state of the server, and a token that was just created."""
    state = operating_state(parts())
    return render_template(
        "operate.html",
        state=state,
        made=made,
        roles=ROLES,
        max_days=MAX_TOKEN_DAYS,
        own_key=parts().signing_key is not None,
        audit_days=AUDIT_DAYS,
    )


@blueprint.get("/operate.json")
@require("operator")
def operate_json() -> Response:
    return answer(operating_state(parts()))


@blueprint.post("/operate/tokens")
@for_operators
def create_token() -> ResponseReturnValue:
    here, role, days = parts(), request.form.get("role", ""), request.form.get("days", "")
    if role not in ROLES or days not in map(str, range(1, MAX_TOKEN_DAYS + 1)):
        return refused(f"A token needs a role, and lasts 1 to {MAX_TOKEN_DAYS:,} days", 400)
    token, now = new_token(), here.clock.now()
    try:
        name = check_name(request.form.get("name", ""))
        end = now + timedelta(days=int(days))
        here.store.add_token(token, role, now, end, name, caller().name)
    except (Refused, WrongUse) as error:
        return refused(upper_first(str(error)), 400)
    return operate((role, token))


@blueprint.post("/operate/tokens/<identifier>/revoke")
@for_operators
def revoke_token(identifier: str) -> ResponseReturnValue:
    if identifier not in {token.id for token in parts().store.tokens()}:
        return refused("This token does not exist; it may have been revoked already", 404)
    parts().store.revoke_token(identifier, caller().name)
    return go("/operate#tokens")


@blueprint.get("/operate/check")
@for_operators
def empty_draft() -> str:
    return _draft_page(Draft(""))


@blueprint.post("/operate/draft")
@for_operators
def write_draft() -> ResponseReturnValue:
    """Write a draft from a template and the texts of the form, and check it."""
    try:
        if problem := _options_problem(request.form):
            return _draft_page(Draft("", people=_people(), options_problem=problem)), 400
        text = _written(request.form).toml(parts().clock.now().date())
        return _draft_page(_draft(text, parts(), _people()))
    except WrongUse as error:
        return refused(upper_first(str(error)), 400)


@blueprint.post("/operate/check")
@for_operators
def check() -> ResponseReturnValue:
    """Check a draft; nothing is stored."""
    text = request.form.get("survey", "")
    if len(text) > MAX_DRAFT_CHARACTERS:
        return refused("A survey of this size cannot be published", 413)
    try:
        return _draft_page(_draft(text, parts(), _people()))
    except WrongUse as error:
        return refused(upper_first(str(error)), 400)


@blueprint.post("/operate/publish")
@for_operators
def publish() -> ResponseReturnValue:
    """Publish an uploaded signed survey, or a draft that the server signs with its own key."""
    try:
        signed = _uploaded() if "signed" in request.files else _signed_here()
        return go(f"/surveys/{publish_signed(signed, replace='replace' in request.form).id}")
    except (HttpError, InvalidSurvey, Refused) as error:
        return refused(upper_first(str(error)), getattr(error, "status", 400))


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
    """Close a survey permanently. The operator types the name to confirm."""
    published = parts().catalogue.get(identifier)
    if published is None:
        return refused(NO_SURVEY_HERE, 404)
    if request.form.get("name", "").strip() != published.name:
        return refused(f"To close it, type its name: {published.name}", 400)
    close_survey(published)
    return go(f"/surveys/{published.id}")


@blueprint.post("/surveys/<identifier>/annotations")
@for_operators
def annotate(identifier: str) -> ResponseReturnValue:
    here = parts()
    published = here.catalogue.get(identifier)
    if published is None:
        return refused(NO_SURVEY_HERE, 404)
    try:
        annotation = parse_annotation(request.form.get("day", ""), request.form.get("words", ""))
    except WrongUse as error:
        return refused(upper_first(str(error)), 400)
    if "remove" in request.form:
        here.store.remove_annotation(published.sequence, annotation)
    else:
        here.store.annotate(published.sequence, annotation)
    return go(f"/surveys/{published.id}#annotations")


def operating_state(here: Parts) -> Operating:
    surveys = here.catalogue.surveys()
    signed = Counter(published.key for published in surveys)
    counted = Counter(here.store.counters(NO_SURVEY))
    for published in surveys:
        counted.update(shown_counters(here.store, published, here.clock.now()))
    status, (option, _, folder) = here.intake_status(), here.store.option.partition(" ")
    return Operating(
        problem=here.unready_reason(),
        waiting=status.waiting,
        free_gigabytes=shutil.disk_usage(folder).free / 10**9 if option == "--data" else None,
        outcomes=dict(outcome_rows(counted)),
        tokens=[
            ListedToken(
                id=token.id,
                name=token.name,
                role=token.role,
                label=token.label,
                limit=token.limit,
                created=token.created.date(),
                used=token.used,
                expires=token.expires.date(),
                expired=token.expires <= here.clock.now(),
            )
            for token in sorted(here.store.tokens(), key=lambda t: t.expires, reverse=True)
        ],
        keys={key: signed[key] for key in sorted(here.store.enrolled_keys())},
        kept=list(_kept_reports(here)),
        audit=[
            AuditedAction(**entry._asdict())
            for entry in named_surveys(here.store.audit()[:MAX_AUDIT_ROWS], surveys)
        ],
    )


def _kept_reports(here: Parts) -> Iterator[KeptReports]:
    rounds = here.store.unsealed_rounds()
    for published in here.catalogue.surveys():
        if numbers := rounds.get(published.sequence, ()):
            until = max(purged_from(published, number) for number in numbers).date()
            yield KeptReports(
                survey=published.id, name=published.name, rounds=len(numbers), until=until
            )


def _draft_page(draft: Draft) -> str:
    return render_template(
        "check.html",
        draft=draft,
        words=request.form,
        templates=TEMPLATES,
        usual_epsilon=USUAL_EPSILON,
        own_key=parts().signing_key is not None,
    )


def _template(form: Mapping[str, str]) -> LinkDraft:
    return TEMPLATES.get(form.get("template", ""), TEMPLATES["yes-no"])


def _options_problem(form: Mapping[str, str]) -> str | None:
    """Return why the typed options cannot be used, or None."""
    draft = _template(form)
    if not form.get("options", "").strip() or draft.arms or draft.questions[0].kind == "choice":
        return None
    return (
        "The chosen template has no options. Begin with “choice” or “ab”, or leave this field "
        "empty."
    )


def _written(form: Mapping[str, str]) -> LinkDraft:
    """Return the draft that the form describes; an empty field keeps the template's text."""
    draft = _template(form)
    first, texts = draft.questions[0], {name: text.strip() for name, text in form.items()}
    options = [option.strip() for option in texts.get("options", "").split(",") if option.strip()]
    title, question = texts.get("title") or draft.title, texts.get("question") or first.title
    return replace(
        renamed(draft, title, question, options),
        owner=texts.get("owner") or draft.owner,
        epsilon=texts.get("epsilon") or draft.epsilon,
        people=_people(),
        close_at=_count(texts["close_at"], "answers") if texts.get("close_at") else None,
        by_invitation="invitation" in form,
    )


def _people() -> int:
    return _count(request.form.get("people") or str(USUAL_PEOPLE), "people")


def _count(text: str, noun: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= MAX_PEOPLE):
        raise WrongUse(f"the number of {noun} must be a whole number from 1 to {MAX_PEOPLE:,}")
    return int(text)


def _uploaded() -> SignedSurvey:
    """Return the signed survey in an uploaded file, as `deniable survey show --json` prints it."""
    try:
        entry = json.loads(request.files["signed"].read())
        return SignedSurvey(**{name: str(entry[name]) for name in SignedSurvey.__struct_fields__})
    except (ValueError, KeyError, TypeError, RecursionError):
        raise HttpError(400, NOT_SIGNED) from None


def _signed_here() -> SignedSurvey:
    """Return the draft, signed with the server's own key."""
    if (file := parts().signing_key) is None:
        raise HttpError(403, KEY_ELSEWHERE)
    key = load_key(str(file))
    document = render_document(parse_survey_file(request.form.get("survey", "")))
    parts().store.enrol_key(public_hex(key))
    return SignedSurvey(
        document=document.decode(), signature=sign(document, key), key=public_hex(key)
    )


def _draft(text: str, here: Parts, people: int) -> Draft:
    try:
        survey = parse_survey_file(text)
    except InvalidSurvey as error:
        return Draft(text, problem=str(error), people=people)
    today = here.clock.now().date()
    earlier = survey_to_replace(here.catalogue.surveys(), survey, render_document(survey), today)
    changes = (
        [*differences(earlier.survey, survey), asked_again(earlier, survey)] if earlier else []
    )
    groups = people_sentences(survey, people)
    facts = describe(survey), warnings(survey, today)
    return Draft(text, None, *facts, earlier, changes, groups, people)
