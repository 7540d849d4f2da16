"""Clopper-Pearson limits of a rate, for many counts at once, at any number of reports.

With c successes in n trials the limits are the quantiles of Beta(c, n - c + 1) and
Beta(c + 1, n - c). They cover at least as often as they say, at every n and every rate. They also
do so where each trial has a rate of its own, as with people whose answers are fixed: such a sum is
less dispersed than a binomial of the same mean [2].

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

[1] Clopper, Pearson 1934, "The use of confidence or fiducial limits illustrated in the case of the
    binomial", Biometrika 26(4).
[2] Hoeffding 1956, "On the distribution of the number of successes in independent trials",
    Annals of Mathematical Statistics 27(3).
[3] Borcea, Brändén, Liggett 2009, "Negative dependence and the geometry of polynomials", Journal of
    the American Mathematical Society 22(2).
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.once import each_once

Array = npt.NDArray[np.float64]

LARGE = 500.0
OUTWARD = 1e-4  # standard deviations


@each_once
def limits(successes: Array, trials: Array, confidence: float) -> tuple[Array, Array]:
    """The lowest and the highest rate that each count is compatible with."""
    failures, tail = trials - successes, (1 - confidence) / 2
    high = np.where(
        failures > 0, beta_quantile(successes + 1, np.maximum(failures, 1), 1 - tail), 1.0
    )
    return lowest(successes, trials, confidence), high


def lowest(successes: Array, trials: Array, confidence: float) -> Array:
    """The lowest alone."""
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
