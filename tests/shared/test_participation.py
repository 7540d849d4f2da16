"""Random participation: exactly k of the T rounds of a quarter, each set equally likely."""

from __future__ import annotations

import hashlib
import hmac
import math
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.shared.privacy.epsilon import parse_billionths
from deniable.shared.survey.document import PERIODS, Block, Survey, parse_document, parse_toml
from deniable.shared.survey.participation import (
    answered_per_block,
    drawn_in,
    drawn_rounds,
)
from deniable.shared.survey.phrases import default_participation, installs_of_survey
from tests.plausible import ALPHA, assert_implausible, assert_plausible
from tests.shared.test_vectors import vectors
from tests.survey_texts import bit, survey_text

BLOCK = Block("2026-Q4", range(2962, 2975))
CALENDAR = [name for name, period in PERIODS.items() if period.first_day is not None]
DAYS = st.dates(date(2020, 1, 1), date(2035, 12, 31))
DRAWN = vectors("participation.json")
Draw = Callable[[bytes], frozenset[int]]


def weekly(**changes: Any) -> Survey:
    given = {"round": "week", "opens": date(2026, 11, 4), "closes": date(2028, 2, 1)}
    return parse_toml(survey_text(bit(epsilon="0.5"), **given | changes))


def quarter(day: date) -> str:
    return f"{day.year}-Q{[1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4][day.month - 1]}"


@pytest.mark.parametrize("vector", DRAWN, ids=lambda vector: vector["day"])
def test_rounds_are_drawn_as_in_the_vectors(vector: dict[str, Any]) -> None:
    survey, budget = parse_document(vector["document"].encode()), vector["budget"]
    number = survey.round_of(date.fromisoformat(vector["day"]))
    assert number == vector["round"]
    assert survey.quarter_of(number) == vector["quarter"]
    block = survey.block_of(number)
    if block is None:
        assert vector["rounds"] is vector["count"] is vector["drawn"] is None
        return
    count = block.answered(survey.round_billionths, parse_billionths(budget))
    drawn = drawn_in(block, bytes.fromhex(vector["key"]), survey.name, count)
    told = list(block.rounds), count, sorted(drawn)
    assert told == (vector["rounds"], vector["count"], vector["drawn"])


@pytest.mark.parametrize("vector", DRAWN, ids=lambda vector: vector["day"])
def test_the_vectors_follow_the_documented_formula(vector: dict[str, Any]) -> None:
    """Compute them from the formula alone, so that code and vectors are not wrong together."""
    if (rounds := vector["rounds"]) is None:
        return
    survey = parse_document(vector["document"].encode())
    scored = sorted(
        (
            hmac.new(
                bytes.fromhex(vector["key"]),
                b"\0".join(
                    text.encode()
                    for text in ("participation", survey.name, vector["quarter"], str(number))
                ),
                hashlib.sha256,
            ).digest(),
            number,
        )
        for number in rounds
    )
    assert sorted(number for _, number in scored[: vector["count"]]) == vector["drawn"]


@given(DAYS, st.sampled_from(CALENDAR), st.integers(1, 9), st.integers(0, 50))
def test_a_block_has_the_rounds_that_begin_in_its_quarter(
    day: date, period: str, step: int, first_round: int
) -> None:
    calendar = PERIODS[period]
    assert calendar.first_day is not None
    block = calendar.block_of(day, step, first_round)
    near = range(calendar.round_of(day) - 100, calendar.round_of(day) + 100)
    expected = [
        number
        for number in near
        if quarter(calendar.first_day(number)) == block.quarter == quarter(day)
        and (number - first_round) % step == 0
    ]
    assert list(block.rounds) == expected


@given(st.binary(min_size=32, max_size=32), st.integers(0, 20))
def test_every_key_draws_exactly_k_rounds(key: bytes, count: int) -> None:
    drawn = drawn_in(BLOCK, key, "app-health", count)
    assert len(drawn) == min(count, len(BLOCK.rounds))
    assert drawn <= set(BLOCK.rounds)


def pairs(draw: Draw) -> Counter[frozenset[int]]:
    return Counter(draw(hashlib.sha256(b"%d" % number).digest()) for number in range(PEOPLE))


PEOPLE = 30_000
SETS = [frozenset(pair) for pair in combinations(BLOCK.rounds, 2)]


def test_every_set_of_rounds_is_equally_likely() -> None:
    """False alarm at most 1e-9 over all 78 sets. The twin below is caught."""
    drawn = pairs(lambda key: drawn_in(BLOCK, key, "app-health", 2))
    assert sum(drawn[pair] for pair in SETS) == PEOPLE
    for pair in SETS:
        assert_plausible(drawn[pair], PEOPLE, 1 / math.comb(13, 2), ALPHA / len(SETS))


def test_a_draw_with_short_scores_prefers_early_rounds() -> None:
    """Twin: with scores of 3 bits, ties go to the first rounds."""

    def short(key: bytes) -> frozenset[int]:
        scores = {n: hmac.digest(key, b"%d" % n, "sha256")[0] >> 5 for n in BLOCK.rounds}
        return frozenset(sorted(BLOCK.rounds, key=scores.__getitem__)[:2])

    first = sum(BLOCK.rounds[0] in pair for pair in pairs(short).elements())
    assert_implausible(first, PEOPLE, 2 / 13)


@given(st.binary(min_size=32, max_size=32), st.integers(0, 64), st.integers(1, 5))
def test_the_rounds_from_one_on_are_those_of_its_block_and_later_ones(
    key: bytes, later: int, span: int
) -> None:
    repeat = {"repeat": "latched", "repeat_rounds": span} if span > 1 else {}
    survey, budget = weekly(**repeat), 10**9
    number = survey.first_round + later
    expected = [
        first
        for first in range(survey.span_of(number)[0], survey.last_round + 1, span)
        for block in [survey.block_of(first)]
        if block is not None and first in drawn_in(block, key, survey.name, 2)
    ]
    assert list(drawn_rounds(survey, number, key, budget)) == expected


def test_a_survey_that_is_asked_once_is_always_answered() -> None:
    survey = weekly(round="once", closes=date(2028, 2, 1))
    assert list(drawn_rounds(survey, 0, bytes(32), 10**9)) == [0]
    assert answered_per_block(survey, 10**9) == (1,)
    assert survey.quarter_of(0) == "2026-Q4"


@pytest.mark.parametrize("epsilon", ["0.1", "0.15", "0.3", "0.7", "2"])
def test_no_block_exceeds_the_budget_and_one_round_more_would(epsilon: str) -> None:
    cost, budget = parse_billionths(epsilon), parse_billionths("2")
    for day in (date(2026, 1, 1) + timedelta(days=31 * n) for n in range(48)):
        for period in CALENDAR:
            block = PERIODS[period].block_of(day)
            count = block.answered(cost, budget)
            assert count * cost <= budget
            assert count == len(block.rounds) or (count + 1) * cost > budget


def test_rounds_outside_the_survey_s_days_count_in_the_block() -> None:
    """Else an install could tell from its own draws when a survey opened, and k would depend on it.

    From Wednesday 4 November on, 9 of the 13 weeks of the quarter have days in the survey.
    """
    survey = weekly()
    block = survey.block_of(survey.first_round)
    assert block is not None
    assert (len(block.rounds), block.rounds[-1] - survey.first_round + 1) == (13, 9)
    assert answered_per_block(survey, parse_billionths("6")) == (9, 12, 12, 12, 12, 5)
    assert answered_per_block(survey, parse_billionths("1")) == (2, 2, 2, 2, 2, 2)


@pytest.mark.parametrize(
    ("period", "epsilon", "says"),
    [
        ("week", "1", "Of 100,000 installs, about 15,000 answer each week."),
        ("day", "0.5", "Of 100,000 installs, about 4,300 answer each day."),
        ("month", "0.5", "So each install answers every round."),
        ("once", "2", "So each install answers every round."),
        ("month", "2.1", "refuses this survey: the limit is ε 2 in one round."),
    ],
)
def test_the_default_limits_are_stated(period: str, epsilon: str, says: str) -> None:
    survey = parse_toml(
        survey_text(
            bit(epsilon=epsilon), round=period, opens=date(2026, 11, 4), closes=date(2027, 2, 1)
        )
    )
    first, *_, last = ["", *default_participation(survey)]
    assert first == ""
    assert last.endswith(says)
    if "refuses" not in says:
        caps = "an app uses at most ε 8 in each quarter. Then the budget renews."
        assert caps in default_participation(survey)[0]


def test_installs_needed_exceed_answers_needed() -> None:
    survey = parse_toml(
        survey_text(bit(), round="week", opens=date(2026, 11, 4), closes=date(2027, 2, 1))
    )
    (needed,) = installs_of_survey(survey, 10_000)
    assert needed.endswith("for 10,000 answers you need about 65,000 installs.")
    assert installs_of_survey(weekly(round="once"), 10_000) == ()
