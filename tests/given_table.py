"""Published survey whose document contains a mechanism's table, and variants with one change."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import OptimalTable
from deniable.shared.survey.document import parse_toml, render_document
from tests.survey_texts import number, survey_text

STEPS = 4
EACH = STEPS + 2  # integers per symbol: its value and its probability at each point
Integers = list[int]


@cache
def honest() -> bytes:
    """Return a published survey with the example table at ε 1."""
    integers = json.dumps([str(integer) for integer in OptimalTable(Epsilon("1"), STEPS).integers])
    text = survey_text(number(mechanism="optimal-table", grid=STEPS) + f"integers = {integers}")
    return render_document(parse_toml(text))


def changed(change: Callable[[dict[str, Any]], None]) -> bytes:
    table = json.loads(honest())
    change(table["question"][0])
    return json.dumps(table).encode()


def planted(change: Callable[[Integers], Integers]) -> bytes:
    def plant(question: dict[str, Any]) -> None:
        integers = change([int(text) for text in question["integers"]])
        question["integers"] = [str(integer) for integer in integers]

    return changed(plant)


def columns(integers: Integers) -> list[Integers]:
    return [integers[at : at + EACH] for at in range(0, len(integers), EACH)]


def one_unit_to_the_truth(integers: Integers) -> Integers:
    """Move one unit of the first symbol's probability for its least likely answer to the next."""
    first = columns(integers)[0][1:]
    least = 1 + first.index(min(first))
    return [
        integer - (index == least) + (index == EACH + least)
        for index, integer in enumerate(integers)
    ]


def at(place: int, more: int) -> Callable[[Integers], Integers]:
    return lambda integers: [integer + more * (n == place) for n, integer in enumerate(integers)]


def with_a_zero(integers: Integers) -> Integers:
    """Move a probability to the next symbol, so that nothing but the remaining zero is wrong."""
    return [
        integer - (index == 1) * integers[1] + (index == EACH + 1) * integers[1]
        for index, integer in enumerate(integers)
    ]


def below_zero(integers: Integers) -> Integers:
    return [
        integer - (index == 1) * 2 * integers[1] + (index == EACH + 1) * 2 * integers[1]
        for index, integer in enumerate(integers)
    ]


def swapped(integers: Integers) -> Integers:
    first, second, *others = columns(integers)
    return sum([second, first, *others], Integers())


# Each variant changes only one thing where possible
BROKEN: dict[str, tuple[Callable[[Integers], Integers], str]] = {
    "one unit moved toward the truth": (one_unit_to_the_truth, "not private"),
    "a row one unit too large": (at(1, 1), "does not sum to 2^64"),
    "a row one unit too small": (at(1, -1), "does not sum to 2^64"),
    "a symbol that is impossible": (with_a_zero, "not above 0"),
    "a probability below zero": (below_zero, "not above 0"),
    "a value 2^-30 of a step too large": (at(0, ONE // 2**30), "biased"),
    "a value 2^-30 of a step too small": (at(0, -ONE // 2**30), "biased"),
    "values that descend": (swapped, "do not ascend"),
    "an integer missing": (lambda integers: integers[:-1], "5 probabilities"),
    "no symbol": (lambda integers: [], "5 probabilities"),
    "260 symbols": (lambda integers: integers * 26, "1 to 128 symbols"),
}
