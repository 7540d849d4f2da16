"""Mechanisms on their own: try them out, or check a mechanism of your own.

    >>> asked = mechanism("bit", "1")
    >>> asked
    randomized response at ε 1: reported with probability 73.1 % if true, and 26.9 % if not
    >>> [[round(float(p), 3) for p in row] for row in asked.table]
    [[0.731, 0.269], [0.269, 0.731]]
    >>> asked.randomize(True) in (0, 1)
    True
    >>> round(asked.estimate([1, 1, 0, 1, 0])["yes"], 3)
    0.716

Answers, defaults and refusals are the same as for a question of a survey. Apps must use
`deniable.client` instead: nothing is charged here, and repeated reports of an answer reveal it.

`check_mechanism` checks a class of your own:

    >>> from deniable.shared.privacy.mechanisms import Unary
    >>> check_mechanism(Unary)[:2]
    ['Unary at ε 0.1, size 2: proved', 'Unary at ε 0.1, size 2: whole table, bound and cells']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from importlib import import_module
from typing import Any

from deniable.shared.errors import InvalidMechanism, InvalidSurvey, WrongUse
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanism import (
    LARGEST_TABLE,
    MULTINOMIAL,
    SUMS,
    Draw,
    Mechanism,
    kernel_draw,
)
from deniable.shared.privacy.verification import audit, lower_limit, refusal, upper_limit
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.questions import parse_question
from deniable.shared.survey.reader import Reader

__all__ = ["Randomizer", "check_mechanism", "load_mechanism", "mechanism"]

NAME = "asked"
ESTIMATIONS = ("shares", "mean")  # kinds that can be estimated without the server
CHECKED_EPSILONS = "0.1", "2"
CHECKED_SIZES = 1, 2, 3, 5, 8  # and the smallest size that the mechanism proves
MAX_SYMBOLS, MAX_ANSWERS = 256, 64  # limits of an enumerated table
MAX_SAMPLED_SYMBOLS = 64
REPORTS, AUDITED_REPORTS = 2_000, 10_000
SAMPLINGS = 2 * len(CHECKED_EPSILONS) * (len(CHECKED_SIZES) + 1)  # number of samplings per class
FALSE_ALARM = 1e-9 / SAMPLINGS  # for each sampling


class Randomizer:
    """Mechanism of one question, without a survey; made by `mechanism`."""

    def __init__(self, question: Question) -> None:
        self.question, self.mechanism = question, question.mechanism

    def __repr__(self) -> str:
        kind = self.mechanism
        return f"{kind.label} at ε {kind.epsilon}: {kind.explain(0)}"

    def randomize(self, answer: object) -> int:
        """Return the symbol to report for this answer, with noise from the kernel.

        An answer that does not fit counts as `other` if the question has that option, and otherwise
        as a random answer.
        """
        return self.question.report(answer, kernel_draw)[0]

    @property
    def table(self) -> list[list[Fraction]]:
        """Exact P[symbol | answer]: a row for each answer, a column for each symbol."""
        exact = self.mechanism
        if exact.answers * exact.symbols > LARGEST_TABLE:
            raise WrongUse(
                f"{exact.answers} answers and 2^{(exact.symbols - 1).bit_length()} symbols are too "
                "many for a table; use fewer options"
            )
        return _rows(exact)

    def estimate(self, reports: Sequence[int]) -> dict[str, float]:
        """Estimate the shares of the labels, or the mean, from reports: unbiased, never clipped."""
        if not reports or not all(map(self.mechanism.encoding.is_symbol, reports)):
            raise WrongUse("pass one or more symbols, as `randomize` returns them")
        return self.question.estimate(reports)


# Any: whatever a survey may contain
def mechanism(kind: str, epsilon: str, **more: Any) -> Randomizer:
    """Return the mechanism of a question: a "bit", "choice" or "number", at this ε.

    A choice needs `options=[...]`, a number `low=` and `high=`. `mechanism="unary"` selects a
    mechanism by name; the default has the shortest report of those whose variance is within 2 % of
    the least.

    >>> colours = mechanism("choice", "1", options=["red", "green", "blue"])
    >>> {colour: round(share, 3) for colour, share in colours.estimate([0, 0, 1]).items()}
    {'red': 1.249, 'green': 0.333, 'blue': -0.582}
    """
    table = {"name": NAME, "kind": kind, "epsilon": epsilon, **more}
    try:
        question = parse_question(Reader(NAME, table))
    except InvalidSurvey as error:
        raise WrongUse(str(error)) from None
    if question.estimation not in ESTIMATIONS:
        raise WrongUse(
            f"a {kind} cannot be estimated without a server; use a bit, choice or number"
        )
    return Randomizer(question)


def load_mechanism(path: str) -> type[Mechanism]:
    """Return the mechanism class that `package.module:Class` names.

    >>> load_mechanism("deniable.shared.privacy.mechanisms:Unary").name
    'unary'
    """
    module, _, name = path.partition(":")
    try:
        subject: object = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise WrongUse(f"cannot import {path}: {error}; write package.module:Class") from None
    if not (isinstance(subject, type) and issubclass(subject, Mechanism)):
        raise WrongUse(f"{path} is not a mechanism; derive it from a class of privacy.families")
    return subject


def check_mechanism(subject: type[Mechanism] | Mechanism, draw: Draw = kernel_draw) -> list[str]:
    """Check everything that a mechanism must guarantee; return the checks it passed.

    A class is checked at several ε and small sizes, an instance as it is. Exact arithmetic checks
    its ε and its table. Enumeration checks its cells and estimates. Other checks compare its
    payloads, and the draws that each answer takes.

    Sampling checks whether reports follow the table and reveal at most ε; a correct mechanism fails
    this check with probability at most 1e-9. Raises InvalidMechanism at the first failed check.
    """
    if isinstance(subject, Mechanism):
        return list(_checked(subject, draw))
    instances = [
        subject(Epsilon(text), size)
        for text in CHECKED_EPSILONS
        for size in sorted({*CHECKED_SIZES, min(subject.proved_sizes)})
        if size in subject.sizes and (not subject.given or size in subject.proved_sizes)
    ]
    if not instances:
        raise InvalidMechanism(f"{subject.__name__}: `sizes` has none of {CHECKED_SIZES}")
    return [check for made in instances for check in _checked(made, draw)]


def _checked(made: Mechanism, draw: Draw) -> Iterator[str]:
    title = f"{type(made).__name__} at ε {made.epsilon}, size {made.size}"
    symbols = made.symbols >> made.encoding.public_bits
    is_small = symbols <= MAX_SYMBOLS and made.answers <= MAX_ANSWERS
    checks: dict[str, Callable[[Mechanism], str | None]] = {
        "proved": refusal,
        **({"whole table, bound and cells": _table_fault} if is_small else {}),
        "unbiased": lambda made: made.bias() if is_small else None,
        "payloads": _payload_fault,
        "the same draws for every answer": _draw_fault,
        "reports follow the table": lambda made: _frequency_fault(made, draw),
        "audited": lambda made: _audit_fault(made, draw),
    }
    for name, fault_of in checks.items():
        if fault := fault_of(made):
            raise InvalidMechanism(f"{title}: {name}: {fault}")
        yield f"{title}: {name}"


def _rows(made: Mechanism) -> list[list[Fraction]]:
    symbols = list(made.encoding.symbols())
    return [[made.weight(symbol, answer) for symbol in symbols] for answer in range(made.answers)]


def _table_fault(made: Mechanism) -> str | None:
    rows, stated = _rows(made), Fraction(*made.worst_ratio())
    for answer, row in enumerate(rows):
        if sum(row) != 1 or min(row) <= 0:
            return f"the row of answer {answer} adds up to {float(sum(row))}, minimum {min(row)}"
    worst = max(max(column) / min(column) for column in zip(*rows, strict=True))
    if worst > stated:
        return f"`worst_ratio` states {float(stated):.6g}, but the rows have {float(worst):.6g}"
    cells = [set(made.cells_of(symbol)) for symbol in made.encoding.symbols()]
    if (made.joint == MULTINOMIAL) != all(len(own) == 1 for own in cells):
        return f"`joint` is {made.joint}, but reports count in {len(max(cells, key=len))} cells"
    for answer, row in enumerate(rows):
        for cell in range(made.cells if made.joint != SUMS else 0):
            rate = sum((p for p, own in zip(row, cells, strict=True) if cell in own), Fraction(0))
            if abs(rate * ONE - made.rate(cell, answer)) > 1:
                return f"`rate` of cell {cell} for answer {answer} disagrees with the rows"
    return None


def _payload_fault(made: Mechanism) -> str | None:
    encoding = made.encoding
    for cell in range(min(made.cells, MAX_SYMBOLS)):
        symbol = encoding.symbol_in(cell)
        if not (0 <= symbol < encoding.limit and encoding.is_symbol(symbol)):
            return f"`symbol_in` of cell {cell} is not a symbol"
        if cell not in set(encoding.cells_of(symbol)):
            return f"`symbol_in` of cell {cell} does not count in it"
        if encoding.from_json(encoding.to_json(symbol)) != symbol:
            return f"symbol {symbol} changes when passed through `to_json` and `from_json`"
    return None


def _draw_fault(made: Mechanism) -> str | None:
    """Check that the bits drawn depend neither on the answer nor on the outcome."""
    patterns = set()
    for answer in {0, made.answers // 2, made.answers - 1}:
        for word in (0, 1, -1, 0x5555_5555_5555_5555):
            asked: list[int] = []

            def draw(bits: int, word: int = word, asked: list[int] = asked) -> int:
                asked.append(bits)
                return word % (1 << bits)

            symbol = made.randomize(made.answer_at(answer), draw)
            if not made.encoding.is_symbol(symbol):
                return f"a draw of {word:#x} gives {symbol}, which is not a symbol"
            patterns.add(tuple(asked))
    if len(patterns) > 1:
        return f"the number of bits drawn depends on the answer or the outcome: {sorted(patterns)}"
    return None


def _frequency_fault(made: Mechanism, draw: Draw) -> str | None:
    symbols = list(made.encoding.symbols()) if made.symbols <= MAX_SAMPLED_SYMBOLS else []
    error = FALSE_ALARM / max(1, 2 * made.answers * len(symbols))
    for answer in range(made.answers if symbols else 0):
        counts = dict.fromkeys(symbols, 0)
        for _ in range(REPORTS):
            counts[made.randomize(made.answer_at(answer), draw)] += 1
        for symbol, count in counts.items():
            stated = float(made.weight(symbol, answer))
            low, high = (limit(count, REPORTS, error) for limit in (lower_limit, upper_limit))
            if not low <= stated <= high:
                return (
                    f"{count} of {REPORTS} reports of answer {answer} are symbol {symbol}, whose "
                    f"probability is stated as {stated:.4g}"
                )
    return None


def _audit_fault(made: Mechanism, draw: Draw) -> str | None:
    if made.symbols >> made.encoding.public_bits > MAX_SYMBOLS:
        return None
    result = audit(made, AUDITED_REPORTS, FALSE_ALARM, draw)
    return None if result.holds else f"reports reveal at least ε {result.at_least:.3g}"
