"""Random participation: the rounds of a survey that an install answers, drawn in advance.

If each install spent its budget on every round, old installs would fall silent after some weeks,
and every later estimate would describe new installs only. So in each calendar quarter, an install
answers exactly k of the T rounds that begin in it:

    k = min(T, ⌊the survey's budget / ε of a round⌋)

T counts all rounds of the calendar, whether or not the survey is open in them. Rounds that share a
report (`repeat`) are a span, and count once, under the number of the first. The rounds with the k
smallest scores are answered:

    score = HMAC-SHA256(key, "participation" 00 survey name 00 quarter 00 round)

The key is random and belongs to one person, so every set of k rounds is equally likely. The draw
depends on the policy and the survey alone: never on an answer, on the ledger or on the age of an
install. So each round is answered by a random sample of all installs. Independent draws with
probability k / T would exceed the budget at times; these draws never do.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deniable.shared.survey.document import Block, Survey

# The defaults of a client's policy; `survey check` and pages describe what they lead to.
MAX_EPSILON = "8"
MAX_EPSILON_PER_SURVEY = "2"
QUARTER, LIFETIME = "quarter", "lifetime"  # how long a cap holds


def next_quarter(day: date) -> date:
    """Return the first day of the quarter after a day's.

    >>> next_quarter(date(2026, 11, 20))
    datetime.date(2027, 1, 1)
    """
    quarter = (day.month + 2) // 3
    return date(day.year + quarter // 4, quarter % 4 * 3 + 1, 1)


def drawn_in(block: Block, key: bytes, name: str, count: int) -> frozenset[int]:
    """Return the rounds of a block that a person answers, if they answer this many."""
    import hmac

    if count >= len(block.rounds):
        return frozenset(block.rounds)
    begin = f"participation\0{name}\0{block.quarter}\0"
    scores = {
        number: hmac.digest(key, f"{begin}{number}".encode(), "sha256") for number in block.rounds
    }
    return frozenset(sorted(block.rounds, key=scores.__getitem__)[:count])


def blocks(survey: Survey) -> Iterator[Block]:
    """Yield the blocks of a survey's rounds, in order; none if it is asked once."""
    first = survey.first_round
    while first <= survey.last_round and (block := survey.block_of(first)) is not None:
        yield block
        first = block.rounds[-1] + survey.repeat_rounds


def answered_per_block(survey: Survey, budget: int) -> tuple[int, ...]:
    """Return the largest number of rounds that an install answers, block by block.

    A survey that is asked once has one round, which is always answered.
    """
    first, last, cost = survey.first_round, survey.last_round, survey.round_billionths
    counts = (
        min(sum(first <= number <= last for number in block.rounds), block.answered(cost, budget))
        for block in blocks(survey)
    )
    return tuple(counts) or (1,)


def budget_of_all_rounds(survey: Survey) -> int:
    """Return the least ε for one survey and quarter with which every round is answered."""
    rounds = max((len(block.rounds) for block in blocks(survey)), default=1)
    return rounds * survey.round_billionths


def drawn_rounds(survey: Survey, number: int, key: bytes, budget: int) -> Iterator[int]:
    """Yield the rounds, or first rounds of spans, that a person answers, from this one on.

    `budget` is that of one survey in one quarter, in billionths.
    """
    first = survey.span_of(number).start
    while first <= survey.last_round:
        block = survey.block_of(first)
        if block is None:
            yield first
            return
        count = block.answered(survey.round_billionths, budget)
        for drawn in sorted(drawn_in(block, key, survey.name, count)):
            if first <= drawn <= survey.last_round:
                yield drawn
        first = block.rounds[-1] + survey.repeat_rounds
