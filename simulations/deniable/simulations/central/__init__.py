"""Mechanisms of a trusted server, with which the studies compare those on devices.

They see true answers, as nothing else in this project does, so they belong to the simulations and
not to the server. `coins` are exact random choices; `discrete_laplace` and `selection` release
counts, means, quantiles and choices with them, each with a proof of its ε; the other modules draw
real numbers in doubles, which simulates a release and never makes one.
"""

from deniable.simulations.central.coins import Below, below, bernoulli_exp
from deniable.simulations.central.discrete_laplace import (
    BoundedMean,
    DiscreteLaplace,
    GeometricCounts,
    discrete_laplace,
    discrete_laplace_sum,
)
from deniable.simulations.central.selection import ExponentialMechanism, PrivateQuantile

__all__ = [
    "Below",
    "BoundedMean",
    "DiscreteLaplace",
    "ExponentialMechanism",
    "GeometricCounts",
    "PrivateQuantile",
    "below",
    "bernoulli_exp",
    "discrete_laplace",
    "discrete_laplace_sum",
]
