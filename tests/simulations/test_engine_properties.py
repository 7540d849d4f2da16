"""Guarantees of the engine for every study, ε and number of people, and the faults that it catches.

    limit(local) >= limit(none)      risk >= limit      trusted <= devices
    no limit is above the risk of an estimate that ignores all data      nothing raises

An option that cannot be computed is refused in one sentence before the run.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from deniable.shared.errors import WrongUse
from deniable.simulations import simulate
from deniable.simulations.engine.study import STUDIES, load
from tests.simulations.small_studies import SMALL

Row = Mapping[str, Any]  # Any: what rows hold

EPSILONS = [f"{value:.6f}" for value in np.geomspace(1e-6, 20, 40)]
PEOPLE = sorted({round(value) for value in np.geomspace(1, 10**12, 40)})
FEW_EPSILONS = [EPSILONS[0], EPSILONS[27], EPSILONS[-1]]
FEW_PEOPLE = [1, 10**12]
SLOW = ("compose", EPSILONS[-1])
EXACT = (("exact", "limit"), ("exact_drawn", "limit_drawn"), ("worst", "limit_worst"),
         ("worst", "least_worst"))  # fmt: skip
ROUNDING = 1 + 1e-9
CELL = (
    *("question", "share", "epsilon", "people", "options", "counts", "dimension", "attributes"),
    *("response", "moments"),
)
MORE_IS_BETTER = ("test",)  # its exact values are powers
WITHOUT_DATA: dict[str, Callable[[Row], float]] = {  # the largest risk of the best constant
    "bit": lambda row: 1 / 4,
    "mean": lambda row: 1 / 4,
    "histogram": lambda row: (row["options"] - 1) / row["options"] ** 2,
    "counts": lambda row: 1 / 4,
    "vector": lambda row: 1.0,
    "synthetic": lambda row: 3 / 16,
    "median": lambda row: 1 / 4,
    "regression": lambda row: 1.0,
}
WEAKER_PROMISES = ("geometric-add-or-delete", "gaussian")


def faults(name: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield what contradicts the guarantees."""
    cells: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        cells.setdefault(tuple(row.get(key) for key in CELL if key != "people"), []).append(row)
        yield from _row_faults(name, row)
    if name == "select":
        return
    compared = (("share_needed", "limit"),) if name == "texts" else EXACT
    for cell in cells.values():
        for exact, limit in compared:
            if exact in cell[0] and limit in cell[0]:
                yield from _order_faults(name, cell, exact, limit)


def _row_faults(name: str, row: Row) -> Iterator[str]:
    if any(isinstance(value, float) and not math.isfinite(value) for value in row.values()):
        yield f"not a number: {row}"
    for exact, limit in EXACT:
        if row.get(limit) is None:
            continue
        needed = {"select": "gap_needed", "texts": "share_needed"}.get(name, exact)
        best = row.get(needed)
        if best is None and name == "select":
            best = row.get("people_needed")
        if best is not None and name not in MORE_IS_BETTER and best * ROUNDING < row[limit]:
            yield f"risk below the limit: {row}"
        if (
            limit != "least_worst"
            and name in WITHOUT_DATA
            and row[limit] > WITHOUT_DATA[name](row) * ROUNDING
        ):
            yield f"limit above the risk without data: {row}"


def _order_faults(name: str, cell: Sequence[Row], exact: str, limit: str) -> Iterator[str]:
    sign = -1 if name in MORE_IS_BETTER else 1

    def best(model: str, key: str) -> float | None:
        kept = (r for r in cell if r["model"] == model and r["estimator"] not in WEAKER_PROMISES)
        known = [sign * r[key] for r in kept if r.get(key) is not None]
        return min(known) if known else None

    for weak, strong, key in (
        ("local", "none", limit), ("central", "none", limit),
        ("local", "central", exact),
    ):  # fmt: skip
        more, less = best(weak, key), best(strong, key)
        if more is not None and less is not None and more + abs(more) * 1e-9 < less:
            yield f"{key}: {weak} {more:g} is below {strong} {less:g}: {cell[0]}"


def rows_of(name: str, epsilon: str, people: int) -> Sequence[Row]:
    """Run a study and its report; return no rows if it is refused, which must be one sentence."""
    options = {option.name for option in load(name).options}
    least = {"minimax": 200}.get(name, 4)
    asked = {**SMALL[name], "repetitions": least, "epsilon": epsilon, "people": people}
    if size := {
        "histogram": "options",
        "counts": "counts",
        "vector": "dimension",
        "regression": "attributes",
    }.get(name):
        asked[size] = 4
    asked = {key: value for key, value in asked.items() if key in options}
    try:
        found = simulate(name, on="local", **asked)
    except WrongUse as error:
        refusal = str(error)
    else:
        assert found.findings
        return found.rows
    assert "\n" not in refusal
    return []


def found_faults(name: str, epsilon: str, people: int) -> list[str]:
    return list(faults(name, rows_of(name, epsilon, people)))


def has_people(name: str) -> bool:
    return "people" in {option.name for option in load(name).options}


@pytest.mark.parametrize(
    ("name", "epsilon"),
    [
        pytest.param(name, epsilon, marks=[pytest.mark.long] * ((name, epsilon) == SLOW))
        for name in STUDIES
        for epsilon in FEW_EPSILONS
    ],
)
def test_guarantees_hold_at_the_ends(name: str, epsilon: str) -> None:
    for people in FEW_PEOPLE if has_people(name) else FEW_PEOPLE[:1]:
        assert found_faults(name, epsilon, people) == []


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(EPSILONS)))
@pytest.mark.parametrize("name", STUDIES)
def test_guarantees_hold_everywhere(name: str, number: int) -> None:
    """Run 40 values of ε, each with every third of 40 numbers of people."""
    for people in PEOPLE[number % 3 :: 3] if has_people(name) else PEOPLE[:1]:
        assert found_faults(name, EPSILONS[number], people) == []


# Planted faults


def planted(name: str, model: str, **changed: float) -> list[str]:
    """Return the faults of a study after the rows of a model have been changed."""
    rows = simulate(name, on="local", epsilon="0.5", people=1000, repetitions=4).rows
    assert list(faults(name, rows)) == []
    return list(faults(name, [{**r, **(changed if r["model"] == model else {})} for r in rows]))


@pytest.mark.parametrize(("name", "model", "changed", "words"), [
    ("bit", "local", {"limit": 0.999}, "limit above the risk without data"),
    ("counts", "local", {"limit": 1e9}, "limit above the risk without data"),
    ("median", "local", {"limit": 1e-12}, "limit: local .* is below none"),
    ("counts", "local", {"limit_drawn": 0.0}, "limit_drawn: local .* is below none"),
    ("median", "central", {"exact": 1.0}, "exact: local .* is below central"),
    ("mean", "central", {"worst": 0.0}, "risk below the limit"),
    ("bit", "local", {"exact": math.nan}, "not a number"),
])  # fmt: skip
def test_planted_faults_are_found(
    name: str, model: str, changed: dict[str, float], words: str
) -> None:
    assert any(re.match(words, fault) for fault in planted(name, model, **changed))


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_runs_in_some_of_these_cases(name: str) -> None:
    """A refusal is no fault, so a study that refused everything would pass."""
    assert any(rows_of(name, FEW_EPSILONS[1], people) for people in (10, 1000))
