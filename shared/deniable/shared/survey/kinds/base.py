"""What every kind of question is: how an answer is read, and how its results are shown.

One object says everything, so that pages, commands, estimators and the simulator need not ask which
kind it is. Every value is answered: one that does not fit is placed anywhere, uniformly, and goes
the same way as all others, so that neither a report nor its absence tells what it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.privacy.randomness import Draw
from deniable.shared.survey.labels import NO_LABELS, Labels
from deniable.shared.survey.reader import Reader

# Of the people who report: those who hold a label; a mean; the mean of one coordinate
Statistic = Literal["share", "mean", "coordinate"]


@dataclass(frozen=True)
class BaseQuestion(ABC):
    kind: ClassVar[str]
    statistic: ClassVar[Statistic]  # what each of its estimates is
    in_javascript: ClassVar[bool] = True  # whether the client for JavaScript answers it
    name: str
    mechanism: Mechanism
    _: KW_ONLY
    display: Labels = NO_LABELS

    @classmethod
    @abstractmethod
    def parse(cls, reader: Reader, name: str, epsilon: Epsilon) -> Self:
        """From its part of a document; what is left out is chosen for the least error."""

    @abstractmethod
    def fields(self) -> dict[str, Any]:  # Any: JSON
        """The keys of its own in a published document."""

    @property
    def epsilon(self) -> Epsilon:
        return self.mechanism.epsilon

    @property
    def title(self) -> str:
        """What people call it."""
        return self.display.title or self.name

    @property
    def unit(self) -> str:
        return self.display.unit

    # Answers

    @abstractmethod
    def place(self, answer: object) -> Any | None:  # Any: what its mechanism randomizes
        """The answer as its mechanism takes it; None if it does not fit. The same operations
        whatever it is: what differs is chosen by look-up, never by a branch."""

    def report(self, answer: object, draw: Draw) -> tuple[int, bool]:
        """The symbol to report, and whether the answer fits: that is for the app, and nobody else.
        Where an answer that does not fit goes is drawn for every answer."""
        try:
            placed = self.place(answer)
        except Exception:  # noqa: BLE001 # whatever a value's own methods do, it goes the same way
            placed = None
        anywhere = self.mechanism.answer_at(draw(64) * self.mechanism.answers >> 64)
        fits = placed is not None
        return self.mechanism.randomize((anywhere, placed)[fits], draw), fits

    @abstractmethod
    def answer_of(self, text: str) -> object:
        """The answer that a text, as in a CSV file, stands for; ValueError if it is none."""

    @property
    @abstractmethod
    def example(self) -> object:
        """An answer, as an app would write it."""

    @property
    def shown_example(self) -> str:
        """The same, as Python is written."""
        return repr(self.example)

    @property
    @abstractmethod
    def asked(self) -> str:
        """What may be answered, in a few words."""

    @abstractmethod
    def describe(self, symbol: int) -> str:
        """What a report says, for a person."""

    @property
    def remark(self) -> str | None:
        """What its author may not have meant."""
        return None

    def foretold(self, people: int) -> str:  # noqa: ARG002 # most say it by their interval
        """What else so many people will tell, in words."""
        return ""

    # Results

    @property
    @abstractmethod
    def labels(self) -> Sequence[str]:
        """What the estimates are of, one for each; none where the reports decide what is found."""

    @property
    def answer_labels(self) -> Sequence[str]:
        """Every answer by name, where reports count answers: only such questions are crossed."""
        return ()

    @property
    def called(self) -> Sequence[str]:
        """What people call the labels, one for each."""
        return self.display.options or self.labels

    @property
    def first_label(self) -> int:
        """The number of the answer that the first label is of."""
        return 0

    @property
    def range(self) -> tuple[float, float]:
        """Within it lies everything that an estimate can be of."""
        return 0.0, 1.0

    @property
    def span(self) -> float:
        low, high = self.range
        return high - low

    @property
    def axis(self) -> tuple[float, float]:
        """What a chart shows at least."""
        return self.range


def mechanism_name(reader: Reader, kind: str) -> str | None:
    """The mechanism that a document names, if it names one."""
    return reader.one_of("mechanism", mechanisms(kind)) if "mechanism" in reader else None
