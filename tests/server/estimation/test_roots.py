"""Root finding for many functions: results equal scipy's and do not depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from deniable.server.estimation.roots import brent, least, roots

Array = npt.NDArray[np.float64]
Family = Callable[[Any, Any], Any]  # accepts arrays and single numbers

FAMILIES: dict[str, Family] = {  # increasing, with a root between -1 and 6
    "exponential": lambda x, a: np.expm1(3 * x) - 5 * a,
    "cubic": lambda x, a: (x - a) ** 3 + (x - a) / 9,
    "saturated": lambda x, a: np.tanh(20 * (x - a)) + a / 3,
    "flat": lambda x, a: np.maximum(x - a, 0) + np.minimum(x + 0.5, 0),
    "step": lambda x, a: np.where(x > a, 1.0, -1.0),
    "uneven step": lambda x, a: np.where(x > a, 9.0, -1.0),
}
LOW, HIGH, WIDTH = -1.0, 6.0, 1e-10
PLACES = np.linspace(0, 1, 40)

KINDS = [(name, target) for name in FAMILIES for target in PLACES]

Find = Callable[[Callable[[Array], Array], Array, Array], Array]


def by_brent(function: Callable[[Array], Array], low: Array, high: Array) -> Array:
    return brent(function, low, high, WIDTH)


def found(find: Find, kinds: Sequence[tuple[str, float]]) -> tuple[Array, int]:
    """Find the roots of these functions together, and count the evaluations."""
    asked: list[Array] = []

    def function(x: Array) -> Array:
        asked.append(x)
        pairs = zip(kinds, x, strict=True)
        return np.array([FAMILIES[name](point, target) for (name, target), point in pairs])

    roots_of_all = find(function, np.full(len(kinds), LOW), np.full(len(kinds), HIGH))
    return roots_of_all, len(asked)


def test_roots_equal_scipys_and_need_no_more_steps() -> None:
    for name, target in KINDS:
        ours, asked = found(by_brent, [(name, target)])

        def function(x: float, name: str = name, target: float = target) -> float:
            return float(FAMILIES[name](np.float64(x), target))

        theirs, told = brentq(function, LOW, HIGH, xtol=WIDTH, full_output=True)
        assert abs(ours[0] - theirs) <= WIDTH
        assert asked <= told.function_calls + 1


@pytest.mark.parametrize("find", [by_brent, roots])
def test_each_root_is_independent_of_the_other_functions(find: Find) -> None:
    together, _ = found(find, KINDS)
    assert together.tolist() == [found(find, [kind])[0][0] for kind in KINDS]


def test_functions_of_one_column_iterate_until_the_last_converges() -> None:
    """Functions of other columns do not affect the iteration."""
    a = PLACES.reshape(10, 4)

    def tied(a: Array) -> Array:
        low, high = np.full_like(a, LOW), np.full_like(a, HIGH)
        return roots(lambda x: FAMILIES["exponential"](x, a), low, high, together=(0,))

    free = [found(roots, [("exponential", target)])[0][0] for target in a.ravel()]
    assert tied(a).ravel().tolist() != free
    assert tied(a).T.tolist() == [tied(column[:, None])[:, 0].tolist() for column in a.T]


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), min_size=1))
def test_bisection_finds_the_smallest_number_that_passes(cases: list[tuple[int, int]]) -> None:
    wanted, last = np.array(cases).T
    asked: list[int] = []

    def holds(here: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        asked.append(0)
        return np.asarray(here >= wanted)

    found = least(holds, np.zeros_like(last), last)
    assert found.tolist() == np.minimum(wanted, last).tolist()
    assert len(asked) <= int(last.max()).bit_length() + 1
