"""Estimates from tallies: unbiased, with intervals that keep their coverage.

`ESTIMATORS` has one class for each way of estimating: `shares`, `means` (of numbers and vectors)
and `frequent_texts`. The first two return `statements`, with the limits of `share_limits` or
`mean_limits`, which are searched by `roots`. `distribution` and `crosstab` estimate more from the
same counts, `forgery_test` detects forged reports, and `amplification` computes the privacy that a
shuffler adds.
"""

from collections.abc import Mapping

from deniable.server.estimation.frequent_texts import TextEstimator
from deniable.server.estimation.means import MeanEstimator, VectorEstimator
from deniable.server.estimation.shares import ShareEstimator
from deniable.server.estimation.statements import CONFIDENCE, Cells, Estimate, Estimator
from deniable.shared.survey.kinds.base import Estimation, Question

__all__ = ["CONFIDENCE", "ESTIMATORS", "Estimate", "Estimator", "estimates"]

# Each kind of question names its estimator, so kinds can share one.
ESTIMATORS: Mapping[Estimation, type[Estimator]] = {
    "shares": ShareEstimator,
    "mean": MeanEstimator,
    "coordinates": VectorEstimator,
    "texts": TextEstimator,  # type: ignore[type-abstract]  # has no statements
}


def estimates(
    question: Question, cells: Cells, reports: int, confidence: float = CONFIDENCE
) -> tuple[Estimate, ...]:
    """Return an estimate for each of the question's labels, or for each text found."""
    return ESTIMATORS[question.estimation].estimates(question, cells, reports, confidence)
