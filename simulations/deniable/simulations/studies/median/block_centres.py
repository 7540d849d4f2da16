"""Centre of a normal distribution on a trusted server, whatever one person may do to it.

`pages/median.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from deniable.simulations.engine.estimators import Array, Case, Estimator, Risk
from deniable.simulations.engine.figures import LOOKS, Look
from deniable.simulations.studies.median.quantile_search import CENTRE, SIGMA, drawn_between

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
LEAST_LOG_DENSITY = 60.0  # e^-60, times the largest ratio of lengths, is still negligible
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
        return private_quantile(means, 0.5, epsilon, generator)
    distances = DISTANCES * (k**PRINTED_DISTANCES if one is PRINTED else 1)
    return winsorized_mean(means, epsilon, generator, distances)


# Private centres. They simulate releases in doubles, and must never produce a real one.


def gaps(values: Array, share: float, epsilon: float) -> tuple[Array, Array]:
    """Return the ordered values of each row between 0 and 1, and the log-densities between them.

    Values so far from the quantile that the density has fallen by e^-60 are left out.
    """
    k, reach = values.shape[1], math.ceil(2 * LEAST_LOG_DENSITY / epsilon)
    first, last = max(0, math.floor(share * k) - reach), min(k, math.ceil(share * k) + reach)
    inside = np.clip(values, 0, 1)
    inside.sort(axis=1)
    near, at_ends = inside[:, max(0, first - 1) : last + 1], (int(first == 0), int(last == k))
    ends = np.pad(near, ((0, 0), at_ends), constant_values=(0, 1))
    return ends, -epsilon / 2 * np.abs(np.arange(first, last + 1) - share * k)


def private_quantile(values: Array, share: float, epsilon: float, generator: Generator) -> Array:
    return drawn_between(*gaps(values, share, epsilon), generator)


def winsorized_mean(values: Array, epsilon: float, generator: Generator, distances: float) -> Array:
    """Clip values this many quartile distances from the quartiles' middle, and draw the mean."""
    first, third = (
        private_quantile(values, share, epsilon / 4, generator) for share in (0.25, 0.75)
    )
    middle, half = (first + third) / 2, distances * np.abs(third - first)
    low, high = (np.clip(end, 0, 1) for end in (middle - half, middle + half))
    cut = np.clip(values, low[:, None], high[:, None]).mean(axis=1)
    return np.asarray(cut + generator.laplace(0, 1, len(values)) * noise_scale(
        high - low, values.shape[1], epsilon
    ))  # fmt: skip


def noise_scale(width: Array | float, blocks: int, epsilon: float) -> Array:
    return np.asarray(width / (blocks * epsilon / 2))
