"""The results document: the types that JSON, CSV, pages, the command and Python share.

    Results > Round > QuestionResult > Row

The OpenAPI schemas are generated from these types. Python programs parse the JSON with
`msgspec.json.decode(text, type=Results)`. Unknown values are null, never NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType, field

from deniable.server.store import RoundState, State
from deniable.shared.survey.kinds.base import Statistic

Count = Annotated[int, Meta(ge=0)]
SurveyId = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Row(Struct, frozen=True, forbid_unknown_fields=True, gc=False):  # a round may have 65,536
    """Estimate for one label: a share from 0 to 1, a mean in the question's unit, or a coordinate.

    `low` to `high` is the interval for the population. `low_these` to `high_these` is the interval
    for exactly the respondents. `low_all` to `high_all` is for the population and holds jointly for
    all labels of the question: use it if you sort or select labels.
    """

    label: str
    estimate: float | None
    low: float | None
    high: float | None
    low_these: float | None
    high_these: float | None
    low_all: float | None
    high_all: float | None
    standard_error: float | None
    reports: Count
    consistent: float | None
    note: str | None


class About(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts about a question that are the same in every round."""

    title: str
    called: dict[str, str] | UnsetType = UNSET  # labels as shown to people, where they differ
    kind: str
    epsilon: str
    mechanism: str
    leverage: float
    method: str
    statistic: Statistic
    unit: str
    range: tuple[float, float]
    # in follow-up surveys, where `low` to `high` is not about the population
    people: Literal["respondents"] | UnsetType = UNSET
    low: int | float | UnsetType = UNSET  # ends of a number's range
    high: int | float | UnsetType = UNSET
    options: Count | UnsetType = UNSET  # number of options of a choice
    dimension: Count | UnsetType = UNSET  # number of coordinates of a vector
    gain: float | UnsetType = UNSET  # divisor of the mean of a vector's reports


class Fit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Forgery check of one question: whether honest reports can explain the round's counts."""

    p_value: float  # upper bound on the probability of such counts from honest reports
    forged: Count  # lower bound on the number of forged reports; 0 where none is detected
    shift: float  # how far these reports alone can move an estimate, in the question's units
    sentence: str  # describes the check


class Difference(Struct, frozen=True, forbid_unknown_fields=True):
    """Difference of one label's estimate from an earlier round or another survey.

    `low` to `high` holds whether or not the same people answered in both. `low_these` to
    `high_these` refers to exactly the respondents of both, so only the privacy noise is random.
    """

    label: str
    estimate: float
    low: float
    high: float
    low_these: float
    high_these: float


class Change(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Differences between a round or period and an earlier one."""

    since: Count  # number of the earlier round, or of the first round of the earlier period
    since_last: Count | UnsetType = UNSET  # number of the last round of the earlier period
    note: str | None  # reason for missing differences
    questions: dict[str, tuple[Difference, ...]]  # questions with estimates in both rounds


class Comparison(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Differences between two surveys or periods, for questions with the same name."""

    survey: SurveyId
    name: str
    round: Count
    last_round: Count | UnsetType = UNSET  # only of a period, whose first round is `round`
    against: SurveyId
    against_name: str
    against_round: Count
    against_last_round: Count | UnsetType = UNSET
    confidence: float
    about: dict[str, About]
    questions: dict[str, tuple[Difference, ...]]


class Point(Struct, frozen=True, forbid_unknown_fields=True):
    """Point of a number's distribution; the points divide the range evenly.

    A number between two points counts partly for each, more for the closer one. `share` is the
    share at this point; all shares add up to 1. `below` is the share of numbers below the point,
    plus half of those at it. `low` to `high` holds for this point only; all of a question's
    intervals from `below_low` to `below_high` hold jointly. Both refer to the population.
    """

    at: float
    share: float
    low: float
    high: float
    consistent: float
    below: float
    below_low: float
    below_high: float
    below_consistent: float


class Quantile(Struct, frozen=True, forbid_unknown_fields=True):
    """Quantile of `below_consistent`; its interval holds jointly with all others and `below`."""

    level: float
    estimate: float
    low: float
    high: float


class Distribution(Struct, frozen=True, forbid_unknown_fields=True):
    points: tuple[Point, ...]
    quantiles: tuple[Quantile, ...]


class Rates(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shares of a question's answers among those who gave each answer to another question.

    Each row is labelled with both answers. The answers to `question` are listed within each answer
    to `within`. An estimate is null if no one seems to have given the other answer.
    """

    question: str
    within: str
    rows: tuple[Row, ...]


class Crossed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cross table: shares of people who gave both of two answers, one to each question.

    The second question's answers are listed within each answer of the first. `low_these` and
    `high_these` are null. `rates` is empty without estimates.
    """

    questions: tuple[str, str]
    rows: tuple[Row, ...]
    rates: tuple[Rates, ...]


class Effect(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Difference of one label's estimate between two values of a public label.

    `low` to `high` holds for the population and for all who reported. `low_all` to `high_all` holds
    jointly for all of the question's labels and all values compared.
    """

    label: str
    estimate: float
    low: float
    high: float
    low_all: float
    high_all: float


class Effects(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Differences of a value's estimates from those of another value."""

    against: str  # the other value: the first one of the label
    note: str | None  # reason for withholding the differences
    questions: dict[str, tuple[Effect, ...]]  # questions with estimates for both values


class Shuffled(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The (ε, δ) of one report if the relay and `people` people are honest."""

    among: Literal["batch", "round"]  # the reports among which it is hidden
    people: Count
    epsilon: str  # rounded up
    delta: str


class ByLabel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Estimates from the reports that carry one value of a label.

    `low_all` to `high_all` holds jointly for all values of the label and all options of a question.
    """

    name: str  # of the label
    value: str  # “other”: values that are not given, not listed, or folded
    reports: Count
    questions: dict[str, tuple[Row, ...]]
    effects: Effects | UnsetType = UNSET  # unset for the first value, and for “other”
    shuffled: Shuffled | UnsetType = UNSET  # in the batch with the fewest such reports


class Median(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Median of a question's estimates over the values of a label, which forgers move less easily.

    If fewer than half of these groups contain forged reports, each estimate lies between those of
    two honest groups. If the honest groups also have the same true value, `low_all` to `high_all`
    contains it, jointly for all options. Without forgery, it contains the median of the groups'
    true values. A row has a `note` if the groups differ by more than chance explains: if all had
    the same true value, the probability of any note would be at most 5 %.
    """

    by: str  # the label
    question: str
    groups: Count  # values with an estimate, at least three
    rows: tuple[Row, ...]  # the other intervals and `standard_error` are null


class Relayed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Crowds in which relays hid the sealed reports of a round."""

    smallest_batch: Count  # fewest reports with the same labels in one batch; 0 if no batch came
    alone: bool  # whether some of the reports came without a relay
    dropped: Count  # reports that relays dropped, because no batch would hide them


class WholeVector(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Length of a mean vector, corrected for noise, and the root mean square error."""

    length: float
    error: float


class Floor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Share of a round that a text needs to be found."""

    share: float  # a text with this share is found with probability 99 %; if 1 or more, none is
    people: Count  # that share as a number of reports
    false_discovery: float  # probability of listing any text that no one reported

    @property
    def words(self) -> str:
        """The floor as sentences."""
        if self.share >= 1:
            return "So few reports may miss even a text that everyone gave."
        return (
            f"A text that {self.people:,} or more people gave is found with a probability of 99 %, "
            "unless more than twenty others are as common. If no report is forged, the probability "
            f"of listing a text that no one gave is at most {self.false_discovery:.0%}."
        )


class Forecast(Struct, frozen=True, forbid_unknown_fields=True):
    """Margins of the highest estimate: now, and once final with the same share and reports."""

    label: str
    margin: float
    final_margin: float


class QuestionResult(NamedTuple):
    """One question in one round."""

    name: str
    about: About
    rows: tuple[Row, ...]
    floor: float | None
    whole: WholeVector | None = None
    left_out: int = 0  # rows omitted because of the limit on a response


class RoundFacts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts about a round, without its estimates."""

    round: Count
    first_day: str = field(name="from")
    last_day: str = field(name="until")
    state: RoundState
    final_on: str  # from this day on, reports are no longer accepted
    confidence: float  # of an interval on its own, at this look alone
    any_time: bool  # whether intervals hold at every look
    covers: Literal["all", "first look", "nothing"]  # which reports are in the estimates
    reports: Count  # all reports of a final round; otherwise whole steps
    relayed: Relayed | UnsetType = UNSET  # of final rounds, if reports are sealed
    note: str | None


class Round(RoundFacts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    warning: str | None  # set if some reports must be forged
    fit: dict[str, Fit]
    floor: dict[str, float | None]  # estimates below it cannot be distinguished from 0
    floors: dict[str, Floor] | UnsetType = UNSET  # only for text questions
    questions: dict[str, tuple[Row, ...]]
    rows_left_out: dict[str, Count] | UnsetType = UNSET  # by question; unset if complete
    # only for number questions with enough reports
    distributions: dict[str, Distribution] | UnsetType = UNSET
    cross: tuple[Crossed, ...] | UnsetType = UNSET  # only if the survey crosses questions
    forecasts: dict[str, Forecast] | UnsetType = UNSET  # only while collecting
    change: Change | None  # null if no earlier round in the response has reports
    shuffled: tuple[Shuffled, ...] | UnsetType = UNSET  # only if reports are sealed for a relay
    vectors: dict[str, WholeVector] | UnsetType = UNSET  # only for vectors with an estimate
    labels: tuple[ByLabel, ...] | UnsetType = UNSET  # only if the survey declares labels
    medians: tuple[Median, ...] | UnsetType = UNSET  # only by labels with listed values


class Period(Round, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reports of several rounds together; `round` is the first of them.

    `low_these` to `high_these` and `distributions` refer to the answers in exactly these reports.
    `low` to `high` refers to the population, and allows for the same people in all of the rounds.
    """

    last_round: Count
    rounds: Count  # rounds with reports; of rounds that share one report, only one is counted
    event: str | UnsetType = UNSET  # the event that begins the period
    forged_rounds: tuple[Count, ...]  # rounds whose counts cannot come from honest reports alone


class ChangePoint(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Change of one label, which began between two days, most likely at `round`.

    If the respondents' true value is the same in all rounds, or changes by at most the survey's
    `most_change` from one round to the next, the probability that any change of a question is
    listed, at any look, is at most 5 %. Rounds with forged reports are left out.
    """

    label: str
    direction: Literal["higher", "lower"]
    round: Count
    day: str  # the first of the round
    earliest: str
    latest: str


class Smoothed(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One label's value in a round, from the reports of `rounds` rounds that end with it.

    If the true value changes by at most the survey's `most_change` from one round to the next, the
    intervals hold: `low` to `high` for the population, `low_these` to `high_these` for exactly the
    round's respondents.
    """

    round: Count
    rounds: Count
    label: str
    estimate: float
    low: float
    high: float
    low_these: float
    high_these: float


class Event(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Event that an operator noted for a day, such as a release, with the round of that day."""

    day: str
    round: int
    words: str


class Results(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    survey: SurveyId
    name: str
    title: str
    language: str | UnsetType = UNSET  # of the survey's texts; unset if it names no languages
    state: State
    epsilon: str
    lifetime_epsilon: str
    period: str
    minimum_reports: Count
    confidence: float
    about: dict[str, About]
    # the survey whose results chose the questions, the rule, and the digest of the counts
    follows: dict[str, str] | UnsetType = UNSET
    ask: Count | UnsetType = UNSET  # number of questions that each install is asked; unset: all
    repeat_rounds: Count | UnsetType = UNSET  # number of rounds that share one report; unset: 1
    by: tuple[str, ...] | UnsetType = UNSET  # names of the labels that reports carry
    left_out: Count | UnsetType = UNSET  # number of requested earlier rounds that are not included
    notes: tuple[str, ...]
    annotations: tuple[Event, ...] | UnsetType = UNSET
    most_change: float | UnsetType = UNSET  # in % of the range; only if the survey states it
    trends: dict[str, tuple[Smoothed, ...]] | UnsetType = UNSET  # by question; with `most_change`
    # only if the request divides the rounds into periods
    changes: dict[str, tuple[ChangePoint, ...]] | UnsetType = UNSET  # by question
    periods: tuple[Period, ...] | UnsetType = UNSET
    rounds: tuple[Round, ...]  # the last field, so that rounds can be streamed

    def of(self, period: Round) -> Iterator[QuestionResult]:
        """Return a round's questions, each with its facts."""
        for name, rows in period.questions.items():
            facts, floor = self.about[name], period.floor[name]
            whole = (period.vectors or {}).get(name)
            left_out = (period.rows_left_out or {}).get(name, 0)
            yield QuestionResult(name, facts, rows, floor, whole, left_out)
