"""Lines with several attributes: privacy of the trusted mechanisms, and errors by formula."""

import itertools
import math

import numpy as np
import pytest

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.central.slopes import LineCrowd
from deniable.simulations.studies.regression import line_slope as line

CORNERS = (-1.0, 0.0, 1.0)


def people(p: int) -> list[tuple[np.ndarray, float]]:
    """Return people at the corners and middles of the range, with x and y."""
    return [(np.array(x), y) for *x, y in itertools.product(CORNERS, repeat=p + 1)]


def sums(x: np.ndarray, y: float) -> np.ndarray:
    """Return the products of one person that noisy sums add up."""
    return np.concatenate([np.outer(x, x)[np.triu_indices(len(x))], x * y])


@pytest.mark.parametrize("p", [2, 3])
def test_one_person_moves_sums_gradients_and_losses_by_at_most_their_sensitivity(p: int) -> None:
    """The sums move by nearly Δ if one person is replaced by another from a coarse grid."""
    products = np.array([sums(x, y) for x, y in people(p)])
    moved = np.abs(products[:, None] - products).sum(axis=2).max()
    assert line.products(p) == products.shape[1]
    assert 0.9 * line.largest_move(p) < moved <= line.largest_move(p)
    for theta in itertools.product((-1 / p, 0, 1 / p), repeat=p):
        left = [(x, y - x @ np.array(theta)) for x, y in people(p)]
        gradients = np.array([2 * x * off for x, off in left])
        change = np.abs(gradients[:, None] - gradients).max()
        assert change <= LineCrowd.gradient_sensitivity
        assert np.ptp([off**2 for _, off in left]) <= LineCrowd.loss_sensitivity


@pytest.mark.parametrize("p", [2, 5])
def test_the_curvature_of_one_person_costs_at_most_half_of_epsilon(p: int) -> None:
    """Twin: with the ridge of one slope, the determinant may change by more."""
    epsilon, x = 1.5, np.ones(p)

    def change(ridge: float) -> float:
        with_one = np.linalg.slogdet(2 * np.outer(x, x) + ridge * np.eye(p))[1]
        return float(with_one - p * math.log(ridge))

    assert change(p * LineCrowd.ridge(epsilon)) == pytest.approx(epsilon / 2)
    assert change(LineCrowd.ridge(epsilon)) > epsilon / 2


@pytest.mark.parametrize("p", [2, 5])
def test_noise_falls_exponentially_with_its_largest_coordinate(p: int) -> None:
    """The largest coordinate has a gamma distribution of shape p; the direction is uniform.

    Twin: with the shape p + 1 the mean is too large.
    """
    n, scale = 40_000, 3.0
    noise = line._in_cube(scale, (n, p), np.random.default_rng(5))
    largest = np.abs(noise).max(axis=1)
    for power, wanted in ((1, p * scale), (2, p * (p + 1) * scale**2)):
        drawn = largest**power
        slack = 6.5 * drawn.std() / math.sqrt(n)
        assert abs(drawn.mean() - wanted) <= slack
        assert abs(drawn.mean() - wanted * (p + 1) / p) > slack
    assert np.abs((noise / largest[:, None]).mean(axis=0)).max() < 6.5 / math.sqrt(n)


@pytest.mark.parametrize("p", [2, 6])
def test_errors_agree_with_the_formulas(p: int) -> None:
    """Use many people, and allow 6.5 Monte-Carlo errors, 2 % more, and 12 % more for a search.

    Twin: the formulas for one attribute more are wrong.
    """
    n, times, epsilon = 10**8, 600, Epsilon("2")
    drawn = line.several_drawn(RandomizedResponse(epsilon), n, p, times, np.random.default_rng(3))
    known, other = (line.several_formulas(2.0, count) for count in (p, p + 1))
    for one, errors in drawn.items():
        squares = (errors**2).sum(axis=1)
        slack = 6.5 * squares.std() / math.sqrt(times)
        more = 0.12 if one is line.GRADIENT else 0.02
        expected = known[one].error(n)
        assert abs(squares.mean() - expected) <= slack + more * expected, one
        assert abs(squares.mean() - other[one].error(n)) > slack, one


def test_one_attribute_has_the_formulas_of_one_slope() -> None:
    """The stated formulas: n times the error without privacy, and n^2 times that of the noise."""
    found, epsilon, c2 = line.formulas(1.5), 1.5, 1 / math.tanh(0.75) ** 2
    once = {line.NONE: 1 / 4, line.EXPONENTIAL: 1 / 4, line.KNG: 1 / 4, line.OBJECTIVE: 1 / 4,
            line.NOISY_SUMS: 1 / 4, line.GRADIENT: 36 * c2, line.SIGNS: c2}  # fmt: skip
    for estimator, value in once.items():
        assert found[estimator].once == pytest.approx(value, rel=1e-12)
    assert found[line.EXPONENTIAL].noise == pytest.approx(12 / epsilon, rel=1e-12)
    assert found[line.KNG].small == pytest.approx(1152 / epsilon**2, rel=1e-12)
    assert found[line.OBJECTIVE] == found[line.KNG]
    assert found[line.NOISY_SUMS].small == pytest.approx(81 / 8 * 1.25 * 9 / epsilon**2, rel=1e-12)
    a, b = c2 - 1 / 36, (c2 / 4 - 1 / 36) / 4
    assert found[line.HALVES].once == pytest.approx(18 * (a + b), rel=1e-12)
    assert found[line.SUMS].once == pytest.approx(9 * (a**0.5 + b**0.5) ** 2, rel=1e-12)
