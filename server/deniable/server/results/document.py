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

from deniable.shared.survey.kinds import Statistic

Count = Annotated[int, Meta(ge=0)]
SurveyId = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
State = Literal["waiting", "open", "closed"]


class Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One label's estimate: a share from 0 to 1, or a mean in the question's unit."""

    label: str
    estimate: float | None
    low: float | None
    high: float | None
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


class Fit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether a question's counts in a round are among what honest reports can give."""

    p_value: float  # honest reports give counts so far outside with at most this probability
    forged: Count  # so many reports at least are not honest; 0 where none is noticed
    shift: float  # by so much can these alone move an estimate, in its own measure


class Shuffled(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one report gives away where the relay is honest, and so many people are."""

    among: Literal["batch", "round"]  # whose reports nobody can tell apart
    people: Count
    epsilon: str  # rounded up
    delta: str


class QuestionResult(NamedTuple):
    """One question in one round."""

    name: str
    about: About
    rows: tuple[Row, ...]


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
    questions: dict[str, tuple[Row, ...]]
    shuffled: tuple[Shuffled, ...] | UnsetType = UNSET  # where reports are sealed, for a relay


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
    notes: tuple[str, ...]
    rounds: tuple[Round, ...]

    def of(self, period: Round) -> Iterator[QuestionResult]:
        """A round's questions, each with what holds for it in every round."""
        for name, rows in period.questions.items():
            yield QuestionResult(name, self.about[name], rows)
