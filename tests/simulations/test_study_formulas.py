"""Formulas of the studies, each compared with an independent value and with a twin.

A twin is the formula with a plausible fault; it must fail the same check.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations import simulate
from deniable.simulations.central.noise import DiscreteLaplace
from deniable.simulations.engine import limits
from deniable.simulations.studies.bit import drawn_price
from deniable.simulations.studies.bit_reports import noise
from deniable.simulations.studies.median.quantile_search import (
    NONE,
    SEARCH,
    TRUSTED,
    Target,
    choose,
    least_of_a_centre,
)
from deniable.simulations.studies.regression import logistic_slope as logistic
from deniable.simulations.studies.regression.slope_questions import van_trees


@pytest.mark.parametrize("h", [0.01, 0.3])
def test_van_trees_uses_the_information_of_its_prior(h: float) -> None:
    """Integrate p'^2 / p numerically for cos^2(π v / 2h) / h."""

    def integrand(v: float) -> float:
        slope = -(math.pi / (2 * h * h)) * math.sin(math.pi * v / h)
        return slope**2 / (math.cos(math.pi * v / (2 * h)) ** 2 / h)

    prior = quad(integrand, -h, h, epsrel=1e-10)[0]
    limit = van_trees(50, lambda _away: 3.0, 0.7, [h])
    assert limit == pytest.approx(0.7**2 / (50 * 3.0 + prior), rel=1e-9)
    assert limit != pytest.approx(0.7**2 / (50 * 3.0 + (math.pi / (2 * h)) ** 2), rel=1e-3)


def information_of(density: Callable[[float], float], slope: Callable[[float], float]) -> float:
    """Return the Fisher information of a density on [0, 1], not normalized, by quadrature."""
    whole = quad(density, 0, 1)[0]
    return float(quad(lambda u: slope(u) ** 2 / density(u), 0, 1, limit=200)[0] / whole)


@pytest.mark.parametrize("h", [0.05, 0.4])
@pytest.mark.parametrize("d", [1, 2, 7])
def test_the_limit_of_vectors_uses_the_information_of_its_prior(
    d: int, h: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prior is (1 - |v|^2 / h^2)^2 on a ball. Twin: a prior of twice the width."""
    monkeypatch.setattr(limits, "WIDTHS", [h])
    prior = information_of(
        lambda u: (1 - u * u) ** 2 * u ** (d - 1), lambda u: 4 * u * (1 - u * u) * u ** (d - 1)
    )
    for scaled, agrees in ((prior / h**2, True), (prior / (2 * h) ** 2, False)):
        found = limits.unit_vector_limits(50, limits.ball_prior(d), lambda _: 0.5, 1.0)[1]
        wanted = 1 / (50 * 0.25 / (1 - h) + scaled)
        assert (found == pytest.approx(wanted, rel=1e-6)) == agrees


def test_the_limit_of_a_quantile_for_few_people_is_van_trees_bound() -> None:
    """Compute it again for the median, with quadrature and a prior cos^2 on |t| < h.

    Twin: the prior's information without its square.
    """
    target, people, spread = Target("quantile", 0.5), 30, noise(1.0)
    prior = information_of(
        lambda v: math.cos(math.pi * v / 2) ** 2, lambda v: math.pi * math.sin(math.pi * v) / 2
    )
    bounds, wrong = [], []
    for h in np.geomspace(0.05, 0.495, 40):

        def weighted(v: float, h: float = h) -> float:
            share, t = 0.5, h * v
            at = share + (t / (1 + t / share) if t > 0 else t / (1 - t / share)) / (2 * share)
            return float(target.quantile(at)) * math.pi * math.sin(math.pi * v)

        slope = quad(weighted, -1, 1)[0] / (2 * h)
        each = people / (spread + 0.25 - h * h)
        bounds.append(slope**2 / (each + prior / h**2))
        wrong.append(slope**2 / (each + math.sqrt(prior) / h))
    found = target._least_of_a_tilt(people, spread)
    assert found == pytest.approx(max(bounds), rel=2e-3)
    assert max(wrong) > 1.05 * found


def test_without_people_van_trees_is_below_the_variance_of_its_prior() -> None:
    """The estimate 0 has the variance of the prior, h^2 (1/3 - 2/π^2).

    Twin: π / 2h exceeds it.
    """
    h = 0.2
    ignoring = h**2 * (1 / 3 - 2 / math.pi**2)
    assert van_trees(0, lambda _away: 1.0, 1.0, [h]) <= ignoring
    assert (2 * h / math.pi) ** 2 > ignoring


def test_the_logistic_limit_is_the_best_of_all_priors() -> None:
    """Check the central limit for 1,000 people by a fine search over h and a separate formula."""
    people = 1_000
    x = np.arange(1, 16, 2) / 16

    def information(slope: float) -> float:
        sigma = 1 / (1 + np.exp(-slope * x))
        return float((x**2 * sigma * (1 - sigma)).mean())

    bounds = {
        factor: max(
            1 / (people * information(max(0.0, 0.5 - h)) + (math.pi / (factor * h)) ** 2)
            for h in np.geomspace(0.05, 0.5, 400)
        )
        for factor in (1, 2)
    }
    limit = logistic.limits(1.0, people)["central"]
    assert limit == pytest.approx(bounds[1], rel=2e-3)
    assert limit != pytest.approx(bounds[2], rel=2e-2)


@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_the_difference_attack_guesses_at_the_exact_rate(epsilon: str) -> None:
    """Sum over all noise of the counts with and without a person, at ε / 2 each. Twin: at ε."""
    rows = simulate("attack", epsilon=epsilon, off=0, people=10, repetitions=2).rows
    (row,) = (r for r in rows if (r["attack"], r["model"]) == ("difference", "central"))
    right = {}
    for share in (0.5, 1.0):
        noise = DiscreteLaplace(Epsilon(str(share * float(epsilon))))
        right[share] = math.fsum(
            max(noise.probability(z), noise.probability(z - 1)) / 2 for z in range(-400, 401)
        )
    assert row["exact"] == pytest.approx(right[0.5], rel=1e-9)
    assert row["exact"] != pytest.approx(right[1.0], rel=1e-2)


def test_the_price_of_a_small_share_includes_its_sampling_error() -> None:
    """Compute (V + s (1 - s)) / (s (1 - s)) at s = 0.1 from a report's variance. Twin: s = 1/2."""
    e, share = math.exp(1.0), 0.1
    keep, lie = e / (1 + e), 1 / (1 + e)
    yes = share * keep + (1 - share) * lie
    report = yes * (1 - yes) / (keep - lie) ** 2
    assert drawn_price(1.0, share) == pytest.approx(report / (share * (1 - share)), rel=1e-12)
    assert drawn_price(1.0, share) != pytest.approx(drawn_price(1.0, 0.5), rel=0.1)


@pytest.mark.long
def test_the_trusted_median_adds_the_variance_of_its_choice() -> None:
    """Compare 8 / (ε n f)^2 with the exponential mechanism, simulated on a fine, even grid.

    The simulation is within 6.5 Monte-Carlo errors. Twin: half the variance, as if weights used all
    of ε.
    """
    epsilon, people, n = 0.1, 10_000, 40_000
    spacing = 1 / (people * Target("quantile", 0.5).density)
    points = np.tile(np.arange(-1_000, 1_001) * spacing, (n, 1))
    chosen = choose(points, people // 2 - 1_000, people, epsilon, np.random.default_rng(20261118))
    squares = chosen**2
    error = squares.std() / math.sqrt(n)
    limits = (
        Target("quantile", 0.5).variance(series, Epsilon("0.1"), people)
        for series in (TRUSTED, NONE)
    )
    added = next(limits) - next(limits)
    assert abs(squares.mean() - added) <= 6.5 * error + 0.01 * added
    assert abs(squares.mean() - added / 2) > 6.5 * error + 0.01 * added


def test_the_limit_of_a_centre_depends_on_range_and_people() -> None:
    """Expect the variance of a cos^2 prior on 20 deviations for few people, and 1 / n for many."""
    prior = 10**2 * (1 / 3 - 2 / math.pi**2)
    assert least_of_a_centre(0, None) == pytest.approx(10**2 / math.pi**2, rel=1e-12)
    assert least_of_a_centre(0, None) <= prior
    assert (20 / math.pi) ** 2 > prior  # twin: the whole width in place of its half
    assert least_of_a_centre(10**9, None) == pytest.approx(1e-9, rel=1e-6)


@pytest.mark.parametrize("share", [0.5, 0.02])
def test_the_limit_of_a_quantile_holds_for_few_people(share: float) -> None:
    """The least Bayes risk of 20 people who each report on which side of the quantile they are, by
    randomized response, if the share below is tilted by a cosine prior; each report about the
    tilted distribution is a function of that one. Twin: the variance for many people exceeds it."""
    target, people, epsilon = Target("quantile", share), 20, "1"
    h = 0.9 * min(share, 1 - share)
    moves = np.linspace(-h, h, 4001)[1:-1]
    prior = np.cos(np.pi * moves / (2 * h)) ** 2
    below = share - moves
    level = np.where(
        moves > 0,
        1 - (1 - share) ** 2 / (1 - below),  # rank in F of the tilted distribution's quantile
        share**2 / below,
    )
    places = target.quantile(level)
    keep = math.e / (1 + math.e)
    chances = binom.pmf(
        np.arange(people + 1)[:, None], people, (1 - keep) + (2 * keep - 1) * below
    ) * (prior / prior.sum())  # fmt: skip
    guess = chances @ places / chances.sum(axis=1)
    risk = float((chances * (places - guess[:, None]) ** 2).sum())
    slope = quad(
        lambda t: np.interp(t, moves, places) * math.pi * math.sin(math.pi * t / h) / (2 * h * h),
        -h, h, limit=500,
    )[0]  # fmt: skip
    spread = 1 / (4 * math.sinh(0.5) ** 2)
    least = min(spread + (share - t) * (1 - share + t) for t in (-h, h))
    direct = slope**2 / (people / least + (math.pi / h) ** 2)
    limit = target.limit("local", Epsilon(epsilon), people)
    assert direct <= risk * (1 + 1e-9)
    assert direct * (1 - 1e-3) <= limit
    assert target.limit("none", Epsilon(epsilon), people) < limit
    assert target.limit("local", Epsilon(epsilon), 10**10) == pytest.approx(
        target.variance(SEARCH, Epsilon(epsilon), 10**10), rel=0.05
    )
    assert target.variance(SEARCH, Epsilon(epsilon), people) > risk
