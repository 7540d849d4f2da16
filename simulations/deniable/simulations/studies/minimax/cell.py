"""One cell: an estimator for one k, ε and number of people: its bounds, and its risk measured.

Where the exact risk is within half a percent of the lower bound, more is drawn, so that what is
measured lies above the bound too: by about 6 Monte-Carlo errors or more at up to 1e9 people.
"""

from __future__ import annotations

import math

import numpy as np

from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.engine.study import Cell, Row
from deniable.simulations.studies.minimax.clips import sharpened
from deniable.simulations.studies.minimax.distributions import (
    TwoPoints,
    exact_risk,
    hardest_distribution,
)
from deniable.simulations.studies.minimax.estimators import best_estimator
from deniable.simulations.studies.minimax.limits import lower_bound
from deniable.simulations.studies.minimax.measure import measured_risk

TIGHT = 5e-3
TIGHT_REPETITIONS = 120_000


def run_cell(cell: Cell, generator: np.random.Generator) -> list[Row]:
    moments, users = float(cell["moments"]), int(cell["people"])
    epsilons = [Epsilon(text) for text in str(cell["epsilon"]).split(",")]
    plain = best_estimator(str(cell["estimator"]), moments, epsilons[0], users)
    estimator = sharpened(plain)
    distribution = hardest_distribution(estimator)
    exact = exact_risk(estimator, distribution) if estimator.clip else distribution.mean**2
    lowest = lower_bound(estimator.model, moments, float(epsilons[0]), users)
    tight = exact < lowest * (1 + TIGHT)
    repetitions = max(int(cell["repetitions"]), TIGHT_REPETITIONS if tight else 0)
    measured, error = measured_risk(estimator, distribution, repetitions, generator)
    return [
        {
            "model": estimator.model,
            "moments": "inf" if math.isinf(moments) else _short(moments),
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
            **_columns(distribution),
        }
        for epsilon in epsilons
    ]


def _columns(distribution: TwoPoints) -> Row:
    return {
        "hardest_low": distribution.low,
        "hardest_high": distribution.high,
        "probability_high": distribution.probability,
    }


def _short(moments: float) -> int | float:
    return int(moments) if moments.is_integer() else moments
