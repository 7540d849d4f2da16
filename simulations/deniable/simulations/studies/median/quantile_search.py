"""Quantiles of a distribution: limits, three searches on devices, and one on a trusted server.

`pages/median.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from scipy.special import ndtr, ndtri

from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse, Unary
from deniable.simulations.engine.estimators import Estimator
from deniable.simulations.engine.figures import LOOKS
from deniable.simulations.studies import bit_reports as bits

SEARCH = Estimator("local", "search", "devices, sequential search", LOOKS[0])
TWO_GROUPS = Estimator("local", "two-groups", "devices, two groups", LOOKS[5])
ONCE = Estimator("local", "once", "devices, one round", LOOKS[3])
TRUSTED = Estimator("central", "exponential", "trusted server", LOOKS[1])
NONE = Estimator("none", "median", "no privacy", LOOKS[2])
CLIP = Estimator("local", "clip", "devices, clipped mean", LOOKS[4])
ESTIMATORS = (SEARCH, TRUSTED, NONE)
DEVICES = (SEARCH, TWO_GROUPS, ONCE, CLIP)
SHAPE = 5.0  # F(x) = 1 - (1 - x^2)^5 on [0, 1]: unimodal, with a closed form
CENTRE, SIGMA = 0.4, 0.05  # a normal distribution; the range is 20 deviations wide
CLIPPED = 3.0  # deviations
SHARP = 1.04  # up to this ε, the search for the centre is known to be optimal [1]
GROUPS = 500  # up to four times as many for a quantile in a tail
FIRST_GROUP, ASIDE = 0.1, 2.0  # a share of the people; a distance in deviations
LEAST_LOG_WEIGHT = 40.0
Ask = Callable[[int, bits.Array], bits.Array]  # (people, thresholds) -> how many report "above"


@dataclass(frozen=True)
class Target:
    """The `share` quantile of the distribution F, or the centre of the normal distribution."""

    question: str  # quantile or location
    share: float

    @property
    def is_centre(self) -> bool:
        return self.question == "location"

    def below(self, x: bits.Array | float) -> bits.Array:
        if self.is_centre:
            return np.asarray(ndtr((np.asarray(x) - CENTRE) / SIGMA))
        above = 1 - np.square(x)
        return np.asarray(1 - above * np.square(np.square(above)))  # a power is slower

    def quantile(self, share: bits.Array | float) -> bits.Array:
        if self.is_centre:
            return np.asarray(np.clip(CENTRE + SIGMA * ndtri(np.asarray(share)), 0, 1))
        return np.asarray(np.sqrt(1 - (1 - np.asarray(share)) ** (1 / SHAPE)))

    @property
    def truth(self) -> float:
        return float(self.quantile(self.share))

    @property
    def density(self) -> float:
        if self.is_centre:
            return 1 / (SIGMA * math.sqrt(2 * math.pi))
        return float(2 * SHAPE * self.truth * (1 - self.truth**2) ** (SHAPE - 1))

    def variance(self, one: Estimator, epsilon: Epsilon, people: int) -> float:
        """Return the variance of an estimator for many people."""
        if one is CLIP:
            return float((CLIPPED * SIGMA / math.tanh(float(epsilon) / 2)) ** 2 / people)
        if self.is_centre and one is NONE:
            return SIGMA**2 / people
        spread = self.share * (1 - self.share)
        if one.model == "local":
            spread += bits.noise(float(epsilon))
        more = 8 / (float(epsilon) * people * self.density) ** 2 if one is TRUSTED else 0.0
        return float(spread / (people * self.density**2) + more)

    def limit(self, model: str, epsilon: Epsilon, people: int) -> float:
        """Return the least error of a model, in the largest case near this distribution."""
        private = float(epsilon) if model == "local" else None
        if self.is_centre:
            return SIGMA**2 * least_of_a_centre(people, private)
        many = self.variance(SEARCH if private else NONE, epsilon, people)
        return min(many, self._least_of_a_tilt(people, bits.noise(private) if private else 0.0))

    def _least_of_a_tilt(self, people: int, spread: float) -> float:
        """Return van Trees' bound if `share` - t of the people are below the quantile, |t| < h.

        One person gives the information 1 / (spread + x (1 - x)) about t, x being the share below.
        """
        a, v = self.share, np.linspace(-1, 1, 401)
        h = np.geomspace(1e-6, 0.99 * min(a, 1 - a), 60)[:, None]
        t = h * v
        above, below = np.maximum(t, 0), np.maximum(-t, 0)
        moved = self.quantile(a + above * (1 - a) / (1 - a + above) - below * a / (a + below))
        slope = np.trapezoid(moved * np.pi * np.sin(np.pi * v), v, axis=1) / (2 * h[:, 0])
        least = (spread + (a - t) * (1 - a + t)).min(axis=1)
        bounds = slope**2 / (people / least + (np.pi / h[:, 0]) ** 2)
        return float(bounds.max())


CENTRE_TARGET = Target("location", 0.5)


def least_of_a_centre(people: int, epsilon: float | None) -> float:
    """Return the least error of a centre anywhere in the range, by van Trees' inequality, σ = 1."""
    once = 1.0 if epsilon is None else centre_limit(epsilon)
    return 1 / (people / once + (2 * math.pi * SIGMA) ** 2)


def centre_limit(epsilon: float) -> float:
    """Return n times the least variance of any local protocol for a normal centre with σ = 1.

    (π / 2) C^2 up to ε = 1.04 [1]. Beyond, 1 / m^2 with m = max over z of
    (e^ε - 1) φ(z) / (1 + (e^ε - 1) Φ(-z)), the largest |E f s| / E f of an f with values in
    [1, e^ε] and the score s. It is never below 1, the value for the people's own mean.
    """
    if epsilon <= SHARP:
        return math.pi / 2 / math.tanh(epsilon / 2) ** 2
    z, more = np.linspace(0, 8, 8_001), math.expm1(epsilon)
    gains = more * np.exp(-z * z / 2) / math.sqrt(2 * math.pi) / (1 + more * ndtr(-z))
    return max(1.0, float(1 / gains.max() ** 2))


# Devices


class Crowd:
    """Devices with numbers from the target's distribution; each call asks another group of them.

    With many people, the error of a search is nearly the sum of all counts' deviations from their
    means, divided by the slope. The mean square of that sum is the sum of the counts' variances,
    although each threshold depends on earlier counts.
    """

    def __init__(self, mechanism: RandomizedResponse, generator: Generator, target: Target) -> None:
        self.mechanism, self.generator, self.target = mechanism, generator, target
        self.people, self.deviation, self.variance = 0, np.zeros(1), np.zeros(1)

    def __call__(self, size: int, threshold: bits.Array) -> bits.Array:
        """Draw how many of `size` people report that they are above the threshold."""
        rate = bits.reported_rate(self.mechanism, 1 - self.target.below(threshold))
        above, mean = self.generator.binomial(size, rate), size * rate
        self.people += size
        self.deviation = self.deviation + (above - mean)
        self.variance = self.variance + mean * (1 - rate)
        return np.asarray(above, dtype=float)

    @property
    def control(self) -> bits.Array:
        """A number with mean zero for each repetition, near its squared error minus the mean."""
        slope = (self.mechanism.keep - self.mechanism.lie) / ONE * self.target.density
        return np.asarray((self.deviation**2 - self.variance) / (self.people * slope) ** 2)


def search(
    mechanism: RandomizedResponse, people: int, times: int, ask: Ask, share: float = 0.5
) -> bits.Array:
    """Search sequentially; all people in a group are asked about the same threshold."""

    def off(size: int, threshold: bits.Array) -> bits.Array:
        return np.asarray(mechanism.unbiased_share(ask(size, threshold) / size) - (1 - share))

    variance = mechanism.variance(1, 0.5) + share * (1 - share)
    middle, groups = np.full(times, 0.5), min(people, groups_for(share))
    return bits.averaged_walk(people, groups, middle, off, 0.5, (0, 1), variance)


def groups_for(share: float) -> int:
    return round(GROUPS / max(0.25, 2 * math.sqrt(share * (1 - share))))


def clipped_mean(
    mechanism: RandomizedResponse, people: int, times: int, generator: Generator
) -> bits.Array:
    """Return means of one-bit reports of numbers clipped around the centre, as if it were known."""
    yes = mechanism.unbiased_share(generator.binomial(people, 0.5, times) / people)
    return np.asarray(CENTRE + CLIPPED * SIGMA * (2 * yes - 1))


def one_round(
    unary: Unary, people: int, times: int, target: Target, generator: Generator
) -> bits.Array:
    depth = max(10, math.ceil(math.log2(people) / 2))  # the last step is smaller than the error
    sizes = np.diff(np.rint(np.linspace(0, people, depth + 1))).astype(np.int64)
    start, left = np.zeros(times), np.full(times, target.share)
    for level, size in enumerate(sizes.tolist(), 1):
        step = 0.5**level
        held = target.below(start + step) - target.below(start)
        mass = bits.estimated_rate(unary, size, held, times, generator)
        right = left > mass
        start, left = start + step * right, left - mass * right
    return start + 0.5**depth / 2


def two_groups(
    mechanism: RandomizedResponse,
    unary: Unary,
    people: int,
    times: int,
    target: Target,
    generator: Generator,
) -> bits.Array:
    first = max(10, round(people * FIRST_GROUP))
    near = one_round(unary, first, times, target, generator)
    aside, half = ASIDE * near.std() + 1e-9, (people - first) // 2
    lower, upper = near - aside, near + aside
    at_lower, at_upper = (
        1
        - bits.estimated_rate(
            mechanism, half, 1 - target.below(np.clip(at, 0, 1)), times, generator
        )
        for at in (lower, upper)
    )
    slope = np.maximum(at_upper - at_lower, 1e-3)
    line = lower + (target.share - at_lower) / slope * (upper - lower)
    return np.asarray(np.clip(line, lower - aside, upper + aside))


# Trusted server


def near_points(
    people: int, epsilon: float, times: int, generator: Generator, target: Target
) -> tuple[int, bits.Array]:
    """Return the order statistics around the quantile, and the rank of the first of them.

    Ranks 0 and people + 1 are the ends of the range. For uniform numbers, rank r is Beta(r, n - r +
    1). The next number covers as much of the rest above rank i as the least of n - i numbers.
    """
    reach, middle = math.ceil(2 * LEAST_LOG_WEIGHT / epsilon) + 1, math.floor(target.share * people)
    first, last = max(0, middle - reach), min(people + 1, middle + reach)
    start = generator.beta(first, people - first + 1, (times, 1)) if first else np.zeros((times, 1))
    steps = generator.exponential(size=(times, last - first)) / (
        people - np.arange(first, last) + (np.arange(first, last) == people)
    )
    above = np.cumsum(np.hstack([np.log1p(-start), -steps]), axis=1)
    uniform = -np.expm1(above)
    if last == people + 1:
        uniform[:, -1] = 1.0
    return first, target.quantile(uniform)


def choose(
    points: bits.Array,
    first: int,
    people: int,
    epsilon: float,
    generator: Generator,
    share: float = 0.5,
) -> bits.Array:
    """Choose by the exponential mechanism, with e^(-(ε/2) |rank - share n|) for each rank."""
    ranks = first + np.arange(points.shape[1] - 1)
    return drawn_between(points, -epsilon / 2 * np.abs(ranks - people * share), generator)


def own_quantile(points: bits.Array, first: int, people: int, share: float) -> bits.Array:
    """Return the people's own quantile: the midpoint between two people where the rank is whole."""
    rank = people * share
    low, high = math.ceil(rank) - first, math.floor(rank) + 1 - first
    return np.asarray((points[:, low] + points[:, high]) / 2)


def drawn_between(points: bits.Array, logs: bits.Array, generator: Generator) -> bits.Array:
    """Draw an interval for each row, with weights length · e^log, and a uniform point in it.

    The Gumbel trick draws the interval: the largest log weight plus Gumbel noise.
    """
    lengths = np.diff(points, axis=1)
    with np.errstate(divide="ignore"):
        keys = np.log(lengths) + logs + generator.gumbel(size=lengths.shape)
    chosen = np.argmax(keys, axis=1)[:, None]
    start, length = (np.take_along_axis(a, chosen, 1)[:, 0] for a in (points, lengths))
    return np.asarray(start + length * generator.random(len(points)))
