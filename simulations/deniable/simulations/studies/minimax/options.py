"""The options of the minimax study, lists with commas, and the cells that they ask for."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

from deniable.shared.errors import WrongUse
from deniable.simulations.engine import custom_mechanisms, option
from deniable.simulations.engine.study import Cell, Options
from deniable.simulations.studies.minimax.estimators import MANY_LEVELS, MODELS
from deniable.simulations.studies.minimax.measure import GROUPS

MOST_PEOPLE = 10**10


def _moments(name: str, given: Any) -> str:  # Any: as it was given
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = math.nan
    if not value >= 2:
        raise WrongUse(f"{name} takes numbers from 2, or inf, got {given!r}")
    return f"{value:.15g}"


LOCAL = [name for name, model in MODELS.items() if model == "local"]
OTHERS = [name for name, model in MODELS.items() if model != "local"]
MANY_FROM = 2.0  # ε above which, and k between 2 and infinity, three values are too few


def _mechanism(name: str, given: Any) -> str:  # Any: a class, or its name
    if given in (*LOCAL, MANY_LEVELS):
        return str(given)
    return str(custom_mechanisms.mechanisms_option("number").read(name, given)[0])


OPTIONS = (
    option.Option("moments", "2,3,4,inf", option.several(_moments), "E|X|^k <= 1 for these k"),
    option.epsilons("0.1,0.5,1,2,4"),
    option.people("1e2,1e3,1e4,1e5,1e6,1e7,1e8,1e9", 1, MOST_PEOPLE),
    option.repetitions(10_000, 2 * GROUPS),
    option.Option(
        "mechanisms",
        ",".join([*LOCAL, MANY_LEVELS]),
        option.several(_mechanism),
        "local ones, also any for numbers, own ones as package.module:Class",
    ),
)


def make_cells(options: Options) -> list[Cell]:
    """One for each estimator, k, ε and number of people; without privacy ε makes no difference,
    so there a cell has all of them."""
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
