"""Mean of vectors: PrivUnit is private and reaches the limit; noise has the stated errors."""

import math
from typing import Any

import numpy as np
import pytest

from deniable.shared.privacy.codewords import best_cap
from deniable.simulations import simulate
from deniable.simulations.population.vectors import cap_probability, cosines
from deniable.simulations.studies.composition import gaussian_mu
from tests.plausible import assert_implausible, assert_plausible


@pytest.mark.parametrize(("dimension", "least"), [
    (10, 59.73), (20, 122.98), (100, 629.35), (1000, 6326.4),
])  # fmt: skip
def test_the_least_error_agrees_with_independent_figures(dimension: int, least: float) -> None:
    """Compare n times the mean squared length at ε 1, within 6.5 errors. Twin: another ε."""
    asked: dict[str, Any] = {"people": 1e4, "dimension": dimension, "repetitions": 4000}
    row, other = (simulate("vector", epsilon=e, **asked).rows[0] for e in (1, 1.1))
    exact, measured, error = (float(row[key] or 0) for key in ("exact", "measured", "error"))
    assert 1e4 * exact == pytest.approx(least, rel=1e-4)
    assert abs(measured - exact) <= 6.5 * error
    assert 0 < float(row["limit"] or 0) < exact
    assert float(other["exact"] or 0) < 0.9 * exact


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_density_of_a_report_has_two_values(epsilon: float) -> None:
    """The two densities of a report have the ratio e^ε and integrate to one.

    Twin: for another part of the sphere they do not.
    """
    for dimension in (2, 10, 1000):
        _, both = best_cap(dimension, epsilon)
        part = both / 2
        inside = cap_probability(epsilon, part)
        assert inside / part == pytest.approx(math.exp(epsilon) * (1 - inside) / (1 - part))
        other = part * 1.1
        assert inside / other != pytest.approx(math.exp(epsilon) * (1 - inside) / (1 - other))


def test_cosines_have_their_distribution() -> None:
    """In three dimensions, heights on a sphere are uniform, so caps are easy to check."""
    generator, n = np.random.default_rng(7), 40_000
    _, both = best_cap(3, 2.0)
    found = cosines(2.0, 3, n, generator)
    threshold = 1 - both  # part = (1 - threshold) / 2
    inside = int((found > threshold).sum())
    assert_plausible(inside, n, cap_probability(2.0, both / 2))
    assert_implausible(inside, n, cap_probability(1.7, both / 2))
    high, low = found[found > threshold], found[found <= threshold]
    assert_plausible(int((high > (1 + threshold) / 2).sum()), len(high), 0.5)
    assert_plausible(int((low > (threshold - 1) / 2).sum()), len(low), 0.5)


@pytest.mark.parametrize("epsilon", [0.5, 1.5, 3.0])
@pytest.mark.parametrize("dimension", [2, 3])
def test_no_report_has_a_longer_mean_than_a_cap(epsilon: float, dimension: int) -> None:
    """The cap attains m, which exceeds |E f x| / E f of random f with values 1 and e^ε.

    Points are spread over the sphere.
    """
    generator = np.random.default_rng(3)
    points = generator.normal(size=(400, dimension))
    points = np.concatenate([points, -points])
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    gain, e = best_cap(dimension, epsilon)[0], math.exp(epsilon)

    def reach(f: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        return float(np.linalg.norm(f @ points) / f.sum())

    along = points @ points[0]
    caps = [reach(np.where(along > x, e, 1.0)) for x in np.linspace(-1, 1, 81)]
    others = [reach(np.where(generator.random(800) < p, e, 1.0)) for p in np.linspace(0, 1, 40)]
    bands = [reach(np.where(np.abs(along) > x, e, 1.0)) for x in np.linspace(0, 1, 40)]
    assert max(caps) == pytest.approx(gain, rel=0.1)
    assert max(*others, *bands) < gain


def test_pure_noise_is_private_in_every_direction() -> None:
    """The log density -|v| / scale changes by at most ε for the largest move.

    The bound |a - b| / scale follows from the triangle inequality, and is attained behind both
    points. Twin: a longer move.
    """
    generator, epsilon, n = np.random.default_rng(5), 0.7, 50
    scale = 2 / (epsilon * n)
    for d in (1, 4):
        away = np.zeros(d)
        away[0] = 2 / n  # from one point of the sphere to the opposite one
        v = generator.normal(size=(2000, d)) * 3 * scale
        behind = np.concatenate([v, -5 * away[None]])
        lengths = np.linalg.norm(behind, axis=1), np.linalg.norm(behind - away, axis=1)
        assert np.abs(lengths[0] - lengths[1]).max() / scale <= epsilon * (1 + 1e-12)
        longer = np.linalg.norm(behind - 1.1 * away, axis=1)
        assert np.abs(lengths[0] - longer).max() / scale > epsilon


def test_lengths_of_noise_follow_their_densities() -> None:
    """Sum E|v|^2 over the density r^(d-1) e^(-r / scale) of the length. Twin: 1.3 times it."""
    options: dict[str, Any] = {
        "epsilon": 1,
        "people": 100,
        "dimension": [2, 10],
        "repetitions": 40_000,
    }
    scale, r = 2 / 100, np.linspace(1e-6, 3, 400_001)
    rows: Any = simulate("vector", **options).rows  # Any: JSON values
    for row in rows:
        if row["model"] != "central":
            continue
        d, error = row["dimension"], 6.5 * row["error"]
        if row["estimator"] == "pure":
            density = r ** (d - 1) * np.exp(-r / scale)
            direct = float((r**2 * density).sum() / density.sum())
            assert row["exact"] == pytest.approx(direct, rel=1e-3)
        assert abs(row["measured"] - row["exact"]) <= error
        assert abs(row["measured"] - 1.3 * row["exact"]) > error


def test_prices_tend_to_their_formulas_for_small_epsilon() -> None:
    """The price tends to n π / (2 (d + 1)) against pure noise in many dimensions.

    Against Gaussian noise, it tends to n π μ^2 / (2 ε^2).
    """
    found = simulate(
        "vector", epsilon="0.01", people=1000, dimension=1000, repetitions=9, delta=0.1
    )
    rows = {row["estimator"]: float(row["exact"] or 0) for row in found.rows}
    assert rows["privunit"] / rows["pure"] == pytest.approx(1000 * math.pi / 2002, rel=0.02)
    mu = gaussian_mu(0.01, 0.1)
    wanted = 1000 * math.pi / 2 * mu**2 / 0.01**2
    assert rows["privunit"] / rows["gaussian"] == pytest.approx(wanted, rel=0.02)
