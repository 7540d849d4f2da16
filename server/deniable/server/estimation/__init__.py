"""Estimates from tallies: unbiased, with intervals that hold their coverage."""

from deniable.server.estimation.estimate import CONFIDENCE, Estimate
from deniable.server.estimation.estimators import estimates

__all__ = ["CONFIDENCE", "Estimate", "estimates"]
