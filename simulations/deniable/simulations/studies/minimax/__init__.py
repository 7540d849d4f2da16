"""Minimax: the least error of a mean in each model, when some numbers may be huge.

The families are P_k = {E|X|^k <= 1}. `clipped_estimators` has the estimators and a formula that
bounds their risk, `worst_case` the distribution with the largest exact risk and the simulation
there, `minimax_limits` the lower bounds, and `minimax_report` the rate
at which each risk falls with the number of people.

A cell is one estimator for one k, ε and number of people. The closer the exact risk is to the lower
bound, the more repetitions are drawn, so that the measured risk stays above the bound too: by about
5 Monte-Carlo errors or more at up to 1e9 people.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

from numpy.random import Generator

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.engine import custom_mechanisms, option
from deniable.simulations.engine.presentation import study
from deniable.simulations.engine.study import Cell, Options, Row
from deniable.simulations.studies.minimax.clipped_estimators import (
    MANY_LEVELS,
    MODELS,
    Estimator,
    best_estimator,
    moments_value,
)
from deniable.simulations.studies.minimax.minimax_limits import lower_bound
from deniable.simulations.studies.minimax.minimax_report import report
from deniable.simulations.studies.minimax.worst_case import GROUPS, measured_risk, sharpened

TIGHT, CLOSEST = 5e-3, 6e-5  # relative distances of the exact risk from the lower bound
MAX_REPETITIONS = 120_000
MANY_FROM = 2.0  # above this ε, three report values are too few for k between 2 and infinity
LOCAL = [name for name, model in MODELS.items() if model == "local"]
OTHERS = [name for name, model in MODELS.items() if model != "local"]


def _moments(name: str, given: Any) -> str:  # Any: unparsed input
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = math.nan
    if not value >= 2:
        raise WrongUse(f"{name} takes numbers from 2, or inf, got {given!r}")
    return f"{value:.15g}"


def _mechanism(name: str, given: Any) -> str:  # Any: a class, or its name
    if given in (*LOCAL, MANY_LEVELS):
        return str(given)
    return str(custom_mechanisms.mechanisms_option("number").read(name, given)[0])


OPTIONS = (
    option.Option("moments", "2,3,4,inf", option.several(_moments), "each k of E|X|^k <= 1"),
    option.epsilons("0.1,0.5,1,2,4"),
    option.people("1e2,1e3,1e4,1e5,1e6,1e7,1e8,1e9", least=1, most=10**10),
    option.repetitions(10_000, 2 * GROUPS),
    option.Option(
        "mechanisms",
        ",".join([*LOCAL, MANY_LEVELS]),
        option.several(_mechanism),
        "mechanisms on devices, for numbers; a custom one as package.module:Class",
    ),
)


def cells(options: Options) -> list[Cell]:
    """Return a cell for each estimator, k, ε and number of people.

    Without privacy the result does not depend on ε, so one such cell covers every ε.
    """
    every_epsilon = [",".join(options["epsilon"])]
    estimators = [*options.get("mechanisms", LOCAL), *OTHERS]
    return [
        {
            "estimator": estimator,
            "moments": moments,
            "epsilon": epsilon,
            "people": people,
            "repetitions": options["repetitions"],
        }
        for moments, people, estimator in product(options["moments"], options["people"], estimators)
        for epsilon in (every_epsilon if estimator == "mean" else options["epsilon"])
        if estimator != MANY_LEVELS
        or (float(epsilon) > MANY_FROM and 2 < float(moments) < math.inf)
    ]


def run(cell: Cell, generator: Generator) -> list[Row]:
    moments, users = float(cell["moments"]), int(cell["people"])
    epsilons = [Epsilon(text) for text in str(cell["epsilon"]).split(",")]
    plain = best_estimator(str(cell["estimator"]), moments, epsilons[0], users)
    estimator, distribution, exact = sharpened(plain)
    lowest = lower_bound(estimator.model, moments, float(epsilons[0]), users)
    repetitions = max(int(cell["repetitions"]), _needed(estimator, exact / lowest - 1))
    measured, error = measured_risk(estimator, distribution, repetitions, generator)
    return [
        {
            "model": estimator.model,
            "moments": moments_value(moments),
            "epsilon": float(epsilon),
            "people": users,
            "estimator": estimator.name,
            "risk_bound": plain.bound,
            "risk_exact": exact,
            "risk_measured": measured,
            "risk_error": error,
            "lower_bound": lowest,
            "clip": None if math.isinf(estimator.clip) else estimator.clip,
            "repetitions": repetitions,
            "hardest_low": distribution.low,
            "hardest_high": distribution.high,
            "probability_high": distribution.probability,
        }
        for epsilon in epsilons
    ]


def _needed(estimator: Estimator, distance: float) -> int:
    """Return how many repetitions keep the measured risk above a bound at this relative distance.

    The error falls as repetitions^-1.5 if the strata fix the counts of all reports, of two values.
    """
    if estimator.table and len(estimator.table.values) > 2:  # see above
        return MAX_REPETITIONS if distance < TIGHT else 0
    near = CLOSEST / max(CLOSEST, distance)
    return round(MAX_REPETITIONS * math.pow(near, 2 / 3))


STUDY = study("minimax", OPTIONS, cells, run, report)
