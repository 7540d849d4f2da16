"""Base classes of the kinds of questions: how an answer is read and how its results are shown.

A kind has everything that pages, commands, estimators, planner and simulator need, so no code
checks the kind of a question. Every value is answered. A value that does not fit is replaced by a
uniformly random answer and treated like all others, so neither a report nor its absence reveals it.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from itertools import chain
from typing import Any, ClassVar, Literal, NamedTuple, Self

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanism import Draw, Mechanism
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.survey.phrases import answer_text
from deniable.shared.survey.reader import Reader

# The estimated quantity: a share of the people who report, a mean, or a coordinate of a mean
Statistic = Literal["share", "mean", "coordinate"]
# How the server estimates it, and how the simulator creates people for it
Estimation = Literal["shares", "mean", "coordinates", "texts"]
ESTIMATIONS: tuple[Estimation, ...] = ("shares", "mean", "coordinates", "texts")

# The part of a round that a question asks about: its first or last call, or any or all of its calls
Over = Literal["first", "last", "any", "all"]

# [place, weight]; a place is an answer's number or a position in the range
Population = list[list[float]]


class Labels(NamedTuple):
    """A question's texts for people, which change no answer. Empty ones show the names."""

    title: str = ""
    unit: str = ""
    options: tuple[str, ...] = ()

    def fields(self) -> dict[str, Any]:  # Any: JSON
        texts = {"title": self.title, "unit": self.unit, "labels": list(self.options)}
        return {key: value for key, value in texts.items() if value}

    def replaced(self, translated: Labels) -> Labels:
        """Return these texts, with those that are translated in place of the originals."""
        title, unit, options = translated
        return Labels(title or self.title, unit or self.unit, options or self.options)


NO_LABELS = Labels()


class PlanField(NamedTuple):
    """Field of the planner's form, and option of its command."""

    name: str  # also its key in a survey document
    label: str
    usual: float  # the form's initial value
    help: str
    default: float | None = None  # default of the command; None if the field is required
    is_whole: bool = True
    low: float = -math.inf  # limits whose violation a survey's reader could not report by field
    high: float = math.inf


@dataclass(frozen=True)
class Question(ABC):
    kind: ClassVar[str]  # name in survey documents and in an app's Policy
    mechanism_kind: ClassVar[str]  # kind of the mechanisms for this question
    form_label: ClassVar[str]
    statistic: ClassVar[Statistic]
    estimation: ClassVar[Estimation]
    plan_fields: ClassVar[tuple[PlanField, ...]] = ()
    size_option: ClassVar[str] = ""  # option of `certify` for the size of its mechanisms
    has_unit: ClassVar[bool] = False
    takes_optimal_table: ClassVar[bool] = False  # whether publishing searches for an optimal table
    in_javascript: ClassVar[bool] = False  # whether the JavaScript client supports it
    overs: ClassVar[tuple[Over, ...]] = ("first", "last")  # what `over` may be
    usual_over: ClassVar[Over] = "last"  # its default in surveys with several rounds
    assumed: ClassVar[str] = ""  # describes the default population of simulations
    name: str
    mechanism: Mechanism
    _: KW_ONLY
    display: Labels = NO_LABELS
    over: Over = "first"

    @classmethod
    @abstractmethod
    def parse(cls, reader: Reader, name: str, epsilon: Epsilon) -> Self:
        """Read the question's part of a document; choose omitted values."""

    @abstractmethod
    def fields(self) -> dict[str, Any]:  # Any: JSON
        """Return the keys of this kind in a published document."""

    @property
    def epsilon(self) -> Epsilon:
        return self.mechanism.epsilon

    @property
    def title(self) -> str:
        return self.display.title or self.name

    @property
    def unit(self) -> str:
        return self.display.unit

    # Answers

    @abstractmethod
    def place(self, answer: object) -> Any | None:  # Any: the mechanism's type of answer
        """Return the answer as its mechanism takes it, or None, without branching on its value."""

    def report(self, answer: object, draw: Draw) -> tuple[int, bool]:
        """Return the symbol to report and, for the app only, whether the answer fits."""
        placed, fits = self._placed(answer, draw)
        return self.mechanism.randomize(placed, draw), fits

    def redraw(self, kept: int, answer: object, draw: Draw) -> tuple[int, bool]:
        """Return what `report` does after a later answer of the round, given the symbol kept.

        A new symbol R(v) is drawn for every answer v. It replaces the one kept, except that `any`
        keeps it on no, and `all` on yes. So the symbol is always R(s), with s the last answer, or
        whether any or all were yes. The choice between the two symbols does not depend on noise, so
        the report costs ε once, and the work is the same for every answer.
        """
        placed, fits = self._placed(answer, draw)
        drawn = self.mechanism.randomize(placed, draw)
        return (kept, drawn)[self.replaces(placed)], fits

    def replaces(self, placed: Any) -> int:  # noqa: ARG002 # Any: the mechanism's type of answer
        """Return 1 if a later answer replaces the report of the round, or 0."""
        return 1

    def _placed(self, answer: object, draw: Draw) -> tuple[Any, bool]:  # Any: as above
        try:
            placed = self.place(answer)
        except Exception:  # noqa: BLE001 # a value's own methods may raise anything
            placed = None
        anywhere = self.mechanism.answer_at(draw(64) * self.mechanism.answers >> 64)
        fits = placed is not None
        return (anywhere, placed)[fits], fits

    @abstractmethod
    def answer_of(self, text: str) -> object:
        """Parse an answer from text, as in a CSV file; raise ValueError if it is invalid."""

    @property
    @abstractmethod
    def example(self) -> object:
        """Example of an answer in an app's code."""

    @property
    def shown_example(self) -> str:
        return repr(self.example)

    @property
    def javascript_example(self) -> str:
        return json.dumps(self.example, ensure_ascii=False)

    @property
    def asked(self) -> str:
        """Short description of the possible answers. A kind without a phrase overrides this."""
        return answer_text(self)

    @abstractmethod
    def describe(self, symbol: int) -> str:
        """Return the meaning of a report, for a person."""

    def chances(self, symbol: int) -> dict[str, str]:
        """Return how certain a report is, as `phrases.explain_report` takes it."""
        chances = self.mechanism.chances(symbol)
        if chances is None:
            return {}
        return chances.values(self.describe(symbol), self.answer_labels)

    @property
    def remark(self) -> str | None:
        """Warning about a likely mistake of the survey's author."""
        return None

    def expected_findings(self, people: int) -> str:  # noqa: ARG002 # most have an interval instead
        """Describe the results to expect from this many people, beyond an interval's width."""
        return ""

    # Results

    @property
    @abstractmethod
    def labels(self) -> Sequence[str]:
        """Labels of the estimates; empty if they depend on the reports."""

    @property
    def answer_labels(self) -> Sequence[str]:
        """Names of all answers if reports count answers; only such questions can be crossed."""
        return ()

    @property
    def called(self) -> Sequence[str]:
        """Labels as shown to people."""
        return self.display.options or self.labels

    @property
    def first_label(self) -> int:
        """Number of the answer to which the first label belongs."""
        return 0

    @property
    def range(self) -> tuple[float, float]:
        return 0.0, 1.0

    @property
    def span(self) -> float:
        low, high = self.range
        return high - low

    @property
    def axis(self) -> tuple[float, float]:
        """Minimum range of a chart."""
        return self.range

    def facts(self) -> dict[str, Any]:  # Any: JSON
        """Return the keys that only this kind's results have."""
        return {}

    def estimate(self, symbols: Sequence[int]) -> dict[str, float]:
        """Return the unbiased estimate of each label: the reference for the server's estimators."""
        raise NotImplementedError(f"a {self.kind} question can be estimated only by the server")

    # Planning and simulating

    @classmethod
    def planned(cls, values: Mapping[str, Any]) -> dict[str, Any]:  # Any: numbers, and JSON
        """Return the keys for a document from the values of `plan_fields`."""
        return {field.name: values[field.name] for field in cls.plan_fields}

    @classmethod
    def error_unit(cls, asked: Mapping[str, Any]) -> float:  # noqa: ARG003 # Any: JSON
        """Return the unit of errors for the question's table in a document; 1 for shares."""
        return 1.0

    def default_population(self) -> Population:
        return []


@dataclass(frozen=True)
class ShareQuestion(Question):
    """Question with an estimated share of people for each option."""

    statistic, estimation = "share", "shares"
    assumed = "all options equally frequent"
    mechanism: SupportDesign

    def estimate(self, symbols: Sequence[int]) -> dict[str, float]:
        design, counts = self.mechanism, [0] * self.mechanism.options
        for cell in chain.from_iterable(map(design.cells_of, symbols)):
            for option in design.supported_by(cell):
                counts[option] += 1
        rates = (Fraction(count, len(symbols)) for count in counts[self.first_label :])
        shares = (float(design.unbiased_share(rate)) for rate in rates)
        return dict(zip(self.labels, shares, strict=True))

    def default_population(self) -> Population:
        answers = self.mechanism.answers
        return [[answer, 1 / answers] for answer in range(answers)]


@dataclass(frozen=True)
class MeanQuestion(Question):
    """Question with an estimated mean; the mechanism's grid divides `range`."""

    statistic, estimation = "mean", "mean"
    labels = ("mean",)
    assumed = "everyone in the middle of the range"
    mechanism: NumberTable

    def facts(self) -> dict[str, Any]:
        low, high = self.range
        return {"low": low, "high": high}

    def estimate(self, symbols: Sequence[int]) -> dict[str, float]:
        values, (low, high) = self.mechanism.values, map(Fraction, self.range)
        place = sum(values[symbol] for symbol in symbols) / (len(symbols) * self.mechanism.steps)
        return {"mean": float(low + (high - low) * place)}

    def default_population(self) -> Population:
        return [[0.5, 1.0]]

    def describe(self, symbol: int) -> str:
        low, _ = self.range
        first, last = (
            f"{low + self.span * point / self.mechanism.steps:g}"
            for point in self.mechanism.likeliest(symbol)
        )
        return first if first == last else f"{first} to {last}"


def mechanism_name(reader: Reader, kind: str) -> str | None:
    return reader.one_of("mechanism", mechanisms(kind)) if "mechanism" in reader else None
