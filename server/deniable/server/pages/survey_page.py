"""What a survey's page shows: its rounds, and of one of them each question with chart and table."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from deniable.server.pages import charts
from deniable.server.results import (
    About,
    Crossed,
    Distribution,
    Floor,
    QuestionResult,
    RoundFacts,
    State,
    Window,
    crossings,
    floors,
    question_distribution,
    question_result,
    round_fits,
    rounds_so_far,
    state_at,
    warning,
    window,
)
from deniable.server.results.display import (
    STYLES,
    Figures,
    Style,
    figures,
    known_figures,
    quantile_figures,
    whole_text,
)
from deniable.server.results.shuffled import sentences, shuffled
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.errors import Refused
from deniable.shared.privacy.promises import lifetime_promise, odds_factor, round_promise
from deniable.shared.survey.document import Survey
from deniable.shared.survey.questions import Question
from deniable.shared.survey.wording import repeated

MOST_ROWS = 200  # of a table on a page; the CSV has all
MOST_ROUNDS = 12  # in the row of links; the others are behind it
MOST_LISTED = 200  # with those behind it; earlier ones are on pages of their own
MOST_TREND_ROUNDS = 60

_NUMBER = re.compile("[0-9]{1,9}")

OUTCOMES = {
    "accepted": "counted",
    "duplicates": "sent again, and counted once",
    "early": "refused: more than an hour before their round",
    "late": "refused: after their round and its grace",
    "closed": "refused: the survey was closed",
    "bad-payload": "refused: not what this survey asks for",
    "too-many": "refused: more in one envelope than the sender may send",
    "unknown-survey": "refused: for a survey that is not published here",
}


@dataclass(frozen=True)
class RoundLink:
    number: int
    name: str
    reports: int
    current: bool


@dataclass(frozen=True)
class QuestionView:
    question: Question
    about: About
    figures: Sequence[Figures]  # as many as a table holds
    left_out: int  # of the table
    labels: int
    reports: int
    chart: charts.Chart | None
    trend: charts.Trend | None
    floor: str | None  # where a list is sorted: what is below it is not told from 0
    told: int  # so many are not
    distribution: Distribution | None
    whole: str  # of a vector: how long it is, and how far the estimate is off
    text_floor: Floor | None  # of a text

    @property
    def style(self) -> Style:
        return STYLES[self.question.statistic]

    @property
    def range(self) -> str:
        return self.style.range.format(*self.question.range)

    @property
    def curve(self) -> charts.Curve | None:
        return charts.curve(self.distribution) if self.distribution else None

    @property
    def quantiles(self) -> Sequence[tuple[str, tuple[str, str, str]]]:
        """Each with its estimate, low and high."""
        found = self.distribution.quantiles if self.distribution else ()
        return [(f"{100 * each.level:g} %", quantile_figures(each)) for each in found]

    @property
    def odds(self) -> str:
        return odds_factor(self.question.epsilon.billionths)

    @property
    def example(self) -> str:
        """An answer as an app in Python would write it."""
        return self.question.shown_example

    @property
    def example_in_javascript(self) -> str:
        return json.dumps(self.question.example, ensure_ascii=False)

    @property
    def forgery(self) -> str:
        words = self.question.mechanism.forgery()
        return words[:1].upper() + words[1:]


@dataclass(frozen=True)
class CrossedView:
    """Two questions at once."""

    name: str
    figures: Sequence[Figures]  # as many as a table holds
    left_out: int
    joint: bool  # whether the intervals hold at once


@dataclass(frozen=True)
class SurveyPage:
    published: PublishedSurvey
    state: State
    promises: tuple[str, str]
    repeated: tuple[str, ...]
    period: RoundFacts | None  # the round that is shown
    period_name: str
    warning: str | None  # where reports of that round must be forged
    shuffled: Sequence[str]  # what its reports give away by a relay
    rounds: Sequence[RoundLink]  # the newest first
    before: int | None  # the newest of those that are not in the list, if there are any
    later: bool  # whether newer ones may not be in it
    questions: Sequence[QuestionView]
    crossed: Sequence[CrossedView]

    @property
    def in_javascript(self) -> bool:
        asked = self.published.survey
        return not asked.repeats and all(each.in_javascript for each in asked.questions)

    @property
    def first_rounds(self) -> Sequence[RoundLink]:
        return self.rounds[:MOST_ROUNDS]

    @property
    def earlier_rounds(self) -> Sequence[RoundLink]:
        return self.rounds[MOST_ROUNDS:]


def survey_page(
    published: PublishedSurvey,
    tallies: Sequence[RoundTally],
    now: datetime,
    asked: str | None,
    shown: Window | None = None,
) -> SurveyPage:
    """`asked` is the round that the address names; Refused if there is none."""
    survey = published.survey
    rounds = rounds_so_far(published, tallies, now, shown)
    period = _chosen(rounds, survey.minimum_reports, asked)
    number = period.round if period else None
    tally = next((tally for tally in tallies if tally.round == number), None)
    looked_at = frozenset(each.round for each in rounds if each.open)
    return SurveyPage(
        published=published,
        state=state_at(published, now),
        promises=(
            round_promise(survey.round_billionths, survey.repeat_rounds),
            lifetime_promise(survey.round_billionths, survey.rounds, survey.repeat_rounds),
        ),
        repeated=repeated(survey),
        period=period,
        period_name=survey.round_title(number) if number is not None else "",
        warning=warning(survey, tally, round_fits(survey, tally)),
        shuffled=tuple(
            sentences(shuffled(survey, tally.reports if tally else 0), survey.round_epsilon)
        ),
        rounds=[_link(survey, each, number) for each in reversed(rounds)],
        before=shown.first - 1 if shown and shown.left_out else None,
        later=asked is not None,
        questions=[
            _view(question, survey, tallies, tally, looked_at) for question in survey.questions
        ],
        crossed=[
            _crossed_view(each) for each in crossings(survey, tally, _is_open(tally, looked_at))
        ],
    )


def page_window(survey: Survey, now: datetime, asked: str | None) -> Window:
    """The newest rounds; or those up to some way after the one that is asked for."""
    newest = window(survey, now, most=MOST_LISTED)
    if asked is None or not _NUMBER.fullmatch(asked) or int(asked) in newest:
        return newest
    return window(survey, now, last=int(asked) + MOST_ROUNDS, most=MOST_LISTED)


def outcome_rows(counted: Mapping[str, int]) -> list[tuple[str, int]]:
    """Reports by what became of them, in words."""
    order = [*OUTCOMES, *sorted(counted.keys() - OUTCOMES.keys())]
    return [(OUTCOMES.get(code, code), counted[code]) for code in order if counted.get(code)]


def _chosen(rounds: Sequence[RoundFacts], minimum: int, asked: str | None) -> RoundFacts | None:
    """The round that is asked for, or the newest that says something."""
    if asked is not None:
        for period in rounds:
            if str(period.round) == asked:
                return period
        raise Refused("this survey has no such round, or it has not begun")
    enough = [period for period in rounds if period.reports >= minimum]
    some = [period for period in rounds if period.reports]
    return next(iter([*enough[-1:], *some[-1:], *rounds[-1:]]), None)


def _link(survey: Survey, period: RoundFacts, current: int | None) -> RoundLink:
    name = survey.round_title(period.round)
    return RoundLink(period.round, name, period.reports, period.round == current)


def _view(
    question: Question,
    survey: Survey,
    tallies: Sequence[RoundTally],
    tally: RoundTally | None,
    looked_at: frozenset[int],
) -> QuestionView:
    looks = _is_open(tally, looked_at)
    result = question_result(survey, question, tally, looks)
    # sorted, and picked from; texts are found, and their intervals made for that
    joint = len(question.labels) > charts.MOST_MARKS
    known = known_figures(result.rows, question.statistic, question.unit, joint)
    chart = charts.chart(known, question.axis)
    if chart and chart.left_out:
        known.sort(key=lambda row: -row.notable)
    return QuestionView(
        question=question,
        about=result.about,
        figures=known[:MOST_ROWS],
        left_out=max(0, len(known) - MOST_ROWS),
        labels=len(result.rows),
        floor=_floor(result, known) if joint else None,
        told=sum(row.low > 0 for row in known),
        reports=result.rows[0].reports,
        chart=chart,
        distribution=question_distribution(survey, question, tally, looks),
        trend=_trend(question, survey, tallies, looked_at) if len(question.labels) == 1 else None,
        whole=whole_text(result.whole),
        text_floor=floors(survey, tally).get(question.name),
    )


def _crossed_view(each: Crossed) -> CrossedView:
    joint = len(each.rows) > charts.MOST_MARKS
    known = known_figures(each.rows, "share", joint=joint)
    if joint:
        known.sort(key=lambda row: -row.estimate)
    left_out = max(0, len(known) - MOST_ROWS)
    return CrossedView(" × ".join(each.questions), known[:MOST_ROWS], left_out, joint)


def _floor(result: QuestionResult, known: Sequence[Figures]) -> str | None:
    return known[0].text(result.floor) if known and result.floor is not None else None


def _is_open(tally: RoundTally | None, looked_at: frozenset[int]) -> bool:
    return tally is not None and tally.round in looked_at


def _trend(
    question: Question, survey: Survey, tallies: Sequence[RoundTally], looked_at: frozenset[int]
) -> charts.Trend | None:
    """Of the one label that the question has."""
    points = []
    for tally in tallies[-MOST_TREND_ROUNDS:]:
        looks = _is_open(tally, looked_at)
        (row,) = question_result(survey, question, tally, looks).rows
        if found := figures(row, question.statistic, question.unit):
            points.append((survey.round_short_title(tally.round), found))
    return charts.trend(points)
