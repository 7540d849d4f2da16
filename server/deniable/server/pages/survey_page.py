"""Survey page: a survey's rounds, the questions in one round, and its figures as files."""

from __future__ import annotations

import logging
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from flask import Response, render_template, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import NotFound

from deniable.server.estimation.statements import Reading
from deniable.server.http.api import results
from deniable.server.http.context import parts
from deniable.server.pages.access import missing, pages, refused
from deniable.server.pages.group_views import CrossedView, LabelView, crossed_view, label_views
from deniable.server.pages.question_view import (
    FigureFile,
    PageContext,
    QuestionView,
)
from deniable.server.results import Round, select_rounds, stored_estimates
from deniable.server.results.advice import caps_of_all_rounds
from deniable.server.results.annotations import events_by_round
from deniable.server.results.display import change_words, days_text, period_name
from deniable.server.results.document import RoundFacts
from deniable.server.results.export import records_csv
from deniable.server.results.periods import DIVISIONS, parse_round
from deniable.server.results.sentences import empty_labels, round_note, shuffle_sentences
from deniable.server.results.survey_estimates import (
    MAX_ROWS,
    RoundSelection,
    rounds_in_memory,
    rounds_per_response,
    shown_counters,
)
from deniable.server.store import Damaged, PublishedSurvey
from deniable.shared.errors import Refused, WrongUse
from deniable.shared.privacy.epsilon import lifetime_promise, round_promise
from deniable.shared.survey.phrases import (
    day_and_month,
    default_participation,
    repeated,
    sent_in_clear,
    when_sent,
)

MAX_LINKS = 6  # shown in the row of rounds; the others are folded
MAX_LISTED = 400  # including folded rounds; earlier rounds are on separate pages
MAX_PERIOD_ROWS = 60  # of a question's table of periods
COARSER = {"day": ("week", "month"), "week": ("month",), "month": ()}  # by the length of a round
STATIC = Path(__file__).parent / "static"
FIGURE_WIDTH = 720
DAMAGED = "Damaged counts: no result is shown until the operator repairs them"

log = logging.getLogger("deniable.server")

OUTCOMES = {
    "accepted": "accepted",
    "duplicates": "sent again, and counted once",
    "early": "rejected: more than an hour before their round",
    "late": "rejected: after their round and its grace period",
    "closed": "rejected: the survey was closed",
    "bad-payload": "rejected: not what this survey asks for",
    "too-many": "rejected: more reports in one envelope than allowed",
    "invitation-missing": "rejected: without an invitation code",
    "invitation-unknown": "rejected: with an unknown invitation code",
    "invitation-spent": "rejected: with an invitation code that was already used",
    "unknown-survey": "rejected: for a survey that is not published here",
}

HELPERS: Mapping[str, Any] = {  # of the template of results; Any: functions and a number
    "period_name": period_name,
    "days_text": days_text,
    "change_words": change_words,
    "max_rows": MAX_PERIOD_ROWS,
}

blueprint = pages("survey", public=("survey_json",))


class RoundLink(NamedTuple):
    number: int
    name: str
    reports: int
    current: bool


@dataclass(frozen=True)
class SurveyPage(PageContext):
    """View of a survey's results, without any estimation."""

    asked: int | None  # the round in the address
    by: str  # division of the rounds: "round" or a `Division`

    @property
    def promises(self) -> list[str]:
        """Privacy promises for one round and for the survey, and what its reports do not show."""
        survey = self.survey
        return [
            f"{round_promise(survey.round_billionths, survey.repeat_rounds)}.",
            f"{lifetime_promise(survey.round_billionths, survey.rounds, survey.repeat_rounds)}.",
            *repeated(survey),
            *default_participation(survey),
            *when_sent(survey),
            *([sent_in_clear(survey)] if survey.labels else []),
        ]

    @property
    def caps(self) -> dict[str, str]:
        """Limits of a policy with which an install answers every round."""
        return caps_of_all_rounds(self.survey)

    @cached_property
    def questions(self) -> Sequence[QuestionView]:
        return [QuestionView(question, self) for question in self.survey.questions]

    @property
    def crossed(self) -> Sequence[CrossedView]:
        tables = (self.period.cross or ()) if self.period else ()
        return [crossed_view(self.survey, table) for table in tables]

    @property
    def by_label(self) -> Sequence[LabelView]:
        parts = (self.period.labels or ()) if self.period else ()
        about = self.estimates.header.about
        medians = (self.period.medians or ()) if self.period else ()
        return list(label_views(self.survey, about, parts, medians)) if parts else []

    @property
    def empty_labels(self) -> Sequence[str]:
        """Sentences about labels without a shown value."""
        names, minimum = self.estimates.header.by or (), self.survey.minimum_reports
        return [*empty_labels(names, self.period, minimum)] if self.period and names else []

    @property
    def shuffled(self) -> Sequence[str]:
        """Sentences about the privacy that the relay's shuffle adds."""
        period, epsilon = self.period, self.estimates.header.epsilon
        return list(shuffle_sentences(period, epsilon)) if period else []

    @property
    def tongue(self) -> str:
        """Part of a link that keeps the language of this page; empty for the default."""
        survey = self.survey
        is_default = survey.language in ("", *survey.languages[:1])
        return "" if is_default else f"language={survey.language}&"

    @property
    def status(self) -> str:
        """Description of when the round's results are shown, or change."""
        facts = self.period
        if facts is None:
            return ""
        reading = Reading(facts.confidence, facts.any_time, facts.covers)
        waiting, day = self.estimates.is_waiting(facts.round), day_and_month
        named = (self.survey, facts.round, facts.state, reading, day)
        return round_note(*named, waiting=waiting) or ""

    @property
    def arrival(self) -> str:
        """Sentence on when the round's reports arrive; empty if they arrive during the round."""
        if self.period is None or not self.survey.redraws:
            return ""
        first = day_and_month(self.survey.round_ends(self.period.round))
        return f"Reports of this round arrive from {first}."

    @property
    def in_javascript(self) -> bool:
        questions = self.survey.questions
        return not self.survey.redraws and all(asked.in_javascript for asked in questions)

    @property
    def fits_in_a_file(self) -> bool:
        """True if one response can contain all rounds."""
        return self.survey.rounds <= rounds_per_response(self.survey)

    @property
    def divisions(self) -> list[tuple[str, str]]:
        """Divisions that the page offers, with their names; none for a single round."""
        coarser = COARSER.get(self.survey.period)
        if coarser is None or len(self.estimates.facts) < 2:
            return []
        named = [("round", self.survey.period.capitalize())]
        named += [(name, name.capitalize()) for name in coarser]
        named += [("event", "Between events")] if self.estimates.events else []
        return [*named, ("all", "All")]

    @cached_property
    def rounds(self) -> Sequence[RoundLink]:
        """Rounds or periods on this page, newest first."""
        current = self.period and self.period.round
        if self.periods:
            listed = [(one.round, period_name(one), one.reports) for one in self.periods]
        else:
            facts = self.estimates.facts.values()
            listed = [(one.round, self.survey.round_title(one.round), one.reports) for one in facts]
        return [RoundLink(*link, link[0] == current) for link in reversed(listed)]

    @property
    def before(self) -> int | None:
        """Newest round that is not on this page, if any."""
        selection = self.estimates.selection
        return selection.first - 1 if selection.left_out else None


@blueprint.get("/surveys/<identifier>")
def survey(identifier: str) -> ResponseReturnValue:
    try:
        page = read_page(identifier)
    except Refused as error:
        return missing(str(error))
    except Damaged as error:
        log.error("%s", error)
        return refused(DAMAGED, 503)
    here, own_url = parts(), request.url_root.rstrip("/")
    sequence = page.estimates.published.sequence
    return render_template(
        "survey.html",
        page=page,
        max_links=MAX_LINKS,
        outcomes=outcome_rows(
            shown_counters(here.store, page.estimates.published, page.estimates.now)
        ),
        has_public_page=here.has_public_pages,
        url=own_url,
        device_url=here.device_url or own_url,
        linked=True,
        shares=[one for one in here.store.shares() if one.survey == sequence],
        **HELPERS,
    )


blueprint.add_url_rule("/surveys/<identifier>.json", "survey_json", results)  # as under /v1


def read_page(identifier: str) -> SurveyPage:
    """Return the requested page; raise Refused if the survey or the round does not exist."""
    wanted = request.values
    published = parts().catalogue.find(identifier).in_language(wanted.get("language", ""))
    asked = _asked_round(published, wanted.get("round") or None)
    return page_of(published, wanted.get("by", ""), asked)


def page_of(published: PublishedSurvey, by: str = "", asked: int | None = None) -> SurveyPage:
    """Return the page of a round, or of a division of the rounds; by default, of the newest."""
    here = parts()
    now = here.clock.now()
    selection = select_listed(published, now, None if by in DIVISIONS else asked)
    estimates = stored_estimates(here.store, published, now, selection, here.estimates, MAX_ROWS)
    if not by and asked is None and estimates.events:
        by = "event"
    division = next((name for name in DIVISIONS if name == by), None)
    periods = estimates.periods(division) if division else []
    facts: Sequence[RoundFacts] = periods or [*estimates.facts.values()]
    number = _chosen(facts, published.survey.minimum_reports, asked)
    period: Round | None = next((one for one in periods if one.round == number), None)
    if period is None and number is not None:
        (period,) = estimates.estimated([number])
    events, references = events_by_round(estimates.events), here.references.of(published)
    return SurveyPage(estimates, period, periods, events, references, asked, division or "round")


def outcome_rows(counted: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the number of reports by outcome, with a description of each outcome."""
    order = [*OUTCOMES, *sorted(counted.keys() - OUTCOMES.keys())]
    return [(OUTCOMES.get(code, code), counted[code]) for code in order if counted.get(code)]


def _asked_round(published: PublishedSurvey, text: str | None) -> int | None:
    """Return the round in the address: a number, or one of its days."""
    try:
        return None if text is None else parse_round(published.survey, text)
    except WrongUse as error:
        raise Refused(str(error)) from None


def select_listed(published: PublishedSurvey, now: datetime, asked: int | None) -> RoundSelection:
    """Return the newest rounds, or the rounds up to a few after the requested one."""
    survey = published.survey
    most = min(MAX_LISTED, rounds_in_memory(survey))
    newest = select_rounds(survey, now, max_rounds=most)
    if asked is None or asked in newest:
        return newest
    return select_rounds(survey, now, last=asked + min(MAX_LINKS, most - 1), max_rounds=most)


def _chosen(rounds: Sequence[RoundFacts], minimum: int, asked: int | None) -> int | None:
    """Return the requested round, or the newest round with enough reports, or with any."""
    if asked is not None:
        for facts in rounds:
            if facts.round == asked:
                return facts.round
        raise Refused("this round does not exist, or has not begun")
    shown = [facts for facts in rounds if facts.covers != "nothing"]
    for least, listed in ((minimum, shown), (1, rounds), (0, rounds)):
        for facts in reversed(listed):
            if facts.reports >= least:
                return facts.round
    return None


# Figures as files


@blueprint.get("/surveys/<identifier>/figures/<question>/<name>.<any(svg, csv):form>")
def figure(identifier: str, question: str, name: str, form: str) -> ResponseReturnValue:
    try:
        page = read_page(identifier)
    except Refused:
        raise NotFound from None
    for view in page.questions:
        for file in view.files() if view.question.name == question else ():
            if file.name == name:
                return _svg(file, view, page) if form == "svg" else _csv(file)
    raise NotFound


def _csv(file: FigureFile) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{file.name}.csv"'}
    return Response(records_csv(file.records()), mimetype="text/csv", headers=headers)


def _svg(file: FigureFile, view: QuestionView, page: SurveyPage) -> Response:
    """Render a figure with an inline style, which its own headers allow, unlike those of a page."""
    style = _file_style()
    text = render_template(
        "figure.svg", figure=file, view=view, page=page, style=style, width=FIGURE_WIDTH
    )
    allowed = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{allowed}'"
    return Response(text, mimetype="image/svg+xml", headers={"Content-Security-Policy": policy})


def _file_style() -> str:
    """Return the style of charts with the light colours instead of variables.

    Few viewers of SVG files support variables.
    """
    sheet, chart = ((STATIC / name).read_text("utf-8") for name in ("style.css", "chart.css"))
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", sheet.split("}")[0]))
    wide = chart.split("@media")[0]
    return re.sub(r"var\(--([\w-]+)\)", lambda variable: colours[variable[1]], wide)
