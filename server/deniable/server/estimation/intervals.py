"""Intervals for a rate and for a bounded mean, at any number of reports, vectorized over counts.

Rates have Clopper-Pearson limits [1]. With c successes in n trials the limits are the quantiles of
Beta(c, n - c + 1) and Beta(c + 1, n - c). They cover at least as often as they say, at every n and
every rate. They also do so where each trial has a rate of its own, as with people whose answers are
fixed: such a sum is less dispersed than a binomial of the same mean [2].

And where only n of N fixed people were asked, each with the same probability, so that given n all
sets of n are alike: the limits are then about all N, those included who were not asked. With r_i
the rate of person i, the successes have the generating function of s = 1 + t

    sum over sets S of n people of  prod_{i in S} (1 + r_i t)  /  (N choose n)

This is an elementary symmetric polynomial, which has no zero with all its arguments in the upper
half-plane [3], at arguments that are there when t is. So all its roots are real: it is a product of
n terms 1 + q_j t, and the successes are again a sum of n independent trials, whose rates q_j add up
to n times the mean of r_i over all N.

Beta quantiles are slow: where both shapes are above 500 the Cornish-Fisher expansion takes over,
whose error is below 2.5e-5 standard deviations there. The limit is moved out by 1e-4, so nothing of
the coverage is lost.

The mean of values of a bounded range has Clopper-Pearson's interval, carried from two values to
many. With c_j reports of value v_j, let G_j be independent gamma variables of shape c_j, one more
for the end of the range in question. The upper limit is the (1 + confidence) / 2 quantile of

    sum_j v_j G_j / sum_j G_j           shape of the highest value: c_m + 1

and the lower limit mirrors it. With two values these are quantiles of beta distributions: exactly
Clopper-Pearson. The extra unit is what was not seen and yet may be there: without a single report
of the highest value its probability may still be 3.7 / n. For many reports it is the normal
interval. That it covers for every bounded distribution is a conjecture of Gaffke's, open and
unrefuted [4]; the tests measure it for our tables, where it holds with room to spare at small n.
Where n of N fixed people were asked, at random, it is about all N: their reports' mean has the same
expectation as that of n independent draws, and a variance that is no larger, since no one is asked
twice. With two values it is proved (`clopper_pearson`), with more it is measured too.

With S(x) = sum_j (v_j - x) G_j, that mean is above x exactly where S(x) is above 0; a saddlepoint
gives the probability of it [5], too high by at most 2 per cent of itself, so it errs outward.

[1] Clopper, Pearson 1934, "The use of confidence or fiducial limits illustrated in the case of the
    binomial", Biometrika 26(4).
[2] Hoeffding 1956, "On the distribution of the number of successes in independent trials",
    Annals of Mathematical Statistics 27(3).
[3] Borcea, Brändén, Liggett 2009, "Negative dependence and the geometry of polynomials", Journal of
    the American Mathematical Society 22(2).
[4] Learned-Miller, Thomas 2019, "A new confidence interval for the mean of a bounded random
    variable", arXiv 1905.06208.
[5] Lugannani, Rice 1980, "Saddle point approximation for the distribution of the sum of
    independent random variables", Advances in Applied Probability 12(2).
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.roots import brent, deduplicate_rows

Array = npt.NDArray[np.float64]

LARGE = 500.0
OUTWARD = 1e-4  # standard deviations


@deduplicate_rows
def clopper_pearson(successes: Array, trials: Array, confidence: float) -> tuple[Array, Array]:
    """Clopper-Pearson limits: the lowest and highest rate that each count is compatible with."""
    failures, tail = trials - successes, (1 - confidence) / 2
    high = np.where(
        failures > 0, beta_quantile(successes + 1, np.maximum(failures, 1), 1 - tail), 1.0
    )
    return lowest(successes, trials, confidence), high


def lowest(successes: Array, trials: Array, confidence: float) -> Array:
    """Return the lower limit alone."""
    tail = (1 - confidence) / 2
    found = beta_quantile(np.maximum(successes, 1), trials - successes + 1, tail)
    return np.where(successes > 0, found, 0.0)


def beta_quantile(a: Array, b: Array, probability: float) -> Array:
    """The quantile of Beta(a, b), or a little farther from its mean where both are large."""
    from scipy.special import betaincinv

    large = np.minimum(a, b) > LARGE
    result = np.empty_like(a)
    result[~large] = betaincinv(a[~large], b[~large], probability)
    result[large] = _expansion(a[large], b[large], NormalDist().inv_cdf(probability))
    return result


def _expansion(a: Array, b: Array, z: float) -> Array:
    total = a + b
    spread = np.sqrt(a * b / (total + 1)) / total
    skew = 2 * (b - a) * np.sqrt(total + 1) / ((total + 2) * np.sqrt(a * b))
    peak = 6 * ((a - b) ** 2 * (total + 1) / (a * b) - (total + 2)) / ((total + 2) * (total + 3))
    bends = skew * (z**2 - 1) / 6 + peak * (z**3 - 3 * z) / 24 - skew**2 * (2 * z**3 - 5 * z) / 36
    quantile: Array = a / total + spread * (z + bends + np.copysign(OUTWARD, z))
    return quantile


Interval = tuple[Array, Array]
ROOT_OF_TWO_PI = math.sqrt(2 * math.pi)


def bounded_mean(values: Array, counts: Array, confidence: float) -> Interval:
    """Interval of the mean that `counts` reports of ascending `values` were drawn from.

    There are as many means as `values` or `counts` has rows.
    """
    tail = (1 - confidence) / 2
    low = -_upper(-values[..., ::-1], counts[..., ::-1], tail)
    return low, _upper(values, counts, tail)


def _upper(values: Array, counts: Array, tail: float) -> Array:
    """Compute rows with equally many distinct values together.

    No zero is added, which would change how a sum is rounded.
    """
    shape = np.broadcast_shapes(values.shape, counts.shape)
    values, shapes = (
        np.broadcast_to(each, shape).reshape(-1, shape[-1]) for each in (values, counts)
    )
    shapes = shapes + (np.arange(shape[-1]) == shape[-1] - 1)
    seen = shapes > 0
    number, upper = seen.sum(1), values[:, -1].copy()
    for many in np.unique(number[number > 1]).tolist():
        rows = number == many
        some, parts = (each[rows][seen[rows]].reshape(-1, many) for each in (values, shapes))
        upper[rows] = (_beta_upper if many == 2 else _saddlepoint_upper)(some, parts, tail)
    return upper.reshape(shape[:-1])


def _saddlepoint_upper(values: Array, shapes: Array, tail: float) -> Array:
    """Search for the pole whose mean lies above with the tail's probability.

    Every pole above the highest value is the saddlepoint of one mean. The nearer the pole, the
    higher the mean.
    """
    top = values[:, -1]
    below = values - top[:, None]  # the top becomes 0, so that a pole next to it loses no digits
    total = shapes.sum(1)
    centre = np.vecdot(below, shapes) / total
    spread = np.sqrt(np.vecdot(shapes, (below - centre[:, None]) ** 2))
    nearest, farthest = np.log(-below[:, 0] / total / 1000), np.log(centre + 10 * spread)

    def excess(logarithm: Array) -> Array:
        return at_pole(np.exp(logarithm), below, shapes)[1] - tail

    pole = np.exp(brent(excess, nearest, farthest, 1e-10))
    return np.asarray(top + at_pole(pole, below, shapes)[0])


def at_pole(pole: Array, values: Array, shapes: Array) -> tuple[Array, Array]:
    """A mean x, and the probability that the random mean is above it: P[S(x) > 0].

    The cumulants of S(x) at s are -sum_j c_j log(1 - (v_j - x) s), flat where the mean of the
    values, weighted by c_j / (pole - v_j) with pole = x + 1 / s, is x.
    """
    from scipy.special import ndtr

    above = np.asarray(pole)[..., np.newaxis]
    weights = shapes / (above - values)
    x = np.vecdot(weights, values) / weights.sum(-1)
    apart = values - x[..., np.newaxis]
    w = np.sqrt(2 * (shapes * np.log1p(apart / (x - pole)[..., np.newaxis])).sum(-1))
    u = np.sqrt((shapes * (apart / (above - values)) ** 2).sum(-1))
    return x, ndtr(-w) + np.exp(-(w**2) / 2) * (1 / u - 1 / w) / ROOT_OF_TWO_PI


def _beta_upper(values: Array, shapes: Array, tail: float) -> Array:
    (low, high), (failures, successes) = values.T, shapes.T
    return np.asarray(low + (high - low) * beta_quantile(successes, failures, 1 - tail))
