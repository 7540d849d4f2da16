"""Subsample and aggregate: private quantiles, noise for one block, and the errors."""

import math

import numpy as np
import pytest
from scipy import optimize

from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations import simulate
from deniable.simulations.central import sample_and_aggregate as central
from deniable.simulations.studies.median.quantile_search import (
    NONE,
    SEARCH,
    SHARP,
    SIGMA,
    Target,
    centre_limit,
)
from deniable.simulations.studies.subsample_aggregate import formulas
from tests.plausible import assert_implausible, assert_plausible


def log_density(values: list[float], share: float, epsilon: float, x: np.ndarray) -> np.ndarray:
    """Return the log density of the released quantile at each x.

    The sum over all gaps normalizes it.
    """
    ends, logs = central.gaps(np.array([values]), share, epsilon)
    whole = float((np.diff(ends[0]) * np.exp(logs)).sum())
    place = np.clip(np.searchsorted(ends[0], x, side="right") - 1, 0, len(logs) - 1)
    return np.asarray(logs[place] - math.log(whole))


@pytest.mark.parametrize("share", [0.25, 0.5])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_quantiles_of_blocks_are_private(share: float, epsilon: float) -> None:
    """Move one of several values anywhere, even out of the range.

    Twin: the change exceeds a third of ε, and two moved values change more than one does.
    """
    generator, x = np.random.default_rng(6), np.linspace(0, 1, 1_001)[1:-1]
    worst = [0.0, 0.0]
    for k in (1, 2, 5, 9):
        for _ in range(40):
            values = generator.uniform(0, 1, k).tolist()
            for moved in (-3.0, 0.0, 0.5, 1.0, 7.0):
                for many in (1, 2):
                    other = [*values[: max(0, k - many)], *[moved] * min(k, many)]
                    logs = (log_density(v, share, epsilon, x) for v in (values, other))
                    change = float(np.abs(next(logs) - next(logs)).max())
                    worst[many - 1] = max(worst[many - 1], change)
    assert epsilon / 3 < worst[0] <= epsilon * (1 + 1e-9)
    assert worst[1] > worst[0]


def test_draws_follow_the_density() -> None:
    """Compare the frequency of each gap with the density. Twin: another ε is rejected."""
    values, n = [0.1, 0.15, 0.6, 0.65, 0.9], 30_000
    drawn = central.private_quantile(np.tile(values, (n, 1)), 0.5, 2.0, np.random.default_rng(2))
    ends, logs = central.gaps(np.array([values]), 0.5, 2.0)
    weights = np.diff(ends[0]) * np.exp(logs)
    for index, probability in enumerate(weights / weights.sum()):
        inside = int(((drawn > ends[0][index]) & (drawn <= ends[0][index + 1])).sum())
        assert_plausible(inside, n, float(probability))
    middle = int(((drawn > 0.15) & (drawn <= 0.6)).sum())
    other = np.diff(ends[0]) * np.exp(logs / 2)
    assert_implausible(middle, n, float(other[2] / other.sum()))


def test_the_noise_of_a_winsorized_mean_covers_one_block() -> None:
    """One block moves the mean of values in this interval by width / k.

    Laplace noise for half of ε has the scale (width / k) / (ε / 2); the two quartiles get a quarter
    of ε each.
    """
    assert float(central.noise_scale(0.3, 50, 2.0)) == pytest.approx(0.3 / 50 / (2.0 / 2))
    values = np.tile(np.linspace(0.4, 0.6, 200), (20_000, 1))
    found = central.winsorized_mean(values, 8.0, np.random.default_rng(8))
    assert found.mean() == pytest.approx(0.5, abs=6.5 * found.std() / math.sqrt(20_000))
    wide = 2 * central.QUARTILE_DISTANCES * 0.1
    wanted = 2 * float(central.noise_scale(wide, 200, 8.0)) ** 2
    assert found.var() == pytest.approx(wanted, rel=0.15)


def test_a_winsorized_mean_spends_no_more_than_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add up two quartiles and one noise, whose scale is width / k divided by its part of ε."""
    spent: list[float] = []

    def quantile(values: np.ndarray, share: float, epsilon: float, _: object) -> np.ndarray:
        spent.append(epsilon)
        return np.full(len(values), share)

    def noise(width: np.ndarray, blocks: int, epsilon: float) -> np.ndarray:
        scale = original(width, blocks, epsilon)
        spent.append(float(width[0] / blocks / scale[0]))
        return scale

    original = central.noise_scale
    monkeypatch.setattr(central, "private_quantile", quantile)
    monkeypatch.setattr(central, "noise_scale", noise)
    central.winsorized_mean(np.full((3, 10), 0.5), 2.0, np.random.default_rng(1))
    assert len(spent) == 3
    assert sum(spent) == pytest.approx(2.0, rel=1e-12)


def test_prices_of_a_centre_agree_with_independent_figures() -> None:
    found = [formulas(e, 10**6) for e in (0.5, 1.0, 2.0, 4.0)]
    search = [next(v for s, v in results.items() if s.name == "search") for results in found]
    assert search == pytest.approx([26.2, 7.36, 2.71, 1.69], rel=2e-3)
    assert next(v for s, v in found[1].items() if s.name == "clip") == pytest.approx(42.1, abs=0.1)
    aggregated = [next(iter(list(formulas(1.0, n).items())[2:3]))[1] for n in (10**6, 10**12)]
    assert aggregated[0] > 1.5
    assert aggregated[1] == pytest.approx(1, abs=2e-3)


def test_errors_agree_with_the_formulas() -> None:
    """Use many people, and allow 6.5 Monte-Carlo errors; first-order formulas get 12 % more.

    Twin: the search is no cheaper than the mean of everybody.
    """
    rows = simulate("subsample", epsilon=2, people=1e7, repetitions=600, seed=5).rows
    exact = {row["estimator"] for row in rows if row["exact"] is not None}
    assert exact == {"mean", "known-range", "clip"}
    for row in rows:
        known, measured, error = (
            float(row[key] or 0) for key in ("first_order", "measured", "error")
        )
        slack = 0.12 if row["exact"] is None else 0
        assert abs(measured - known) <= 6.5 * error + slack * known, row
        if row["estimator"] == "search":
            assert measured - 1e-7 > 6.5 * error + 0.12e-7


@pytest.mark.parametrize("epsilon", [0.5, 1.2, 3.0])
def test_no_report_reveals_more_about_a_centre_than_the_limit(epsilon: float) -> None:
    """Maximize by linear programming over all channels of people in 14 parts of the line.

    A column f has the information (E f s)^2 / E f, which is largest for two-valued columns: here
    intervals from one end or from both. Twin: randomized response reaches it for small ε.
    """
    from scipy.stats import norm

    cuts = norm.ppf(np.linspace(0, 1, 15))
    mass = np.full(14, 1 / 14)
    score = np.diff(-norm.pdf(cuts)) / mass
    parts = [range(a, b) for a in range(14) for b in range(a + 1, 15)]
    columns = np.ones((2 * len(parts), 14))
    for index, part in enumerate(parts):
        columns[2 * index, list(part)] = math.exp(epsilon)
        columns[2 * index + 1] = math.exp(epsilon) + 1 - columns[2 * index]
    told = (columns @ (mass * score)) ** 2 / (columns @ mass)
    found = optimize.linprog(-told, A_eq=columns.T, b_eq=np.ones(14))
    assert found.fun is not None
    assert 1 / -found.fun >= centre_limit(epsilon) * (1 - 1e-9)
    if epsilon < SHARP:
        assert 1 / -found.fun == pytest.approx(centre_limit(epsilon), rel=1e-3)


@pytest.mark.parametrize("epsilon", ["0.5", "1", "1.2", "2", "4", "20"])
def test_both_studies_state_the_same_limit_of_a_centre(epsilon: str) -> None:
    """Both studies state it; it is at most the variance of the search, and at least the limit
    without privacy. Van Trees' inequality: the information of n people and of a cosine prior on a
    range of 20 deviations. Twin: the limit for many people is above an estimate without data."""
    centre, e = Target("location", 0.5), float(epsilon)
    least = centre.limit("local", Epsilon(epsilon), 10**6)
    known = 1 / (1e6 / centre_limit(e) + (math.pi / 10) ** 2)
    assert least == pytest.approx(SIGMA**2 * known, rel=1e-12)
    assert (
        centre.limit("local", Epsilon("0.001"), 100) < 0.25 < SIGMA**2 * centre_limit(0.001) / 100
    )
    variances = [centre.variance(series, Epsilon(epsilon), 10**6) for series in (NONE, SEARCH)]
    assert centre.limit("none", Epsilon(epsilon), 10**6) <= least <= variances[1]
    assert least > variances[0] * (1 - 1e-6)
    rows = simulate("subsample", epsilon=epsilon, people=1e6, repetitions=2).rows
    (limit,) = {row["limit"] for row in rows if row["model"] == "local"}
    assert limit == pytest.approx(known, rel=1e-12)
