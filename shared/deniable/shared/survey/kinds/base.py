"""Base classes of the kinds of questions: how an answer is read and how its results are shown.

One object carries everything, so that pages, commands, estimators, planner and simulator never ask
which kind a question is. Every value is answered: one that does not fit is placed uniformly at
random and goes the same way as all others, so that neither a report nor its absence reveals it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from itertools import chain
from typing import Any, ClassVar, Literal, Self

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.privacy.randomness import Draw
from deniable.shared.survey.labels import NO_LABELS, Labels
from deniable.shared.survey.reader import Reader

# The quantity of each estimate: a share of the people who report, a mean, a coordinate of a mean
Statistic = Literal["share", "mean", "coordinate"]
# How the server estimates it, how the simulator makes people for it
Estimation = Literal["shares", "mean", "coordinates", "texts"]

ESTIMATIONS: tuple[Estimation, ...] = ("shares", "mean", "coordinates", "texts")

Population = list[list[float]]  # [place, weight]: an answer's number, or a place in the range


@dataclass(frozen=True)
class PlanField:
    """Field of the planner: in its form, and as an option of the command."""

    name: str  # also the key in a survey document
    label: str
    usual: float  # where the form says nothing
    help: str
    default: float | None = None  # where the command says nothing; None: it must be given
    is_whole: bool = True
    low: float = -math.inf  # of what the reader of surveys could not name by this field
    high: float = math.inf


@dataclass(frozen=True)
class Question(ABC):
    kind: ClassVar[str]  # its name in survey documents and in an app's Policy
    mechanism_kind: ClassVar[str]  # the mechanisms that answer it
    form_label: ClassVar[str]
    statistic: ClassVar[Statistic]
    estimation: ClassVar[Estimation]
    plan_fields: ClassVar[tuple[PlanField, ...]] = ()
    size_option: ClassVar[str] = ""  # what `certify` calls the size of its mechanisms
    has_unit: ClassVar[bool] = False
    takes_optimal_table: ClassVar[bool] = False  # whether publishing searches for one
    in_javascript: ClassVar[bool] = False  # whether the client for JavaScript answers it
    assumed: ClassVar[str] = ""  # describes the default population of simulations
    name: str
    mechanism: Mechanism
    _: KW_ONLY
    display: Labels = NO_LABELS

    @classmethod
    @abstractmethod
    def parse(cls, reader: Reader, name: str, epsilon: Epsilon) -> Self:
        """Read its part of a document; what is left out is chosen for the least error."""

    @abstractmethod
    def fields(self) -> dict[str, Any]:  # Any: JSON
        """Return its own keys in a published document."""

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
    def place(self, answer: object) -> Any | None:  # Any: what its mechanism randomizes
        """Return the answer as its mechanism takes it; None if it does not fit.

        The same operations for every answer: what differs is looked up, never branched on.
        """

    def report(self, answer: object, draw: Draw) -> tuple[int, bool]:
        """Return the symbol to report, and whether the answer fits: only the app learns that.

        The place of an answer that does not fit is drawn for every answer.
        """
        try:
            placed = self.place(answer)
        except Exception:  # noqa: BLE001 # whatever a value's own methods do, it goes the same way
            placed = None
        anywhere = self.mechanism.answer_at(draw(64) * self.mechanism.answers >> 64)
        fits = placed is not None
        return self.mechanism.randomize((anywhere, placed)[fits], draw), fits

    @abstractmethod
    def answer_of(self, text: str) -> object:
        """Return the answer that a text stands for, as in a CSV file; ValueError if none."""

    @property
    @abstractmethod
    def example(self) -> object:
        """An answer, as an app would write it."""

    @property
    def shown_example(self) -> str:
        """Return the same example as a Python literal."""
        return repr(self.example)

    @property
    @abstractmethod
    def asked(self) -> str:
        """The possible answers, in a few words."""

    @abstractmethod
    def describe(self, symbol: int) -> str:
        """Return the meaning of a report, for a person."""

    @property
    def remark(self) -> str | None:
        """A warning about what its author may not have meant."""
        return None

    def expected_findings(self, people: int) -> str:  # noqa: ARG002 # most have an interval instead
        """Describe what this many people will show, apart from an interval."""
        return ""

    # Results

    @property
    @abstractmethod
    def labels(self) -> Sequence[str]:
        """The labels of its estimates; none where the reports decide which labels there are."""

    @property
    def answer_labels(self) -> Sequence[str]:
        """Every answer by name, where reports count answers: only such questions are crossed."""
        return ()

    @property
    def called(self) -> Sequence[str]:
        """The labels as people read them."""
        return self.display.options or self.labels

    @property
    def first_label(self) -> int:
        """The number of the answer that the first label belongs to."""
        return 0

    @property
    def range(self) -> tuple[float, float]:
        """The range of the quantity that is estimated."""
        return 0.0, 1.0

    @property
    def span(self) -> float:
        low, high = self.range
        return high - low

    @property
    def axis(self) -> tuple[float, float]:
        """The least range that a chart shows."""
        return self.range

    def facts(self) -> dict[str, Any]:  # Any: JSON
        """Return the keys that its results have besides those of every question."""
        return {}

    def estimate(self, symbols: Sequence[int]) -> dict[str, float]:  # of some only
        """Return the unbiased estimate of each label from reported symbols, one by one.

        The reference for the server's estimators, which start from tallies.
        """
        raise NotImplementedError(f"{self.kind}: estimated by the server only")

    # Planning and simulating

    @classmethod
    def planned(cls, values: Mapping[str, Any]) -> dict[str, Any]:  # Any: numbers, and JSON
        """Return its keys in a document, from the values of `plan_fields`."""
        return {field.name: values[field.name] for field in cls.plan_fields}

    @classmethod
    def error_unit(cls, asked: Mapping[str, Any]) -> float:  # noqa: ARG003 # Any: JSON # of shares 1
        """Return the whole that an error is a share of, for a question as a document has it."""
        return 1.0

    def default_population(self) -> Population:
        """Return the default population of a simulation."""
        return []


@dataclass(frozen=True)
class ShareQuestion(Question):
    """Question whose shares of people are estimated, one for each option."""

    statistic, estimation = "share", "shares"
    assumed = "options alike"
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
    """Question whose mean is estimated; its mechanism's grid divides `range`."""

    statistic, estimation = "mean", "mean"
    labels = ("mean",)
    assumed = "all in the middle"
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
    """Return the mechanism that a document names, if it names one."""
    return reader.one_of("mechanism", mechanisms(kind)) if "mechanism" in reader else None
