"""Selection: votes with a leader, and many conditions of which one holds more often.

`selection_chances.py` has the probabilities and the limits. The first question is a report noisy
max; the second is model selection, where each of 2^d models is a condition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse, Unary
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.engine import option
from deniable.simulations.engine.study import Cell, Options, Row, Study
from deniable.simulations.population import fixed
from deniable.simulations.studies.building_blocks import sweep
from deniable.simulations.studies.selection import selection_chances as chances
from deniable.simulations.studies.selection.selection_report import report

Array = NDArray[np.float64]


OPTIONS = (
    option.epsilons("0.5,1,2"),
    option.Option(
        "options", "2,4,16,64,256,1024", option.several(option.whole(2, 4096)), "to select from"
    ),
    option.Option("people", 100_000, option.whole(100, 10**8), "who vote", "N"),
    option.Option(
        "delta", 0.1, option.inside(), "the mean of the right condition; all others have 0", "MEAN"
    ),
    option.Option("right", 0.9, option.inside(0.5), "probability of selecting the right one", "P"),
    option.repetitions(1_000),
)


def cells(options: Options) -> Sequence[Cell]:
    lists = {key: options[key] for key in ("epsilon", "options")}
    return sweep(options, question=("votes", "conditions"), **lists)


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    return (_votes if cell["question"] == "votes" else _conditions)(cell, generator)


def _row(
    cell: Cell, model: str, estimator: str, exact: float | None, right: Array, **more: Any
) -> Row:
    """Return a row; `right` is whether each repetition chose correctly. Any: numbers, or None."""
    times = len(right)
    measured = float(right.mean()) if times else None
    return {
        "question": cell["question"],
        "model": model,
        "estimator": estimator,
        "epsilon": cell["epsilon"],
        "options": cell["options"],
        "people": None,
        "exact": exact,
        "measured": measured,
        "error": math.sqrt(exact * (1 - exact) / times) if times and exact is not None else None,
        "gap_needed": None,
        "people_needed": None,
        "limit": None,
        **more,
    }


# Votes


def _votes(cell: Cell, generator: Generator) -> Sequence[Row]:
    epsilon, k, people = Epsilon(str(cell["epsilon"])), int(cell["options"]), int(cell["people"])
    right, times, e = float(cell["right"]), int(cell["repetitions"]), float(epsilon)
    limit = chances.packing(k, e, right)
    rows = []
    for name, chance, noise in (
        ("exponential", chances.exponential, generator.gumbel),
        ("permute-and-flip", chances.permute_and_flip, generator.exponential),
    ):
        gap = _real_gap(partial(chance, k, e), right)
        noisy = noise(scale=2 / e, size=(times, k))
        noisy[:, 0] += gap
        chosen = noisy.argmax(axis=1) == 0
        more = {"gap_needed": gap, "limit": limit}
        rows.append(_row(cell, "central", name, chance(k, e, gap), chosen, **more))
    return [*rows, _local_votes(cell, epsilon, k, people, generator)]


def _real_gap(chance: Callable[[float], float], right: float) -> float:
    """Return the gap at which an increasing probability reaches `right`, or 0."""
    from scipy.optimize import brentq

    most = 1.0
    while chance(most) < right:
        most *= 2
    if chance(0) >= right:
        return 0.0
    return float(brentq(lambda gap: chance(gap) - right, 0, most, xtol=1e-12))


def _local_votes(cell: Cell, epsilon: Epsilon, k: int, people: int, generator: Generator) -> Row:
    right = float(cell["right"])
    gap = chances.least(lambda g: g >= people or chances.unary(k, epsilon, people, g) >= right, k)
    assert gap is not None
    if gap >= people:
        return _row(cell, "local", "unary", None, np.empty(0), people=people)
    leader, other = chances.votes(k, people, gap)
    held = [leader, *[other] * (k - 1)]
    counts = fixed(Unary(epsilon, k), held, int(cell["repetitions"]), generator).counts
    chosen = _first_is_largest(counts.astype(float), generator)
    exact = chances.unary(k, epsilon, people, gap)
    return _row(cell, "local", "unary", exact, chosen, people=sum(held), gap_needed=gap)


def _first_is_largest(values: Array, generator: Generator) -> Array:
    """Return for each repetition whether the first is largest; a coin decides ties."""
    coins = generator.random(values.shape) * 1e-3
    return np.asarray((values + coins).argmax(axis=1) == 0)


# Conditions


def _conditions(cell: Cell, generator: Generator) -> Sequence[Row]:
    epsilon, k = Epsilon(str(cell["epsilon"])), int(cell["options"])
    right, delta, e = float(cell["right"]), float(cell["delta"]), float(epsilon)
    spread = 1 / math.tanh(e / 2)
    models: dict[tuple[str, str], Callable[[int], float]] = {
        ("none", "mean"): lambda n: chances.normal(k, n, delta, 1, 1),
        ("central", "gumbel"): lambda n: chances.trusted(k, n, delta, e),
        ("local", "randomized-response"): lambda n: chances.normal(k, n, delta, spread, k),
    }
    rows = []
    for (model, name), chance in models.items():
        limit = chances.fano(k, e, delta, right) or None if model == "local" else None
        needed = chances.least(partial(_enough, chance, right), 2)
        assert needed is not None, "normal distributions become arbitrarily narrow"
        chosen = _choose(name, epsilon, k, needed, delta, int(cell["repetitions"]), generator)
        more = {"people": needed, "people_needed": needed, "limit": limit}
        rows.append(_row(cell, model, name, chance(needed), chosen, **more))
    return rows


def _enough(chance: Callable[[int], float], right: float, people: int) -> bool:
    return chance(people) >= right


def _choose(
    name: str, epsilon: Epsilon, k: int, people: int, delta: float, times: int, generator: Generator
) -> Array:
    """Return whether the right condition, the first, was chosen: by counts of +1, or of reports."""
    rates = np.full(k, 0.5)
    rates[0] += delta / 2
    if name == "randomized-response":
        mechanism = RandomizedResponse(epsilon)
        keep, lie = mechanism.keep / ONE, mechanism.lie / ONE
        asked = generator.multinomial(people, np.full(k, 1 / k), times)
        reports = generator.binomial(asked, lie + (keep - lie) * rates)
        return _first_is_largest(reports / np.maximum(asked, 1) * people, generator)
    counts = generator.binomial(people, rates, (times, k)).astype(float)
    if name == "gumbel":
        counts += generator.gumbel(scale=2 / float(epsilon), size=counts.shape)
    return _first_is_largest(counts, generator)


STUDY = Study(
    name="select",
    question="What does it cost to find the most popular of many, without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        (
            "a trusted server's exponential mechanism is right",
            r"P = \dfrac{1}{1 + (k - 1) e^{-ε g / 2}}",
        ),
        ("no curator is right in 90 % with a smaller lead", r"g \geq \dfrac{\ln(9 (k - 1))}{ε}"),
        (
            "no devices tell k conditions with fewer people",
            r"n \geq \dfrac{4 V k ((1 - β) \ln k - \ln 2)}{δ^2}",
        ),
    ),
)
