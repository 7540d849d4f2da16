"""A report in words: what it says, and how far that can be believed."""

from __future__ import annotations

from collections.abc import Iterable

from deniable.client.state.history import ReportedSymbol
from deniable.shared.privacy.shapes.number_table import NumberTable
from deniable.shared.privacy.thresholds import ONE
from deniable.shared.survey.questions import Choice, Question

MOST_TEXT = 200


def reported(questions: Iterable[Question], symbols: Iterable[int]) -> tuple[ReportedSymbol, ...]:
    """What a report says, question by question."""
    return tuple(
        ReportedSymbol(each.name, str(each.epsilon), _says(each, symbol), _odds(each, symbol))
        for each, symbol in zip(questions, symbols, strict=True)
    )


def percent(units: int) -> str:
    """A probability in units of 2^-64, with three digits, and never quite certain.

    >>> percent(2**63), percent(2**64 - 1), percent(0)
    ('50 %', 'over 99.9 %', 'under 0.001 %')
    """
    share = 100 * units / ONE
    if share > 99.9:
        return "over 99.9 %"
    return f"{share:.3g} %" if share >= 0.001 else "under 0.001 %"


def _says(question: Question, symbol: int) -> str:
    text = question.describe(symbol)
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"


def _odds(question: Question, symbol: int) -> str:
    mechanism = question.mechanism
    if isinstance(mechanism, NumberTable):
        column = [row[symbol] for row in mechanism.rows]
        return (
            f"a report says so with {percent(max(column))} when true "
            f"and with {percent(min(column))} when the truth is farthest from it"
        )
    keep, lie = percent(mechanism.keep), percent(mechanism.lie)
    if isinstance(question, Choice) and mechanism.name == "unary":
        return f"a report names each option with {keep} when true and with {lie} when not"
    return f"a report says so with {keep} when true and with {lie} when not"
