"""The clip that risks least under the hardest distribution, by the exact risk and not by its bound.

It is sought around the clip of the bound, where the exact risk is well below it; elsewhere there is
nothing to gain. The bound of that other clip still holds: here the exact risk is smaller yet.
"""

from __future__ import annotations

import math
from dataclasses import replace

from deniable.simulations.studies.minimax.distributions import exact_risk, hardest_distribution
from deniable.simulations.studies.minimax.estimators import Estimator, whole_clip

NEARLY = 5e-3  # a bound that is as close as this is the exact risk for every purpose
AROUND = 1.0  # in logarithms
CLOSE = 1e-2


def sharpened(estimator: Estimator) -> Estimator:
    if not estimator.clip or math.isinf(estimator.clip) or math.isinf(estimator.moments):
        return estimator
    if _risk(estimator) >= estimator.bound * (1 - NEARLY):
        return estimator
    from scipy.optimize import minimize_scalar

    start = math.log(estimator.clip)
    found = minimize_scalar(
        lambda log: _risk(_clipped(estimator, math.exp(log))),
        bounds=(max(0.0, start - AROUND) if start > 0 else start - AROUND, start + AROUND),
        method="bounded",
        options={"xatol": CLOSE},
    )
    sharper = _clipped(estimator, math.exp(float(found.x)))
    return sharper if _risk(sharper) < _risk(estimator) else estimator


def _clipped(estimator: Estimator, clip: float) -> Estimator:
    return replace(estimator, clip=whole_clip(clip) if estimator.noise else clip)


def _risk(estimator: Estimator) -> float:
    return exact_risk(estimator, hardest_distribution(estimator))
