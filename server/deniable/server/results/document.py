"""The results of a survey as one document: what the JSON, the CSV, the pages and the command show.

    Results > Round > QuestionResult > Row

These types are the document: its JSON is their encoding, its OpenAPI schemas are made from them,
and a program in Python reads it back with `msgspec.json.decode(text, type=Results)`. What is not
known is null, never not-a-number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType, field

from deniable.server.surveys.clock import State
from deniable.shared.survey.kinds.base import Statistic

Count = Annotated[int, Meta(ge=0)]
SurveyId = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Row(Struct, frozen=True, forbid_unknown_fields=True, gc=False):  # there may be 65,536
    """One label's estimate: a share from 0 to 1, a mean in the question's unit, or that of
    a coordinate.

    `low` and `high` are about people like these, `low_these` and `high_these` about these very
    people; `low_all` and `high_all` are about people like these, and hold for all labels of the
    question at once: the ones for a list that is sorted or picked from.
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
    """What holds for a question in every round."""

    kind: str
    epsilon: str
    mechanism: str
    leverage: float
    method: str
    statistic: Statistic
    unit: str
    range: tuple[float, float]
    low: int | float | UnsetType = UNSET  # of a number
    high: int | float | UnsetType = UNSET
    options: Count | UnsetType = UNSET  # how many a choice has
    dimension: Count | UnsetType = UNSET  # how many coordinates a vector has
    gain: float | UnsetType = UNSET  # by which the mean of a vector's reports is divided


class Fit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether a question's counts in a round are among what honest reports can give."""

    p_value: float  # honest reports give counts so far outside with at most this probability
    forged: Count  # so many reports at least are not honest; 0 where none is noticed
    shift: float  # by so much can these alone move an estimate, in its own measure
    sentence: str  # the same in words


class Difference(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """By how much one label's estimate is above that of an earlier round, or of another survey.

    `low` and `high` hold however much the people of both have in common, `low_these` and
    `high_these` are about these very people, for whom only the noise is drawn.
    """

    label: str
    estimate: float
    low: float
    high: float
    low_these: float
    high_these: float


class Change(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is different from the round before."""

    since: Count  # that round
    note: str | None  # why nothing is said
    questions: dict[str, tuple[Difference, ...]]  # those with estimates in both


class Comparison(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """By how much one survey's estimates are above another's, for questions of the same name."""

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
    """Of a number's distribution, whose points divide the range evenly.

    A number between two points counts for both, as near to each as it is: `share` is a point's, and
    all shares add up to 1. `below` is the share of numbers at or below it, those at it by half.
    `low` to `high` holds by itself; all of a question's `below_low` to `below_high` hold at once,
    for numbers at or below the point. Both are about people like these.
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
    """The estimate is that of `below_consistent`; all intervals hold at once, with the band."""

    level: float
    estimate: float
    low: float
    high: float


class Distribution(Struct, frozen=True, forbid_unknown_fields=True):
    points: tuple[Point, ...]
    quantiles: tuple[Quantile, ...]


class Crossed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shares of people who hold one answer to each of two questions: the second's answers within
    the first's. Rows are as a question's; `low_these` and `high_these` are null."""

    questions: tuple[str, str]
    rows: tuple[Row, ...]


class Shuffled(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one report gives away where the relay is honest, and so many people are."""

    among: Literal["batch", "round"]  # whose reports nobody can tell apart
    people: Count
    epsilon: str  # rounded up
    delta: str


class WholeVector(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mean vector as one: its length, without what noise adds, and how far the estimate is off,
    as the root of the mean square."""

    length: float
    error: float


class Floor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of the reports of a text question in a round."""

    share: float  # a text that so many hold is found, with a probability of 99 %; from 1 on, none
    people: Count  # the same, in reports
    false_discovery: float  # the probability that any text is listed which nobody reported

    @property
    def words(self) -> str:
        """A sentence for people."""
        if self.share >= 1:
            return "There are too few reports to find any text."
        return (
            f"A text is found with a probability of 99 % where {self.people:,} reports or more are "
            f"of it, and up to twenty others are as frequent. That any is listed of which there is "
            f"none has a probability of at most {self.false_discovery:.0%}, if none is forged."
        )


class QuestionResult(NamedTuple):
    """One question in one round."""

    name: str
    about: About
    rows: tuple[Row, ...]
    floor: float | None
    whole: WholeVector | None = None


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
    floor: dict[str, float | None]  # estimates below it are not told from 0; null where none is
    floors: dict[str, Floor] | UnsetType = UNSET  # of text questions
    questions: dict[str, tuple[Row, ...]]
    distributions: dict[str, Distribution] | UnsetType = UNSET  # of numbers with enough reports
    cross: tuple[Crossed, ...] | UnsetType = UNSET  # where the survey crosses questions
    change: Change | None  # null where no earlier round of those that were read has reports
    shuffled: tuple[Shuffled, ...] | UnsetType = UNSET  # where reports are sealed, for a relay
    vectors: dict[str, WholeVector] | UnsetType = UNSET  # of its vectors that have an estimate


class Happened(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operator says happened on a day, and the round that it falls in."""

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
    ask: Count | UnsetType = UNSET  # of its questions each install is asked so many; else all
    repeat_rounds: Count | UnsetType = UNSET  # so many rounds share one report; else each has one
    left_out: Count | UnsetType = UNSET  # so many earlier rounds were asked for, too
    notes: tuple[str, ...]
    annotations: tuple[Happened, ...] | UnsetType = UNSET
    rounds: tuple[Round, ...]

    def of(self, period: Round) -> Iterator[QuestionResult]:
        """A round's questions, each with what holds for it in every round."""
        for name, rows in period.questions.items():
            whole = (period.vectors or {}).get(name)
            yield QuestionResult(name, self.about[name], rows, period.floor[name], whole)
