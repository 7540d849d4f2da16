"""Exact arithmetic of probabilities: decimals, bounds on e^x, and odds that are rounded up."""

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.shared.errors import InvalidEpsilon
from deniable.shared.privacy.epsilon import (
    BILLION,
    ONE,
    PROOF_PRECISION,
    Epsilon,
    Interval,
    ceil_units,
    decimal_text,
    exp_interval,
    lie_units,
    lifetime_promise,
    odds_factor,
    parse_billionths,
    percent,
    round_promise,
    within,
)
from deniable.shared.privacy.mechanism import kernel_draw

billionths = st.integers(1, 20 * BILLION)


@given(billionths)
def test_epsilon_is_the_exact_decimal_that_was_written(number: int) -> None:
    assert Epsilon(decimal_text(number)).billionths == number
    assert Fraction(decimal_text(number)) == Fraction(number, BILLION)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0.0",
        "20.000000001",
        "-1",
        "+1",
        "1e1",
        " 1",
        "1 ",
        ".5",
        "1.",
        "0.1234567891",
        "nan",
        "½",
        0.5,
        1,
        None,
    ],
)
def test_an_invalid_epsilon_is_refused(text: str) -> None:
    with pytest.raises(InvalidEpsilon):
        Epsilon(text)


def test_three_charges_of_a_tenth_are_three_tenths() -> None:
    assert 3 * parse_billionths("0.1") == parse_billionths("0.3")


@given(billionths, st.sampled_from([64, 192, 384]))
def test_the_exponential_lies_inside_its_interval(number: int, bits: int) -> None:
    interval = exp_interval(number, BILLION, bits)
    with mpmath.workprec(bits + 200):
        exact = mpmath.exp(mpmath.mpf(number) / BILLION) * mpmath.mpf(2) ** bits
        assert interval.low < exact < interval.high
    assert interval.high - interval.low < interval.low >> (bits - 12)


@pytest.mark.parametrize(
    ("numerator", "denominator", "bits", "ends"),
    [
        (0, 1, 4, (16, 17)),  # 16 + 0, plus 1 for the remaining terms
        (3, 4, 0, (1, 4)),  # down 1 + 0 + 0, up 1 + 1 + 1 + 1: terms halve after 3/2
        (1, 2, 2, (6, 8)),  # down 4 + 2 + 0, up 4 + 2 + 1 + 1
        (1, 2, 3, (13, 14)),  # 8 + 4 + 1, up 1 more
        (3, 1, 0, (16, 25)),  # down 1 + 3 + 4 + 4 + 3 + 1, up 1 + 3 + 5 + 5 + 4 + 3 + 2 + 1 + 1
    ],
)
def test_the_ends_of_the_exponential_agree_with_a_hand_calculation(
    numerator: int, denominator: int, bits: int, ends: tuple[int, int]
) -> None:
    """Round terms down and up until one is at most a unit; all further terms are below that."""
    interval = exp_interval(numerator, denominator, bits)
    assert (interval.low, interval.high) == ends


@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul, operator.truediv])
def test_every_operation_on_intervals_rounds_outward(operation: Callable[[Any, Any], Any]) -> None:
    """Check intervals of eighths: each operation widens either end by less than a unit."""
    intervals = list(combinations_with_replacement((1, 2, 3, 5, 7, 8, 11, 23), 2))
    for first, second in product(intervals, repeat=2):
        made = operation(Interval(*first, 3), Interval(*second, 3))
        exact = [8 * operation(Fraction(a, 8), Fraction(b, 8)) for a in first for b in second]
        assert min(exact) - 1 < made.low <= min(exact)
        assert max(exact) <= made.high < max(exact) + 1


def test_precision_is_raised_until_both_ends_agree() -> None:
    """The part of e after 300 binary digits is above 0, but too small for 192 digits."""
    with mpmath.workprec(400):
        digits = int(mpmath.floor(mpmath.e * 2**300))
        second = int(mpmath.ceil((mpmath.e - 2) * ONE))
    assert ceil_units(1, 1, lambda e: [(e * 2**300 - digits) / 2**300, e - 2]) == (1, second)


@given(billionths, st.integers(2, 65_536))
def test_a_lie_is_rounded_up_to_the_next_unit(number: int, symbols: int) -> None:
    lie = lie_units(Epsilon(decimal_text(number)), symbols)
    with mpmath.workprec(400):
        exact = mpmath.mpf(ONE) / (mpmath.exp(mpmath.mpf(number) / BILLION) + symbols - 1)
        assert lie - 1 < exact < lie


@given(billionths)
def test_within_is_correct_on_both_sides_of_the_bound(number: int) -> None:
    epsilon = Epsilon(decimal_text(number))
    with mpmath.workprec(300):
        edge = int(mpmath.floor(mpmath.exp(mpmath.mpf(number) / BILLION) * 2**80))
    assert within(epsilon, edge, 2**80)
    assert not within(epsilon, edge + 1, 2**80)


@given(billionths)
def test_within_is_never_true_above_the_bound(number: int) -> None:
    """Even an excess that is below the proof's precision is rejected."""
    epsilon, one = Epsilon(decimal_text(number)), 2**PROOF_PRECISION
    with mpmath.workprec(PROOF_PRECISION + 200):
        edge = int(mpmath.floor(mpmath.exp(mpmath.mpf(number) / BILLION) * one))
    assert not within(epsilon, edge + 1, one)
    assert within(epsilon, edge - 2**45, one)


@given(st.integers(1, 30 * BILLION))
def test_odds_in_words_are_never_below_the_exact_odds(number: int) -> None:
    told = float(odds_factor(number).replace(",", ""))
    exact = math.exp(number / BILLION)
    assert exact * (1 - 1e-12) <= told <= exact * 1.1 + 0.1


@pytest.mark.parametrize(
    ("odds", "told"),
    [
        ("1.1", "1.1"),
        ("1.1001", "1.2"),
        ("9.8999", "9.9"),
        ("9.9001", "10"),
        ("98.999", "99"),
        ("99.001", "100"),
        ("100.01", "110"),
        ("989.99", "990"),
        ("12000.1", "13,000"),
    ],
)
def test_odds_in_words_round_up_to_two_digits(odds: str, told: str) -> None:
    with mpmath.workprec(100):
        number = mpmath.log(mpmath.mpf(odds)) * BILLION
        assert odds_factor(int(mpmath.floor(number))) == told


def test_odds_are_stated_for_epsilon_up_to_thirty() -> None:
    assert odds_factor(30 * BILLION) == "11,000,000,000,000"
    assert odds_factor(30 * BILLION + 1) == "more than a trillion"


@pytest.mark.parametrize(
    ("share", "told"),
    [
        ("0.0000099", "under 0.001 %"),
        ("0.00001", "0.001 %"),
        ("0.123456", "12.3 %"),
        ("0.999", "99.9 %"),
        ("0.9990001", "over 99.9 %"),
    ],
)
def test_a_probability_in_words_has_three_digits_and_is_never_certain(
    share: str, told: str
) -> None:
    assert percent(math.ceil(Fraction(share) * ONE)) == told


def test_promises_name_odds_and_epsilon() -> None:
    assert "by a factor of at most 7.4 (ε 2)" in round_promise(2 * BILLION)
    told = [lifetime_promise(2 * BILLION, rounds) for rounds in (1, 2, 3, 365)]
    assert "its one round changes them by a factor of at most 7.4 (ε 2)" in told[0]
    assert "its 2 rounds changes them by a factor of at most 55 (ε 4)" in told[1]
    assert "its 3 rounds changes them by a factor of at most 410 (ε 6)" in told[2]
    assert "more than a trillion (ε 730)" in told[3]


def test_each_draw_asks_the_kernel_again() -> None:
    assert len({kernel_draw(64) for _ in range(1000)}) == 1000
    assert all(kernel_draw(8) < 256 for _ in range(1000))
