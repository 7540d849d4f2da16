"""Selection: votes with a leader, and many conditions of which one holds more often.

`selection_chances.py` has the probabilities and the limits. The first question is a report noisy
max; the second is model selection, where each of 2^d models is a condition.
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
from deniable.shared.privacy.mechanisms import RandomizedResponse, Unary
from deniable.simulations.engine import figures, option, sentences
from deniable.simulations.engine.estimators import Estimator, Rows, middle, number, sweep
from deniable.simulations.engine.figures import LOOKS
from deniable.simulations.engine.sentences import figure
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study
from deniable.simulations.population import fixed
from deniable.simulations.studies.bit_reports import Array, least_enough, reported_rate
from deniable.simulations.studies.selection import selection_chances as chances

EXPONENTIAL = Estimator("central", "exponential", "exponential mechanism", LOOKS[1])
FLIP = Estimator("central", "permute-and-flip", "permute and flip", LOOKS[3])
UNARY = Estimator("local", "unary", "devices, unary votes", LOOKS[0])
VOTES = (EXPONENTIAL, FLIP, UNARY)
MEAN = Estimator("none", "mean", "no privacy", LOOKS[2])
GUMBEL = Estimator("central", "gumbel", "trusted, Gumbel noise", LOOKS[1])
ONE_EACH = Estimator("local", "randomized-response", "devices, one condition each", LOOKS[0])
CONDITIONS = (MEAN, GUMBEL, ONE_EACH)
MAX_PEOPLE = 10**12  # the search for the people needed ends here

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


def check(options: dict[str, Any]) -> Options:  # Any: what JSON can hold
    delta, right = options["delta"], options["right"]
    for epsilon, k in product(options["epsilon"], options["options"]):
        if chances.normal(k, MAX_PEOPLE, delta, 1 / math.tanh(float(epsilon) / 2), k) < right:
            raise WrongUse(
                f"{k:,} conditions at ε {epsilon} take more than {MAX_PEOPLE:,} people on devices "
                f"for a mean of {delta:g}; choose a larger ε or delta, or fewer options"
            )
    return options


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    return (_votes if cell["question"] == "votes" else _conditions)(cell, generator)


def _row(cell: Cell, one: Estimator, exact: float | None, right: Array, **more: Any) -> Row:
    """Return a row; `right` is whether each repetition chose correctly. Any: numbers, or None."""
    times = len(right)
    return {
        "question": cell["question"],
        "model": one.model,
        "estimator": one.name,
        "epsilon": cell["epsilon"],
        "options": cell["options"],
        "people": None,
        "exact": exact,
        "measured": float(right.mean()) if times else None,
        "error": math.sqrt(exact * (1 - exact) / times) if times and exact is not None else None,
        "gap_needed": None,
        "people_needed": None,
        "limit": None,
        **more,
    }


def _first_is_largest(values: Array, generator: Generator) -> Array:
    """Return for each repetition whether the first is largest; a coin decides ties."""
    coins = generator.random(values.shape) * 1e-3
    return np.asarray((values + coins).argmax(axis=1) == 0)


# Votes


def _votes(cell: Cell, generator: Generator) -> Sequence[Row]:
    k, right, e = int(cell["options"]), float(cell["right"]), float(cell["epsilon"])
    limit = chances.packing(k, e, right)
    rows = []
    for one, chance, noise in (
        (EXPONENTIAL, chances.exponential, generator.gumbel),
        (FLIP, chances.permute_and_flip, generator.exponential),
    ):
        gap = _real_gap(partial(chance, k, e), right)
        noisy = noise(scale=2 / e, size=(int(cell["repetitions"]), k))
        noisy[:, 0] += gap
        chosen = noisy.argmax(axis=1) == 0
        rows.append(_row(cell, one, chance(k, e, gap), chosen, gap_needed=gap, limit=limit))
    return [*rows, _local_votes(cell, k, right, generator)]


def _real_gap(chance: Callable[[float], float], right: float) -> float:
    """Return the gap at which an increasing probability reaches `right`, or 0."""
    most = 1.0
    while chance(most) < right:
        most *= 2
    if chance(0) >= right:
        return 0.0
    return float(brentq(lambda gap: chance(gap) - right, 0, most, xtol=1e-12))


def _local_votes(cell: Cell, k: int, right: float, generator: Generator) -> Row:
    epsilon, people = Epsilon(str(cell["epsilon"])), int(cell["people"])
    gap = least_enough(
        lambda gap: gap < people and chances.unary(k, epsilon, people, gap) >= right, people
    )
    if gap is None:
        return _row(cell, UNARY, None, np.empty(0), people=people)
    leader, other = chances.votes(k, people, gap)
    held = [leader, *[other] * (k - 1)]
    counts = fixed(Unary(epsilon, k), held, int(cell["repetitions"]), generator).counts
    chosen = _first_is_largest(counts.astype(float), generator)
    exact = chances.unary(k, epsilon, people, gap)
    return _row(cell, UNARY, exact, chosen, people=sum(held), gap_needed=gap)


# Conditions


def _conditions(cell: Cell, generator: Generator) -> Sequence[Row]:
    epsilon, k = Epsilon(str(cell["epsilon"])), int(cell["options"])
    right, delta, e = float(cell["right"]), float(cell["delta"]), float(epsilon)
    spread = 1 / math.tanh(e / 2)
    models: dict[Estimator, Callable[[int], float]] = {
        MEAN: lambda n: chances.normal(k, n, delta, 1, 1),
        GUMBEL: lambda n: chances.trusted(k, n, delta, e),
        ONE_EACH: lambda n: chances.normal(k, n, delta, spread, k),
    }
    rows = []
    for one, chance in models.items():
        limit = chances.fano(k, e, delta, right) or None if one is ONE_EACH else None
        needed = least_enough(partial(_enough, chance, right), MAX_PEOPLE, first=2)
        assert needed is not None, "devices need most people, and `check` has tried them"
        chosen = _choose(one, epsilon, k, needed, delta, int(cell["repetitions"]), generator)
        more = {"people": needed, "people_needed": needed, "limit": limit}
        rows.append(_row(cell, one, chance(needed), chosen, **more))
    return rows


def _enough(chance: Callable[[int], float], right: float, people: int) -> bool:
    return chance(people) >= right


def _choose(
    one: Estimator,
    epsilon: Epsilon,
    k: int,
    people: int,
    delta: float,
    times: int,
    generator: Generator,
) -> Array:
    """Return whether the right condition, the first, was chosen: by counts of +1, or of reports."""
    rates = np.full(k, 0.5)
    rates[0] += delta / 2
    if one is ONE_EACH:
        asked = generator.multinomial(people, np.full(k, 1 / k), times)
        reports = generator.binomial(asked, reported_rate(RandomizedResponse(epsilon), rates))
        return _first_is_largest(reports / np.maximum(asked, 1) * people, generator)
    counts = generator.binomial(people, rates, (times, k)).astype(float)
    if one is GUMBEL:
        counts += generator.gumbel(scale=2 / float(epsilon), size=counts.shape)
    return _first_is_largest(counts, generator)


# Report


def report(options: Options, found: Sequence[Row]) -> Report:
    rows, epsilon, right = Rows(found), middle(options["epsilon"]), options["right"]
    votes, conditions = (rows.at(question=question) for question in ("votes", "conditions"))
    off = max(
        abs(number(row, "measured") - number(row, "exact")) / number(row, "error")
        for row in rows
        if row["measured"] is not None
    )
    people_caption, votes_caption = sentences.paragraphs(
        f"""The number of people needed to select the right one of many conditions with probability
        {right:g}, at ε {epsilon}: it grows as the logarithm of the number of conditions with a
        trusted server, and faster than that number on devices. No local protocol is below the
        dotted line.

        The number of votes by which the leader must be ahead to be selected with probability
        {right:g}, at ε {epsilon}; {options["people"]:,} people vote on devices. No curator is below
        the dotted line."""
    )
    likely = f"right with probability {right:g}, ε {epsilon}"
    return Report(
        _findings(options, rows.at(epsilon=epsilon)),
        [
            _figure(
                *("people", people_caption, f"One of many conditions, {likely}", "people needed"),
                *(conditions.at(epsilon=epsilon), "people_needed", CONDITIONS, ONE_EACH),
                "limit of local protocols",
            ),
            _figure(
                *("votes", votes_caption, f"One vote per person, {likely}", "votes ahead"),
                *(votes.at(epsilon=epsilon), "gap_needed", VOTES, EXPONENTIAL),
                "limit of curators",
            ),
        ],
        [
            sentences.table(
                "People needed to select the right condition, mean "
                f"{options['delta']:g}, with probability {right:g}",
                conditions,
                {"ε": "epsilon", "conditions": "options"},
                {
                    "no privacy": sentences.column(MEAN, _people),
                    "trusted": sentences.column(GUMBEL, _people),
                    "devices": sentences.column(ONE_EACH, _people),
                    "limit of devices": sentences.column(
                        ONE_EACH, lambda row: f"{row['limit']:,.0f}" if row["limit"] else ""
                    ),
                    "price": _price,
                },
            ),
            sentences.table(
                f"Votes by which the leader must be ahead, {options['people']:,} people on devices",
                votes,
                {"ε": "epsilon", "options": "options"},
                {one.label: sentences.column(one, _gap) for one in VOTES}
                | {
                    "limit of curators": sentences.column(
                        EXPONENTIAL, lambda row: f"{row['limit']:.2f}"
                    )
                },
            ),
        ],
        sentences.paragraphs(
            f"""Votes: each person has one, and the votes for the other options are equal. The
            exponential mechanism and permute and flip have closed forms; unary votes an exact sum
            over the leader's count.

            Conditions: one of them has the mean {options["delta"]:g}, all others 0. On devices each
            person answers one condition, drawn at random, by randomized response. Means are taken
            to be normally distributed; the measured choices are drawn from binomials.

            Measured by {options["repetitions"]:,} choices where the probability is the requested
            one: the largest distance is {off:.1f} Monte-Carlo errors."""
        ),
    )


def _figure(
    name: str,
    caption: str,
    title: str,
    words: str,
    rows: Rows,
    key: str,
    estimators: Sequence[Estimator],
    limited: Estimator,
    limit: str,
) -> Figure:
    """Return a curve for each estimator, and the limit of one of them."""
    curves = [figures.curve(rows.of(o), o.look, "options", key, o.label) for o in estimators]
    of_limited = rows.of(limited)
    curves.append(figures.curve(of_limited, limited.look, "options", "limit", limit, "limit"))
    panel = figures.Panel(title, curves, str(rows[0]["question"]), words)
    return Figure(name, caption, lambda: figures.draw([panel]))


def _people(row: Row) -> str:
    return f"{row['people_needed']:,}"


def _gap(row: Row) -> str:
    if row["gap_needed"] is None:
        return ""
    return f"{number(row, 'gap_needed'):,.{0 if row['model'] == 'local' else 2}f}"


def _price(cell: Rows) -> str:
    return figure(cell.price(ONE_EACH, GUMBEL, "people_needed"))


def _findings(options: Options, rows: Rows) -> list[str]:
    sizes = sorted(options["options"])
    k, epsilon = sizes[len(sizes) // 2], rows[0]["epsilon"]
    first, cell, last = (
        rows.at(question="conditions", options=size) for size in (sizes[0], k, sizes[-1])
    )
    needed = {one: _people(cell.one(one)) for one in CONDITIONS}
    limit = cell.one(ONE_EACH)["limit"]
    below = f"; no local protocol needs fewer than {limit:,.0f}" if limit else ""
    votes = rows.at(question="votes", options=k)
    ahead = _gap(votes.one(UNARY)) or "more than all"
    exponential, flip = (number(votes.one(one), "gap_needed") for one in (EXPONENTIAL, FLIP))
    return sentences.paragraphs(
        f"""Finding the right one of {k:,} conditions at ε {epsilon} takes {needed[MEAN]} people
        without privacy, {needed[GUMBEL]} with a trusted server and {needed[ONE_EACH]}
        devices{below}. The price grows with the number of conditions, from {_price(first)} times at
        {sizes[0]:,} to {_price(last)} at {sizes[-1]:,}, and not with the people.

        With one vote per person, a leader of {k:,} options must be ahead by {exponential:.1f} votes
        for the exponential mechanism, by {flip:.1f} for permute and flip, and by {ahead} of
        {options["people"]:,} on devices; no curator needs fewer than
        {number(votes.one(FLIP), "limit"):.1f}."""
    )


STUDY = Study(
    name="select",
    question="What does it cost to find the most popular of many, without trusting the server?",
    options=OPTIONS,
    check=check,
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
