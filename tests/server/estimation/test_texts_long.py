"""Texts at full size, over many seeds: all above the floor are found, and hardly any false one."""

from __future__ import annotations

from collections import Counter
from time import process_time

import numpy as np
import pytest

from deniable.server.estimation.frequent_texts import FALSE_DISCOVERY, found
from deniable.simulations.population import text_tally
from tests.bench.texts import MAX_SECONDS, PEOPLE, asking, zipf
from tests.plausible import assert_implausible, assert_plausible

FOUND = 0.99  # the probability that defines `floor`
CONFIDENCE = 0.95
RUNS = 60


@pytest.mark.long
@pytest.mark.parametrize("exponent", [1.0, 1.2])
def test_all_texts_above_the_floor_are_found_and_hardly_any_false_one(exponent: float) -> None:
    """Draw a million people from Zipf over 2^48 texts at ε 2; each run has new texts and new noise.

    False alarms have probability at most 1e-9 if 99 % of the texts are found, 1 % of the rounds
    contain a false text, and 95 % of the intervals hold. Results take less than ten seconds of
    processor time.
    """
    seen, longest = Counter[str](), 0.0
    for seed in range(RUNS):
        one, took = play(seed, exponent)
        seen, longest = seen + one, max(longest, took)
    print(f"Zipf {exponent}: {dict(seen)}, {longest:.1f} s at most")
    assert seen["above"] >= RUNS
    assert_not_below(seen["above, found"], seen["above"], FOUND)
    assert_not_below(RUNS - seen["rounds with a false one"], RUNS, 1 - FALSE_DISCOVERY)
    assert_not_below(seen["intervals that hold"], seen["found"], CONFIDENCE)
    assert longest < MAX_SECONDS


def play(seed: int, exponent: float) -> tuple[Counter[str], float]:
    generator, question = np.random.default_rng((20261119, seed)), asking(f"salt {seed}")
    people, others = zipf(generator, exponent)
    cells = text_tally(question, people, others, generator)
    begin = process_time()
    rows = {row.label: row for row in found(question, cells, PEOPLE, CONFIDENCE)}
    took = process_time() - begin
    floor = question.mechanism.floor(PEOPLE) * PEOPLE
    above = {text for text, held in people.items() if held >= floor}
    true = rows.keys() & people.keys()
    hold = sum(rows[text].low <= people[text] / PEOPLE <= rows[text].high for text in true)
    counts = {
        "above": len(above),
        "above, found": len(above & true),
        "found": len(true),
        "rounds with a false one": bool(rows.keys() - true),
        "intervals that hold": hold,
    }
    return Counter({what: int(count) for what, count in counts.items()}), took


def assert_not_below(successes: int, trials: int, rate: float) -> None:
    if successes < rate * trials:
        assert_plausible(successes, trials, rate)


def test_the_test_above_can_fail() -> None:
    """The checks catch one missed text in three, and a false text in every fourth round."""
    assert_implausible(round(2 / 3 * 2 * RUNS), 2 * RUNS, FOUND)
    assert_implausible(RUNS - RUNS // 4, RUNS, 1 - FALSE_DISCOVERY)
