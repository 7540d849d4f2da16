"""The pages: what is asked, what a report gives away, and what the reports say. For analysts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response, current_app, redirect, render_template, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import NotFound

from deniable.server.http.context import parts
from deniable.server.http.problems import problem
from deniable.server.pages import charts, sessions
from deniable.server.results import question_facts, question_rows, rounds_so_far, state_at
from deniable.server.results.display import figures
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.errors import Refused
from deniable.shared.privacy.promises import lifetime_promise, odds_factor, round_promise
from deniable.shared.survey.document import Survey
from deniable.shared.survey.questions import Choice, Number, Question

POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
MOST_ROWS = 200  # of a table on a page; the CSV has all
MOST_ROUNDS = 12  # in the row of links; the others are behind it
MOST_TREND_ROUNDS = 60
Round = dict[str, Any]  # Any: JSON

OUTCOMES = {
    "accepted": "counted",
    "duplicates": "sent again, and counted once",
    "early": "refused: more than an hour before their round",
    "late": "refused: after their round and its grace",
    "closed": "refused: the survey was closed",
    "bad-payload": "refused: not what this survey asks for",
    "too-many": "refused: more in one envelope than their sender may send",
    "unknown-survey": "refused: for a survey that is not published here",
}

blueprint = Blueprint("dashboard", __name__)


@dataclass(frozen=True)
class RoundLink:
    number: int
    name: str
    reports: int
    current: bool


@dataclass(frozen=True)
class QuestionView:
    question: Question
    about: Mapping[str, Any]  # Any: JSON
    odds: str
    rows: Sequence[Mapping[str, Any]]
    rows_left_out: int
    chart: charts.Chart | None
    trend: charts.Trend | None

    @property
    def example(self) -> str:
        """An answer as an app would write it."""
        match self.question:
            case Choice(options=options):
                return repr(options[0])
            case Number(low=low):
                return repr(low)
            case _:
                return "True"

    @property
    def leverage(self) -> str:
        return f"{self.about['leverage']:,.1f}"


@blueprint.before_request
def _sign_in_first() -> ResponseReturnValue | None:
    if request.endpoint in ("dashboard.sign_in", "dashboard.sign_out"):
        return None
    return sessions.sign_in_first()


@blueprint.after_request
def _only_our_own(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = POLICY
    return response


@blueprint.get("/")
def surveys() -> str:
    here = parts()
    rows = [_overview(published) for published in reversed(here.store.surveys())]
    return render_template("surveys.html", rows=rows, data=here.store.data)


@blueprint.get("/surveys/")
def no_survey() -> ResponseReturnValue:
    return redirect("/", 303)


@blueprint.get("/surveys/<identifier>")
def survey(identifier: str) -> ResponseReturnValue:
    here = parts()
    try:
        published = here.store.find(identifier)
        tallies = here.store.tallies(published.id)
        rounds = rounds_so_far(published, tallies, here.now())
        period = _chosen_round(rounds, published.survey.minimum_reports)
    except Refused as error:
        return _missing(str(error))
    number = period["round"] if period else None
    return render_template(
        "survey.html",
        published=published,
        state=state_at(published, here.now()),
        promises=_promises(published),
        period=period,
        period_name=None if number is None else published.survey.round_title(number),
        rounds=_round_links(published, rounds, number),
        most_rounds=MOST_ROUNDS,
        questions=[_view(q, published.survey, tallies, number) for q in published.survey.questions],
        counters=_counters(published.id),
        data=here.store.data,
        url=request.host_url.rstrip("/"),
    )


@blueprint.post("/sign-in")
def sign_in() -> ResponseReturnValue:
    return sessions.sign_in(request.form.get("token", ""), request.form.get("target", "/"))


@blueprint.post("/sign-out")
def sign_out() -> Response:
    return sessions.sign_out()


@blueprint.app_errorhandler(NotFound)
def _nothing_here(_: NotFound) -> ResponseReturnValue:
    """A page for people; programs get the same document as for every other error."""
    wants_page = request.accept_mimetypes.best_match(["application/problem+json", "text/html"])
    if request.path.startswith("/v1/") or wants_page != "text/html":
        return problem(
            404, "there is nothing at this address; /v1/openapi.json lists what there is"
        )
    text, status = _missing("there is nothing at this address")
    return _only_our_own(current_app.make_response((text, status)))


def _missing(reason: str) -> tuple[str, int]:
    return render_template("missing.html", reason=reason[:1].upper() + reason[1:]), 404


def _overview(published: PublishedSurvey) -> dict[str, Any]:
    here = parts()
    tallies = here.store.tallies(published.id)
    return {
        "published": published,
        "state": state_at(published, here.now()),
        "reports": sum(tally.reports for tally in tallies),
        "odds": odds_factor(published.survey.round_billionths),
    }


def _promises(published: PublishedSurvey) -> tuple[str, str]:
    billionths, rounds = published.survey.round_billionths, published.survey.rounds
    return round_promise(billionths), lifetime_promise(billionths, rounds)


def _chosen_round(rounds: list[Round], minimum: int) -> Round | None:
    """The round that is asked for, or the newest that says something."""
    text = request.args.get("round")
    if text is not None:
        for period in rounds:
            if str(period["round"]) == text:
                return period
        raise Refused("this survey has no such round, or it has not begun")
    enough = [period for period in rounds if period["reports"] >= minimum]
    some = [period for period in rounds if period["reports"]]
    return next(iter(enough[-1:] + some[-1:] + rounds[-1:]), None)


def _round_links(
    published: PublishedSurvey, rounds: list[Round], current: int | None
) -> list[RoundLink]:
    """The newest first."""
    return [
        RoundLink(
            number, published.survey.round_title(number), period["reports"], number == current
        )
        for period in reversed(rounds)
        for number in (period["round"],)
    ]


def _view(
    question: Question, survey: Survey, tallies: list[RoundTally], number: int | None
) -> QuestionView:
    about = question_facts(question)
    tally = next((tally for tally in tallies if tally.round == number), None)
    rows = question_rows(survey, question, tally)
    chart = charts.chart(rows, about)
    if chart and chart.left_out:
        rows = sorted(rows, key=lambda row: -row["estimate"])
    return QuestionView(
        question=question,
        about=about,
        odds=odds_factor(question.epsilon.billionths),
        rows=[_table_row(row, question.kind) for row in rows[:MOST_ROWS]],
        rows_left_out=max(0, len(rows) - MOST_ROWS),
        chart=chart,
        trend=_trend(question, survey, tallies),
    )


def _table_row(row: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    found = figures(row, kind)
    if found is None:
        return row
    return {**row, "figures": found, "nearest": found.plain(row["consistent"])}


def _trend(question: Question, survey: Survey, tallies: list[RoundTally]) -> charts.Trend | None:
    if question.kind == "choice":
        return None
    recent = tallies[-MOST_TREND_ROUNDS:]
    rows = [question_rows(survey, question, tally)[0] for tally in recent]
    names = [survey.round_short_title(tally.round) for tally in recent]
    return charts.trend(rows, names, question_facts(question))


def _counters(identifier: str) -> list[tuple[str, int]]:
    counted = parts().store.counters(identifier)
    order = [*OUTCOMES, *sorted(counted.keys() - OUTCOMES.keys())]
    return [(OUTCOMES.get(code, code), counted[code]) for code in order if counted.get(code)]
