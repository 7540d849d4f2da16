"""A report in words: what it says, and how far that can be believed."""

from __future__ import annotations

from deniable.client.state.history import Said
from deniable.shared.survey.questions import Question

MOST_TEXT = 200


def said(question: Question, symbol: int) -> Said:
    odds = question.mechanism.explain(symbol)
    return Said(question.name, str(question.epsilon), _says(question, symbol), odds)


def _says(question: Question, symbol: int) -> str:
    text = question.describe(symbol)
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"
