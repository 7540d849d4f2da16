"""Baselines of the literature: published figures, and simulations of the stated variances."""

import math
import re

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from deniable.shared.privacy.codewords import best_cap
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import KRandomizedResponse, OneBitMean, Unary
from deniable.simulations.population import baselines
from tests.documents import section_of

AT = (0.5, 1.0, 2.0, 4.0)
WANG_2017 = {  # USENIX Security, numeric variances for one person
    ("DE", 2): (3.92, 0.92, 0.18, 0.02),
    ("DE", 32): (75.20, 11.08, 0.92, 0.03),
    ("DE", 1024): (2432.40, 347.07, 25.22, 0.37),
    ("SUE", 1024): (15.92, 3.92, 0.92, 0.18),
    ("OUE", 1024): (15.67, 3.68, 0.72, 0.08),
}


def test_the_example_of_the_document_prints_published_figures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = section_of("simulations/RECIPES.md", "Short examples and baselines")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(code, {})  # a snippet of this repository
    printed = dict(line.split(" ", 1) for line in capsys.readouterr().out.splitlines())
    for name in ("DE", "SUE", "OUE"):
        assert printed[name] == str(list(WANG_2017[name, 1024]))


@pytest.mark.parametrize(("name", "options"), WANG_2017)
def test_variances_of_wang_2017_are_reproduced(name: str, options: int) -> None:
    """Twin: another ε gives other figures."""
    found = [round(baselines.choice_variance(name, e, options), 2) for e in AT]
    assert found == list(WANG_2017[name, options])
    assert found != [round(baselines.choice_variance(name, 1.05 * e, options), 2) for e in AT]


def test_crossings_of_wang_2019_are_reproduced() -> None:
    """HM leaves Duchi's bit at ε .61, and PM beats it from 1.29 on, in the worst case."""

    def worst(name: str, epsilon: float) -> float:
        return max(baselines.number_variance(name, epsilon, x) for x in (0.0, 1.0))

    crossing = brentq(lambda e: worst("PM", e) - worst("Duchi", e), 0.5, 3)
    assert crossing == pytest.approx(1.289784, abs=2e-6)
    low = baselines.HYBRID_FROM - 1e-4
    assert worst("HM", low) == worst("Duchi", low)
    for epsilon, published in ((1.0, 4.2890), (2.0, 1.0423), (4.0, 0.21898), (8.0, 0.024901)):
        assert worst("HM", epsilon) == pytest.approx(published, rel=2e-4)


@pytest.mark.parametrize(("epsilon", "published"), [
    (1, 0.37754067), (2, 0.26894142), (3, 0.18242552), (4, 0.11920292), (5, 0.07585818),
    (6, 0.04742587), (7, 0.02931223),
])  # fmt: skip
def test_worst_errors_of_zheng_2025_are_reproduced(epsilon: float, published: float) -> None:
    """The absolute error of OPM is largest at the ends. Twin: the squared error is different."""
    errors = [baselines.optimal_error(epsilon, x) for x in np.linspace(0, 1, 101)]
    assert max(errors) == pytest.approx(published, rel=2e-7)
    assert baselines.optimal_error(epsilon, 0.0, 2) != pytest.approx(published, rel=0.1)


@pytest.mark.parametrize("x", [0.0, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "4"])
def test_one_bit_means_are_one_mechanism_as_the_2025_systematization_found(
    epsilon: str, x: float
) -> None:
    """Formulas of Ding 2017, with x in [0, 1], and of Nguyên 2016, with t = 2 x - 1.

    PETS 2025 has the equivalence; a device has the same table. Twin: another ε.
    """
    e, t, table = math.exp(float(epsilon)), 2 * x - 1, OneBitMean(Epsilon(epsilon))
    ding = 1 / (e + 1) + x * (e - 1) / (e + 1)
    harmony = (t * (e - 1) + e + 1) / (2 * e + 2)
    low, high = (row[-1] / ONE for row in (table.rows[0], table.rows[-1]))
    assert ding == pytest.approx(harmony, rel=1e-12)
    assert ding == pytest.approx(low + x * (high - low), rel=1e-12)
    c = (e + 1) / (e - 1)
    variance = baselines.number_variance("Duchi", float(epsilon), t)
    assert variance == pytest.approx(4 * c**2 * ding * (1 - ding), rel=1e-9)
    assert variance != pytest.approx(baselines.number_variance("Duchi", 1.1 * float(epsilon), t))


def test_constants_of_asi_2022_are_the_limit_in_many_dimensions() -> None:
    """PrivUnitG with the best of the published grid of p; ours is the least of all p.

    Its squared error per dimension is σ^2. That of PrivUnit tends to it from below.
    """
    p = np.arange(0.01, 1.0, 0.01)
    for epsilon in (1.0, 4.0, 8.0):
        gamma = norm.isf(1 / (1 + math.exp(epsilon) * (1 - p) / p))
        gain = norm.pdf(gamma) * (p / norm.sf(gamma) - (1 - p) / norm.cdf(gamma))
        best = float((1 / gain**2).min())
        exact = 1 / gains_of(np.linspace(0, 8, 80_001), epsilon).max() ** 2
        assert exact <= best <= exact * (1 + 2e-4)
        errors = [1 / best_cap(d, epsilon)[0] ** 2 / d for d in (100, 1000)]
        assert abs(errors[1] - exact) < abs(errors[0] - exact) < 0.05 * exact


def gains_of(thresholds: np.ndarray, epsilon: float) -> np.ndarray:
    more = math.expm1(epsilon)
    return np.asarray(more * norm.pdf(thresholds) / (1 + more * norm.sf(thresholds)))


@pytest.mark.parametrize("x", [0.0, 0.2, 0.5, 1.0])
def test_reports_of_the_optimal_mechanism_have_the_stated_errors(x: float) -> None:
    """Allow 6.5 Monte-Carlo errors. Twin: the errors at another ε. No density ratio exceeds e^ε."""
    n, epsilon, draw = 200_000, 1.5, np.random.default_rng(7)
    found = np.abs(baselines.optimal_reports(epsilon, np.full(n, x), draw) - x)
    for power in (1, 2):
        slack = 6.5 * (found**power).std() / math.sqrt(n)
        mean = (found**power).mean()
        assert abs(mean - baselines.optimal_error(epsilon, x, power)) <= slack
        assert abs(mean - baselines.optimal_error(epsilon + 0.3, x, power)) > slack
    low, high = baselines.optimal_interval(epsilon, x)
    reports = baselines.optimal_reports(epsilon, np.full(n, x), draw)
    inside = ((low <= reports) & (reports < high)).mean() / (high - low)
    outside = ((reports < low) | (reports >= high)).mean() / (1 - high + low)
    assert inside / outside == pytest.approx(math.exp(epsilon), rel=0.05)


@pytest.mark.parametrize("name", baselines.NUMBERS)
@pytest.mark.parametrize("x", [-1.0, 0.3, 1.0])
def test_reports_of_numbers_are_unbiased_and_have_the_stated_variance(name: str, x: float) -> None:
    """Allow 6.5 Monte-Carlo errors. Twin: the variance at another ε."""
    n, draw = 200_000, np.random.default_rng(5)
    found = baselines.number_reports(name, 1.5, np.full(n, x), draw)
    squares = (found - x) ** 2
    assert abs(found.mean() - x) <= 6.5 * found.std() / math.sqrt(n)
    error = 6.5 * squares.std() / math.sqrt(n)
    assert abs(squares.mean() - baselines.number_variance(name, 1.5, x)) <= error
    assert abs(squares.mean() - baselines.number_variance(name, 1.7, x)) > error


@pytest.mark.parametrize("name", baselines.CHOICES)
def test_estimated_shares_have_the_stated_variance(name: str) -> None:
    held, times = [600, 300, 100, 0], 20_000
    found = baselines.estimated_shares(name, 1.0, held, times, np.random.default_rng(6))
    for share, column in zip((0.6, 0.3, 0.1, 0.0), found.T, strict=True):
        exact = baselines.choice_variance(name, 1.0, 4, share) / 1000
        squares = (column - share) ** 2
        assert abs(squares.mean() - exact) <= 6.5 * squares.std() / math.sqrt(times)
        assert abs(squares.mean() - 1.2 * exact) > 6.5 * squares.std() / math.sqrt(times)


def test_mechanisms_of_devices_agree_with_their_baselines() -> None:
    for design, name in (
        (Unary(Epsilon("1"), 8), "OUE"),
        (KRandomizedResponse(Epsilon("1"), 8), "DE"),
    ):
        for share in (0.0, 0.4):
            baseline = baselines.choice_variance(name, 1.0, 8, share)
            assert design.variance(1, share) == pytest.approx(baseline, rel=1e-9)
