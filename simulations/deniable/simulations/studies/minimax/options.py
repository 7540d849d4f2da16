"""The options of the minimax study, lists with commas, and the cells that they ask for."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

from deniable.shared.errors import WrongUse
from deniable.simulations.frame import option
from deniable.simulations.frame.study import Cell, Options
from deniable.simulations.studies.minimax.estimators import MODELS
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


OPTIONS = (
    option.Option("moments", "2,3,4,inf", option.several(_moments), "E|X|^k <= 1 for these k"),
    option.epsilons("0.1,0.5,1,2,4"),
    option.people("1e2,1e3,1e4,1e5,1e6,1e7,1e8,1e9", 1, MOST_PEOPLE),
    option.repetitions(10_000, 2 * GROUPS),
)


def make_cells(options: Options) -> list[Cell]:
    """One for each estimator, k, ε and number of people; without privacy ε makes no difference,
    so there a cell has all of them."""
    every_epsilon = [",".join(options["epsilon"])]
    return [
        {
            "estimator": estimator,
            "moments": moments,
            "epsilon": epsilon,
            "people": people,
            "repetitions": options["repetitions"],
        }
        for moments, people, estimator in product(options["moments"], options["people"], MODELS)
        for epsilon in (every_epsilon if estimator == "mean" else options["epsilon"])
    ]
