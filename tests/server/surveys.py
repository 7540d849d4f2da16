"""Surveys for the server's tests, and reports as a client might send them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deniable.server.store import PublishedSurvey, Store
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.envelope import Envelope, encode_report
from deniable.shared.survey.document import Survey, parse_toml, render_document
from deniable.shared.survey.keys import public_hex, sign
from deniable.shared.survey.kinds.base import Question
from tests import survey_texts as texts

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = public_hex(KEY)
DECEMBER = 683  # the round of December 2026

choice = texts.choice
BIT = texts.bit()
NUMBER = texts.number(mechanism="local-laplace", grid=64)
BROWSERS = ("firefox", "chrome", "safari", "edge", "other")
EACH_KIND = texts.bit(epsilon="0.5") + texts.number(epsilon="2") + choice(BROWSERS)
MIXED = (  # questions of every width on the wire
    BIT + NUMBER + choice(300) + choice(20, "unary", name="languages")
)


def survey(questions: str = BIT, **changes: object) -> Survey:
    """Return a monthly survey for one winter, with the given changes."""
    return parse_toml(texts.survey_text(questions, **changes))


def mixed(**changes: object) -> Survey:
    return survey(MIXED, **changes)


def until_spring(questions: str = EACH_KIND, **changes: object) -> Survey:
    """Return a survey of five rounds whose estimates are shown from 100 reports on."""
    changes = {"closes": date(2027, 4, 30), "minimum_reports": 100} | changes
    return survey(questions, **changes)


def published(store: Store, asked: Survey, catalogue: Catalogue | None = None) -> PublishedSurvey:
    document = render_document(asked)
    store.enrol_key(PUBLIC)
    return (catalogue or Catalogue(store)).publish(document, sign(document, KEY), PUBLIC)


def symbols(asked: Survey, number: int) -> tuple[int | None, ...]:
    """Return the symbols of a possible report, for all questions or for the one that it answers."""
    return tuple(
        None
        if asked.asks_one and number % asked.drawn_from != index
        else number * 2654435761 % question.mechanism.symbols
        for index, question in enumerate(asked.questions)
    )


def envelope(
    asked: PublishedSurvey, number: int = 0, *, count: int = 1, round_number: int = DECEMBER
) -> Envelope:
    payload = b"".join(
        encode_report(asked.survey, symbols(asked.survey, number + n)) for n in range(count)
    )
    return Envelope(asked.id, round_number, number.to_bytes(16, "big"), count, payload)


def expected_cells(asked: Survey, numbers: Sequence[int]) -> list[int]:
    """Return the tally of these reports, counted one by one without the server's code."""
    totals = [[0] * question.mechanism.cells for question in asked.questions]
    for number in numbers:
        for cells, question, symbol in zip(
            totals, asked.questions, symbols(asked, number), strict=True
        ):
            for cell in _counted(question, symbol):
                cells[cell] += 1
    for one, other in asked.crossed:
        both = [[0] * other.mechanism.cells for _ in range(one.mechanism.cells)]
        for number in numbers:
            named = dict(zip(asked.costs, symbols(asked, number), strict=True))
            for cell in _counted(one, named[one.name]):
                for index in _counted(other, named[other.name]):
                    both[cell][index] += 1
        totals += both
    if asked.asks_one:
        sent = [number % asked.drawn_from for number in numbers]
        totals.append([sent.count(index) for index in range(asked.drawn_from)])
    return [count for cells in totals for count in cells]


def _counted(question: Question, symbol: int | None) -> list[int]:
    if symbol is None:
        return []
    if question.mechanism.name != "unary":
        return [symbol]
    return [bit for bit in range(question.mechanism.cells) if symbol >> bit & 1]
