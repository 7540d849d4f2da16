"""A published survey whose table stands in its document, and the same with one thing changed."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import OptimalTable
from deniable.shared.survey.document import parse_toml, render_document
from tests.survey_texts import number, survey_text

STEPS = 4
EACH = STEPS + 2  # integers of a symbol: its value, and its probability at each point
Integers = list[int]


@cache
def honest() -> bytes:
    """A published survey with the example at ε 1."""
    integers = json.dumps([str(each) for each in OptimalTable(Epsilon("1"), STEPS).integers])
    text = survey_text(number(mechanism="optimal-table", grid=STEPS) + f"integers = {integers}")
    return render_document(parse_toml(text))


def changed(change: Callable[[dict[str, Any]], None]) -> bytes:
    table = json.loads(honest())
    change(table["question"][0])
    return json.dumps(table).encode()


def planted(change: Callable[[Integers], Integers]) -> bytes:
    def plant(question: dict[str, Any]) -> None:
        integers = change([int(text) for text in question["integers"]])
        question["integers"] = [str(each) for each in integers]

    return changed(plant)


def columns(integers: Integers) -> list[Integers]:
    return [integers[at : at + EACH] for at in range(0, len(integers), EACH)]


def one_unit_to_the_truth(integers: Integers) -> Integers:
    """From where the first symbol says least to another symbol: all rows still sum to one."""
    first = columns(integers)[0][1:]
    least = 1 + first.index(min(first))
    return [
        each - (place == least) + (place == EACH + least) for place, each in enumerate(integers)
    ]
