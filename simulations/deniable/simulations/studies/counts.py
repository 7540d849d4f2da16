"""Many counts: each of n people has m yes-or-no answers, and every question is counted.

`pages/counts.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import ONE, Epsilon, decimal_text
from deniable.shared.privacy.mechanisms import KClosest, RandomizedResponse
from deniable.simulations.central.noise import CubeNoise, DiscreteLaplace, discrete_laplace
from deniable.simulations.engine import estimators, figures, option
from deniable.simulations.engine.estimators import Case, Estimator, Risk, number
from deniable.simulations.engine.figures import LOOKS, SHUFFLED_LOOK
from deniable.simulations.engine.limits import unit_vector_columns
from deniable.simulations.engine.presentation import View, error_tables, figure, plus_minus, study
from deniable.simulations.engine.study import Cell, Options, Report, Row
from deniable.simulations.studies.bit import count_limit
from deniable.simulations.studies.composition import gaussian_mu

MAX_ENUMERATED_COUNTS = 4  # whose 2^16 sets of corners are compared
OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e3,1e4,1e5,1e6,1e7,1e8"),
    option.sizes("counts", "1,4,16,64,256", 1, 4_096, "numbers of questions"),
    option.delta("probability that the guarantee of Gaussian noise fails"),
    option.repetitions(400),
)


def _check(options: dict[str, Any]) -> Options:  # Any: JSON values
    if min(options["people"]) < max(options["counts"]):
        raise WrongUse("people must be at least as many as counts, so that each question is asked")
    return options


ONE_QUESTION = Estimator("local", "one-question", "devices, one random question", LOOKS[0])
ALL = Estimator("local", "all-questions", "devices, all questions", LOOKS[5])
TOGETHER = Estimator("local", "k-closest", "devices, all answers together", SHUFFLED_LOOK)
GEOMETRIC = Estimator("central", "geometric", "trusted, geometric", LOOKS[1])
CUBE = Estimator("central", "cube", "trusted, cube", LOOKS[4])
GAUSSIAN = Estimator("central", "gaussian", "trusted, Gaussian", LOOKS[3], False)
NONE = Estimator("none", "share", "no privacy", LOOKS[2])
ESTIMATORS = (ONE_QUESTION, ALL, TOGETHER, GEOMETRIC, CUBE, GAUSSIAN, NONE)


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    case = Case(cell, generator)
    epsilon, n, m, draw = case.epsilon, case.people, case.counts, case.generator
    design, noise = RandomizedResponse(epsilon), DiscreteLaplace(epsilon, m)
    part = Epsilon(decimal_text(max(1, epsilon.billionths // m)))  # rounded down
    all_at_once, cube = RandomizedResponse(part), CubeNoise(epsilon, m)
    deviation = math.sqrt(m) / gaussian_mu(float(epsilon), case.delta) / n
    yes, wide, sampling = n // 2, (case.repetitions, m), 1 / (4 * n)
    groups = (n // m + (np.arange(m) < n % m)).astype(np.int64)
    asked = float(np.mean(design.variance(1, 0.5) / groups))
    split = float(np.mean((n - groups) / groups / (n - 1))) * yes / n * (1 - yes / n)
    held = draw(ONE_QUESTION).hypergeometric(yes, n - yes, groups, wide)
    one = _estimates(design, held, groups, draw(ONE_QUESTION)) - yes / n
    every = _estimates(all_at_once, np.full(wide, yes), np.full(m, n), draw(ALL)) - yes / n
    exact: dict[Estimator, tuple[float, estimators.Array | None]] = {
        ONE_QUESTION: (asked + split, one),
        ALL: (all_at_once.variance(n, 0.5), every),
        **together(epsilon, m, n),
        GEOMETRIC: (noise.variance / n**2, discrete_laplace(noise, wide, draw(GEOMETRIC)) / n),
        CUBE: (cube.variance / n**2, cube.drawn(case.repetitions, draw(CUBE)) / n),
        GAUSSIAN: (deviation**2, draw(GAUSSIAN).normal(0, deviation, wide)),
        NONE: (0.0, None),
    }
    columns: dict[Estimator, estimators.Columns] = {GAUSSIAN: {"delta": case.delta, "limit": None}}
    drawn = {ONE_QUESTION: asked + float(np.mean(1 / groups)) / 4}
    risks = {
        one: Risk(*risk, drawn.get(one), columns=columns.get(one, {"delta": 0.0}))
        for one, risk in exact.items()
    }
    limits = unit_vector_columns(
        n, m, lambda e: min(1.0, reach(e, m) / math.sqrt(m)), float(epsilon), 1 / 4
    )
    if m == 1:
        limits["central"] |= {"limit": count_limit(float(epsilon), n) / n**2}
    return case.rows(("epsilon", "delta", "counts", "people"), risks, limits, sampling)


def together(epsilon: Epsilon, counts: int, people: int) -> dict[Estimator, tuple[float, None]]:
    """Return the error of reports about all answers, for numbers of counts that they support."""
    if counts not in KClosest.sizes:
        return {}
    return {TOGETHER: ((KClosest(epsilon, counts).whole_error(1) ** 2 - 1) / (4 * people), None)}


def people_needed(
    epsilon: Epsilon, counts: int, error: float, delta: float
) -> dict[Estimator, int]:
    """Return how many people give every share of these people this standard error."""
    noises = {
        GEOMETRIC: math.sqrt(DiscreteLaplace(epsilon, counts).variance),
        CUBE: math.sqrt(CubeNoise(epsilon, counts).variance),
        GAUSSIAN: math.sqrt(counts) / gaussian_mu(float(epsilon), delta),
    }
    asked = RandomizedResponse(epsilon).variance(1, 0.5) * counts
    needed = {one: math.ceil(noise / error) for one, noise in noises.items()}
    return needed | {ONE_QUESTION: math.ceil(asked / error**2)}


@lru_cache(maxsize=4096)
def reach(epsilon: float, counts: int) -> float:
    """Return M, or a number that is at least M."""
    if counts == 1 or epsilon <= math.log(3):
        return math.tanh(epsilon / 2)
    if counts > MAX_ENUMERATED_COUNTS:
        return math.sqrt(math.expm1(epsilon) / 8)
    q, longest = _sets_of_corners(counts)
    return float((math.expm1(epsilon) * longest / (1 + math.expm1(epsilon) * q)).max())


@cache
def _sets_of_corners(counts: int) -> tuple[estimators.Array, estimators.Array]:
    """Return the probability q and the length of E[x; set] of every set of corners."""
    corners = 2**counts
    bits = np.arange(2**corners)[:, None] >> np.arange(corners) & 1
    signs = 2.0 * (np.arange(corners)[:, None] >> np.arange(counts) & 1) - 1
    return bits.mean(axis=1), np.linalg.norm(bits @ signs, axis=1) / corners


def _estimates(
    design: RandomizedResponse, yes: NDArray[np.int64], asked: NDArray[np.int64],
    generator: Generator,
) -> estimators.Array:  # fmt: skip
    reported = generator.binomial(yes, design.keep / ONE)
    reported += generator.binomial(asked - yes, design.lie / ONE)
    return np.asarray(design.unbiased_share(reported / asked))


def report(view: View) -> Report:
    people, most = view.people, max(view.options["counts"])
    shown, epsilon = view.along("counts"), view.epsilon
    many = shown.at(counts=most)
    needed = people_needed(Epsilon(epsilon), most, 0.01, view.delta)
    values = {
        "vectors": "".join(map(plus_minus, view.cell.of(TOGETHER)[:1])) or "unknown",
        "several": many.price(ALL, ONE_QUESTION),
        "prices": [figure(people / many.price(ONE_QUESTION, one)) for one in (CUBE, GAUSSIAN)],
        "asked": needed[ONE_QUESTION],
        "counted": needed[CUBE],
        "over": number(many.one(ONE_QUESTION), "exact_drawn")
        * (people * 4 * reach(float(epsilon), most) ** 2 / most),
    }
    title, trusted = f"Many counts of {people:,} people, ε {epsilon}", (GEOMETRIC, CUBE, GAUSSIAN)
    prices = figures.prices(view.along("counts", "epsilon"), ONE_QUESTION, trusted, "counts")
    return view.report(
        values,
        {"counts": figures.errors(shown, ESTIMATORS, title, x="counts"), "price": prices},
        error_tables(
            "Error of a count of {target}, in points: 1.96 standard errors",
            *(view.rows, ESTIMATORS[:-1]),
            keys={"ε": "epsilon", "counts": "counts", "people": "people"},
            targets=[estimators.THESE],
        ),
    )


CELLS = estimators.cross("people", "counts")
STUDY = study("counts", OPTIONS, CELLS, run, report, check=_check)
