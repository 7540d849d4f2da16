"""For learning: one mechanism by itself, with its table, its noise and its estimate.

    >>> asked = mechanism("bit", "1")
    >>> asked
    randomized response at ε 1: a report says so with 73.1 % when true and with 26.9 % when not
    >>> [[round(float(p), 3) for p in row] for row in asked.table]
    [[0.731, 0.269], [0.269, 0.731]]
    >>> asked.randomize(True) in (0, 1)
    True
    >>> round(asked.estimate([1, 1, 0, 1, 0])["yes"], 3)
    0.716

Answers, defaults and refusals are those of a survey's question. An app uses `deniable.client`: here
nothing is charged, and whoever randomizes one answer many times gives it away.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import chain
from typing import Any

from deniable.shared.errors import InvalidSurvey, WrongUse
from deniable.shared.privacy.mechanism import LARGEST_TABLE
from deniable.shared.privacy.randomness import kernel_draw
from deniable.shared.survey.questions import Bit, Choice, Number, Question, parse_question
from deniable.shared.survey.reader import Reader

__all__ = ["Randomizer", "mechanism"]

NAME = "asked"


class Randomizer:
    """What a question of a survey does, for one answer or for a list of reports.

    Made by `mechanism`.
    """

    def __init__(self, question: Bit | Choice | Number) -> None:
        self.question, self.mechanism = question, question.mechanism

    def __repr__(self) -> str:
        kind = self.mechanism
        return f"{kind.label} at ε {kind.epsilon}: {kind.explain(0)}"

    def randomize(self, answer: object) -> int:
        """A report of this answer: a symbol, with noise from the kernel. What does not fit goes
        where a survey's would: to `other`, or anywhere."""
        return self.question.report(answer, kernel_draw)[0]

    @property
    def table(self) -> list[list[Fraction]]:
        """P[symbol | answer], exactly: a row for each answer, a column for each symbol."""
        exact = self.mechanism
        if exact.answers * exact.symbols > LARGEST_TABLE:
            raise WrongUse(
                f"{exact.answers} answers and 2^{(exact.symbols - 1).bit_length()} symbols are too "
                "many for a table; ask for fewer options"
            )
        symbols = list(exact.encoding.symbols())
        return [[exact.weight(s, answer) for s in symbols] for answer in range(exact.answers)]

    def estimate(self, reports: Sequence[int]) -> dict[str, float]:
        """Of the people who made these reports: the share of each label, or the mean. Unbiased, and
        never clipped."""
        if not reports or not all(map(self.mechanism.encoding.is_symbol, reports)):
            raise WrongUse("reports are one symbol or more, as `randomize` makes them")
        match self.question:
            case Number():
                return {"mean": _mean(self.question, reports)}
            case Bit() | Choice():
                return _shares(self.question, reports)


def mechanism(kind: str, epsilon: str, **more: Any) -> Randomizer:  # Any: what a survey may say
    """As a survey's question has it: a bit; a choice with `options=[...]`; a number with `low=` and
    `high=`. `mechanism="unary"` names one, else it is the one of least error that has a formula.

    >>> colours = mechanism("choice", "1", options=["red", "green", "blue"])
    >>> {colour: round(share, 3) for colour, share in colours.estimate([0, 0, 1]).items()}
    {'red': 1.249, 'green': 0.333, 'blue': -0.582}
    """
    table = {"name": NAME, "kind": kind, "epsilon": epsilon, **more}
    try:
        question: Question = parse_question(Reader(NAME, table))
    except InvalidSurvey as error:
        raise WrongUse(str(error)) from None
    if not isinstance(question, Bit | Choice | Number):
        raise WrongUse(f"kind is bit, choice or number here, got {kind}")
    return Randomizer(question)


def _shares(question: Bit | Choice, reports: Sequence[int]) -> dict[str, float]:
    design, counts = question.mechanism, [0] * question.mechanism.options
    for cell in chain.from_iterable(map(design.cells_of, reports)):
        for option in design.supported_by(cell):
            counts[option] += 1
    rates = (Fraction(count, len(reports)) for count in counts[question.first_label :])
    shares = (float(design.unbiased_share(rate)) for rate in rates)
    return dict(zip(question.labels, shares, strict=True))


def _mean(question: Number, reports: Sequence[int]) -> float:
    values, (low, high) = question.mechanism.values, map(Fraction, question.range)
    place = sum(values[symbol] for symbol in reports) / (len(reports) * question.mechanism.steps)
    return float(low + (high - low) * place)
