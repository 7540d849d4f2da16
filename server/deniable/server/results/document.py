"""The results document: the types that JSON, CSV, pages, the command and Python share.

    Results > Round > QuestionResult > Row

The JSON is an encoding of these types, and the OpenAPI schemas are made from them. A program in
Python reads it back with `msgspec.json.decode(text, type=Results)`. Unknown values are null, never
not-a-number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType, field

from deniable.server.surveys.clock import State
from deniable.shared.survey.kinds.base import Statistic

Count = Annotated[int, Meta(ge=0)]
SurveyId = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Row(Struct, frozen=True, forbid_unknown_fields=True, gc=False):  # a round may have 65,536
    """One label's estimate, with its intervals.

    It is a share from 0 to 1, a mean in the question's unit, or the mean of a coordinate.

    `low` to `high` is the interval for the population. `low_these` to `high_these` is the interval
    for exactly the respondents. `low_all` to `high_all` is for the population and holds for all
    labels of the question jointly: use it for a list that is sorted or picked from.
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

    kind: str
    epsilon: str
    mechanism: str
    leverage: float
    method: str
    statistic: Statistic
    unit: str
    range: tuple[float, float]
    low: int | float | UnsetType = UNSET  # numbers only
    high: int | float | UnsetType = UNSET
    options: Count | UnsetType = UNSET  # number of options of a choice
    dimension: Count | UnsetType = UNSET  # number of coordinates of a vector
    gain: float | UnsetType = UNSET  # the mean of a vector's reports is divided by it


class Fit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Forgery check of one question: whether honest reports can give the round's counts."""

    p_value: float  # upper bound on the probability that honest reports are this far outside
    forged: Count  # lower bound on the number of forged reports; 0 where none is detected
    shift: float  # how far these alone can move an estimate, in the question's own measure
    sentence: str  # the same as a sentence


class Difference(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One label's estimate minus its estimate in an earlier round or in another survey.

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
    """Differences between a round and an earlier one."""

    since: Count  # the earlier round
    note: str | None  # why there are no differences
    questions: dict[str, tuple[Difference, ...]]  # questions with estimates in both rounds


class Comparison(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Differences between two surveys, for questions with the same name."""

    survey: SurveyId
    name: str
    round: Count
    against: SurveyId
    against_name: str
    against_round: Count
    confidence: float
    about: dict[str, About]
    questions: dict[str, tuple[Difference, ...]]


class Point(Struct, frozen=True, forbid_unknown_fields=True):
    """One point of a number's distribution; the points divide the range evenly.

    A number between two points counts for both, in proportion to how near it is. `share` is the
    share at this point; all shares add up to 1. `below` is the share of numbers at or below the
    point, where numbers exactly at it count half. `low` to `high` holds for this point only; all
    of a question's `below_low` to `below_high` hold jointly. Both refer to the population.
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
    """A quantile of `below_consistent`; all intervals hold jointly, together with the band."""

    level: float
    estimate: float
    low: float
    high: float


class Distribution(Struct, frozen=True, forbid_unknown_fields=True):
    points: tuple[Point, ...]
    quantiles: tuple[Quantile, ...]


class Crossed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cross table: shares of people who gave one answer to each of two questions.

    The second question's answers are listed within the first's. Rows are as a question's;
    `low_these` and `high_these` are null.
    """

    questions: tuple[str, str]
    rows: tuple[Row, ...]


class Shuffled(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The (ε, δ) of one report if the relay is honest and so are this many people."""

    among: Literal["batch", "round"]  # whose reports cannot be distinguished
    people: Count
    epsilon: str  # rounded up
    delta: str


class WholeVector(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Length of a mean vector, corrected for noise, and the error of the whole estimate.

    The error is the root mean square.
    """

    length: float
    error: float


class Floor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Threshold of a round: texts that are this common are found."""

    share: float  # texts with this share are found with a probability of 99 %; none from 1 on
    people: Count  # the same, in reports
    false_discovery: float  # the probability that any text is listed that no one reported

    @property
    def words(self) -> str:
        """The same facts as sentences."""
        if self.share >= 1:
            return "There are too few reports to find any text."
        return (
            f"A text that {self.people:,} or more people gave is found with a probability of 99 %, "
            "unless more than twenty others are as common. If no report is forged, the probability "
            f"that any listed text was given by no one is at most {self.false_discovery:.0%}."
        )


class QuestionResult(NamedTuple):
    """One question in one round."""

    name: str
    about: About
    rows: tuple[Row, ...]
    floor: float | None
    whole: WholeVector | None = None
    left_out: int = 0  # rows beyond the limit of a response


class RoundFacts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A round without its estimates."""

    round: Count
    first_day: str = field(name="from")
    last_day: str = field(name="until")
    open: bool
    reports: Count
    note: str | None


class Round(RoundFacts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    warning: str | None  # where reports must be forged
    fit: dict[str, Fit]
    floor: dict[str, float | None]  # estimates below it cannot be distinguished from 0
    floors: dict[str, Floor] | UnsetType = UNSET  # text questions only
    questions: dict[str, tuple[Row, ...]]
    rows_left_out: dict[str, Count] | UnsetType = UNSET  # by question, where a limit was reached
    distributions: dict[str, Distribution] | UnsetType = UNSET  # numbers with enough reports
    cross: tuple[Crossed, ...] | UnsetType = UNSET  # where the survey crosses questions
    change: Change | None  # null where no earlier round that was read has reports
    shuffled: tuple[Shuffled, ...] | UnsetType = UNSET  # where reports are sealed for a relay
    vectors: dict[str, WholeVector] | UnsetType = UNSET  # vectors that have an estimate


class Event(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operator's note about a day, such as a release, and the round that the day is in."""

    day: str
    round: int
    words: str


class Results(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    survey: SurveyId
    name: str
    title: str
    state: State
    epsilon: str
    lifetime_epsilon: str
    period: str
    minimum_reports: Count
    confidence: float
    about: dict[str, About]
    ask: Count | UnsetType = UNSET  # how many questions each install is asked; unset: all of them
    repeat_rounds: Count | UnsetType = UNSET  # how many rounds share one report; unset: one
    left_out: Count | UnsetType = UNSET  # earlier rounds that were asked for and are not included
    notes: tuple[str, ...]
    annotations: tuple[Event, ...] | UnsetType = UNSET
    rounds: tuple[Round, ...]  # last, so that they can be streamed

    def of(self, period: Round) -> Iterator[QuestionResult]:
        """Return the round's questions, each with its facts."""
        return question_results(self.about, period)


def question_results(about: dict[str, About], period: Round) -> Iterator[QuestionResult]:
    for name, rows in period.questions.items():
        whole = (period.vectors or {}).get(name)
        left_out = (period.rows_left_out or {}).get(name, 0)
        yield QuestionResult(name, about[name], rows, period.floor[name], whole, left_out)
