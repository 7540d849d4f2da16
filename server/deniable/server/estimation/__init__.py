"""Estimates from tallies: unbiased, with intervals that hold their coverage.

`estimators` has one object for each way of estimating. It combines `point_estimates` with limits
about the population (`intervals`, and `anytime_valid` while a round is open) and about those
very people (`finite_population`) into `statements`. `distribution`, `crosstab` and `differences`
estimate more from the same counts; `text_search` and `text_estimates` find frequent texts;
`forgery_test` notices forged reports, and `amplification` is about what a shuffler adds.
"""

from deniable.server.estimation.estimate import CONFIDENCE, Estimate
from deniable.server.estimation.estimators import estimates

__all__ = ["CONFIDENCE", "Estimate", "estimates"]
