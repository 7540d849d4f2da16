"""y = θ x + e: a line, of which x is uniform on [-1, 1], e uniform on ±1/2, θ = 1/2.

n times the mean squared error, to first order, with C = 1 / tanh(ε / 2) and S = 1 / (2 E x^2):

    none       least squares                     Var e / E x^2
    central    exponential mechanism             8 S / ε                        and that of none
    central    KNG, or objective perturbation    512 S^2 / (ε^2 n)              and that of none
    central    noisy sums of x^2 and x y         (81/8) (1 + θ^2) / (ε E x^2)^2 / n    and none's
    local      sums, by two groups               (A / w + B / (1 - w)) / (E x^2)^2
    local      gradients, one bit each           16 C^2 S^2
    local      signs, one bit each               C^2, as E|x| f(0) = 1/2

A = C^2 - (θ E x^2)^2 and B = θ^2 (C^2 / 4 - (E x^2 - 1/2)^2) are the variances of one bit for x y
and for x^2; a share w of the people tells the first, the best being √A / (√A + √B). Gradients
2 x (y - θ x), rounded at random to ±4, are asked at the θ where the search stands, and so are the
signs of x (y - θ x): those find the θ at which residuals have the median 0, which is the slope
here, as errors are as often above as below. All are bits, randomized, and private as those of
devices are.

Exactly: given Σx^2 = s every trusted estimate and that without privacy is off by a known mean
square, as long as the ends -1 and 1 are out of reach (`FAR`), and s has a known distribution
(`squares.py`). Two groups' sums have one as well, with the ends. Of a search none is known.

Limit, local: for many people (E|x e| / E x^2)^2 C^2 / n, with all of them by `limits.py`. Under
densities changed by 1 + v sign(x e) the slope of least squares moves by v E|x e| / E x^2, and all
that a report says of v is a randomized response: information t^2 / (1 - t^2 v^2), t = 1 / C. None
is known for a curator: errors that are uniform have sharp ends, by which a line can be found better
than by least squares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.central import linear_regression as central
from deniable.simulations.engine.comparison import Series, look
from deniable.simulations.studies.regression import squares
from deniable.simulations.studies.regression.asking import Array, Bit, Ratio, search
from deniable.simulations.studies.regression.known import Known, known
from deniable.simulations.studies.regression.limits import van_trees

NONE = Series("none", "least-squares", "no privacy", look(2))
EXPONENTIAL = Series("central", "exponential", "trusted, exponential mechanism", look(1))
KNG = Series("central", "kng", "trusted, KNG", look(3))
OBJECTIVE = Series("central", "objective", "trusted, objective perturbation", look(4))
NOISY_SUMS = Series("central", "noisy-sums", "trusted, noisy sums", look(5))
SUMS = Series("local", "sums", "devices, sums", look(0))
HALVES = Series("local", "sums-halves", "devices, sums by halves", look(3))
GRADIENT = Series("local", "gradient", "devices, gradients", look(4))
SIGNS = Series("local", "signs", "devices, signs", look(5))
TRUSTED = (NONE, EXPONENTIAL, OBJECTIVE, KNG, NOISY_SUMS)
DEVICES = (GRADIENT, HALVES, SUMS, SIGNS)
SERIES = (*TRUSTED, *DEVICES)

SLOPE, XX, ERROR = 0.5, 1 / 3, 1 / 12  # θ, E x^2, Var e
S = 1 / (2 * XX)
X_E = 1 / 8  # E|x e|
STEEPEST = 4.0  # of a gradient
FAR = (8, 16)  # standard errors to the nearest end, of normal noise and of Laplace's


def formulas(epsilon: float) -> dict[Series, tuple[float, float | None, float | None]]:
    """n times the error; and what noise adds to it, over and above, n times and n^2 times."""
    c2 = 1 / math.tanh(epsilon / 2) ** 2
    a, b = parts(epsilon)
    best = (math.sqrt(a) + math.sqrt(b)) ** 2
    steep = 512 * S**2 / epsilon**2
    return {
        NONE: (ERROR / XX, None, None),
        EXPONENTIAL: (ERROR / XX, 8 * S / epsilon, None),
        KNG: (ERROR / XX, None, steep),
        OBJECTIVE: (ERROR / XX, None, steep),
        NOISY_SUMS: (ERROR / XX, None, 81 / 8 * (1 + SLOPE**2) / (epsilon * XX) ** 2),
        SUMS: (best / XX**2, None, None),
        HALVES: (2 * (a + b) / XX**2, None, None),
        GRADIENT: (16 * c2 * S**2, None, None),
        SIGNS: (c2, None, None),
    }


def parts(epsilon: float) -> tuple[float, float]:
    """A and B."""
    c2 = 1 / math.tanh(epsilon / 2) ** 2
    return c2 - (SLOPE * XX) ** 2, SLOPE**2 * (c2 / 4 - (XX - 0.5) ** 2)


def known_errors(response: RandomizedResponse, people: int) -> dict[Series, Known]:
    epsilon, errors = float(response.epsilon), exact(response, people)
    least = van_trees(people, lambda h: _information(epsilon, h), X_E / XX)
    return {
        each: known(
            people,
            formula,
            errors.get(each),
            least if each.model == "local" else None,
            noisy=each.model == "central",
        )
        for each, formula in formulas(epsilon).items()
    }


def exact(response: RandomizedResponse, people: int) -> dict[Series, float]:
    """The mean squared errors that are known exactly."""
    epsilon = float(response.epsilon)
    s, weights = squares.law(people)
    found = {each: float(weights @ error) for each, error in _given(s, epsilon).items()}
    reach = {each: found[each] - found[NONE] for each in found}
    near = 1 - abs(SLOPE)
    return {
        **{
            each: error
            for each, error in found.items()
            if each is NONE
            or FAR[each is not EXPONENTIAL] * math.sqrt(reach[each])
            + FAR[0] * math.sqrt(found[NONE]) <= near
        },
        **{each: ratio.mean_square(SLOPE) for each, ratio in ratios(response, people).items()},
    }  # fmt: skip


def _given(s: Array, epsilon: float) -> Mapping[Series, Array]:
    """Mean squared errors given Σx^2, without ends."""
    least = ERROR / s
    ridge, push = (
        central.regularizer(epsilon),
        central.GRADIENT_SENSITIVITY / (central.NOISE_SHARE * epsilon),
    )
    noise, scale = squares.laplace(), central.SUMS_SENSITIVITY / epsilon
    below = np.array([s + scale * value for value in noise[0]])
    sums = ERROR * s + scale**2 * (2 + SLOPE**2 * noise[0][:, None] ** 2)
    return {
        NONE: least,
        EXPONENTIAL: least + central.LOSS_SENSITIVITY / (epsilon * s),
        KNG: least + 2 * (central.GRADIENT_SENSITIVITY / (epsilon * s)) ** 2,
        OBJECTIVE: ((SLOPE * ridge) ** 2 + 4 * ERROR * s + 2 * push**2) / (2 * s + ridge) ** 2,
        NOISY_SUMS: noise[1] @ (sums / below**2),
    }


def ratios(response: RandomizedResponse, people: int) -> dict[Series, Ratio]:
    a, b = (math.sqrt(part) for part in parts(float(response.epsilon)))
    bits = ((1 + SLOPE * XX) / 2, XX)
    firsts = {SUMS: round(people * a / (a + b)), HALVES: round(people / 2)}
    return {each: Ratio(response, (first, people - first), bits) for each, first in firsts.items()}


def limit(epsilon: float) -> float:
    """n times what no local protocol is below, for many people."""
    return (X_E / XX / math.tanh(epsilon / 2)) ** 2


def _information(epsilon: float, tilt: float) -> float:
    """About v, of one report, up to so large a v."""
    told = math.tanh(epsilon / 2) ** 2
    return told / (1 - told * tilt**2)


def drawn(
    response: RandomizedResponse, n: int, times: int, generator: np.random.Generator
) -> dict[Series, Array]:
    """Estimates; sums over people are drawn from normal distributions."""
    epsilon = float(response.epsilon)
    xx = generator.normal(n * XX, math.sqrt(n * squares.VARIANCE), times)
    people = central.Sums(xx, SLOPE * xx + generator.normal(0, np.sqrt(xx * ERROR)))
    return {
        NONE: people.slope,
        EXPONENTIAL: central.exponential(people, epsilon, generator),
        KNG: central.kng(people, epsilon, generator),
        OBJECTIVE: central.objective(people, epsilon, generator),
        NOISY_SUMS: central.noisy_sums(people, epsilon, generator),
        **{each: ratio.drawn(times, generator) for each, ratio in ratios(response, n).items()},
        GRADIENT: search(response, n, times, BY_GRADIENT, generator),
        SIGNS: search(response, n, times, BY_SIGN, generator),
    }


def by_gradient(theta: Array) -> Array:
    """Of the gradient, rounded at random to one of its ends."""
    return np.asarray((1 + 2 * XX * (SLOPE - theta) / STEEPEST) / 2)


def by_sign(theta: Array) -> Array:
    """That x (y - θ x) is above 0: 1/2 + E min(|d x|, 1/2) to the side of d = θ* - θ."""
    d = SLOPE - theta
    far = 0.5 - 1 / (8 * np.maximum(np.abs(d), 0.5))
    return np.asarray(0.5 + np.sign(d) * np.where(np.abs(d) <= 0.5, np.abs(d) / 2, far))


def _half(theta: Array) -> Array:
    return np.full_like(theta, 0.5)


BY_GRADIENT = Bit(by_gradient, _half, 2 * STEEPEST * S)
BY_SIGN = Bit(by_sign, _half, 2.0)
