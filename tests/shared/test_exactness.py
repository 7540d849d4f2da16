"""The ground under every probability: decimals, e^x between integers, words that round outward."""

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.shared.errors import InvalidEpsilon
from deniable.shared.privacy.epsilon import BILLION, Epsilon, decimal_text, parse_billionths
from deniable.shared.privacy.promises import lifetime_promise, odds_factor, round_promise
from deniable.shared.privacy.randomness import kernel_draw
from deniable.shared.privacy.thresholds import ONE, exp_interval, lie_units, within

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
def test_an_epsilon_that_is_not_one_is_refused(text: str) -> None:
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


@given(billionths, st.integers(2, 65_536))
def test_a_lie_is_the_next_unit_above_its_exact_chance(number: int, symbols: int) -> None:
    lie = lie_units(Epsilon(decimal_text(number)), symbols)
    with mpmath.workprec(400):
        exact = mpmath.mpf(ONE) / (mpmath.exp(mpmath.mpf(number) / BILLION) + symbols - 1)
        assert lie - 1 < exact < lie


@given(billionths)
def test_within_is_right_on_both_sides_of_the_edge(number: int) -> None:
    epsilon = Epsilon(decimal_text(number))
    with mpmath.workprec(300):
        edge = int(mpmath.floor(mpmath.exp(mpmath.mpf(number) / BILLION) * 2**80))
    assert within(epsilon, edge, 2**80)
    assert not within(epsilon, edge + 1, 2**80)


@given(st.integers(1, 30 * BILLION))
def test_odds_in_words_are_never_less_than_the_truth(number: int) -> None:
    told = float(odds_factor(number).replace(",", ""))
    exact = math.exp(number / BILLION)
    assert exact * (1 - 1e-12) <= told <= exact * 1.1 + 0.1


def test_promises_name_odds_and_epsilon() -> None:
    assert "by a factor of at most 7.4 (ε 2)" in round_promise(2 * BILLION)
    assert "its 3 rounds changes them by a factor of at most 410 (ε 6)" in lifetime_promise(
        2 * BILLION, 3
    )
    assert "more than a trillion" in lifetime_promise(2 * BILLION, 365)


def test_the_kernel_is_asked_anew_each_time() -> None:
    assert len({kernel_draw(64) for _ in range(1000)}) == 1000
    assert all(kernel_draw(8) < 256 for _ in range(1000))
