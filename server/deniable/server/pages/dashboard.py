"""Dashboard: the list of surveys, also as JSON; signing in and out; and unknown addresses."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from itertools import takewhile
from typing import Any, NamedTuple, get_args
from urllib.parse import urlencode

from flask import Response, make_response, render_template, request
from flask.typing import ResponseReturnValue
from msgspec import Struct
from msgspec.structs import replace
from werkzeug.exceptions import NotFound

from deniable.server.http.context import NOTHING_HERE, answer, parts, problem, require
from deniable.server.http.messages import HttpError
from deniable.server.pages import access
from deniable.server.pages.access import go, missing, pages, restricted
from deniable.server.pages.charts import Sparkline, sparkline
from deniable.server.pages.survey_page import DAMAGED, log, page_of
from deniable.server.results import SurveyEstimates
from deniable.server.results.display import change_words
from deniable.server.results.survey_estimates import shown_reports
from deniable.server.store import Damaged, PublishedSurvey, State
from deniable.shared.errors import StoreUnusable

MAX_SHOWN = 50  # surveys on one page of the list
FRESH_SECONDS = 300.0  # a summary is made again after this time, or when reports arrive
ESTIMATION_SECONDS = 1.0  # time during which a response starts new summaries
FAULT = "Internal error: no result is shown here; details are in the server's log"
SUMMARIZED = ("headline", "change", "warnings")

# By the address: words, and a key; otherwise the newest is first. Any: values of the same type
SORTS: Mapping[str, tuple[str, Callable[[ListedSurvey], Any]]] = {
    "title": ("title", lambda row: row.title.casefold()),
    "reports": ("most reports", lambda row: -(row.reports or 0)),
    "closes": ("last day", lambda row: row.closes),
}

blueprint = pages("dashboard", public=("sign_in", "sign_out", "surveys_json"))


class ListedSurvey(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    title: str
    state: State
    opens: date
    closes: date
    round: str
    epsilon: str  # ε of one round
    questions: int
    reports: int | None  # None if the counts are damaged
    headline: str | None = None  # empty without an estimate; None if not estimated yet
    change: str = ""  # the newest change that was located
    warnings: Sequence[str] = ()


class ListedSurveys(Struct, frozen=True):
    surveys: Sequence[ListedSurvey]


@dataclass(frozen=True)
class Summary:
    """Results of a survey in a few words, and its first question's trend."""

    headline: str = ""
    question: str = ""  # the question of the headline, if there are several
    change: str = ""
    warnings: tuple[str, ...] = ()
    trend: Sparkline | None = None


class Row(NamedTuple):
    published: PublishedSurvey
    listed: ListedSurvey
    summary: Summary | None


@blueprint.get("/")
def surveys() -> str:
    asked = {name: request.args.get(name, "") for name in ("q", "state", "sort")}
    listed = [*_selected(_listed(), **asked)]
    start = max(0, request.args.get("after", 0, int))
    shown = _summarized(listed[start : start + MAX_SHOWN])
    return render_template(
        "surveys.html",
        rows=shown,
        asked=asked,
        is_empty=not (listed or any(asked.values())),
        start=start,
        total=len(listed),
        states=get_args(State),
        sorts=SORTS,
        unknown=sum(row.summary is None for row in shown),
        next_page=urlencode(asked | {"after": start + MAX_SHOWN}),
        store=parts().store.option,
    )


@blueprint.get("/surveys.json")
@require("analyst")
def surveys_json() -> Response:
    return answer(ListedSurveys([listed for _, listed, _ in _summarized(_listed())]))


@blueprint.get("/surveys/")
def no_survey() -> ResponseReturnValue:
    return go("/")


@blueprint.post("/sign-in")
def sign_in() -> ResponseReturnValue:
    return access.sign_in(request.form.get("token", ""), request.form.get("target", "/"))


blueprint.post("/sign-out")(access.sign_out)


@blueprint.app_errorhandler(NotFound)
def _not_found(_: NotFound) -> ResponseReturnValue:
    """Respond to people with a page, and to programs with a problem document."""
    wants_page = request.accept_mimetypes.best_match(["application/problem+json", "text/html"])
    if request.path.startswith("/v1/") or wants_page != "text/html":
        return problem(HttpError(404, NOTHING_HERE))
    return restricted(make_response(missing("nothing exists at this address")))


def _listed() -> list[tuple[PublishedSurvey, ListedSurvey]]:
    """Return all surveys with their facts, newest first."""
    here, rows = parts(), []
    now = here.clock.now()
    totals = _totals(now)
    for published in reversed(here.catalogue.surveys()):
        survey = published.survey
        listed = ListedSurvey(
            id=published.id,
            name=published.name,
            title=survey.title,
            state=published.state_at(now),
            opens=survey.opens,
            closes=survey.closes,
            round=survey.period,
            epsilon=survey.round_epsilon,
            questions=len(survey.questions),
            reports=totals.get(published.sequence, 0),
        )
        rows.append((published, listed))
    return rows


def _totals(now: datetime) -> Mapping[int, int | None]:
    """Return the shown number of each survey's reports, or None where its counts are damaged."""
    here, surveys = parts(), parts().catalogue.surveys()
    try:
        return here.store.report_totals({one.sequence: one.unfinished(now) for one in surveys})
    except Damaged:
        totals = dict[int, int | None].fromkeys(published.sequence for published in surveys)
        for published in surveys:
            with suppress(Damaged):
                totals[published.sequence], _ = shown_reports(here.store, published, now)
        return totals


def _selected(
    rows: Sequence[tuple[PublishedSurvey, ListedSurvey]], q: str, state: str, sort: str
) -> Iterator[tuple[PublishedSurvey, ListedSurvey]]:
    """Yield the surveys in this state that contain all words, in the requested order."""
    if sort in SORTS:
        rows = sorted(rows, key=lambda row: SORTS[sort][1](row[1]))
    for published, listed in rows:
        text = f"{listed.title} {listed.name} {published.survey.purpose}".casefold()
        if state in ("", listed.state) and all(word in text for word in q.casefold().split()):
            yield published, listed


def _summarized(rows: Sequence[tuple[PublishedSurvey, ListedSurvey]]) -> list[Row]:
    """Add the summaries, from the cache where possible.

    Each response makes new summaries for a limited time; the next response makes more.
    """
    here = parts()
    current = here.clock.now().timestamp() // FRESH_SECONDS
    keys = [("summary", row.id, one.closed, row.reports, current) for one, row in rows]

    def make(missing: list[int]) -> Iterator[Summary | None]:
        begun = time.monotonic()
        for index in missing:
            is_late = index != missing[0] and time.monotonic() - begun >= ESTIMATION_SECONDS
            yield None if is_late else _summary(rows[index][0])

    summaries = here.estimates.get(keys, make, lambda made: 0 if made else math.inf)
    return [
        Row(published, replace(listed, **facts), summary)
        for (published, listed), summary in zip(rows, summaries, strict=True)
        for facts in [{key: getattr(summary, key) for key in SUMMARIZED} if summary else {}]
    ]


def _summary(published: PublishedSurvey) -> Summary:
    """Summarize what the survey's page shows first."""
    try:
        page = page_of(published)
    except Damaged:
        return Summary(warnings=(DAMAGED,))
    except StoreUnusable:
        raise
    except Exception:  # noqa: BLE001 - it is logged, and the other surveys are shown
        log.exception("the survey %s could not be summarized", published.id)
        return Summary(warnings=(FAULT,))
    view = next((view for view in page.questions if view.headline), None)
    trends = view.trends if view else ()
    return Summary(
        headline=view.headline if view else "",
        question=view.question.title if view and len(page.questions) > 1 else "",
        change=max(_located_changes(page.estimates), default=("", ""))[1],
        warnings=tuple(_warnings(page.estimates)),
        trend=sparkline(trends[0]) if trends else None,
    )


def _located_changes(estimates: SurveyEstimates) -> Iterator[tuple[str, str]]:
    """Yield the day of each change, and its description."""
    questions = estimates.survey.questions
    for question in questions:
        for change in estimates.changes[question.name]:
            names = [question.title] * (len(questions) > 1)
            names += [change.label] * (len(question.labels) > 1)
            yield change.day, ": ".join([*names, change_words(change)])


def _warnings(estimates: SurveyEstimates) -> Iterator[str]:
    survey, facts, due = estimates.survey, estimates.facts, estimates.due
    if forged := sorted(estimates.forged):
        rounds = f"{len(forged)} rounds, the last in " if len(forged) > 1 else ""
        yield f"Forged reports in {rounds}{survey.round_title(forged[-1])}"
    silent = [*takewhile(lambda number: not facts[number].reports, reversed(due))]
    if silent and estimates.header.state == "open":
        yield f"No reports since {survey.round_title(silent[-1])}"
