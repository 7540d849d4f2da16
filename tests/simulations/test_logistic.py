"""Logistic slope: trusted estimates are private; bits and errors of devices match the formulas."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize
from scipy.integrate import quad
from scipy.special import expit

from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.central.slopes import NOISE_SHARE, SUMS_SENSITIVITY, LogisticCrowd
from deniable.simulations.studies.regression import logistic_slope as logistic

THETA = np.linspace(-1, 1, 201)[None, :]
Z = np.linspace(-1, 1, 9)
OTHERS = [np.zeros(9), np.array([0, 0, 3, 0, 0, 1, 0, 5, 0]), np.array([6, 0, 0, 0, 0, 0, 0, 0, 1])]


def crowd(others: np.ndarray, place: int) -> LogisticCrowd:
    """Return the crowd with one more person at this position."""
    return LogisticCrowd(Z, (others + np.eye(9)[place])[None, :].astype(np.int64))


@pytest.mark.parametrize(
    ("log", "least"), [(LogisticCrowd.exponential_log, 0.5), (LogisticCrowd.kng_log, 0.28)]
)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_densities_change_by_a_factor_of_at_most_e_to_epsilon(
    log: object, least: float, epsilon: float
) -> None:
    """Replace one person, with densities on [-1, 1] normalized by a sum.

    Twin: the change exceeds the fraction `least` of ε.
    """
    assert callable(log)
    worst = 0.0
    for rest, one, other in itertools.product(OTHERS, range(9), range(9)):
        logs = []
        for position in (one, other):
            found = np.exp(log(crowd(rest, position), THETA, epsilon))
            logs.append(np.log(found / found.sum()))
        worst = max(worst, float(np.abs(logs[0] - logs[1]).max()))
    assert least * epsilon < worst <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_objective_perturbation_is_private(epsilon: float) -> None:
    """Compare the density of the released slope inside the range, and its tails at the ends.

    Inside, it is the density of the noise times the derivative of the noise by the slope. Twin: the
    change exceeds half of ε.
    """
    scale, worst = LogisticCrowd.gradient_sensitivity / (NOISE_SHARE * epsilon), 0.0
    for rest, one, other in itertools.product(OTHERS, range(9), range(9)):
        logs, tails = [], []
        for position in (one, other):
            found = crowd(rest, position)
            noise = (-found.gradient(THETA) - found.ridge(epsilon) * THETA)[0]
            steep = found.curvature(THETA)[0] + found.ridge(epsilon)
            logs.append(-np.abs(noise) / scale + np.log(steep))
            tails.append([laplace_tail(sign * noise[end] / scale) for sign, end in ENDS])
        worst = max(worst, float(np.abs(logs[0] - logs[1]).max()))
        worst = max(worst, float(np.abs(np.log(tails[0]) - np.log(tails[1])).max()))
    assert 0.5 * epsilon < worst <= epsilon * (1 + 1e-12)


ENDS = ((1, 0), (-1, -1))


def laplace_tail(x: float) -> float:
    return 0.5 * math.exp(-x) if x > 0 else 1 - 0.5 * math.exp(x)


def test_one_person_changes_losses_gradients_and_sums_by_at_most_their_sensitivity() -> None:
    z, theta = np.linspace(-1, 1, 401)[:, None], np.linspace(-1, 1, 81)
    loss = np.logaddexp(0, -z * theta)
    gradient = -z * expit(-z * theta)
    assert np.ptp(loss, axis=0).max() == pytest.approx(LogisticCrowd.loss_sensitivity, rel=1e-12)
    assert np.ptp(gradient, axis=0).max() == pytest.approx(
        LogisticCrowd.gradient_sensitivity, rel=1e-12
    )
    assert (z**2 * expit(z * theta) * expit(-z * theta)).max() <= LogisticCrowd.max_curvature
    moved = np.abs(z - z.T) + np.abs(z**2 - z.T**2)
    assert moved.max() == pytest.approx(SUMS_SENSITIVITY, rel=1e-12)


def test_gradient_and_curvature_are_derivatives_of_the_loss() -> None:
    """Compare with finite differences for all people of a crowd. Twin: another crowd's differ."""
    people, other = crowd(OTHERS[1], 4), crowd(OTHERS[2], 4)
    at, step = np.array([[-0.7, 0.0, 0.4]]), 1e-4
    slope = (people.loss(at + step) - people.loss(at - step)) / (2 * step)
    bend = (people.gradient(at + step) - people.gradient(at - step)) / (2 * step)
    assert people.gradient(at) == pytest.approx(slope, rel=1e-6)
    assert people.curvature(at) == pytest.approx(bend, rel=1e-6)
    assert other.gradient(at) != pytest.approx(slope, rel=1e-2)


def test_the_gradient_of_the_objective_is_zero_at_its_minimum() -> None:
    """Check a minimum inside the range, with push and ridge, and one at an end of the range."""
    people = LogisticCrowd(Z, np.array([[1, 2, 3, 4, 5, 6, 7, 8, 9], [9, 8, 7, 6, 5, 4, 3, 2, 1]]))
    push = np.array([0.5, -1.5])
    found = people.minimum(push, 3.0)
    assert (np.abs(found) < 1).all()
    assert people.gradient(found) + push + 3 * found == pytest.approx([0, 0], abs=1e-12)
    assert people.minimum(np.array([-1e3, 1e3])).tolist() == [1, -1]


def test_draws_follow_the_densities() -> None:
    """Compare means and mean squares on [-1, 1] with integrals; the ends truncate the densities.

    Twin: draws for another ε differ.
    """
    n, held = 8_000, np.array([3, 0, 1, 0, 2, 0, 6, 0, 12])
    people, one = LogisticCrowd(Z, np.tile(held, (n, 1))), LogisticCrowd(Z, held[None, :])
    middle = float(one.minimum()[0])
    for log, draw, epsilon in (
        (LogisticCrowd.exponential_log, LogisticCrowd.exponential, 4.0),
        (LogisticCrowd.kng_log, LogisticCrowd.kng, 2.0),
    ):
        drawn, other = (draw(people, e, np.random.default_rng(4)) for e in (epsilon, epsilon / 4))
        top = float(log(one, np.array([[middle]]), epsilon)[0, 0])

        def moment(power: int, log=log, epsilon=epsilon, top=top) -> float:  # type: ignore[no-untyped-def]  # of the loop
            def density(t: float) -> float:
                return float(np.exp(log(one, np.array([[t]]), epsilon)[0, 0] - top) * t**power)

            return float(quad(density, -1, 1, points=[middle])[0])

        for power in (1, 2):
            wanted = moment(power) / moment(0)
            assert abs((drawn**power).mean() - wanted) <= 6.5 * (drawn**power).std() / math.sqrt(n)
            assert abs((other**power).mean() - wanted) > 6.5 * (other**power).std() / math.sqrt(n)


def test_bits_have_the_probabilities_of_people() -> None:
    """Compare with sums over x and y: the rounded gradient, the sign, and agreement.

    No bit's number leaves its range.
    """
    x = np.concatenate([-logistic.X, logistic.X])[:, None]
    y = np.array([-1.0, 1.0])
    chance = expit(y * logistic.SLOPE * x) / len(x)
    assert chance.sum() == pytest.approx(1, rel=1e-12)
    z = x * y
    for theta in (-0.9, 0.1, 0.5, 0.9):
        gradient = -z * expit(-z * theta)
        bit = expit(theta) - gradient
        assert logistic.by_gradient(np.array([theta]))[0] == pytest.approx((chance * bit).sum())
        residual = (z > 0) - expit(theta * np.abs(z))
        width, level = (float(f(theta)) for f in (logistic.sign_width, logistic.sign_level))
        sign = residual / width + level
        assert logistic.by_sign(np.array([theta]))[0] == pytest.approx((chance * sign).sum())
        assert min(bit.min(), sign.min()) >= 0
        assert max(bit.max(), sign.max()) <= 1
    for theta in (-0.99991, 0.12345, 0.777777):
        for bit, rate in (
            (logistic.BY_GRADIENT, logistic.by_gradient), (logistic.BY_SIGN, logistic.by_sign),
        ):  # fmt: skip
            assert bit.rate(np.array([theta])) == pytest.approx(rate(np.array([theta])), abs=1e-8)
    assert logistic.agreement(logistic.SLOPE) == pytest.approx((chance * (z > 0)).sum())
    assert pytest.approx((chance * z).sum()) == logistic.Z
    assert logistic.slope_of(np.array([logistic.agreement(0.3)]))[0] == pytest.approx(0.3)


def test_the_error_of_agreement_equals_the_sum_over_all_counts() -> None:
    response, n = RandomizedResponse(Epsilon("2")), 60
    keep, lie = response.keep / ONE, response.lie / ONE
    rate = lie + (keep - lie) * logistic.agreement(logistic.SLOPE)
    wanted = 0.0
    for count in range(n + 1):
        share = (count / n - lie) / (keep - lie)
        ends = [logistic.agreement(end) for end in (-1, 1)]
        inside = min(ends[1], max(ends[0], share))
        theta = optimize.brentq(lambda t, i=inside: logistic.agreement(t) - i, -1.1, 1.1)
        chance = math.comb(n, count) * rate**count * (1 - rate) ** (n - count)
        wanted += chance * (theta - logistic.SLOPE) ** 2
    assert logistic.exact(response, n)[logistic.AGREEMENT] == pytest.approx(wanted, rel=1e-6)


def test_the_polynomial_estimate_has_the_stated_bias() -> None:
    """Minimize ln 2 - θ z / 2 + θ^2 z^2 / 8 over the population."""
    found = optimize.minimize_scalar(
        lambda t: logistic.SHARES @ (-t * logistic.PLACES / 2 + t * t * logistic.PLACES**2 / 8)
    )
    assert found.x - logistic.SLOPE == pytest.approx(logistic.BIAS, abs=1e-7)
    assert -0.01 < logistic.BIAS < -0.003


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_no_report_reveals_more_about_a_logistic_slope_than_the_limit(epsilon: float) -> None:
    """Maximize the information by linear programming over all channels of z.

    A column is e^ε on a stretch of scores and 1 elsewhere, or the reverse. Twin: the best channel
    has at least half of the limit's information, and at least as much as agreement.
    """
    order = np.argsort(logistic.PLACES * expit(-logistic.SLOPE * logistic.PLACES))
    mass = logistic.SHARES[order]
    score = (logistic.PLACES * expit(-logistic.SLOPE * logistic.PLACES))[order]
    parts = [range(a, b) for a in range(16) for b in range(a + 1, 17)]
    columns = np.ones((2 * len(parts), 16))
    for index, part in enumerate(parts):
        columns[2 * index, list(part)] = math.exp(epsilon)
        columns[2 * index + 1] = math.exp(epsilon) + 1 - columns[2 * index]
    told = (columns @ (mass * score)) ** 2 / (columns @ mass)
    found = optimize.linprog(-told, A_eq=columns.T, b_eq=np.ones(16))
    assert found.fun is not None
    assert 1 / -found.fun >= logistic.limit(epsilon) * (1 - 1e-9)
    assert 1 / -found.fun <= logistic.limit(epsilon) * 2
    agreement = logistic.formulas(epsilon)[logistic.AGREEMENT][0]
    assert 1 / -found.fun <= agreement * (1 + 1e-9)


def test_a_curator_without_noise_has_the_full_information() -> None:
    score = logistic.PLACES * expit(-logistic.SLOPE * logistic.PLACES)
    assert logistic.SHARES @ score == pytest.approx(0, abs=1e-15)
    assert logistic.SHARES @ score**2 == pytest.approx(logistic.INFORMATION, rel=1e-12)
