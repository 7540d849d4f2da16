"""Generators for whole populations, compared with drawing people one by one.

The limits apply to one cell of a study: 1,000 repetitions of a billion people, or one repetition of
a million people. Drawing one by one, as devices do, is measured with few people and extrapolated.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanism import Mechanism, kernel_draw
from deniable.shared.privacy.mechanisms import (
    KRandomizedResponse,
    LocalLaplace,
    OneBitMean,
    RandomizedResponse,
    Unary,
)
from deniable.simulations.population import drawn, fixed, whole_people
from tests.bench.measure import Measurement, seconds

BILLION, MILLION, REPETITIONS, ROUNDS = 10**9, 10**6, 1_000, 5
ONE = Epsilon("1")


def measurements() -> Iterator[Measurement]:
    generator = np.random.default_rng(20261118)

    def at_once(mechanism: Mechanism, people: int, times: int) -> Callable[[], object]:
        held = whole_people([1.0] * mechanism.answers, people)
        return lambda: fixed(mechanism, held, times, generator)

    def drawn_anew(mechanism: Mechanism, people: int, times: int) -> Callable[[], object]:
        distribution = [1 / mechanism.answers] * mechanism.answers
        return lambda: drawn(mechanism, distribution, people, times, generator)

    bit, one_bit = RandomizedResponse(ONE), OneBitMean(ONE)
    eight, fine = LocalLaplace(Epsilon("4"), 8), LocalLaplace(ONE, 64)
    k_ary, unary = KRandomizedResponse(ONE, 1024), Unary(ONE, 1024)
    cases: list[tuple[str, Mechanism, int, int, float, Callable[..., Callable[[], object]]]] = [
        ("a bit", bit, BILLION, REPETITIONS, 50, at_once),
        ("a mean, one bit", one_bit, BILLION, REPETITIONS, 50, at_once),
        ("a mean, 9 symbols", eight, BILLION, REPETITIONS, 50, at_once),
        ("a mean, 65 symbols, people drawn again", fine, BILLION, REPETITIONS, 50, drawn_anew),
        ("a mean, 65 symbols on all of them", fine, BILLION, REPETITIONS, 20, at_once),
        ("k-RR, 1,024 options", k_ary, BILLION, REPETITIONS, 5_000, at_once),
        ("unary, 1,024 options", unary, BILLION, REPETITIONS, 5_000, at_once),
        ("k-RR, 1,024 options, once", k_ary, MILLION, 1, 50, at_once),
        ("unary, 1,024 options, once", unary, MILLION, 1, 50, at_once),
    ]
    for name, mechanism, people, times, limit, how in cases:
        yield measurement(name, mechanism, people, times, limit, how(mechanism, people, times))


def measurement(
    name: str,
    mechanism: Mechanism,
    people: int,
    times: int,
    limit: float,
    run: Callable[[], object],
) -> Measurement:
    run()
    runs = [1000 * seconds(run) for _ in range(ROUNDS)]
    each = one_by_one(mechanism) * 1000
    ratio = each * people * times / min(runs)
    return Measurement(
        f"population: {name}, {people:,} people {times:,} times",
        min(runs),
        None,
        "ms",
        limit,
        (max(runs) - min(runs)) / min(runs),
        f"one by one {each * 1000:.2f} µs a person, {ratio:.1e} times as long",
    )


def one_by_one(mechanism: Mechanism, people: int = 500) -> float:
    """Return the seconds for one person's report, drawn as on a device, from the best round."""
    given = [mechanism.answer_at(answer) for answer in range(mechanism.answers)]
    held = list(islice(cycle(given), people))
    return min(
        seconds(lambda: [mechanism.randomize(answer, kernel_draw) for answer in held]) / people
        for _ in range(ROUNDS)
    )


def main() -> int:
    exceeded = 0
    for measurement in measurements():
        print(measurement.line(), flush=True)
        exceeded += not measurement.holds
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
