"""Limits of studies: no row is below its limit, and the limits are theoretical ones."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from deniable.server.planning.forecast import (
    largest_information,
    least_of_a_number,
    least_of_a_share,
)
from deniable.shared.cli.command import main
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse, mechanisms, support_design
from deniable.simulations import simulate
from deniable.simulations.central.noise import DiscreteLaplace
from deniable.simulations.engine.estimators import mean_square
from deniable.simulations.engine.limits import ball_prior, options_prior, unit_vector_limits
from deniable.simulations.studies.bit import count_limit, drawn_price, share_limits
from deniable.simulations.studies.histogram import ADD, BEST, with_best
from tests.simulations.small_studies import SMALL

Rows = Sequence[Mapping[str, Any]]  # Any: values of rows

SIZES = ("epsilon", "people", "options", "counts", "dimension", "attributes", "response")


@pytest.mark.parametrize(
    "name", ["bit", "mean", "histogram", "counts", "vector", "synthetic", "regression"]
)
def test_curators_have_no_larger_error_than_devices(name: str) -> None:
    """Compare every cell, for these people and for the population, at the same ε without δ.

    In many cells of counts and vectors, a curator must run what devices run.
    """
    rows: Any = simulate(name, on="local", **SMALL[name]).rows
    rows = [row for row in rows if row["estimator"] != ADD.name and not row.get("delta")]
    keys = [key for key in SIZES if key in rows[0]]
    for cell in {tuple(row[key] for key in keys) for row in rows}:
        here = [row for row in rows if tuple(row[key] for key in keys) == cell]
        for exact in ("first_order",) if "first_order" in here[0] else ("exact", "exact_drawn"):
            local, central = (
                min(row[exact] for row in here if row["model"] == model and row[exact] is not None)
                for model in ("local", "central")
            )
            assert central <= local * (1 + 1e-12), cell


@pytest.mark.parametrize("name", ["bit", "mean", "histogram"])
def test_errors_about_the_population_agree_with_the_formula(name: str) -> None:
    """Allow 6.5 Monte-Carlo errors. Twin: without sampling error, most cells fail."""
    more: dict[str, Any] = {"options": [4]} if name == "histogram" else {}
    asked: dict[str, Any] = {"epsilon": [1, 4], "people": [1e3, 1e6], "repetitions": 4000, **more}
    rows: Any = simulate(name, **asked).rows
    for row in rows:
        assert abs(row["measured_drawn"] - row["exact_drawn"]) <= 6.5 * row["error_drawn"], row
    central = [row for row in rows if row["model"] == "central"]
    for row in central:
        assert abs(row["measured_drawn"] - row["exact"]) > 6.5 * row["error_drawn"]


def test_columns_about_the_population_are_mean_squares() -> None:
    assert mean_square(np.array([1.0, -2.0])) == pytest.approx((2.5, 1.5))
    several = np.array([[1.0, 0.0], [2.0, 2.0]])
    assert mean_square(several) == pytest.approx((2.25, 1.75))
    assert mean_square(None) == (None, None)


def test_the_price_of_a_share_differs_for_these_people_and_the_population(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The price is n / 2 for these people, and 4.68 for the population at one half and ε 1."""
    assert drawn_price(1.0, 0.5) == pytest.approx(1 / math.tanh(0.5) ** 2, rel=1e-12)
    assert main(["simulate", "bit", "--epsilon", "1", "--people", "1e6", "--share", "0.5"]) == 0
    said = capsys.readouterr().out
    assert "by 500,000:" in said
    assert "4.68 times" in said


@pytest.mark.parametrize("people", [1, 2, 100, 1000, 10**6, 10**12])
@pytest.mark.parametrize("epsilon", ["0.000001", "0.1", "1", "4", "20"])
def test_limits_of_a_bit_are_below_every_known_estimator(epsilon: str, people: int) -> None:
    """Compare with unbiased estimates, the constant one half, and estimates that shrink towards it.

    The limit of devices is at least that of a server, which is at least that without privacy. An
    earlier limit was wrong: .999 for 100 people at ε .1, where the constant one half has .25.
    """
    response = RandomizedResponse(Epsilon(epsilon))
    keep, spread = response.keep / ONE, response.variance(people, 0.5)
    count = count_limit(float(epsilon), people) / people**2
    noise = DiscreteLaplace(Epsilon(epsilon)).variance / people**2
    assert count <= min(noise, 0.25, spread) * (1 + 1e-9)
    for share in (0.0, 0.3, 0.5, 1.0):
        these, population = share_limits(keep, share, people)
        sampled = share_limits(1.0, share, people)[1]
        sampling = share * (1 - share) / people
        assert these <= spread * 0.25 / (spread + 0.25) * (1 + 1e-9)
        assert population <= min(spread + sampling, 0.25) * (1 + 1e-9)
        assert sampled <= min(population * (1 + 1e-9), sampling + 1e-190)


def test_limits_of_a_bit_are_reached_by_many_people() -> None:
    """With a billion people, limits are within 1 % of the variances by formula."""
    response, people = RandomizedResponse(Epsilon("1")), 10**9
    these, population = share_limits(response.keep / ONE, 0.3, people)
    assert response.variance(people, 0.3) / these < 1.01
    assert (response.variance(people, 0.3) + 0.21 / people) / population < 1.01
    assert DiscreteLaplace(Epsilon("1")).variance / count_limit(1.0, people) < 1 + 1e-6


@pytest.mark.parametrize(("epsilon", "people"), [(0.5, 1), (1.0, 3), (0.2, 6)])
def test_no_private_release_of_a_uniform_count_is_below_its_limit(
    epsilon: float, people: int
) -> None:
    """Minimize by linear programming over every mechanism that releases a number on a fine grid."""
    places = np.linspace(0, people, 12 * people + 1)
    counts = np.arange(people + 1)
    cost = ((counts[:, None] - places) ** 2 / (people + 1)).ravel()
    size, bound = len(places), []
    for one in range(people):
        for first, second in ((one, one + 1), (one + 1, one)):
            block = np.zeros((size, size * (people + 1)))
            block[:, first * size : (first + 1) * size] = np.eye(size)
            block[:, second * size : (second + 1) * size] = -math.exp(epsilon) * np.eye(size)
            bound.append(block)
    whole = np.kron(np.eye(people + 1), np.ones(size))
    found = optimize.linprog(
        cost, A_ub=np.vstack(bound), b_ub=np.zeros(2 * people * size), A_eq=whole,
        b_eq=np.ones(people + 1),
    )  # fmt: skip
    least = count_limit(epsilon, people)
    assert found.fun is not None
    assert least <= found.fun * (1 + 1e-9)
    assert found.fun == pytest.approx(least, rel=0.02)  # tolerance of the grid


def test_limits_of_a_share_hold_for_every_estimator_of_few_people() -> None:
    """Compute the least Bayes risk with the same prior, from the exact posterior of the count.

    Twin: the variance of randomized response exceeds it.
    """
    keep, people = 0.6, 8
    shares = np.linspace(0, 1, 2001)[1:-1]
    prior = np.cos(np.pi * (shares - 0.5)) ** 2
    yes = np.arange(people + 1)
    rates = (1 - keep) + (2 * keep - 1) * shares
    chances = stats.binom.pmf(yes[:, None], people, rates) * prior / prior.sum()
    total = chances.sum(axis=1)
    means = chances @ shares / total
    risk = float((chances * (shares - means[:, None]) ** 2).sum())
    assert share_limits(keep, 0.5, people)[1] <= risk
    assert keep * (1 - keep) / (2 * keep - 1) ** 2 / people > risk
    held = rates * 0
    for reports in yes:  # posterior variance of these people's share
        kept = shares * keep / rates, shares * (1 - keep) / (1 - rates)
        mean = (reports * kept[0] + (people - reports) * kept[1]) / people
        spread = (
            sum(n * k * (1 - k) for n, k in ((reports, kept[0]), (people - reports, kept[1])))
            / people**2
        )
        centre = float(chances[reports] @ mean / total[reports])
        held = held + chances[reports] * (spread + (mean - centre) ** 2)
    assert share_limits(keep, 0.5, people)[0] <= float(held.sum())


def test_adding_a_mechanism_does_not_change_other_rows() -> None:
    """Each estimator draws from its own generator."""
    asked: dict[str, Any] = {"epsilon": 1, "people": 1000, "repetitions": 20}
    for name, one, two in (
        ("mean", "ternary", "one-bit-mean"), ("histogram", "unary", "subset-selection"),
    ):  # fmt: skip
        alone: Any = simulate(name, **asked, mechanisms=one).rows
        both: Any = simulate(name, **asked, mechanisms=[two, one]).rows
        assert [row for row in both if row["estimator"] != two] == alone


# Shares of k options


@pytest.mark.parametrize("options", [3, 4, 5, 6])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_no_report_reveals_more_about_shares_than_the_limit(options: int, epsilon: float) -> None:
    """Maximize the trace of the information about equal shares by linear programming.

    It covers all channels with two-valued columns, which are extremal.
    """
    columns = np.array(
        [[math.exp(epsilon) if bits >> x & 1 else 1.0 for x in range(options)]
         for bits in range(2**options)]
    )  # fmt: skip
    means = columns.mean(axis=1)
    deviations = columns - means[:, None]
    information = (deviations**2).sum(axis=1) / means
    found = optimize.linprog(-information, A_eq=columns.T, b_eq=np.ones(options))
    assert found.fun is not None
    assert -found.fun == pytest.approx(largest_information(epsilon, options), rel=1e-9)


@pytest.mark.parametrize(("options", "epsilon"), [(64, "1"), (4, "1"), (1024, "0.5")])
def test_subset_selection_is_at_the_limit(options: int, epsilon: str) -> None:
    design = support_design("choice", Epsilon(epsilon), options, "subset-selection")
    alike = options * design.variance(1, 1 / options) + (options - 1) / options
    least = (options - 1) ** 2 / largest_information(float(epsilon), options)
    assert alike == pytest.approx(least, rel=1e-9)


def test_two_options_have_the_errors_of_a_bit() -> None:
    """Compare both studies in each model; randomized response attains the limit."""
    asked: dict[str, Any] = {"epsilon": [0.5, 1, 20], "people": [2, 1000], "repetitions": 20}
    bits: Any = simulate("bit", **asked, share=0.5).rows
    choices: Any = with_best(simulate("histogram", **asked, options=2).rows)
    for bit in bits:
        wanted = {"randomized-response": "k-randomized-response", "geometric": BEST.name}
        if bit["estimator"] in wanted:
            (row,) = (
                row
                for row in choices
                if row["estimator"] == wanted[bit["estimator"]]
                and row["model"] == bit["model"]
                and (row["epsilon"], row["people"]) == (bit["epsilon"], bit["people"])
            )
            assert row["exact"] == pytest.approx(bit["exact"], rel=1e-9)
    for k, epsilon in ((3, 1.0), (64, 0.5), (5, 4.0)):
        direct = ((k - 1) ** 2 / largest_information(epsilon, k) - (k - 1) / k) / k
        assert least_of_a_share(epsilon, k) == pytest.approx(direct, rel=1e-9)
    for epsilon in (0.5, 1.0, 4.0, 20.0):
        v = math.exp(epsilon) / math.expm1(epsilon) ** 2
        assert least_of_a_share(epsilon, 2) == pytest.approx(v, rel=1e-12)


def test_a_histogram_has_every_mechanism() -> None:
    rows = simulate("histogram", epsilon=1, people=1000, options=16, repetitions=9).rows
    fit = {name for name, mechanism in mechanisms("choice").items() if 16 in mechanism.sizes}
    assert {row["estimator"] for row in rows if row["model"] == "local"} == fit


def test_the_least_variance_of_a_number_is_below_that_of_one_bit() -> None:
    """At ε 1, the least variance is 3.99 and that of one bit 4.68."""
    least = least_of_a_number(Epsilon("1"))
    assert least is not None
    assert 3.9 < least < 1 / math.tanh(0.5) ** 2
    assert least_of_a_number(Epsilon("20")) is None


def test_a_mean_lists_its_largest_and_its_smallest_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--epsilon", "1", "--people", "1000", "--repetitions", "20", "--json"]
    assert main(["simulate", "mean", *words]) == 0
    cells = json.loads(capsys.readouterr().out)["rows"]
    worst = {c["estimator"]: c["worst"] / c["least_worst"] for c in cells if c["least_worst"]}
    assert worst["optimal-table"] == pytest.approx(1, abs=0.02)
    assert min(worst.values()) >= 1
    assert all(c["worst"] >= c["limit_worst"] for c in cells)


# Means of unit vectors


@pytest.mark.parametrize("dimension", [1, 3])
def test_the_prior_of_unit_vectors_has_the_stated_information(dimension: int) -> None:
    """The trace of E grad p grad p' / p^2 on a unit ball, by quadrature over the radius. Twin: the
    least of any prior is smaller."""

    def radial(of: Callable[[float], float]) -> float:
        return float(integrate.quad(lambda r: of(r) * r ** (dimension - 1), 0, 1)[0])

    slopes = radial(lambda r: 16 * r * r)  # of (1 - r^2)^2: its squared slope, divided by it
    found = slopes / radial(lambda r: (1 - r * r) ** 2)
    assert ball_prior(dimension) == pytest.approx(found, rel=1e-9)
    assert {1: 1, 3: 4}[dimension] * math.pi**2 < ball_prior(dimension) * (1 - 1e-3)


def test_limits_of_unit_vectors_hold_for_every_estimator_of_few_people() -> None:
    """The least Bayes risk of eight people with x = ±1, from the exact posterior, with the prior of
    the proof on all shares. Twin: a fifth of the prior's information."""
    keep, people = 0.6, 8
    epsilon = math.log(keep / (1 - keep))
    means = np.linspace(-1, 1, 4001)[1:-1]
    prior = (1 - means**2) ** 2
    reports = np.arange(people + 1)
    rates = (1 + (2 * keep - 1) * means) / 2
    chances = stats.binom.pmf(reports[:, None], people, rates) * prior / prior.sum()
    total = chances.sum(axis=1)
    guess = chances @ means / total
    risk = float((chances * (means - guess[:, None]) ** 2).sum())
    held = [((1 + means) / 2 * p / r) for p, r in ((keep, rates), (1 - keep, 1 - rates))]
    own = [2 * share - 1 for share in held]  # the posterior mean of one person, by report
    kept = (reports[:, None] * own[0] + (people - reports[:, None]) * own[1]) / people
    spread = (reports[:, None] * (1 - own[0] ** 2) + (people - reports[:, None]) * (
        1 - own[1] ** 2)) / people**2  # fmt: skip
    centre = (chances * kept).sum(axis=1) / total
    these = float((chances * (spread + (kept - centre[:, None]) ** 2)).sum())

    def limits(prior: float) -> tuple[float, float]:
        return unit_vector_limits(people, prior, lambda e: math.tanh(e / 2), epsilon)

    assert limits(ball_prior(1))[0] <= these
    assert limits(ball_prior(1))[1] <= risk
    assert limits(ball_prior(1) / 5)[1] > risk


@pytest.mark.parametrize("prior", [ball_prior(3), options_prior(4)])
def test_limits_of_unit_vectors_are_reached_by_many_people(prior: float) -> None:
    """With the gain 0.3: 1 / (n m^2) about the population, and 1 / n less about these people."""
    people, gain = 10**14, 0.3
    these, population = unit_vector_limits(
        people, prior, lambda e: math.tanh(e / 2), 2 * math.atanh(gain)
    )
    assert 0.999 < population * people * gain**2 <= 1
    assert 0.99 < these * people / (1 / gain**2 - 1) <= 1
