"""Centre of a normal distribution on a trusted server, whatever one person may do to it.

The people are split into k blocks, and a private centre of the blocks' means is released
(`central.sample_and_aggregate`). n times the mean squared error, in squared deviations, to first
order, in a range 20 deviations wide:

    known range      the mean, with Laplace noise        1 + 2 (20 / ε)^2 / n
    winsorized       k = √n, at 4 quartile distances     1 + 8 (8 · 1.349)^2 / (ε^2 k)
    median           k = √n                              π / 2 + 16 π / (ε^2 k)
    as printed [1]   k = n^.4, at 4 k^.433 distances     no formula

With many blocks, aggregation adds no error. As printed, the blocks are too few for the private
quartiles of a wide range: they often miss the blocks' means, and the noise covers the whole range.
The first formula is exact, except for people 10 deviations away.

[1] Smith 2011, "Privacy-preserving statistical estimation with optimal convergence rates", STOC,
    with the constants of lecture notes on the subject.
"""

from __future__ import annotations

import math

import numpy as np

from deniable.simulations.central import sample_and_aggregate as central
from deniable.simulations.engine.estimators import Array, Case, Estimator, Risk
from deniable.simulations.engine.figures import LOOKS, Look
from deniable.simulations.studies.median.quantile_search import CENTRE, SIGMA

KNOWN_RANGE = Estimator("central", "known-range", "trusted, range known", LOOKS[1])
WINSORIZED = Estimator(
    "central", "winsorized", "trusted, winsorized blocks", Look(LOOKS[1].color, "D", ":")
)
BLOCK_MEDIAN = Estimator(
    "central", "block-median", "trusted, median of blocks", Look(LOOKS[3].color, "^", "-.")
)
PRINTED = Estimator(
    "central", "as-printed", "trusted, blocks as printed", Look(LOOKS[5].color, "P", "--")
)
ESTIMATORS = (KNOWN_RANGE, WINSORIZED, BLOCK_MEDIAN, PRINTED)
WIDTH = 1 / SIGMA  # width of the range, in deviations
QUARTILES = 1.3489795003921634  # distance between the quartiles, in deviations
DISTANCES = 4.0  # quartile distances from the middle beyond which means are clipped
PRINTED_BLOCKS, PRINTED_DISTANCES = 0.4, 0.433  # powers of n and of k
MAX_REPETITIONS, MAX_MEANS = 300, 2_000_000  # with many blocks, more take too long


def first_order(epsilon: float, people: int) -> dict[Estimator, float]:
    """Return n times the mean squared error of each estimator that has a formula."""
    k = math.isqrt(people)
    return {
        KNOWN_RANGE: 1 + 2 * (WIDTH / epsilon) ** 2 / people,
        WINSORIZED: 1 + 8 * (2 * DISTANCES * QUARTILES / epsilon) ** 2 / k,
        BLOCK_MEDIAN: math.pi / 2 + 16 * math.pi / (epsilon**2 * k),
    }


def risks(case: Case) -> dict[Estimator, Risk]:
    n, epsilon = case.people, float(case.epsilon)
    formulas = first_order(epsilon, n)
    blocks = {PRINTED: math.floor(n**PRINTED_BLOCKS), KNOWN_RANGE: 1}

    def risk(one: Estimator) -> Risk:
        k = blocks.get(one, math.isqrt(n))
        exact = SIGMA**2 * formulas[one] / n if one in formulas else None
        errors = _estimates(case, one, k, epsilon) - CENTRE
        return Risk(exact, errors, columns={"blocks": None if one is KNOWN_RANGE else k})

    return {one: risk(one) for one in ESTIMATORS}


def _estimates(case: Case, one: Estimator, k: int, epsilon: float) -> Array:
    """Draw the means of k blocks, and the centre of them that is released."""
    generator = case.generator(one)
    times = min(case.repetitions, max(2, min(MAX_REPETITIONS, MAX_MEANS // k)))
    means = generator.normal(CENTRE, SIGMA * math.sqrt(k / case.people), (times, k))
    if one is KNOWN_RANGE:
        return np.asarray(means[:, 0] + generator.laplace(0, 1 / (epsilon * case.people), times))
    if one is BLOCK_MEDIAN:
        return central.private_quantile(means, 0.5, epsilon, generator)
    distances = DISTANCES * (k**PRINTED_DISTANCES if one is PRINTED else 1)
    return central.winsorized_mean(means, epsilon, generator, distances)
