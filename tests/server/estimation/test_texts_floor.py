"""Number of people above which a text is certainly found: a bound on every way to miss it.

A text of a share of at least TIMES the stated floor is found with 99 %, where everybody else
answers a text of their own. (The floor itself, 99 % as well, is measured: test_texts_long.py.)

z is the standard score of a bucket. Of the text's own its count is a binomial of n reports at the
rate that its share gives, of another one at the rate of an empty bucket. The text is found, unless

    groups      a group has fewer than so many reports, five deviations below what it expects
    on the way  in some group but the last z < BIAS: else its credit is never below 0
    room        so many other buckets have z >= BIAS that KEPT beginnings may be ahead of it
    last        in the last of these groups z < t
    others      so many other buckets have z >= t there that TESTED texts may be ahead of it
    final       z < 2 in a final group, or z < 4 in three: else its score is at least 20
    p           the p-value of a score of 20 is too large: Markov's bound by its expectation

and the probability that any of these happens is at most their sum. Beginnings fall into buckets
independently, SHA-256 being taken for random. Buckets are as if independent; in fact a report that
supports one of them supports others less.
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

AHEAD = 16 * KEPT  # beginnings that are looked at in a group
MISSED = 0.01
TIMES = {10**5: 2.2, 10**6: 1.75, 10**8: 1.6}  # the floor, by how many people report
Tail = Callable[[float], float]


def asking(epsilon: str, length: int, buckets: int = 4_096) -> Text:
    asked = in_toml("word", "text", epsilon, length=length, buckets=buckets)
    (question,) = parse_toml(survey_text(asked)).questions
    assert isinstance(question, Text)
    return question


def missed(question: Text, people: int, times: float) -> float:
    """At the t that gives the least."""
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
        groups * 3e-7  # a binomial's five deviations
        + on_the_way * (below(BIAS) + crowded(KEPT, buckets, above(BIAS)))
        + last
        + crowded(TESTED, buckets, above(t))
        + FINAL * below(2)
        + math.comb(FINAL, 3) * below(4) ** 3
        + expected_p(buckets, above) * LOOKS * TESTED / FALSE_DISCOVERY
    )


def crowded(room: int, buckets: int, likely: float) -> float:
    """Return the probability that `room` others are ahead.

    Either too many buckets are, or too many beginnings are in them.
    """
    few = max(1, int(0.78 * room / AHEAD * buckets))
    return float(binom.sf(few - 1, buckets, likely) + binom.sf(room - 2, AHEAD, few / buckets))


def expected_p(buckets: int, above: Callable[[float, int], float]) -> float:
    """Bound the p-value by the expected number of random scores of 20.

    Some of the buckets may be the text's own, and score 5 each.
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
def test_with_the_fewest_buckets_the_floor_itself_is_proved(epsilon: str) -> None:
    assert missed(asking(epsilon, 8, 1_024), 10**6, 1) <= MISSED


def test_nothing_is_proved_at_the_floor_itself_by_this() -> None:
    """Twin: the bound grows as the share falls."""
    assert missed(asking("2", 8), 10**6, 1) > 10 * MISSED
