"""Number of people above which a text is almost certainly found: a bound on all ways to miss it.

A text with a share of at least TIMES the stated floor is found with probability 99 % if everybody
else writes a text that is unique. (test_texts_long.py measures the same at the floor itself.)

z is the standard score of a bucket. The count of the text's own bucket is a binomial of n reports
at the rate that its share gives; any other bucket has the rate of an empty one. The text is found
unless one of these happens:

    groups      a group has far fewer reports than expected, by five standard deviations
    on the way  z < BIAS in a group before the last one; otherwise its credit is never below 0
    room        so many other buckets have z >= BIAS that KEPT beginnings may rank above it
    last        z < t in the last of these groups
    others      so many other buckets have z >= t there that TESTED texts may rank above it
    final       z < 2 in a final group, or z < 4 in three; otherwise its score is at least 20
    p           the p-value of a score of 20 is too large, by Markov's inequality

The probability of a miss is at most the sum of these probabilities. SHA-256 is taken to be random,
so beginnings fall into buckets independently. The bound treats buckets as independent. In fact, a
report that supports one bucket is less likely to support another.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from scipy.stats import binom

from deniable.server.estimation.frequent_texts import (
    BIAS,
    FALSE_DISCOVERY,
    KEPT,
    LOOKS,
    STEP,
    TESTED,
)
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.survey.document import parse_toml
from deniable.shared.survey.kinds.text import FINAL, Text
from tests.survey_texts import question as in_toml
from tests.survey_texts import survey_text

AHEAD = 16 * KEPT  # beginnings examined per group
MISSED = 0.01
TIMES = {10**5: 2.2, 10**6: 1.75, 10**8: 1.6}  # multiples of the floor, by number of people
Tail = Callable[[float], float]


def asking(epsilon: str, length: int, buckets: int = 4_096) -> Text:
    asked = in_toml("word", "text", epsilon, length=length, buckets=buckets)
    (question,) = parse_toml(survey_text(asked)).questions
    assert isinstance(question, Text)
    return question


def missed(question: Text, people: int, times: float) -> float:
    """Return the bound on the probability of a miss, minimized over t."""
    floor = question.mechanism.floor(people)
    return min(missed_at(t / 10, question, people, times * floor) for t in range(30, 56))


def missed_at(t: float, question: Text, people: int, share: float) -> float:
    design, groups = question.mechanism.each, question.mechanism.groups
    buckets, gain = design.options, (design.keep - design.lie) / ONE
    empty = design.lie / ONE + gain / design.options
    n = math.floor(people / groups - 5 * math.sqrt(people / groups))
    deviation = math.sqrt(n * empty * (1 - empty))
    rate = empty + gain * (1 - 1 / buckets) * share

    def below(z: float) -> float:
        return float(binom.cdf(math.ceil(n * empty + z * deviation) - 1, n, rate))

    def above(z: float, together: int = 1) -> float:
        """Return the tail of an empty bucket's count, or of the sum of several."""
        least = math.ceil(together * n * empty + z * deviation)
        return float(binom.sf(least - 1, together * n, empty))

    on_the_way, last = groups - FINAL - 1, below(t)
    return (
        groups * 3e-7  # probability that a binomial is five deviations too low
        + on_the_way * (below(BIAS) + crowded(KEPT, buckets, above(BIAS)))
        + last
        + crowded(TESTED, buckets, above(t))
        + FINAL * below(2)
        + math.comb(FINAL, 3) * below(4) ** 3
        + expected_p(buckets, above) * LOOKS * TESTED / FALSE_DISCOVERY
    )


def crowded(room: int, buckets: int, likely: float) -> float:
    """Return the probability that `room` other beginnings rank above the text.

    This happens if too many buckets score high, or if too many beginnings fall into the buckets
    that do.
    """
    few = max(1, int(0.78 * room / AHEAD * buckets))
    return float(binom.sf(few - 1, buckets, likely) + binom.sf(room - 2, AHEAD, few / buckets))


def expected_p(buckets: int, above: Callable[[float, int], float]) -> float:
    """Bound the p-value by the expected number of random texts with a score of 20.

    Some of their buckets may be the text's own, which score 5 each.
    """
    least = 20 - 2 * FINAL * STEP
    return math.fsum(
        math.comb(FINAL, own)
        * buckets**-own
        * (above(least - 5 * own, FINAL - own) if own < FINAL else 1.0)
        for own in range(FINAL + 1)
    )


@pytest.mark.parametrize("people", TIMES)
@pytest.mark.parametrize("length", [4, 8, 32])
@pytest.mark.parametrize("epsilon", ["1", "2", "4"])
def test_a_text_well_above_the_floor_is_found_with_99_percent(
    epsilon: str, length: int, people: int
) -> None:
    assert missed(asking(epsilon, length), people, TIMES[people]) <= MISSED


@pytest.mark.parametrize("epsilon", ["1", "2", "4"])
def test_the_floor_itself_is_proved_for_the_fewest_buckets(epsilon: str) -> None:
    assert missed(asking(epsilon, 8, 1_024), 10**6, 1) <= MISSED


def test_the_bound_proves_nothing_at_the_floor_with_more_buckets() -> None:
    assert missed(asking("2", 8), 10**6, 1) > 10 * MISSED
