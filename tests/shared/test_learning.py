"""Single mechanisms: unbiased by their own tables, with refusals that name the fix."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from deniable.shared.errors import WrongUse
from deniable.shared.mechanisms import Randomizer, mechanism
from tests.plausible import assert_implausible, assert_plausible

OPTIONS = ["red", "green", "blue"]
ASKED = {
    "bit": mechanism("bit", "1"),
    "choice": mechanism("choice", "1", options=OPTIONS),
    "sets": mechanism("choice", "2", options=[*OPTIONS, "grey"], mechanism="unary"),
    "number": mechanism("number", "1", low=-10, high=30),
}
REPORTS = 20_000


@pytest.mark.parametrize("name", ASKED)
def test_rows_sum_to_one_and_no_column_exceeds_epsilon(name: str) -> None:
    table = ASKED[name].table
    assert all(sum(row) == 1 for row in table)
    assert all(max(column) / min(column) <= math.exp(2) for column in zip(*table, strict=True))


def expected(asked: Randomizer, row: list[Fraction]) -> dict[str, float]:
    """Return the mean of one report's estimate over a row of the table."""
    symbols = list(asked.mechanism.encoding.symbols())
    each = [asked.estimate([symbol]) for symbol in symbols]
    return {
        label: math.fsum(float(p) * one[label] for p, one in zip(row, each, strict=True))
        for label in each[0]
    }


@pytest.mark.parametrize("name", ["choice", "sets"])
def test_estimates_of_shares_are_unbiased(name: str) -> None:
    asked = ASKED[name]
    for answer, row in enumerate(asked.table):
        shares = list(expected(asked, row).values())
        assert shares == pytest.approx([float(option == answer) for option in range(len(shares))])


def test_estimates_of_a_bit_and_of_a_mean_are_unbiased() -> None:
    bit, number = ASKED["bit"], ASKED["number"]
    assert [expected(bit, row)["yes"] for row in bit.table] == pytest.approx([0, 1])
    low, *_, high = (expected(number, row)["mean"] for row in number.table)
    assert (low, high) == pytest.approx((-10, 30))


def test_the_tests_above_can_fail() -> None:
    """Twin: reports drawn at another ε are rejected."""
    row = mechanism("bit", "1.1").table[1]
    assert expected(ASKED["bit"], row)["yes"] > 1.03


def test_reports_follow_the_table() -> None:
    """The false-alarm probability is 1e-9; a rate that is off by a tenth is caught."""
    asked = ASKED["choice"]
    green = sum(asked.randomize("green") == 1 for _ in range(REPORTS))
    assert_plausible(green, REPORTS, float(asked.table[1][1]))
    assert_implausible(green, REPORTS, 1.1 * float(asked.table[1][1]))


def test_impossible_values_are_refused_with_a_sentence() -> None:
    for kind, more in (("bit", {"options": OPTIONS}), ("choice", {}), ("guess", {})):
        with pytest.raises(WrongUse):
            mechanism(kind, "1", **more)
    with pytest.raises(WrongUse, match="a vector cannot be estimated"):
        mechanism("vector", "1", dimension=2)
    with pytest.raises(WrongUse, match="ε"):
        mechanism("bit", "0")
    with pytest.raises(WrongUse, match="pass one or more symbols"):
        ASKED["bit"].estimate([])
    with pytest.raises(WrongUse, match="pass one or more symbols"):
        ASKED["bit"].estimate([2])
    with pytest.raises(WrongUse, match="too many for a table"):
        _ = mechanism("choice", "1", options=list(map(str, range(40))), mechanism="unary").table


def test_the_mechanism_describes_itself() -> None:
    assert repr(ASKED["bit"]).startswith(
        "randomized response at ε 1: reported with probability 73.1 %"
    )
