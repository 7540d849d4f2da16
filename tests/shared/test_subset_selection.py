"""Small sets over all draws: their probability is equal for all answers, and nearly uniform."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import comb

import pytest

from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.support import DIE_BITS, SLACK
from deniable.shared.privacy.mechanism import Draw
from deniable.shared.privacy.mechanisms import SubsetSelection, subset_selection
from deniable.shared.privacy.mechanisms.subset_selection import PLANES


def small(options: int, chosen: int) -> SubsetSelection:
    design = SubsetSelection(Epsilon("1"), options)
    design.chosen = chosen
    return design


def keys(options: int, planes: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield every combination of the coin and the bit planes of a set."""
    return product(range(2), product(range(1 << options), repeat=planes))


def given(drawn: int) -> Draw:
    return lambda bits: drawn


def sets(design: SubsetSelection, answer: int, roll: int, size: int, planes: int) -> Counter[int]:
    """Return how many draws give each set, for a die with this number of sides."""
    counts: Counter[int] = Counter()
    for coin, plane in keys(design.options, planes):
        rest = int.from_bytes(bytes([coin, *plane]), "little") << 192
        for number in range(size):
            die = -(-(number << DIE_BITS) // size)
            counts[design.randomize(answer, given(rest | die << 64 | roll))] += 1
    return counts


@pytest.mark.parametrize(("options", "chosen", "planes"), [(4, 2, 1), (5, 2, 1), (6, 3, 1)])
def test_a_set_is_equally_probable_for_all_answers_in_it_even_with_few_keys(
    options: int, chosen: int, planes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few keys, sets are far from uniform, and the comparison is exact.

    On a hit, a set comes from the same number of draws for each answer in it. On a miss, the same
    holds for each answer outside it.
    """
    monkeypatch.setattr(subset_selection, "PLANES", planes)
    design = small(options, chosen)
    seen: dict[int, set[int]] = {}
    for answer in range(options):
        held = sets(design, answer, 0, chosen, planes)
        missed = sets(design, answer, ONE - 1, options - chosen, planes)
        assert all(symbol >> answer & 1 for symbol in held)
        assert not any(symbol >> answer & 1 for symbol in missed)
        for symbol, count in (held + missed).items():
            seen.setdefault(symbol, set()).add(count)
    assert len(seen) == comb(options, chosen)
    assert {len(counts) for counts in seen.values()} == {1}
    assert len(set.union(*seen.values())) > 1  # not uniform


def bound(options: int, planes: int, most: int) -> Fraction:
    """Return a bound on the relative error of a set's probability.

    It is a sum over the numbers of equal keys up to `most`, plus a bound on the remaining terms,
    each of which is less than half of the previous one.
    """
    terms: list[Fraction] = [
        Fraction(2**t * comb(options, t), 2 ** (planes * (t - 1))) for t in range(3, most + 1)
    ]
    return sum(terms, start=terms[-1])


def off(options: int, chosen: int, planes: int, coin: int = 1) -> Fraction:
    """Return the largest deviation of a set from uniform, relative to its probability."""
    design, counts = small(options, chosen), Counter[int]()
    for drawn, plane in keys(options, planes):
        counts[design._any_set([bytes([p]) for p in plane], drawn & coin)] += 1
    total, expected = counts.total(), Fraction(1, comb(options, chosen))
    return max(abs(Fraction(counts[s], total) / expected - 1) for s in counts)


@pytest.mark.parametrize(("options", "chosen", "planes"), [(3, 1, 3), (3, 2, 4), (4, 2, 3)])
def test_sets_are_uniform_up_to_three_equal_keys(options: int, chosen: int, planes: int) -> None:
    assert 0 < off(options, chosen, planes) <= bound(options, planes, options)


def test_two_equal_keys_would_bias_sets_without_the_coin() -> None:
    assert off(3, 1, 4, coin=0) > bound(3, 4, 3)


def test_no_set_deviates_by_more_than_stated() -> None:
    largest = SubsetSelection.sizes[-1]
    assert bound(largest, PLANES, 8) < Fraction(1, 2**72)
    error = Fraction(largest, 2**DIE_BITS)  # relative error of the share of one face of the die
    assert (1 + error) / (1 - error) < 1 + Fraction(1, SLACK)
