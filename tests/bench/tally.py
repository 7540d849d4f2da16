"""What one report costs the server between socket and disk, and what its estimates cost."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from deniable.server.estimation.shares import shares
from deniable.server.intake.tally import tally
from deniable.shared.envelope import Envelope, parse_envelopes
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import KRandomizedResponse
from deniable.shared.survey.document import Survey, parse_toml
from tests.bench.measure import Measurement, compare, seconds
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
    yield estimates_of(65_536)


def estimates_of(options: int) -> Measurement:
    """Of a choice with as many options as there can be, whose counts are nearly all different."""
    design = KRandomizedResponse(Epsilon("1"), options)
    counts = np.random.default_rng(1).multinomial(10**12, np.full(options, 1 / options))
    best = min(seconds(lambda: shares(counts, 10**12, design)) for _ in range(5))
    return Measurement(f"the estimates of {options:,} options", best * 1e3, None, "ms", 50)


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
