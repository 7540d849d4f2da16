"""Random bits and the symbols that they select, checked at every boundary to one unit of 2^-64.

Statistical tests cannot detect a single unit, and the proofs assume that each boundary is correct.
"""

from itertools import accumulate, pairwise

import pytest

from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import DIE, DIE_BITS
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import (
    TABLES,
    KRandomizedResponse,
    ProjectiveGeometry,
    RandomizedResponse,
    SubsetSelection,
    Unary,
)

EPSILON, ONE_EPSILON = Epsilon("1.5"), Epsilon("1")
TABLES_AT_ALL_SIZES = [
    table(EPSILON, size)
    for table in TABLES
    if not table.given
    for size in {table.sizes[0], min(9, table.sizes[-1])}
]
TABLES_AT_ALL_SIZES += [table(ONE_EPSILON, *table.proved_sizes) for table in TABLES if table.given]


def reported(mechanism: Mechanism, answer: object, roll: int) -> int:
    return mechanism.randomize(answer, lambda bits: roll)


@pytest.mark.parametrize("answer", [0, 1])
def test_exactly_the_rolls_of_a_lie_flip_a_bit(answer: int) -> None:
    design = RandomizedResponse(EPSILON)
    rolls = (0, design.lie - 1, design.lie, ONE - 1)
    flipped = [reported(design, answer, roll) != answer for roll in rolls]
    assert flipped == [True, True, False, False]


@pytest.mark.parametrize("answer", range(5))
def test_every_other_option_has_exactly_the_rolls_of_a_lie(answer: int) -> None:
    design = KRandomizedResponse(EPSILON, 5)
    symbols = [answer, *(option for option in range(5) if option != answer)]
    edges = [0, *accumulate([design.keep, *[design.lie] * 4])]
    assert edges[-1] == ONE
    for symbol, (first, beyond) in zip(symbols, pairwise(edges), strict=True):
        assert reported(design, answer, first) == symbol
        assert reported(design, answer, beyond - 1) == symbol


@pytest.mark.parametrize("option", range(11))
def test_a_unary_bit_is_set_by_exactly_the_rolls_of_a_lie(option: int) -> None:
    """Each option uses eight bytes of its own; the bit of the answer is the last bit drawn."""
    design = Unary(EPSILON, 11)
    clear = sum((ONE - 1) << 72 * other for other in range(11) if other != option)
    answer = (option + 1) % 11
    for coin in (0, 1):
        for own, is_set in ((0, True), (design.lie - 1, True), (design.lie, False)):
            roll = clear | own << 72 * option | coin << 72 * 11
            assert reported(design, answer, roll) == is_set << option | coin << answer


def test_a_subset_contains_its_answer_unless_the_roll_is_a_miss() -> None:
    design = SubsetSelection(EPSILON, 9)
    for roll, holds in ((0, 1), (design.keep - 1, 1), (design.keep, 0), (ONE - 1, 0)):
        assert reported(design, 4, roll) >> 4 & 1 == holds
        assert reported(design, 4, roll).bit_count() == design.chosen


@pytest.mark.parametrize(("roll", "first", "size"), [(0, 0, 2), (ONE - 1, 2, 7)])
def test_a_set_is_rotated_so_that_each_option_becomes_the_answer_equally_often(
    roll: int, first: int, size: int
) -> None:
    """With equal keys, the set is options 0 and 1, rotated so that one of them becomes answer 4.

    On a miss, one of the other options, 2 to 8, is rotated onto the answer.
    """
    design, faces = SubsetSelection(EPSILON, 9), 2**DIE_BITS
    assert design.chosen == 2
    for number in range(size):
        turned = sum(1 << (n + 4 - first - number) % 9 for n in range(2))
        for die in (-(-number * faces // size), -(-(number + 1) * faces // size) - 1):
            assert reported(design, 4, roll | die << 64) == turned


@pytest.mark.parametrize("table", TABLES_AT_ALL_SIZES, ids=lambda t: f"{t.name}-{t.steps}")
def test_every_symbol_of_a_number_has_exactly_the_rolls_of_its_row(table: NumberTable) -> None:
    """The answer is on a grid point, so the coin that chooses between two points has no effect."""
    for answer, row in enumerate(table.rows):
        for symbol, (first, beyond) in enumerate(pairwise([0, *accumulate(row)])):
            for roll in (first, beyond - 1):
                for coin in (0, ONE - 1):
                    assert reported(table, table.answer_at(answer), coin << 64 | roll) == symbol


@pytest.mark.parametrize("table", TABLES_AT_ALL_SIZES, ids=lambda t: f"{t.name}-{t.steps}")
def test_a_number_is_rounded_up_for_exactly_its_share_of_coins(table: NumberTable) -> None:
    """The answer is a quarter of the way from the lowest point to the next.

    For this roll, the two points give different symbols.
    """
    low, high = (next(accumulate(row)) for row in table.rows[:2])
    roll = min(low, high)
    assert low != high
    for coin, point in ((0, 1), (ONE // 4 - 1, 1), (ONE // 4, 0), (ONE - 1, 0)):
        expected = reported(table, table.answer_at(point), roll)
        assert reported(table, table.answer_at(1) // 4, coin << 64 | roll) == expected


def test_the_symbol_of_a_geometry_ignores_the_answer_for_exactly_the_blind_rolls() -> None:
    """For one die, blind rolls select one of 13 symbols; others select one of the answer's four."""
    design = ProjectiveGeometry(ONE_EPSILON, 11)
    symbols, speaking, _ = design.geometry.sizes
    for die in (0, DIE // 3, DIE - 1):
        blind = die * symbols // DIE
        own = (design.difference_set[die * speaking // DIE] - 7) % symbols
        assert blind != own
        for roll, symbol in (
            (0, blind),
            (design.blind - 1, blind),
            (design.blind, own),
            (ONE - 1, own),
        ):
            assert reported(design, 7, die << 64 | roll) == symbol


def test_each_symbol_of_an_answer_has_its_share_of_the_die() -> None:
    design = ProjectiveGeometry(ONE_EPSILON, 11)
    for number, element in enumerate(design.difference_set):
        first = -(-number * DIE // design.speaking)
        beyond = -(-(number + 1) * DIE // design.speaking)
        for die in (first, beyond - 1):
            assert reported(design, 3, die << 64 | ONE - 1) == (element - 3) % design.modulus
