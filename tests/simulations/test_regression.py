"""Slope of a line: trusted estimates are private; errors of devices match the formulas."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations import simulate
from deniable.simulations.central.slopes import NOISE_SHARE, SUMS_SENSITIVITY, LineCrowd
from deniable.simulations.studies.regression import line_slope as line
from deniable.simulations.studies.regression.line_slope import (
    ERROR,
    SLOPE,
    XX,
    by_gradient,
    by_sign,
    formulas,
    limit,
)
from deniable.simulations.studies.regression.slope_questions import MIN_DIVISOR, Ratio

GRID = np.linspace(-1, 1, 41)
THETA = np.linspace(-1, 1, 201)
CORNERS = [(x, y) for x in (-1.0, -0.5, 0.0, 0.5, 1.0) for y in (-1.0, 0.0, 1.0)]
OTHERS = [(4, 1.0, 0.5), (4, 3.9, -3.0), (1, 0.1, 0.05)]  # people, Σx^2, Σxy


def sums(xx: float, xy: float, x: float, y: float) -> LineCrowd:
    """Return the sums with one more person."""
    return LineCrowd(np.array([xx + x * x]), np.array([xy + x * y]))


@pytest.mark.parametrize(
    ("log", "least"), [(LineCrowd.exponential_log, 0.5), (LineCrowd.kng_log, 0.32)]
)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_densities_change_by_a_factor_of_at_most_e_to_epsilon(
    log: object, least: float, epsilon: float
) -> None:
    """Replace one person, with densities on [-1, 1] normalized by a sum.

    Twin: the change exceeds the fraction `least` of ε. KNG never needs all of it, because at one θ
    gradients differ by at most 9/2.
    """
    assert callable(log)
    worst = 0.0
    for (_, xx, xy), one, other in itertools.product(OTHERS, CORNERS, CORNERS):
        densities = []
        for x, y in (one, other):
            found = np.exp(log(sums(xx, xy, x, y), THETA, epsilon))
            densities.append(found / found.sum())
        worst = max(worst, float(np.abs(np.log(densities[0] / densities[1])).max()))
    assert least * epsilon < worst <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_objective_perturbation_is_private(epsilon: float) -> None:
    """Compare the density of the released slope inside the range, and its tails at the ends.

    Inside, it is the density of the noise times the derivative of the noise by the slope. Twin: the
    change exceeds two fifths of ε.
    """
    scale, worst = LineCrowd.gradient_sensitivity / (NOISE_SHARE * epsilon), 0.0
    for (_, xx, xy), one, other in itertools.product(OTHERS, CORNERS, CORNERS):
        logs, tails = [], []
        for x, y in (one, other):
            found = sums(xx, xy, x, y)
            noise = -found.gradient(THETA) - found.ridge(epsilon) * THETA
            steep = 2 * float(found.xx[0]) + found.ridge(epsilon)
            logs.append(-np.abs(noise) / scale + math.log(steep))
            tails.append(
                [laplace_tail(sign * noise[end] / scale) for sign, end in ((1, 0), (-1, -1))]
            )
        worst = max(worst, float(np.abs(logs[0] - logs[1]).max()))
        worst = max(worst, float(np.abs(np.log(tails[0]) - np.log(tails[1])).max()))
    assert 0.4 * epsilon < worst <= epsilon * (1 + 1e-12)


def laplace_tail(x: float) -> float:
    return 0.5 * math.exp(-x) if x > 0 else 1 - 0.5 * math.exp(x)


def test_one_person_changes_sums_squares_and_gradients_by_at_most_their_sensitivity() -> None:
    x, y, u, v = (g.ravel() for g in np.meshgrid(*[GRID[::2]] * 4))
    moved = np.abs(x**2 - u**2) + np.abs(x * y - u * v)
    assert moved.max() == pytest.approx(SUMS_SENSITIVITY, rel=1e-12)  # replaces (1, 1) by (1/2, -1)
    x, y, theta = (g.ravel() for g in np.meshgrid(GRID, GRID, GRID))
    assert ((y - theta * x) ** 2).max() == LineCrowd.loss_sensitivity
    assert 2 * np.abs(2 * x * (y - theta * x)).max() == LineCrowd.gradient_sensitivity


def test_draws_follow_the_densities() -> None:
    """Compare means and mean squares on [-1, 1] with integrals; both ends truncate the densities.

    Twin: draws for another ε differ.
    """
    people, n = LineCrowd(np.full(40_000, 3.0), np.full(40_000, 2.4)), 40_000
    for log, draw in (
        (LineCrowd.exponential_log, LineCrowd.exponential),
        (LineCrowd.kng_log, LineCrowd.kng),
    ):
        drawn, other = (draw(people, e, np.random.default_rng(4)) for e in (2.0, 4.0))
        one = LineCrowd(np.array([3.0]), np.array([2.4]))

        def moment(power: int, log: object = log, one: LineCrowd = one) -> float:
            assert callable(log)
            return float(
                quad(lambda t: t**power * math.exp(log(one, np.array([t]), 2.0)[0]), -1, 1,
                     points=[0.8])[0]
            )  # fmt: skip

        for power in (1, 2):
            wanted = moment(power) / moment(0)
            assert abs((drawn**power).mean() - wanted) <= 6.5 * (drawn**power).std() / math.sqrt(n)
            assert abs((other**power).mean() - wanted) > 6.5 * (other**power).std() / math.sqrt(n)


def test_bits_have_the_probabilities_of_people() -> None:
    """Compare with sums over x and errors e, for the rounded gradient and the sign."""
    x, e = np.meshgrid(np.linspace(-1, 1, 2_001)[1::2], np.linspace(-0.5, 0.5, 2_001)[1::2])
    for theta in (-0.9, 0.1, 0.45, 0.9):
        residual = x * (SLOPE * x + e - theta * x)
        assert by_sign(np.array(theta)) == pytest.approx((residual > 0).mean(), abs=2e-3)
        assert by_gradient(np.array(theta)) == pytest.approx(
            ((1 + residual / 2) / 2).mean(), abs=1e-5
        )
    assert (x * e).var() == pytest.approx(XX * ERROR, rel=1e-3)


def one_slope(**options: Any) -> list[dict[str, Any]]:  # Any: options, and values of rows
    """Return the rows of a line and of a logistic regression with one slope."""
    rows = simulate("regression", **options, on="local").rows
    return [dict(row) for row in rows if row["attributes"] == 1]


def test_errors_agree_with_independent_figures() -> None:
    """Compare n times the error at ε 1, and the error that noise adds at a million people."""
    found = {series.name: parts[0] for series, parts in formulas(1.0).items()}
    assert found["least-squares"] == pytest.approx(0.25, rel=1e-12)
    assert found["gradient"] == pytest.approx(168.6, abs=0.05)
    assert found["sums"] == pytest.approx(65.2, abs=0.05)
    assert found["sums-halves"] == pytest.approx(88.9, abs=0.05)
    rows = one_slope(epsilon=1, people=1e6, repetitions=9)
    noise = {row["estimator"]: row["noise"] for row in rows}
    assert noise["kng"] == pytest.approx(1.15e-9, rel=5e-3)
    assert noise["objective"] == pytest.approx(1.15e-9, rel=5e-3)
    assert noise["exponential"] == pytest.approx(1.2e-5, rel=1e-3)
    exact = {row["estimator"]: float(row["exact"] or 0) for row in rows}
    assert exact["sums"] == pytest.approx(6.5e-5, rel=5e-3)
    assert exact["least-squares"] == pytest.approx(2.5e-7, rel=1e-3)
    assert exact["sums"] / exact["kng"] == pytest.approx(260, abs=1)


@pytest.fixture(scope="module")
def many() -> list[dict[str, Any]]:  # Any: values of rows
    return one_slope(epsilon=1, people=1e7, repetitions=2500, seed=9)


def test_simulated_errors_agree_with_the_formulas(many: list[dict[str, Any]]) -> None:
    """Use many people, and allow 6.5 Monte-Carlo errors.

    First-order formulas get 2 % more, the search 12 %. Twin: the formula for equal halves of ε
    differs from that of the best split.
    """
    for row in many:
        known, measured, error = row["exact"] or row["first_order"], row["measured"], row["error"]
        searched = row["estimator"].removeprefix("logistic-") in ("gradient", "signs")
        slack = 0.12 if searched else 0.02 if row["exact"] is None else 0
        assert abs(measured - known) <= 6.5 * error + slack * known, row
    named = {row["estimator"]: row for row in many}
    halves, best = named["sums-halves"], named["sums"]["exact"]
    assert halves["measured"] - best > 6.5 * halves["error"]


def test_exact_errors_are_stated_and_others_are_null(many: list[dict[str, Any]]) -> None:
    """With many people, exact errors are close to the first order.

    A search has no exact error. Neither has a trusted estimate of a few people, whose truncation
    has no formula.
    """
    exact = {row["estimator"]: row["exact"] for row in many}
    logistic = {"logistic-sums", "logistic-agreement"}
    line = {"least-squares", "exponential", "kng", "objective", "noisy-sums", "sums", "sums-halves"}
    assert {name for name, value in exact.items() if value is not None} == line | logistic
    for row in many:
        if row["exact"] is not None:
            assert row["exact"] == pytest.approx(row["first_order"], rel=2e-3)
    few = one_slope(epsilon=0.5, people=1000, repetitions=9)
    known = {row["estimator"] for row in few if row["exact"] is not None}
    assert known == {"least-squares", "noisy-sums", "sums", "sums-halves"} | logistic


# Exact errors


def test_sums_of_squares_have_the_moments_of_people() -> None:
    """Compute E 1 / s and E 1 / s^2 by integrals of the Laplace transform.

    Twin: 1 / E s differs.
    """

    def inverse(power: int, n: int) -> float:
        def integrand(t: float) -> float:
            root = math.sqrt(t)
            return t ** (power - 1) * (math.sqrt(math.pi) * math.erf(root) / (2 * root)) ** n

        return float(quad(integrand, 0, 200 / n, epsabs=0, epsrel=1e-12, limit=300)[0])

    for n in (1_000, 20_000):
        s, weights = line.sum_of_squares(n)
        assert weights.sum() == pytest.approx(1, rel=1e-12)
        assert weights @ s == pytest.approx(n / 3, rel=1e-12)
        for power in (1, 2):
            assert weights @ s**-power == pytest.approx(inverse(power, n), rel=1e-9)
        assert weights @ (1 / s) > (1 + 0.5 / n) * 3 / n


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_the_error_of_a_ratio_equals_the_sum_over_all_counts(factor: float) -> None:
    """Enumerate counts of which both ends truncate many. Twin: without truncation it differs."""
    response = RandomizedResponse(Epsilon("1.5"))
    ratio = Ratio(response, (14, 9), (0.7, 0.4), factor)
    keep, lie = response.keep / ONE, response.lie / ONE
    wanted = [0.0, 0.0]
    for one, other in itertools.product(range(15), range(10)):
        rates = (lie + (keep - lie) * bit for bit in ratio.bits)
        chance = binom.pmf(one, 14, next(rates)) * binom.pmf(other, 9, next(rates))
        x, y = 2 * (one / 14 - lie) / (keep - lie) - 1, (other / 9 - lie) / (keep - lie)
        estimate = factor * x / max(y, MIN_DIVISOR)
        wanted[0] += chance * (min(1, max(-1, estimate)) - 0.3) ** 2
        wanted[1] += chance * (estimate - 0.3) ** 2
    assert ratio.mean_square(0.3) == pytest.approx(wanted[0], rel=1e-10)
    assert wanted[1] > 1.5 * wanted[0]


def test_truncation_is_negligible_for_errors_that_are_stated_as_exact() -> None:
    """Integrate KNG's noise given Σx^2, for the fewest people that have an exact error."""
    response = RandomizedResponse(Epsilon("0.5"))
    n = next(n for n in range(1_000, 20_000, 250) if line.KNG in line.exact(response, n))
    scale = LineCrowd.gradient_sensitivity / (0.5 * n * XX)
    deviation = math.sqrt(ERROR / (n * XX))
    cut = quad(
        lambda off: math.exp(-(off**2) / 2 / deviation**2) / deviation / math.sqrt(2 * math.pi)
        * scale * (0.5 + scale) * math.exp(-(0.5 - off) / scale) * 2,
        -6 * deviation, 6 * deviation,
    )[0]  # fmt: skip
    assert cut < 1e-4 * line.exact(response, n)[line.KNG]
    assert n > 2_000


def test_the_limit_is_that_of_one_bit() -> None:
    """Sum E|x e| / E x^2 over people: 0.659 at ε 1."""
    x, e = np.meshgrid(np.linspace(-1, 1, 2_001), np.linspace(-0.5, 0.5, 2_001))
    slope = np.abs(x * e).mean() / XX
    assert limit(1.0) == pytest.approx((slope / math.tanh(0.5)) ** 2, rel=5e-3)
    assert limit(1.0) == pytest.approx(0.6585, abs=5e-4)
