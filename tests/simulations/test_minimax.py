"""Minimax study against theory: bounds, hardest distributions, risks, limits and slopes."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats
from scipy.sparse import lil_array, vstack

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon, within
from deniable.shared.privacy.mechanisms import OneBitMean, OptimalTable, SplitSign, Ternary
from deniable.simulations import simulate
from deniable.simulations.engine.cells import run_cells
from deniable.simulations.engine.option import read
from deniable.simulations.engine.study import Row
from deniable.simulations.engine.study_result import StudyResult
from deniable.simulations.studies.minimax import STUDY
from deniable.simulations.studies.minimax.clipped_estimators import (
    MODELS,
    Estimator,
    best_estimator,
    table_of,
    whole_clip,
    worst_bias,
)
from deniable.simulations.studies.minimax.minimax_limits import (
    chain_risks,
    lower_bound,
    replacements,
    sign_risks,
)
from deniable.simulations.studies.minimax.minimax_report import slopes
from deniable.simulations.studies.minimax.worst_case import (
    TIGHT_BOUND,
    TwoPoints,
    binomial_quantiles,
    exact_risk,
    measured_risk,
    moment,
    report_distribution,
    sharpened,
    strata,
    worst_case,
)
from tests.simulations.own_mechanism import HalfBit

MOMENTS = (2.0, 3.0, 4.0, math.inf)
EPSILONS = ("0.1", "0.5", "1", "2", "4")
USERS = tuple(10**power for power in range(2, 10))
# Local / central, computed by independent software: k, ε, then 1e2 .. 1e9 people; 3 digits.
BOUNDS = """
2 .1 1/.151 .316/.0151 .100/1.51e-3 .0316/1.51e-4 .0100/1.51e-5 3.16e-3/1.51e-6 1.00e-3/1.51e-7 3.16e-4/1.51e-8
2 .5 .204/.0383 .0646/3.83e-3 .0204/3.83e-4 6.46e-3/3.83e-5 2.04e-3/3.83e-6 6.46e-4/3.83e-7 2.04e-4/3.83e-8 6.46e-5/3.83e-9
2 1 .108/.0241 .0342/2.41e-3 .0108/2.41e-4 3.42e-3/2.41e-5 1.08e-3/2.41e-6 3.42e-4/2.41e-7 1.08e-4/2.41e-8 3.42e-5/2.41e-9
2 2 .0657/.0171 .0208/1.71e-3 6.57e-3/1.71e-4 2.08e-3/1.71e-5 6.57e-4/1.71e-6 2.08e-4/1.71e-7 6.57e-5/1.71e-8 2.08e-5/1.71e-9
2 4 .0519/.0135 .0164/1.35e-3 5.19e-3/1.35e-4 1.64e-3/1.35e-5 5.19e-4/1.35e-6 1.64e-4/1.35e-7 5.19e-5/1.35e-8 1.64e-5/1.35e-9
3 .1 1/.108 .288/5.56e-3 .0620/3.12e-4 .0133/1.98e-5 2.88e-3/1.46e-6 6.20e-4/1.21e-7 1.33e-4/1.10e-8 2.88e-5/1.05e-9
3 .5 .160/.0215 .0345/1.53e-3 7.44e-3/1.25e-4 1.60e-3/1.11e-5 3.45e-4/1.05e-6 7.44e-5/1.02e-7 1.60e-5/1.01e-8 3.45e-6/1.01e-9
3 1 .0687/.0146 .0148/1.21e-3 3.19e-3/1.10e-4 6.87e-4/1.05e-5 1.48e-4/1.02e-6 3.19e-5/1.01e-7 6.87e-6/1.00e-8 1.48e-6/1.00e-9
3 2 .0353/.0118 7.61e-3/1.08e-3 1.64e-3/1.04e-4 3.53e-4/1.02e-5 7.61e-5/1.01e-6 1.64e-5/1.00e-7 3.53e-6/1.00e-8 7.61e-7/1.00e-9
3 4 .0258/.0107 5.56e-3/1.03e-3 1.20e-3/1.02e-4 2.58e-4/1.01e-5 5.56e-5/1.00e-6 1.20e-5/1.00e-7 2.58e-6/1.00e-8 5.56e-7/1.00e-9
4 .1 1/.0957 .287/3.71e-3 .0510/1.86e-4 9.08e-3/1.27e-5 1.61e-3/1.09e-6 2.87e-4/1.03e-7 5.10e-5/1.01e-8 9.08e-6/1.00e-9
4 .5 .149/.0177 .0264/1.24e-3 4.70e-3/1.08e-4 8.36e-4/1.02e-5 1.49e-4/1.01e-6 2.64e-5/1.00e-7 4.70e-6/1.00e-8 8.36e-7/1.00e-9
4 1 .0574/.0127 .0102/1.09e-3 1.81e-3/1.03e-4 3.23e-4/1.01e-5 5.74e-5/1.00e-6 1.02e-5/1.00e-7 1.81e-6/1.00e-8 3.23e-7/1.00e-9
4 2 .0271/.0110 4.82e-3/1.03e-3 8.57e-4/1.01e-4 1.52e-4/1.00e-5 2.71e-5/1.00e-6 4.82e-6/1.00e-7 8.57e-7/1.00e-8 1.52e-7/1.00e-9
4 4 .0190/.0103 3.39e-3/1.01e-3 6.02e-4/1.00e-4 1.07e-4/1.00e-5 1.90e-5/1.00e-6 3.39e-6/1.00e-7 6.02e-7/1.00e-8 1.07e-7/1.00e-9
inf .1 1/.0900 .401/1.80e-3 .0401/1.08e-4 4.01e-3/1.01e-5 4.01e-4/1.00e-6 4.01e-5/1.00e-7 4.01e-6/1.00e-8 4.01e-7/1.00e-9
inf .5 .167/.0132 .0167/1.03e-3 1.67e-3/1.00e-4 1.67e-4/1.00e-5 1.67e-5/1.00e-6 1.67e-6/1.00e-7 1.67e-7/1.00e-8 1.67e-8/1.00e-9
inf 1 .0468/.0108 4.68e-3/1.01e-3 4.68e-4/1.00e-4 4.68e-5/1.00e-5 4.68e-6/1.00e-6 4.68e-7/1.00e-7 4.68e-8/1.00e-8 4.68e-9/1.00e-9
inf 2 .0172/.0102 1.72e-3/1.00e-3 1.72e-4/1.00e-4 1.72e-5/1.00e-5 1.72e-6/1.00e-6 1.72e-7/1.00e-7 1.72e-8/1.00e-8 1.72e-9/1.00e-9
inf 4 .0108/.0100 1.08e-3/1.00e-3 1.08e-4/1.00e-4 1.08e-5/1.00e-5 1.08e-6/1.00e-6 1.08e-7/1.00e-7 1.08e-8/1.00e-8 1.08e-9/1.00e-9
"""  # noqa: E501  # a table
# The smallest bound of the three local estimators: k, ε, then 1e4, 1e6 and 1e9 people.
BETTER_BOUNDS = """
2 .5 .0203 2.00e-3 6.27e-5
2 1 9.95e-3 9.26e-4 2.84e-5
2 2 4.26e-3 3.67e-4 1.09e-5
2 4 2.04e-3 1.35e-4 3.35e-6
3 1 3.09e-3 1.28e-4 1.19e-6
3 4 5.62e-4 1.60e-5 9.42e-8
4 1 1.81e-3 5.17e-5 2.63e-7
4 4 3.34e-4 6.86e-6 2.21e-8
"""
EVERY_CELL = list(product(MOMENTS, EPSILONS, USERS, MODELS))


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Return the rows of 240 cells of the default study, with its seed."""
    given = {"epsilon": "0.5,4", "people": "1e2,1e3,1e5,1e6,1e8,1e9", "repetitions": 4000}
    options = read(STUDY.options, given)
    return run_cells(STUDY, STUDY.cells(options), 20240501)


# Bounds


@pytest.mark.parametrize("line", BOUNDS.strip().splitlines(), ids=lambda line: line[:6])
def test_risk_bounds_agree_with_independent_figures(line: str) -> None:
    moments, epsilon, *pairs = line.split()
    for users, pair in zip(USERS, pairs, strict=True):
        for name, stated in zip(("one-bit", "laplace"), pair.split("/"), strict=True):
            found = best_estimator(name, float(moments), Epsilon(f"0{epsilon}"), users).bound
            assert found == pytest.approx(float(stated), rel=5e-3), (users, name)


@pytest.mark.parametrize("line", BETTER_BOUNDS.strip().splitlines())
def test_the_better_estimators_bounds_agree_with_independent_figures(line: str) -> None:
    moments, epsilon, *stated = line.split()
    for users, expected in zip((10**4, 10**6, 10**9), stated, strict=True):
        found = min(
            best_estimator(name, float(moments), Epsilon(f"0{epsilon}"), users).bound
            for name in ("one-bit", "ternary", "split-sign")
        )
        assert found == pytest.approx(float(expected), rel=5e-3)


def test_the_worst_bias_is_that_of_the_hardest_two_point_distribution() -> None:
    """Confirm it by a search over all a: a^-k (a - t) is largest at a = k t / (k - 1)."""
    for k, t in ((2.0, 3.0), (3.0, 2.0), (4.0, 1.5)):
        a = np.linspace(t, 20 * t, 200_001)
        assert worst_bias(k, t) == pytest.approx(float(np.max(a**-k * (a - t))), rel=1e-6)
    assert [worst_bias(k, 1.0) for k in (2.0, 3.0, 4.0)] == pytest.approx([1 / 4, 4 / 27, 27 / 256])


@pytest.mark.parametrize("table", [OneBitMean, Ternary, SplitSign])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_second_moments_match_the_theory(
    table: type[OneBitMean | Ternary | SplitSign], epsilon: str
) -> None:
    e = math.exp(float(epsilon))
    stated = {
        OneBitMean: (((e + 1) / (e - 1)) ** 2, 0.0),
        Ternary: (2 * (e + 2) / (e - 1) ** 2, (e + 2) / (e - 1)),
        SplitSign: (4 * e / (e - 1) ** 2, 2.0),
    }[table]
    for x in (-1.0, -0.3, 0.0, 0.6, 1.0):
        variance = 4 * table(Epsilon(epsilon)).variance(1, (x + 1) / 2)
        assert variance == pytest.approx(stated[0] + stated[1] * abs(x) - x * x, rel=1e-9)


@pytest.mark.parametrize("table", [Ternary, SplitSign])
def test_values_are_unbiased_exactly(table: type[Ternary | SplitSign]) -> None:
    """Allow no error at all; the contract allows 2^-40 of a step."""
    mechanism = table(Epsilon("0.7"))
    for point, row in enumerate(mechanism.rows):
        parts = zip(row, mechanism.values, strict=True)
        assert sum(Fraction(units, 2**64) * value for units, value in parts) == point


# Distributions


def test_the_hardest_distribution_is_in_the_family_and_within_the_bound() -> None:
    for k, epsilon, users, name in EVERY_CELL:
        estimator, distribution = hardest(k, epsilon, users, name)
        assert moment(distribution, k) <= 1 + 1e-12
        if estimator.clip:
            assert exact_risk(estimator, distribution) <= estimator.bound * (1 + 1e-12)


def test_the_exact_risk_of_the_hardest_distribution_matches_independent_figures() -> None:
    """For k = 2, ε = 1, a million people: 1.0819762e-3 locally, and 71 % of the central bound."""
    local, central = (
        best_estimator(name, 2.0, Epsilon("1"), 10**6) for name in ("one-bit", "laplace")
    )
    assert worst_case(local)[1] == pytest.approx(1.0819762e-3, rel=1e-7)
    assert worst_case(central)[1] == pytest.approx(1.7196e-6, rel=2e-3)


def test_the_estimate_is_zero_if_the_bound_is_capped() -> None:
    estimator = best_estimator("one-bit", 3.0, Epsilon("0.1"), 100)
    assert (estimator.clip, estimator.bound) == (0.0, 1.0)
    assert measured_risk(estimator, worst_case(estimator)[0], 200, np.random.default_rng(1)) == (
        1,
        0,
    )


# Limits


def test_no_bound_is_below_the_limit() -> None:
    for k, epsilon, users, name in EVERY_CELL:
        limit = lower_bound(MODELS[name], k, float(epsilon), users)
        estimator, distribution = hardest(k, epsilon, users, name)
        assert limit <= estimator.bound
        assert not estimator.clip or limit <= exact_risk(estimator, distribution)


@pytest.mark.parametrize(("model", "k", "epsilon", "people", "stated"), [
    ("local", 2, 1, 1e6, 7.41823e-4),
    ("local", 3, 1, 1e6, 8.34025e-5),
    ("local", 4, 1, 1e6, 2.84931e-5),
    ("local", 2, 0.1, 1e6, 9.11818e-3),
    ("local", 2, 4, 1e6, 9.21158e-5),
    ("local", 3, 2, 1e9, 2.4885e-7),
    ("local", math.inf, 1, 1e4, 4.40177e-4),
    ("central", 2, 1, 1e6, 1.21736e-6),
    ("central", 2, 0.1, 1e6, 1.13592e-5),
])  # fmt: skip
def test_limits_agree_with_independent_figures(
    model: str, k: float, epsilon: float, people: float, stated: float
) -> None:
    """Use the study's grid over u; a finer one raises the limits by less than a thousandth."""
    assert lower_bound(model, k, epsilon, int(people)) == pytest.approx(stated, rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("u", [0.01, 0.1, 0.5, 1.0])
def test_no_channel_beats_the_limit_for_one_person(epsilon: float, u: float) -> None:
    """Minimize by linear programming over every report of -, 0 and + that estimates the sign."""
    v = np.linspace(-1, 1, 401)
    cost = [u / 2 * (v + 1) ** 2, (1 - u) * (v**2 + 1), u / 2 * (v - 1) ** 2]
    best = least_risk(cost, [(0, 1), (1, 2), (0, 2)], epsilon)
    found = float(sign_risks(np.array([[u]]), epsilon, 1)[0])
    assert found <= best * (1 + 1e-6)
    if u == 1:
        assert found == pytest.approx(best, abs=2e-5)


@pytest.mark.parametrize(("epsilon", "chain"), [(1.0, 1), (1.0, 3), (0.5, 6), (0.2, 10), (2.0, 3)])
def test_no_private_mechanism_distinguishes_the_ends_of_a_chain_better(
    epsilon: float, chain: int
) -> None:
    v = np.linspace(0, 1, 81)
    zero = np.zeros_like(v)
    cost = [v**2 / 2, *[zero] * (chain - 1), (1 - v) ** 2 / 2]
    best = least_risk(cost, [(n, n + 1) for n in range(chain)], epsilon)
    assert chain_risks(epsilon)[chain] <= best * (1 + 1e-6)
    assert chain_risks(epsilon)[chain] == pytest.approx(best, abs=5e-5)  # tolerance of the grid


def least_risk(
    cost: list[NDArray[np.float64]], neighbours: list[tuple[int, int]], epsilon: float
) -> float:
    """Return the least total cost of all mechanisms that answer with one of the values."""
    rows, values = len(cost), len(cost[0])
    bounds = []
    for one, other in [*neighbours, *(pair[::-1] for pair in neighbours)]:
        block = lil_array((values, rows * values))
        for value in range(values):
            block[value, one * values + value] = 1
            block[value, other * values + value] = -math.exp(epsilon)
        bounds.append(block)
    whole = lil_array((rows, rows * values))
    for row in range(rows):
        whole[row, row * values : (row + 1) * values] = 1
    found = optimize.linprog(  # type: ignore[call-overload]  # its stubs know no sparse arrays
        np.concatenate(cost), A_ub=vstack(bounds).tocsr(), b_ub=np.zeros(len(bounds) * values),
        A_eq=whole.tocsr(), b_eq=np.ones(rows),
    )  # fmt: skip
    assert found.success
    return float(found.fun)


def test_the_best_local_estimator_is_within_a_constant_of_the_limit() -> None:
    """Divide the risk on the hardest distribution by the limit, which checks constants too."""
    for k, people, stated in (
        (2.0, 10**6, (1.11, 1.20, 1.22, 1.15, 1.13)),
        (3.0, 10**9, (1.22, 1.37, 1.39, 1.30, 1.41)),
    ):
        for epsilon, most in zip(EPSILONS, stated, strict=True):
            best = min(
                exact_risk(*hardest(k, epsilon, people, name))
                for name in ("one-bit", "ternary", "split-sign")
            )
            ratio = best / lower_bound("local", k, float(epsilon), people)
            assert 1 <= ratio <= most, (k, epsilon)


# Measurements


@pytest.mark.parametrize(
    ("people", "probability"), [(1, 0.5), (7, 0.01), (100, 0.3), (10**6, 1e-6), (10**9, 0.4)]
)
def test_quantiles_are_those_of_the_binomial(people: int, probability: float) -> None:
    points = np.random.default_rng(2).random(300)
    assert (binomial_quantiles(people, probability, points) == stats.binom.ppf(points, people, probability)).all()  # fmt: skip  # noqa: E501


def test_stratified_samples_have_the_mean_of_the_whole_distribution() -> None:
    """Check within 8 errors for linear functions; errors are far below those of plain samples."""
    drawn = strata(100, 200, np.random.default_rng(3))
    assert drawn.widths.sum() == pytest.approx(1)
    counts = binomial_quantiles(10**6, 0.3, drawn.points)
    mean, error = drawn.mean(np.asarray((counts - 3e5) ** 2 / 2.1e5, dtype=np.float64))
    assert abs(mean - 1) <= 8 * error
    assert error < 0.05 * math.sqrt(2 / 20_000)


def test_reports_follow_the_table_of_the_mechanism() -> None:
    """Compare with the mixture of the rows, stochastic rounding included."""
    estimator = best_estimator("split-sign", 2.0, Epsilon("1"), 10**4)
    distribution = worst_case(estimator)[0]
    values, probabilities = report_distribution(estimator, distribution)
    cut = np.clip([distribution.low, distribution.high], -estimator.clip, estimator.clip)
    assert probabilities.sum() == pytest.approx(1)
    assert values @ probabilities == pytest.approx(
        [1 - distribution.probability, distribution.probability] @ cut, rel=1e-12
    )


def test_measured_risks_agree_with_exact_risks(rows: list[Row]) -> None:
    """Allow 6.5 Monte-Carlo errors, from 100 groups per cell.

    A new seed has a false alarm of 3e-9 per cell; this seed has none.
    """
    for row in rows:
        measured, exact, error = (_number(row, f"risk_{x}") for x in ("measured", "exact", "error"))
        assert abs(measured - exact) <= 6.5 * error, row


def test_the_test_above_can_fail() -> None:
    """Draw reports with ε = 1.1 and check them at ε = 1."""
    stated = best_estimator("ternary", 3.0, Epsilon("1"), 10**6)
    distribution = worst_case(stated)[0]
    wrong = replace(stated, table=Ternary(Epsilon("1.1")))
    measured, error = measured_risk(wrong, distribution, 10_000, np.random.default_rng(4))
    assert abs(measured - exact_risk(stated, distribution)) > 6.5 * error


def test_every_measured_risk_is_above_the_limit(rows: list[Row]) -> None:
    assert [
        row for row in rows if _number(row, "lower_bound") > _number(row, "risk_measured")
    ] == []


# Slopes


def test_slopes_are_within_three_errors_of_theory(rows: list[Row]) -> None:
    fitted = slopes(rows)
    assert len(fitted) == len(MOMENTS) * 2 * len(MODELS) + 2  # plus many levels at ε 4, k 3 and 4
    for slope in fitted:
        assert abs(_number(slope, "fitted") - _number(slope, "theory")) <= 3 * _number(
            slope, "error"
        ), slope


def test_slopes_have_small_errors_if_the_estimator_reaches_the_limit(rows: list[Row]) -> None:
    """Large errors would make the test above meaningless.

    One bit, the curator, and no privacy reach the limit.
    """
    for slope in slopes(rows):
        if slope["estimator"] in ("one-bit", "laplace", "mean") or slope["epsilon"] == 0.5:
            assert _number(slope, "error") <= 0.03, slope


def test_a_different_exponent_is_distinguished(rows: list[Row]) -> None:
    """Twin: risks that fall faster by n^0.03 are not within three errors, for most series."""
    bent = [
        {**row, **{key: _number(row, key) * _number(row, "people") ** -0.03 for key in
                   ("risk_measured", "risk_error")}}
        for row in rows
    ]  # fmt: skip
    caught = [
        abs(_number(s, "fitted") - _number(s, "theory")) > 3 * _number(s, "error")
        for s in slopes(bent)
    ]
    assert sum(caught) > len(caught) / 2


# The document


def test_the_document_has_the_field_names_that_programs_use(rows: list[Row]) -> None:
    options = read(STUDY.options, {})
    document = StudyResult(STUDY, options, 1, rows).document
    assert set(document["rows"][0]) == {
        *("model", "moments", "epsilon", "people", "estimator", "risk_bound", "risk_exact"),
        *("risk_measured", "risk_error", "lower_bound", "clip", "repetitions", "hardest_low"),
        *("hardest_high", "probability_high"),
    }
    assert set(document["slopes"][0]) == {
        *("model", "moments", "epsilon", "estimator", "from", "to", "fitted", "error", "theory"),
    }
    assert {cell["model"] for cell in document["rows"]} == {"local", "central", "none"}
    assert {cell["moments"] for cell in document["rows"]} == {2, 3, 4, "inf"}


def test_the_default_study_is_the_whole_grid() -> None:
    options = read(STUDY.options, {})
    cells = STUDY.cells(options)
    local_and_central = 4 * len(MOMENTS) * len(EPSILONS) * len(USERS)
    many_levels = 2 * len(USERS)
    assert len(cells) == local_and_central + len(MOMENTS) * len(USERS) + many_levels
    assert (options["people"], options["epsilon"]) == (list(USERS), list(EPSILONS))


@cache
def hardest(k: float, epsilon: str, users: int, name: str) -> tuple[Estimator, TwoPoints]:
    estimator = best_estimator(name, k, Epsilon(epsilon), users)
    return estimator, worst_case(estimator)[0]


def _number(row: Row, key: str) -> float:
    value = row[key]
    assert isinstance(value, (int, float))
    return value


# Tables with more levels, and custom tables


def sharp(name: str, k: float, epsilon: str, people: int) -> Estimator:
    return sharpened(best_estimator(name, k, Epsilon(epsilon), people))[0]


@pytest.mark.parametrize(("k", "most"), [(3.0, 1.41), (4.0, 1.6)])
def test_many_levels_approach_the_limit_and_three_do_not(k: float, most: float) -> None:
    limit = lower_bound("local", k, 4.0, 10**9)
    many, three = (
        worst_case(estimator)[1] / limit
        for estimator in (sharp(name, k, "4", 10**9) for name in ("many-levels", "ternary"))
    )
    assert 1 <= many <= most
    assert many < three


def test_a_table_of_many_levels_passes_the_exact_proof() -> None:
    """Prove with integers that it is whole, private and unbiased, as a survey's table must be."""
    table = table_of("many-levels", Epsilon("4"))
    assert isinstance(table, OptimalTable)
    again = OptimalTable(table.epsilon, table.steps, table.integers_given)
    assert again.is_whole()
    larger, smaller = again.worst_ratio()
    assert within(Epsilon("4"), larger, smaller)
    assert not within(Epsilon("3.9"), larger, smaller)


@pytest.mark.parametrize("name", ["ternary", "split-sign", "laplace", "many-levels"])
@pytest.mark.parametrize("k", [2.0, 4.0])
def test_the_clip_chosen_by_exact_risk_has_no_larger_risk(name: str, k: float) -> None:
    """Compare with the other clip, whose bound holds as well.

    Twin: half or twice the clip has a larger risk. Where the bound is nearly exact, no clip is
    searched for, so a small tolerance applies.
    """
    plain = best_estimator(name, k, Epsilon("4"), 10**6)
    chosen, _, risk = sharpened(plain)
    assert risk <= worst_case(plain)[1] <= plain.bound * (1 + 1e-9)
    for factor in (0.5, 2.0):
        clip = chosen.clip * factor
        other = replace(chosen, clip=whole_clip(clip) if chosen.noise else clip)
        nearly = 1 - TIGHT_BOUND if chosen == plain else 1
        assert worst_case(other)[1] > risk * nearly


@pytest.mark.parametrize("name", ["local-laplace", "optimal-table", "many-levels"])
def test_the_risk_of_any_table_follows_from_its_rows(name: str) -> None:
    """Sum the exact risk over every report of two points, and check that the bound always holds."""
    estimator = best_estimator(name, 3.0, Epsilon("4"), 10_000)
    for low, high, probability in ((0.0, 2.0, 0.1), (-0.5, 1.3, 0.2), (0.3, 9.0, 0.001)):
        distribution = TwoPoints(low, high, probability)
        values, chances = report_distribution(estimator, distribution)
        spread = chances @ values**2 - (chances @ values) ** 2
        risk = (chances @ values - distribution.mean) ** 2 + spread / 10_000
        assert exact_risk(estimator, distribution) == pytest.approx(risk, rel=1e-9)
    s0, s1, _ = estimator.second
    points, moments = estimator.curve
    assert (moments <= s0 + s1 * abs(points) + 1e-12).all()


def test_the_distance_from_the_limit_is_stated_as_a_factor() -> None:
    """At ε 20 a percentage would read "within 36302 % of the best"."""
    asked: dict[str, Any] = {"moments": 2, "people": 1e4, "repetitions": 400, "on": "local"}
    findings = simulate("minimax", epsilon=20, **asked).findings
    assert "at most 9.30 times the least risk that any local protocol can have" in findings[1]
    assert not any("%" in sentence for sentence in findings)


def test_custom_tables_are_computed_and_drawn() -> None:
    place = f"{HalfBit.__module__}:HalfBit"
    found = simulate("minimax", moments=2, epsilon=1, people=[1e3, 1e5], repetitions=400,
                     mechanisms=["one-bit", HalfBit], on="local")  # fmt: skip
    rows: Any = found.rows
    assert {row["estimator"] for row in rows} == {"one-bit", place, "laplace", "mean"}
    for row in rows:
        assert abs(row["risk_measured"] - row["risk_exact"]) <= 6.5 * row["risk_error"]
        assert row["lower_bound"] <= row["risk_exact"]
    own, ours = (
        next(r["risk_exact"] for r in rows if r["estimator"] == name) for name in (place, "one-bit")
    )
    assert own > ours
    assert "half a bit" in repr(found)
    assert any("half a bit" in text.get_text() for text in found.figure("risk").legends[0].texts)
    with pytest.raises(WrongUse, match="unknown mechanism"):
        simulate("minimax", mechanisms="tenary")


@pytest.mark.parametrize("people", [1, 3, 10**6, 10**12])
def test_replacements_are_binomial_for_any_number_of_people(people: int) -> None:
    """Twin: twice the share."""
    share = np.minimum(1.0, np.array([[0.02], [1.0], [30.0]]) / people)
    stated = replacements(100, people, share)
    assert stated == pytest.approx(stats.binom.pmf(np.arange(101), people, share), abs=1e-12)
    twin = stats.binom.pmf(np.arange(101), people, share / 2)
    assert np.abs(stated - twin).max() > 0.01
