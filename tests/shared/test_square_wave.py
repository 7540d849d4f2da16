"""Square wave: its window, its middle symbol, and its use only by name."""

from fractions import Fraction
from itertools import product

import pytest

from deniable.shared.privacy.epsilon import ONE, Epsilon, ceil_units, exp_interval, within
from deniable.shared.privacy.mechanisms import SquareWave, number_table

EPSILONS = ["0.000000001", "0.1", "0.5", "1", "2", "3", "4", "8", "20"]
SIZES = [2, 3, 10, 31, 64, 100, 127, 128]


@pytest.mark.parametrize(("epsilon", "steps"), list(product(EPSILONS, SIZES)))
def test_a_row_is_a_constant_with_a_symmetric_window(epsilon: str, steps: int) -> None:
    table = SquareWave(Epsilon(epsilon), steps)
    width, far = table.integers
    e = Fraction(exp_interval(*table.epsilon.ratio, 192).low, 2**192)
    assert width % 2
    assert abs(width - (steps + 1) / (e + 1)) <= 1 or width == 1
    assert table.symbols == steps + width <= 256
    for answer, row in enumerate(table.rows):
        window = row[answer : answer + width]
        assert window == window[::-1]
        assert sorted(window)[:-1] == [window[0]] * (width - 1)
        assert row[:answer] + row[answer + width :] == (far,) * steps
        assert 0 <= window[width // 2] - window[0] < width


@pytest.mark.parametrize(("epsilon", "steps"), list(product(EPSILONS, SIZES)))
def test_every_estimate_is_exactly_unbiased(epsilon: str, steps: int) -> None:
    table = SquareWave(Epsilon(epsilon), steps)
    for answer, row in enumerate(table.rows):
        assert sum(p * v for p, v in zip(row, table.values, strict=True)) == answer * ONE


def test_the_middle_absorbs_the_remainder_of_rounding_up() -> None:
    """`far` starts above 1. Otherwise the middle symbol would violate ε in some tables."""
    broken = 0
    for epsilon, steps in product(["0.1", "0.3", "0.5", "1"], range(20, 129)):
        table = SquareWave(Epsilon(epsilon), steps)
        w, m = table.width, table.steps
        (far,) = ceil_units(*table.epsilon.ratio, lambda e, w=w, m=m: [1 / (e * w + m)])  # type: ignore[misc] # of this turn
        near, remainder = divmod(ONE - m * far, w)
        broken += not within(table.epsilon, near + remainder, far)
        assert within(table.epsilon, table.near + table.remainder, table.far)
    assert broken > 0


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_square_wave_is_used_only_if_a_survey_names_it(epsilon: str) -> None:
    for steps in (None, 2, 64):
        assert number_table(Epsilon(epsilon), steps).name != "square-wave"
    assert number_table(Epsilon(epsilon), name="square-wave").steps == 64


def test_a_report_is_described_by_its_whole_window() -> None:
    table = SquareWave(Epsilon("1"), 64)
    assert table.remainder
    assert table.likeliest(40) == (40 - 2 * table.half_width, 40)
    assert table.likeliest(3) == (0, 3)
    assert table.likeliest(table.symbols - 1) == (64, 64)
