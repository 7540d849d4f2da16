"""Sample and aggregate: a statistic of each block of people, and a private centre of the blocks.

Each person is in one block, so moves only one of k values, by any amount. Values are in [0, 1].

    quantile      the exponential mechanism on [0, 1]: between the i-th and the next of the sorted
                  values the density is e^(-ε |i - α k| / 2), as one value moves i by at most 1
    winsorized    private quartiles, each with ε / 4; values are clipped at some multiple of the
                  quartiles' distance from their middle; the mean has Laplace noise for ε / 2

Noise is drawn in doubles: this simulates releases, and must never make one.

Sources: Nissim, Raskhodnikova, Smith 2007, "Smooth sensitivity and sampling", STOC; Smith 2011,
"Privacy-preserving statistical estimation with optimal convergence rates", STOC.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
LEAST_LOG_DENSITY = 60.0  # e^-60, times the largest ratio of lengths, is still negligible


def gaps(values: Array, share: float, epsilon: float) -> tuple[Array, Array]:
    """Return the ordered values of each row between 0 and 1, and the log-densities between them.

    Values so far from the quantile that the density has fallen by e^-60 are left out.
    """
    k, reach = values.shape[1], math.ceil(2 * LEAST_LOG_DENSITY / epsilon)
    first, last = max(0, math.floor(share * k) - reach), min(k, math.ceil(share * k) + reach)
    inside = np.sort(np.clip(values, 0, 1), axis=1)
    ends = np.pad(inside, ((0, 0), (1, 1)), constant_values=(0, 1))[:, first : last + 2]
    return ends, -epsilon / 2 * np.abs(np.arange(first, last + 1) - share * k)


def private_quantile(
    values: Array, share: float, epsilon: float, generator: np.random.Generator
) -> Array:
    """Draw one private quantile for each row."""
    return drawn_between(*gaps(values, share, epsilon), generator)


def drawn_between(points: Array, logs: Array, generator: np.random.Generator) -> Array:
    """Draw an interval for each row, with weights length · e^log, and a uniform point in it.

    The Gumbel trick draws the interval: the largest log weight plus Gumbel noise.
    """
    lengths = np.diff(points, axis=1)
    with np.errstate(divide="ignore"):
        keys = np.log(lengths) + logs + generator.gumbel(size=lengths.shape)
    chosen = np.argmax(keys, axis=1)[:, None]
    start, length = (np.take_along_axis(a, chosen, 1)[:, 0] for a in (points, lengths))
    return np.asarray(start + length * generator.random(len(points)))


def winsorized_mean(
    values: Array, epsilon: float, generator: np.random.Generator, distances: float
) -> Array:
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
