"""Open questions at full size: texts found, false texts, and the time until results are ready.

A million people at ε 2 answer with texts of eight characters, 2^48 of them, by Zipf's distribution:
half as many people hold the second most frequent text as hold the first, and so on. Every run uses
the same seeds. The tests in tests/server/estimation/test_texts_long.py check the texts; this
benchmark measures the time, at this length and at the maximum length.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from deniable.server.estimation.frequent_texts import found
from deniable.shared.survey.document import parse_toml
from deniable.shared.survey.kinds.text import MAX_TEXT_BYTES, Text
from deniable.simulations.population import text_tally
from tests.bench.measure import Measurement
from tests.survey_texts import question as in_toml
from tests.survey_texts import survey_text

PEOPLE = 1_000_000
LETTERS = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"))
LENGTH = 8  # letters from an alphabet of 64: 2^48 texts
RANKED = 20_000  # texts whose people are drawn individually; rarer ones are hardly ever shared
MAX_SECONDS = 10.0
MAX_SECONDS_OF_LONGEST = 30.0


def asking(salt: str, length: int = LENGTH, epsilon: str = "2") -> Text:
    asked = in_toml("word", "text", epsilon, length=length, salt=salt)
    (question,) = parse_toml(survey_text(asked)).questions
    assert isinstance(question, Text)
    return question


def zipf(generator: np.random.Generator, exponent: float = 1.0) -> tuple[dict[str, int], int]:
    """Return how many people hold each of the RANKED most frequent texts, and how many another."""
    weights = np.arange(1, RANKED + 1) ** -exponent
    rest = tail(exponent)
    held = generator.multinomial(PEOPLE, np.append(weights, rest) / (weights.sum() + rest))
    written = spelled(generator.choice(2**48, RANKED, replace=False, shuffle=False))
    return {text: int(n) for text, n in zip(written, held[:-1], strict=True) if n}, int(held[-1])


def tail(exponent: float) -> float:
    """Return the total weight of the texts beyond the RANKED most frequent, as an integral."""
    if exponent == 1:
        return float(np.log(2**48 / (RANKED + 0.5)))
    power = 1 - exponent
    return float((2 ** (48 * power) - (RANKED + 0.5) ** power) / power)


def spelled(numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[str]:
    digits = numbers[:, None] >> 6 * np.arange(LENGTH) & 63
    return ["".join(row) for row in LETTERS[digits]]


def measurements() -> Iterator[Measurement]:
    for length, limit in ((LENGTH, MAX_SECONDS), (MAX_TEXT_BYTES, MAX_SECONDS_OF_LONGEST)):
        generator, question = np.random.default_rng(20261119), asking("time", length)
        people, others = zipf(generator)
        cells = text_tally(question, people, others, generator)
        begin = time.perf_counter()
        rows = found(question, cells, PEOPLE, 0.95)
        name = f"results of texts of {length} bytes, 1,000,000 people, {len(rows)} found"
        yield Measurement(name, time.perf_counter() - begin, None, "s", limit)
