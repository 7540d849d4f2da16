"""What one report costs the server between socket and disk: decode, validate, count."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from deniable.server.intake.tally import tally
from deniable.shared.envelope import Envelope, parse_envelopes
from deniable.shared.survey.document import Survey, parse_toml
from tests.bench.measure import Measurement, compare
from tests.survey_texts import bit, choice, number, survey_text

REPORTS = 10_000
CALLS = 100
QUESTIONS = {
    "a bit": (bit(), 2, 5),
    "a number of 65 symbols": (number(0, 1, "local-laplace", epsilon="2", grid=64), 65, 5),
    "one of 5 options": (choice(5, None, epsilon="2"), 5, 5),
}


def measurements() -> Iterator[Measurement]:
    for name, (question, symbols, limit) in QUESTIONS.items():
        yield of(
            f"decode, check and count 10,000 reports of {name}",
            survey_text(question),
            symbols,
            limit,
        )


def of(name: str, toml: str, symbols: int, limit: float) -> Measurement:
    """Against numpy counting the same bytes, already in an array of the type it likes."""
    survey = parse_toml(toml)
    payload = bytes(byte % symbols for byte in os.urandom(REPORTS))
    body = Envelope("00" * 32, 683, bytes(16), REPORTS, payload).pack()
    ready = np.frombuffer(payload, np.uint8).astype(np.int64)

    def ours() -> None:
        for _ in range(CALLS):
            read(survey, body)

    def counting() -> None:
        for _ in range(CALLS):
            np.bincount(ready, minlength=symbols)

    per = 1e9 / (CALLS * REPORTS)
    beside = compare(name, ours, counting, unit="ns", per=per, limit=limit)
    note = f"a report; numpy's bincount alone {beside.baseline:.2f} ns"
    return Measurement(name, beside.ours, None, "ns", limit, beside.spread, note)


def read(survey: Survey, body: bytes) -> None:
    for envelope in parse_envelopes(body):
        tally(survey, envelope.payload, envelope.count)
