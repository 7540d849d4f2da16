"""Selection: votes with a leader, and many conditions, one of which holds more often.

`selection_chances` has the probabilities and the limits. The first question is a report noisy max;
the second is model selection, where each of 2^d models is a condition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.optimize import brentq

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanisms import KRandomizedResponse, RandomizedResponse, Unary
from deniable.simulations.engine import figures, option
from deniable.simulations.engine.estimators import Case, Estimator, Rows, sweep
from deniable.simulations.engine.figures import LOOKS
from deniable.simulations.engine.presentation import (
    View,
    column,
    estimator_table,
    figure,
    study,
    worst_deviation,
)
from deniable.simulations.engine.study import Cell, Options, Report, Row
from deniable.simulations.population import fixed
from deniable.simulations.studies.bit_reports import Array, least_enough, reported_rate
from deniable.simulations.studies.selection import selection_chances as chances

EXPONENTIAL = Estimator("central", "exponential", "exponential mechanism", LOOKS[1])
FLIP = Estimator("central", "permute-and-flip", "permute and flip", LOOKS[3])
UNARY = Estimator("local", "unary", "devices, unary votes", LOOKS[0])
LAPLACE = Estimator("central", "laplace", "noisy maximum, Laplace", LOOKS[2])
RESPONSE = Estimator("local", "k-rr", "devices, k-RR votes", LOOKS[4])
VOTES = (EXPONENTIAL, LAPLACE, FLIP, UNARY, RESPONSE)
MEAN = Estimator("none", "mean", "no privacy", LOOKS[2])
NOISY = Estimator("central", "permute-and-flip", "trusted, permute and flip", LOOKS[1])
ONE_EACH = Estimator("local", "randomized-response", "devices, one condition each", LOOKS[0])
CONDITIONS = (MEAN, NOISY, ONE_EACH)
COLUMNS = (
    "question", "model", "estimator", "epsilon", "options", "people", "exact", "measured", "error",
    "gap_needed", "people_needed", "limit",
)  # fmt: skip
MAX_PEOPLE = 10**12  # the search for the people needed ends here


def cells(options: Options) -> Sequence[Cell]:
    lists = {key: options[key] for key in ("epsilon", "options")}
    return sweep(options, question=("votes", "conditions"), **lists)


def check(options: dict[str, Any]) -> Options:  # Any: what JSON can hold
    delta, right = options["delta"], options["right"]
    for epsilon, k in product(options["epsilon"], options["options"]):
        if _one_each(k, delta, Epsilon(epsilon), MAX_PEOPLE // k) < right:
            raise WrongUse(
                f"{k:,} conditions at ε {epsilon} take more than {MAX_PEOPLE:,} people on devices "
                f"for a mean of {delta:g}; choose a larger ε or delta, or fewer options"
            )
    return options


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    question = _votes if cell["question"] == "votes" else _conditions
    return question(Case(cell, generator), generator)


def _row(case: Case, one: Estimator, exact: float | None, right: Array, **more: Any) -> Row:
    """Return a row; `right` is whether each repetition chose correctly. Any: numbers, or None."""
    known: dict[str, Any] = {
        "question": case.question,
        "model": one.model,
        "estimator": one.name,
        "epsilon": case.cell["epsilon"],
        "options": case.options,
        "exact": exact,
    }
    if exact is not None:
        known["measured"] = float(right.mean())
        known["error"] = math.sqrt(exact * (1 - exact) / len(right))
    return dict.fromkeys(COLUMNS) | known | more


def _first_is_largest(values: Array, generator: Generator) -> Array:
    """Return, for each repetition, whether the first number is largest; a coin decides ties."""
    coins = generator.random(values.shape) * 1e-3
    return np.asarray((values + coins).argmax(axis=1) == 0)


# Votes


def _votes(case: Case, generator: Generator) -> Sequence[Row]:
    k, right, e = case.options, case.right, float(case.epsilon)
    limit = chances.packing(k, e, right)
    rows = []
    for one, chance, noise in (
        (EXPONENTIAL, chances.exponential, generator.gumbel),
        (LAPLACE, chances.laplace, generator.laplace),
        (FLIP, chances.permute_and_flip, generator.exponential),
    ):
        gap = _real_gap(partial(chance, k, e), right)
        noisy = noise(scale=2 / e, size=(case.repetitions, k))
        noisy[:, 0] += gap
        chosen = noisy.argmax(axis=1) == 0
        rows.append(_row(case, one, chance(k, e, gap), chosen, gap_needed=gap, limit=limit))
    rows.append(_local_votes(UNARY, Unary(case.epsilon, k), chances.unary, case, generator))
    if k <= chances.MAX_RESPONSE_OPTIONS:
        response = (RandomizedResponse if k == 2 else KRandomizedResponse)(case.epsilon, k)
        rows.append(_local_votes(RESPONSE, response, chances.response, case, generator))
    return rows


def _real_gap(chance: Callable[[float], float], right: float) -> float:
    """Return the gap at which an increasing probability reaches `right`; at least 0."""
    if chance(0) >= right:
        return 0.0
    most = 1.0
    while chance(most) < right:
        most *= 2
    return float(brentq(lambda gap: chance(gap) - right, 0, most, xtol=1e-12))


def _local_votes(
    one: Estimator,
    mechanism: SupportDesign,
    right: Callable[[SupportDesign, int, int], float],
    case: Case,
    generator: Generator,
) -> Row:
    k, people = case.options, case.people
    gap = least_enough(lambda g: g < people and right(mechanism, people, g) >= case.right, people)
    if gap is None:
        return _row(case, one, None, np.empty(0), people=people)
    leader, other = chances.votes(k, people, gap)
    held = [leader, *[other] * (k - 1)]
    counts = fixed(mechanism, held, case.repetitions, generator).counts
    chosen = _first_is_largest(counts.astype(float), generator)
    exact = right(mechanism, people, gap)
    return _row(case, one, exact, chosen, people=sum(held), gap_needed=gap)


# Conditions


def _conditions(case: Case, generator: Generator) -> Sequence[Row]:
    k, right, delta, e = case.options, case.right, case.delta, float(case.epsilon)
    rate, decay = (1 + delta) / 2, math.exp(-e / 2)
    models: dict[Estimator, Callable[[int], float]] = {
        MEAN: lambda n: chances.largest(k, n, rate, 0.5),
        NOISY: lambda n: chances.largest(k, n, rate, 0.5, decay),
        ONE_EACH: partial(_one_each, k, delta, case.epsilon),
    }
    rows, limit = [], 0.0
    for one, chance in models.items():
        groups = k if one is ONE_EACH else 1
        size = least_enough(lambda n: chance(n) >= right, MAX_PEOPLE // groups)  # noqa: B023 - called here
        assert size is not None, "`check` refuses options that need more people"
        chosen, needed = _choose(one, case, size, generator), size * groups
        limit = max(limit or needed, chances.fano(k, e, delta, right) if groups > 1 else 0.0)
        more = {"people": needed, "people_needed": needed, "limit": limit}
        rows.append(_row(case, one, chance(size), chosen, **more))
    return rows


def _one_each(k: int, delta: float, epsilon: Epsilon, size: int) -> float:
    right, other = reported_rate(RandomizedResponse(epsilon), np.array([(1 + delta) / 2, 0.5]))
    return chances.largest(k, size, float(right), float(other))


def _choose(one: Estimator, case: Case, size: int, generator: Generator) -> Array:
    """Return whether the right condition, the first, was chosen: by counts of +1, or of reports."""
    k, times, rates = case.options, case.repetitions, np.full(case.options, 0.5)
    rates[0] += case.delta / 2
    if one is ONE_EACH:
        rates = reported_rate(RandomizedResponse(case.epsilon), rates)
    counts = generator.binomial(size, rates, (times, k)).astype(float)
    if one is NOISY:
        counts += generator.exponential(scale=2 / float(case.epsilon), size=counts.shape)
    return _first_is_largest(counts, generator)


# Report


def report(view: View) -> Report:
    right, sizes = view.right, sorted(view.options["options"])
    every = {question: view.rows.at(question=question) for question in ("votes", "conditions")}
    votes, conditions = (part.at(epsilon=view.epsilon) for part in every.values())
    likely = f"right with probability {right:g}, ε {view.epsilon}"
    low, k, high = sizes[0], sizes[len(sizes) // 2], sizes[-1]
    voted, cell = votes.at(options=k), conditions.at(options=k)
    values = {
        "k": k,
        "low": low,
        "high": high,
        **{one.model: cell.one(one) for one in CONDITIONS},
        "first": _price(conditions.at(options=low)),
        "last": _price(conditions.at(options=high)),
        "exponential": voted.one(EXPONENTIAL),
        "flip": voted.one(FLIP),
        "ahead": min(_lead(row) for row in voted.at(model="local"))[1],
        "off": worst_deviation(view.rows),
    }
    of_devices = column(ONE_EACH, lambda row: f"{row['limit']:,.0f}")
    of_servers = column(EXPONENTIAL, lambda row: f"{row['limit']:.2f}")
    mean, asked = f"mean {view.delta:g}", f"{view.people:,} people"
    return view.report(
        values,
        {
            "people": _figure(
                f"One of many conditions, {likely}", conditions, CONDITIONS, ONE_EACH
            ),
            "votes": _figure(f"One vote per person, {likely}", votes, VOTES, EXPONENTIAL),
        },
        [
            estimator_table(
                f"People needed to select the right condition, {mean}, with probability {right:g}",
                *(conditions, CONDITIONS, lambda row: f"{row['people_needed']:,}"),
                {"ε": "epsilon", "conditions": "options"},
                {"limit of devices": of_devices, "price": _price},
            ),
            estimator_table(
                f"Votes by which the leader must be ahead, {asked} on devices",
                *(every["votes"], VOTES, lambda row: _lead(row)[1]),
                {"ε": "epsilon", "options": "options"},
                {"limit of trusted servers": of_servers},
            ),
        ],
    )


def _figure(
    title: str, rows: Rows, estimators: Sequence[Estimator], limited: Estimator
) -> figures.Draw:
    question = str(rows[0]["question"])
    y = "gap_needed" if question == "votes" else "people_needed"
    curves = [figures.curve(rows.of(o), o.look, "options", y, o.label) for o in estimators]
    words, look = f"{limited.model} limit", limited.look
    limit = figures.curve(rows.of(limited), look, "options", "limit", words, "limit")
    return figures.drawing(figures.Panel(title, [*curves, limit], question, y.replace("_", " ")))


def _lead(row: Row) -> tuple[float, str]:
    """Return the lead needed, and its text; no lead is enough if the row has none."""
    if row["gap_needed"] is None:
        return math.inf, "more than all"
    return float(row["gap_needed"]), f"{row['gap_needed']:,.{0 if row['model'] == 'local' else 2}f}"


def _price(cell: Rows) -> str:
    return figure(cell.price(ONE_EACH, NOISY, "people_needed"))


OPTIONS = (
    option.epsilons("0.5,1,2"),
    option.sizes("options", "2,4,16,64,256,1024", 2, 4096, "how many options or conditions"),
    option.Option("people", 100_000, option.whole(100, 10**8), "how many vote", "N"),
    option.probability("delta", 0.1, "mean of the right condition; all others have 0", "MEAN"),
    option.Option("right", 0.9, option.inside(0.5), "probability of selecting the right one", "P"),
    option.repetitions(1_000),
)
STUDY = study("select", OPTIONS, cells, run, report, check=check)
