"""Studies of local against central privacy: exact numbers compared with measurements."""

import json
import math
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from deniable.server.planning.forecast import REPLACE_ONE
from deniable.shared.cli.command import main
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse, Unary
from deniable.simulations.central.noise import DiscreteLaplace
from deniable.simulations.central.selection import PrivateQuantile
from deniable.simulations.engine.estimators import POINTS, THESE, Z95, Unit
from deniable.simulations.engine.presentation import figure
from deniable.simulations.studies.histogram import many_options_price
from deniable.simulations.studies.median.quantile_search import (
    CLIP,
    NONE,
    SEARCH,
    Crowd,
    Target,
    choose,
    groups_for,
    one_round,
    search,
    two_groups,
)
from tests.plausible import assert_implausible, assert_plausible

HALF = Target("quantile", 0.5)
Cells = Sequence[Mapping[str, Any]]  # Any: rows of JSON

WORDS = {
    "bit": ["--epsilon", "0.1,1,4", "--people", "100,1e6,1e9", "--repetitions", "2000"],
    "mean": ["--epsilon", "0.5,2,8", "--people", "100,1e6,1e9", "--repetitions", "500"],
    "histogram": ["--epsilon", "1,4", "--people", "1e3,1e6", "--options", "4,1024",
                  "--repetitions", "60"],
    "median": ["--epsilon", "1,4", "--people", "1e4,1e6", "--repetitions", "1000"],
}  # fmt: skip


def simulated(name: str, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    assert main(["simulate", name, *WORDS[name], "--json", *more]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def one(cells: Cells, **wanted: object) -> Mapping[str, Any]:
    (found,) = (c for c in cells if all(c[key] == value for key, value in wanted.items()))
    return found


@pytest.mark.parametrize("name", ["bit", "mean", "histogram"])
def test_measured_errors_agree_with_the_formula(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every cell is within 6.5 Monte-Carlo errors of the exact error."""
    cells = simulated(name, capsys)["rows"]
    assert len(cells) >= 16
    for cell in cells:
        assert abs(cell["measured"] - cell["exact"]) <= 6.5 * cell["error"], cell


def test_the_test_above_can_fail(capsys: pytest.CaptureFixture[str]) -> None:
    """Twin: errors for an ε that is a fifth larger are rejected in every cell."""
    cells = [c for c in simulated("bit", capsys)["rows"] if c["model"] == "local"]
    for cell in cells:
        assert abs(cell["measured"] - cell["exact"] / 1.44) > 6.5 * cell["error"]


@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "0.5", "1", "2", "4", "10"])
@pytest.mark.parametrize("people", [1, 100, 10**9])
def test_the_price_of_locality_is_half_the_people_exactly(epsilon: str, people: int) -> None:
    """Compare exact fractions of the realised randomized response and of geometric noise."""
    response = RandomizedResponse(Epsilon(epsilon))
    keep, lie = Fraction(response.keep, 2**64), Fraction(response.lie, 2**64)
    a, local = keep / lie, keep * lie / (keep - lie) ** 2 / people
    assert local / (2 * a / (a - 1) ** 2 / people**2) == Fraction(people, 2)


def test_the_study_of_a_bit_shows_both_prices(capsys: pytest.CaptureFixture[str]) -> None:
    for price in simulated("bit", capsys)["prices"]:
        epsilon, people = float(price["epsilon"]), price["people"]
        assert price["geometric"] == pytest.approx(people / 2, rel=1e-9)
        expected = people / 2 * (epsilon / 2 / math.sinh(epsilon / 2)) ** 2
        assert price["laplace"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "4"])
def test_many_options_cost_half_the_people_by_a_hyperbolic_cosine(epsilon: str) -> None:
    """Compare unary reports of an option without holders with noise for a replaced person."""
    local = Unary(Epsilon(epsilon), 8).variance(1_000, 0.0)
    central = DiscreteLaplace(Epsilon(epsilon), REPLACE_ONE).variance / 1_000**2
    assert local / central / 1_000 == pytest.approx(many_options_price(float(epsilon)), rel=1e-12)


def test_one_person_replaced_leaves_a_bin_and_enters_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Noise at e^(ε/2) protects against a changed answer; at e^ε only against an added person."""
    for cell in simulated("histogram", capsys)["rows"]:
        spread = float(cell["epsilon"]) / (2 if cell["estimator"] == "geometric-replace-one" else 1)
        if cell["model"] == "central" and cell["estimator"] != "joint":
            variance = 2 * math.exp(spread) / math.expm1(spread) ** 2 / cell["people"] ** 2
            assert cell["exact"] == pytest.approx(variance, rel=1e-12)


def test_k_ary_response_wins_with_few_options_and_loses_with_many(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cells = simulated("histogram", capsys)["rows"]
    for options, better in ((4, True), (1024, False)):
        k_ary, unary = (
            one(cells, options=options, epsilon="1", people=1_000, estimator=m)["exact"]
            for m in ("k-randomized-response", "unary")
        )
        assert (k_ary < unary) is better


@pytest.mark.parametrize(("mechanism", "epsilon", "worst"), [
    ("one-bit-mean", "1", 4.6827), ("one-bit-mean", "4", 1.0760), ("local-laplace", "2", 1.47974),
    ("local-laplace", "8", 0.12384),
])  # fmt: skip
def test_the_error_of_local_means_is_at_most_their_worst_case(
    mechanism: str, epsilon: str, worst: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bound it by the worst variance of one person, which is four times larger on [-1, 1]."""
    cells = simulated("mean", capsys, "--epsilon", epsilon, "--population", "middle")["rows"]
    cell = one(cells, estimator=mechanism, people=1_000_000)
    assert 0.8 * worst / 4 < cell["exact"] * 1_000_000 <= worst / 4 * 1.0001


@pytest.mark.long
def test_errors_of_the_median_approach_their_limits(capsys: pytest.CaptureFixture[str]) -> None:
    """Check median, quantile and centre.

    Without privacy and with a curator, errors are within 6.5 Monte-Carlo errors of the limit plus 2
    % of it. The search is within a tenth of its own limit; so are blocks, if there are many.
    """
    document = simulated("median", capsys, "--quantile", "0.5,0.2", "--repetitions", "2000")
    for cell in document["rows"]:
        if cell["exact"] is None:
            assert cell["measured"] > cell["limit"] - 6.5 * cell["error"]
            continue
        away, error = cell["measured"] - cell["exact"], 6.5 * cell["error"]
        if cell["blocks"]:
            assert cell["people"] < 1e6 or abs(away) < 0.1 * cell["exact"] + error
        elif cell["estimator"] == "search":
            assert -error < away < 0.1 * cell["exact"] + error
        else:
            assert abs(away) < error + 0.02 * cell["exact"]
    models = [cell["model"] for cell in document["rows"] if cell["question"] == "quantile"]
    assert len(models) == 2 * 2 * 2 * 5
    assert set(models) == {"local", "central", "none"}


@pytest.mark.parametrize(("share", "epsilon", "stated"), [(0.5, "1", 1.1707), (0.1, "0.5", 4.0077)])
def test_the_limit_of_a_quantile_is_the_information_of_one_bit(
    share: float, epsilon: str, stated: float
) -> None:
    """Compute the information of a report about the tilt v of 1 + v sign(x - q), numerically.

    Every report is a function of randomized response.
    """
    target, e = Target("quantile", share), math.exp(float(epsilon))
    n_variance = target.variance(SEARCH, Epsilon(epsilon), 1) * target.density**2
    assert n_variance == pytest.approx(stated, abs=1e-4)
    true, step = e / (1 + e), 1e-5  # `step` changes the share below, and with it the rate of a yes
    rates = [share + sign * step for sign in (-1, 1)]
    yes = [(1 - true) + (2 * true - 1) * rate for rate in rates]
    middle = sum(yes) / 2
    told = ((yes[1] - yes[0]) / (2 * step)) ** 2 / (middle * (1 - middle))
    assert 1 / told == pytest.approx(stated, abs=1e-4)


@pytest.mark.parametrize(
    ("epsilon", "times"), [("0.5", 26.2), ("1", 7.36), ("2", 2.71), ("4", 1.69)]
)
def test_a_centre_estimated_by_signs_has_the_theoretical_price(epsilon: str, times: float) -> None:
    target = Target("location", 0.5)
    none = target.variance(NONE, Epsilon(epsilon), 1)
    assert target.variance(SEARCH, Epsilon(epsilon), 1) / none == pytest.approx(times, rel=2e-3)
    if epsilon == "1":
        assert target.variance(CLIP, Epsilon("1"), 1) / none == pytest.approx(42.1, rel=2e-3)


def test_asking_every_level_in_one_round_multiplies_the_error() -> None:
    """Expect about (L / 2) L 4 V of a share, L = 10; two large groups are near the limit."""
    epsilon, people, times = Epsilon("1"), 10**6, 4_000
    rng, target = np.random.default_rng(20261118), Target("quantile", 0.5)
    mechanism, tree = RandomizedResponse(epsilon), Unary(epsilon, 2)
    least = target.variance(SEARCH, epsilon, people)
    errors = [one_round(tree, people, times, target, rng) - target.truth]
    errors.append(two_groups(mechanism, tree, people, times, target, rng) - target.truth)
    asked_once, twice = (float((error**2).mean()) / least for error in errors)
    v = math.e / (math.e - 1) ** 2
    assert asked_once == pytest.approx(5 * 10 * 4 * v / (v + 0.25), rel=0.2)
    assert 1 < twice < 2


def test_each_level_has_the_counts_of_real_reports() -> None:
    """Compare a level's binomial with unary reports of its intervals, for people drawn at random.

    False alarm at most 1e-9 each. Twin: reports without noise.
    """
    unary, draw = Unary(Epsilon("1"), 4), random.Random(20261118).getrandbits
    people, target = 20_000, Target("quantile", 0.5)
    places = target.quantile(np.random.default_rng(5).random(people))
    reports = [unary.randomize(int(4 * position), draw) for position in places]
    held = [float(target.below((node + 1) / 4) - target.below(node / 4)) for node in range(4)]
    named = [sum(report >> node & 1 for report in reports) for node in range(4)]
    for count, mass in zip(named, held, strict=True):
        rate = (unary.lie + (unary.keep - unary.lie) * mass) / 2**64
        assert_plausible(count, people, rate)
    assert_implausible(named[0], people, held[0])


def test_the_price_of_a_median_is_the_square_of_c() -> None:
    for epsilon, price in (("0.5", 16.671), ("1", 4.6827), ("2", 1.7241), ("4", 1.0760)):
        local = HALF.variance(SEARCH, Epsilon(epsilon), 10**6)
        assert local / HALF.variance(NONE, Epsilon(epsilon), 1) * 10**6 == pytest.approx(
            price, rel=1e-4
        )


def test_the_fast_median_sampler_uses_the_exact_weights() -> None:
    """Draw intervals between five people's answers, and compare with the exact weights.

    False alarm at most 6e-9.
    """
    people, n = [0.1, 0.25, 0.3, 0.6, 0.9], 40_000
    points = np.tile([0.0, *people, 1.0], (n, 1))
    chosen = choose(points, 0, 5, 1.0, np.random.default_rng(20261118))
    histogram = [0] * 20_001
    for answer in people:
        histogram[round(answer * 20_000)] += 1
    weights = PrivateQuantile(Epsilon("1")).weights(histogram)
    for low, high in zip(points[0], points[0][1:], strict=False):
        inside = sum(weights[math.floor(low * 20_000) + 1 : math.ceil(high * 20_000)])
        rate = inside / sum(weights)
        seen = ((chosen > low) & (chosen <= high)).sum()
        assert abs(seen / n - rate) <= math.sqrt(math.log(2e9) / (2 * n)) + 1e-3
    assert ((chosen > 0.25) & (chosen <= 0.3)).mean() < 0.5


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_the_search_finds_the_median_from_real_devices(share: float) -> None:
    """Ask many devices about one threshold each; they report by the mechanism itself.

    Twin: if a share of 0.3 more of them answers as if above, the search ends far from the median.
    """
    mechanism, draw = RandomizedResponse(Epsilon("4")), random.Random(20261118).getrandbits
    generator, people, asked = np.random.default_rng(7), 20_000, list[int]()

    def devices(size: int, threshold: np.ndarray) -> np.ndarray:
        asked.append(size)
        answers = HALF.quantile(generator.random(size)) + (share - 0.5) > threshold
        return np.array([sum(mechanism.randomize(int(a), draw) for a in answers)])

    (found,) = search(mechanism, people, 1, devices)
    assert sum(asked) == people
    spread = math.sqrt(2 * HALF.variance(SEARCH, Epsilon("4"), people))
    assert (abs(found - HALF.truth) < 6.5 * spread) == (share == 0.5)


def test_the_search_without_noise_ends_at_the_median() -> None:
    """Feed expected reports, so that the result is exact.

    The remaining error comes from the first groups, most of which are not averaged.
    """
    for epsilon in ("0.5", "4"):
        mechanism = RandomizedResponse(Epsilon(epsilon))
        keep, lie = mechanism.keep / 2**64, mechanism.lie / 2**64

        def expected(
            size: int, threshold: np.ndarray, keep: float = keep, lie: float = lie
        ) -> np.ndarray:
            return np.asarray(size * (lie + (keep - lie) * (1 - HALF.below(threshold))))

        (found,) = search(mechanism, 10**6, 1, expected)
        assert found == pytest.approx(HALF.truth, abs=1e-6)


def test_half_widths_hold_95_percent_of_a_normal_distribution() -> None:
    found = Unit("points", Z95).of(THESE)({"exact": 4.0})
    assert found == pytest.approx(2 * NormalDist().inv_cdf(0.975), rel=1e-12)
    assert pytest.approx(100 * Z95) == POINTS.factor
    assert pytest.approx(1.96, abs=1e-4) == Z95


def test_figures_agree_with_tables() -> None:
    assert [figure(v) for v in (0.0, 12.345, 1_234_567.0)] == ["0", "12.3", "1,230,000"]


@pytest.mark.parametrize(("words", "cure"), [
    (["bit", "--share", "1.5"], "--share must be from 0 to 1"),
    (["mean", "--population", "tall"], "one of low, uniform, middle, ends"),
    (["bit", "--people", "1.5"], "a whole number"),
    (["bit", "--people", "1e12"], "1,000,000,000"),
    (["bit", "--epsilon", "none"], "decimal text"),
    (["histogram", "--options", "1"], "a whole number from 2"),
])  # fmt: skip
def test_wrong_arguments_are_refused_in_one_line(
    words: list[str], cure: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *words]) == 2
    printed = capsys.readouterr()
    assert cure in printed.err
    assert printed.out == ""
    assert printed.err.count("\n") == 1


@pytest.mark.long
def test_a_study_writes_the_same_bytes_in_another_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Compare CSV and figures of this process with those of a pool."""
    few = ["--epsilon", "1", "--people", "100,1000", "--repetitions", "20"]
    for where in ("local", "pool"):
        assert main(["simulate", "bit", *few, "--out", str(tmp_path / where), "--on", where]) == 0
    for file in ("bit.csv", "error.svg"):
        assert (tmp_path / "local" / file).read_bytes() == (tmp_path / "pool" / file).read_bytes()
    page = (tmp_path / "local" / "index.html").read_text("utf-8")
    assert "100 people at ε 1" in page


class Prescribed:
    """Generator whose binomial draws are given."""

    def __init__(self, draws: Sequence[int]) -> None:
        self.draws, self.rates = iter(draws), list[float]()

    def binomial(self, _size: int, rate: np.ndarray) -> np.ndarray:
        self.rates.append(float(rate[0]))
        return np.array([next(self.draws)])


def test_the_control_of_a_search_has_mean_zero() -> None:
    """Enumerate the reports of three groups, each asked at a point that depends on the last group.

    Twin: the variances at the first point have another mean.
    """
    mechanism, sizes = RandomizedResponse(Epsilon("2")), (3, 1, 2)
    total, mean, wrong = 0.0, 0.0, 0.0
    for draws in product(*(range(size + 1) for size in sizes)):
        fixed: Any = Prescribed(draws)  # Any: stands for a generator
        crowd, point, chance = Crowd(mechanism, fixed, HALF), np.array([0.3]), 1.0
        for size, count in zip(sizes, draws, strict=True):
            assert crowd(size, point) == count
            chance *= float(binom.pmf(count, size, fixed.rates[-1]))
            point = point + 0.1 * (count / size - 0.4)
        total, mean = total + chance, mean + chance * float(crowd.control[0])
        constant = sum(sizes) * fixed.rates[0] * (1 - fixed.rates[0])
        wrong += chance * float(crowd.deviation[0] ** 2 - constant)
    assert total == pytest.approx(1, rel=1e-12)
    assert mean == pytest.approx(0, abs=1e-12)
    assert abs(wrong) > 1e-3


@pytest.mark.parametrize("epsilon", ["0.5", "4"])
def test_the_control_of_a_search_reduces_its_monte_carlo_error(epsilon: str) -> None:
    """A quarter of the repetitions is enough: the error of one repetition falls by more than 2."""
    crowd = Crowd(RandomizedResponse(Epsilon(epsilon)), np.random.default_rng(4), HALF)
    found = search(crowd.mechanism, 10**5, 400, crowd)
    squares = (found - HALF.truth) ** 2
    assert (squares - crowd.control).std() < squares.std() / 2
    assert (squares + crowd.control).std() > squares.std()


@pytest.mark.parametrize(("share", "epsilon"), [(0.5, "1"), (0.5, "4"), (0.1, "1")])
def test_the_search_uses_nearly_all_people(share: float, epsilon: str) -> None:
    """Compute to first order how an error in one group's reports changes the estimate.

    The sum of the squared effects over all groups is the variance of the estimate.
    """
    mechanism, target = RandomizedResponse(Epsilon(epsilon)), Target("quantile", share)
    keep, lie = mechanism.keep / 2**64, mechanism.lie / 2**64
    groups, people, slip = groups_for(share), 10**6, 1e-7  # with more people, more groups
    group = iter(range(groups))

    def slipping(size: int, threshold: np.ndarray) -> np.ndarray:
        rate = lie + (keep - lie) * (1 - target.below(threshold))
        rate[next(group)] += slip
        return np.asarray(size * rate)

    found = search(mechanism, people, groups + 1, slipping, share)
    pull = (found[:-1] - found[-1]) / slip
    rate = lie + (keep - lie) * (1 - share)
    variance = float(pull @ pull) * rate * (1 - rate) * groups / people
    assert 1 <= variance / target.variance(SEARCH, Epsilon(epsilon), people) < 1.06
