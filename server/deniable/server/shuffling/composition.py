"""Composition: the (ε, δ) of all that one person sends in several shuffled rounds.

A bound δ(ε) on one round is the profile of a pair of distributions (P, Q) that dominates every pair
of answers: δ(ε) = E_P[(1 - e^(ε - L))₊] with the privacy loss L = log P / Q. Between points of a
grid of ε, the profile is replaced by its chords in e^ε, which lie above it, since it is convex. The
pair of the chords has its losses on the grid [1]; the jumps of their slopes are its probabilities.
The losses of independent rounds add, so T rounds have the T-fold convolution.

Below 0, δ(-ε) = 1 - e^-ε + e^-ε δ(ε), as both orders of a pair have the same bound. The loss is
infinite with the probability δ of the last point.

[1] Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022, "Connect the dots: tighter discrete
    approximations of privacy loss distributions", PoPETs 2022(4).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deniable.server.shuffling.accountant import Array, survey_epsilon, survey_profile
from deniable.shared.survey.document import Survey

POINTS = 64  # of the profile above 0
OUTSIDE = 0.01  # relative to δ: probability of infinite losses in all rounds
ROUNDING = 1e-15  # of a convolution's terms, for each of them
STEPS = 60  # of the bisection


def rounds_epsilon(survey: Survey, people: int, delta: float) -> float:
    """Return an ε, rounded up, for which a person's reports of all rounds are (ε, δ)-private.

    Each report is shuffled among those of `people` honest people.
    """
    outside = OUTSIDE * delta / survey.draws
    end = survey_epsilon(survey, people, outside)
    profile = survey_profile(survey, people, outside)
    return min(composed_epsilon(profile, end, survey.draws, delta), survey.draws * end)


def composed_epsilon(
    profile: Callable[[float], float], end: float, rounds: int, delta: float
) -> float:
    """Return the ε of several rounds of which each has this profile, evaluated up to `end`."""
    step = end / POINTS
    losses, law, infinite = _losses(np.array([profile(step * n) for n in range(POINTS + 1)]), step)
    total = np.ones(1)
    for _ in range(rounds):
        total = np.convolve(total, law)
    places = rounds * losses[0] + step * np.arange(len(total))
    certain = 1 - (1 - infinite) ** rounds + ROUNDING * len(total)
    low, high = 0.0, float(places[-1])
    for _ in range(STEPS):
        middle = (low + high) / 2
        above = places > middle
        spent = certain + float(total[above] @ -np.expm1(middle - places[above]))
        low, high = (low, middle) if spent <= delta else (middle, high)
    return high


def _losses(above: Array, step: float) -> tuple[Array, Array, float]:
    """Return losses on the grid, their probabilities, and the probability of an infinite loss."""
    ratios = np.exp(step * np.arange(POINTS + 1))
    alphas = np.concatenate([[0.0], 1 / ratios[:0:-1], ratios])
    below = 1 - 1 / ratios[:0:-1] + above[:0:-1] / ratios[:0:-1]
    heights = _convex(alphas, np.concatenate([[1.0], below, above]))
    slopes = np.append(np.diff(heights) / np.diff(alphas), 0.0)
    law: Array = alphas[1:] * np.maximum(np.diff(slopes), 0)
    losses: Array = step * np.arange(-POINTS, POINTS + 1, dtype=np.float64)
    return losses, law, float(heights[-1])


def _convex(x: Array, y: Array) -> Array:
    """Return the largest convex function below the points: a convex profile is still below it."""
    hull: list[int] = []
    for n in range(len(x)):
        while len(hull) > 1:
            a, b = hull[-2:]
            if (y[b] - y[a]) * (x[n] - x[a]) < (y[n] - y[a]) * (x[b] - x[a]):
                break
            hull.pop()
        hull.append(n)
    return np.asarray(np.interp(x, x[hull], y[hull]))
