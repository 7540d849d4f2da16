"""What a trusted server could do instead: the central mechanisms that every study compares with.

They see true answers, which nothing else here does; so they live with the simulations and not with
the server. Each releases whole numbers, drawn by whole numbers, with a proof of its ε.
"""

from deniable.simulations.central.bounded_mean import BoundedMean
from deniable.simulations.central.discrete_laplace import DiscreteLaplace
from deniable.simulations.central.exact import Below, below, bernoulli_exp
from deniable.simulations.central.exponential import ExponentialMechanism
from deniable.simulations.central.geometric import GeometricCounts
from deniable.simulations.central.quantile import PrivateQuantile

__all__ = [
    "Below",
    "BoundedMean",
    "DiscreteLaplace",
    "ExponentialMechanism",
    "GeometricCounts",
    "PrivateQuantile",
    "below",
    "bernoulli_exp",
]
