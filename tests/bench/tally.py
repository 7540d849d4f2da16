"""The server's cost of one report between socket and disk, and of the estimates."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from deniable.server.estimation.statements import CONFIDENCE
from deniable.server.intake.tally import tally
from deniable.shared.envelope import Envelope, encode_report, parse_envelopes
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanism import kernel_draw
from deniable.shared.privacy.mechanisms import (
    KRandomizedResponse,
    ProjectiveGeometry,
    SubsetSelection,
    Unary,
)
from deniable.shared.survey.document import Survey, parse_toml
from deniable.shared.survey.kinds.choice import Choice
from tests.bench.measure import Measurement, compare, seconds
from tests.server.estimation.single import counted
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
    one = Epsilon("1")
    for design, most in (
        (KRandomizedResponse(one, 1_024), 50),
        (ProjectiveGeometry(one, 1_024), 50),
        (Unary(one, 1_024), 100),
        (SubsetSelection(one, 1_024), 100),
        (KRandomizedResponse(one, 65_536), 300),
        (ProjectiveGeometry(one, 65_536), 300),
    ):
        yield counting_of(design, most)
    for design in (KRandomizedResponse(one, 65_536), ProjectiveGeometry(one, 65_536)):
        yield estimates_of(design)


def counting_of(design: SupportDesign, most: float) -> Measurement:
    """Measure how long a million reports of one question take to count, in full envelopes.

    Devices draw a thousand reports, which are then repeated.
    """
    toml = survey_text(choice(design.options, design.name, epsilon=str(design.epsilon)))
    survey = parse_toml(toml)
    drawn = [encode_report(survey, [design.randomize(7, kernel_draw)]) for _ in range(1_000)]
    payload = b"".join(drawn) * 50

    def million() -> None:
        for _ in range(20):
            tally(survey, payload, 50_000)

    rounds = [seconds(million) for _ in range(5)]
    name = f"count 1,000,000 reports of one of {design.options:,} options, {design.label}"
    spread = max(rounds) / min(rounds) - 1
    return Measurement(name, min(rounds) * 1e3, None, "ms", most, spread)


def estimates_of(design: SupportDesign) -> Measurement:
    """Measure the estimates of a choice with the most options, nearly all with different counts."""
    counts = np.random.default_rng(1).multinomial(10**12, np.full(design.cells, 1 / design.cells))
    question = Choice("it", design, tuple(map(str, range(design.options))), None)

    def with_intervals() -> None:
        found = counted(question, counts, 10**12)
        assert len(found.points.estimate) == len(found.like(CONFIDENCE)[0])

    rounds = [seconds(with_intervals) for _ in range(5)]
    name = f"the estimates of {design.options:,} options, {design.label}"
    return Measurement(name, min(rounds) * 1e3, None, "ms", 50)


def of(name: str, toml: str, symbols: int, limit: float) -> Measurement:
    """Compare with numpy counting the same bytes, in an array of the type that numpy prefers."""
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
    compared = compare(name, ours, counting, unit="ns", per=per, limit=limit)
    note = f"a report; numpy's bincount alone {compared.baseline:.2f} ns"
    return Measurement(name, compared.ours, None, "ns", limit, compared.spread, note)


def read(survey: Survey, body: bytes) -> None:
    for envelope in parse_envelopes(body):
        tally(survey, envelope.payload, envelope.count)
