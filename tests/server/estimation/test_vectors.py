"""Mean vectors: exact counts, unbiased estimates, intervals that hold, and detected forgeries."""

from __future__ import annotations

import math
from functools import cache, partial

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom

from deniable.server.estimation import estimates
from deniable.server.estimation.forgery_test import FALSE_ALARM
from deniable.server.estimation.means import (
    VectorEstimator,
    coordinates,
    deviations,
    whole,
)
from deniable.server.intake.tally import tally
from deniable.server.intake.tally_kernels import codeword_sums
from deniable.shared.envelope import encode_report
from deniable.shared.errors import InvalidEnvelope
from deniable.shared.privacy.encodings import UNIT
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import KClosest
from deniable.shared.survey.document import Survey, parse_toml
from deniable.shared.survey.kinds.vector import Vector
from deniable.simulations.population import fixed, rates, vector_sums
from tests.plausible import assert_implausible, assert_plausible
from tests.server.estimation.single import fit
from tests.shared.test_k_closest import directions, surprise
from tests.survey_texts import survey_text, vector

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]
HELD = np.array([0.6, -0.3, 0.0, 0.2])
LONG = partial(pytest.param, marks=pytest.mark.long)
ROUNDS, REPORTS = 300, 100
QUESTION = Vector("v", KClosest(Epsilon("1"), 4, 16, 6))  # few codewords, so sorting is fast
DESIGN = QUESTION.mechanism


def asked(dimension: int, epsilon: str = "1") -> Survey:
    return parse_toml(survey_text(vector(dimension, epsilon=epsilon)))


@cache
def reported() -> npt.NDArray[np.int64]:
    """Return a seed and a codeword per report, for people who all hold the same vector.

    They are drawn with the mechanism's probabilities.
    """
    rng, pairs = np.random.default_rng(20261118), DESIGN.codewords // 2
    seeds = np.arange(ROUNDS * REPORTS)
    reach = directions(pairs, DESIGN.dimension, len(seeds)) @ HELD
    order = np.argsort(-np.abs(reach), axis=1)
    near = rng.random(len(seeds)) < DESIGN.closest * DESIGN.near / 2**64
    some = rng.integers(0, 2**62, len(seeds))
    chosen = order[seeds, np.where(near, some % DESIGN.closest, 0)]
    codeword = 2 * chosen + (reach[seeds, chosen] < 0)
    far = np.array([
        far[pick % len(far)]
        for far, pick in zip(map(_far, order, reach), some, strict=True)
    ])  # fmt: skip
    turned = rng.random(len(seeds)) < (1 - np.linalg.norm(HELD)) / 2
    return np.stack([seeds, np.where(near, codeword, far) ^ turned])


def _far(order: npt.NDArray[np.int64], reach: Array) -> list[int]:
    mine = {2 * pair + (reach[pair] < 0) for pair in order[: DESIGN.closest].tolist()}
    return [number for number in range(DESIGN.codewords) if number not in mine]


@cache
def rounds() -> list[Cells]:
    encoding = DESIGN.encoding
    payload = b"".join(
        (number << 64 | seed).to_bytes(encoding.payload_size, "little")
        for seed, number in reported().T.tolist()
    )
    rows = np.frombuffer(payload, np.uint8).reshape(ROUNDS, REPORTS, encoding.payload_size)
    return [codeword_sums(encoding, row) for row in rows]


@pytest.mark.parametrize(("dimension", "epsilon"), [(2, "1"), (3, "8"), (1_024, "0.5")])
def test_vectorized_sums_equal_those_of_single_reports(dimension: int, epsilon: str) -> None:
    """Sums of all reports, of parts of them, and of the encoded reports are the same integers."""
    survey, rng = asked(dimension, epsilon), np.random.default_rng(1)
    encoding = survey.questions[0].mechanism.encoding
    numbers = rng.integers(0, encoding.limit >> 64, 300).tolist()
    symbols = [number << 64 | int(rng.integers(0, 2**63)) for number in numbers]
    parts = [encode_report(survey, [symbol]) for symbol in symbols]
    found = tally(survey, b"".join(parts), 300)
    assert (
        found == tally(survey, b"".join(parts[:7]), 7) + tally(survey, b"".join(parts[7:]), 293)
    ).all()
    stated = np.zeros(encoding.cells, np.int64)
    for symbol in symbols:
        for cell, amount in encoding.amounts(symbol):
            stated[cell] += amount
    assert found.tolist() == stated.tolist()


def test_an_unknown_codeword_rejects_the_whole_batch() -> None:
    survey = asked(4)
    good = encode_report(survey, [63 << 64])
    with pytest.raises(InvalidEnvelope, match="out of range"):
        tally(survey, good + good[:-1] + b"\x40", 2)


def test_expected_sums_reproduce_the_truth() -> None:
    shares = np.array([0.3, 0.1, 0.2, 0.0, 0.0, 0.25, 0.1, 0.05])
    cells = np.rint(rates(DESIGN, shares.tolist()) * 10**6).astype(np.int64)
    found = estimates(QUESTION, cells, 10**6)
    assert [row.label for row in found] == ["0", "1", "2", "3"]
    truth = shares[::2] - shares[1::2]
    assert [row.estimate for row in found] == pytest.approx(truth.tolist(), abs=1e-8)


def test_intervals_cover_and_narrower_ones_fail_the_check() -> None:
    """False alarms have probability 1e-9 per coordinate.

    At two thirds of the width, each coordinate fails.
    """
    for coordinate, truth in enumerate(HELD):
        found = [estimates(QUESTION, cells, REPORTS)[coordinate] for cells in rounds()]
        off = np.array([abs(row.estimate - truth) / (row.high - row.estimate) for row in found])
        assert_plausible(int((off <= 1).sum()), ROUNDS, 0.95)
        assert_implausible(int((off <= 2 / 3).sum()), ROUNDS, 0.95)


def test_estimates_about_the_whole_vector_are_unbiased() -> None:
    """Squared errors and squared lengths agree to within seven standard errors."""
    raw = np.array([cells[:4] / (UNIT * REPORTS * DESIGN.gain) for cells in rounds()])
    said = [whole(cells, REPORTS, DESIGN) for cells in rounds()]
    squares = ((raw - HELD) ** 2).sum(axis=1)
    assert surprise(squares - [row.error**2 for row in said], 0) < 7
    assert surprise(squares - [1.3 * row.error**2 for row in said], 0) > 7
    assert surprise((raw**2).sum(axis=1) - [row.error**2 for row in said], HELD @ HELD) < 7
    assert max(row.error for row in said) <= DESIGN.whole_error(REPORTS - 1)


def test_a_vectorized_population_has_the_moments_of_single_people() -> None:
    """Means, variances and covariances of the sums agree to within seven standard errors.

    At twice the ε they differ.
    """
    one_by_one = np.array(rounds())[:, :4] / UNIT
    people = np.tile(HELD, (REPORTS, 1))
    rng = np.random.default_rng(7)
    for epsilon, fits in (("1", True), ("2", False)):
        at_once = (
            vector_sums(KClosest(Epsilon(epsilon), 4, 16, 6), people, 20_000, rng)[:, :4] / UNIT
        )
        centre, spread = at_once.mean(axis=0), np.cov(at_once.T)
        products = [
            surprise((one_by_one[:, a] - centre[a]) * (one_by_one[:, b] - centre[b]), spread[a, b])
            for a in range(4)
            for b in range(a, 4)
        ]
        off = [surprise(one_by_one[:, a], centre[a]) for a in range(4)]
        assert (max(*products, *off) < 7) == fits


def test_people_along_the_axes_are_counted_like_any_vector() -> None:
    held, rng = [30, 0, 5, 20, 0, 0, 40, 5], np.random.default_rng(3)
    axes = np.array([(-1) ** n * np.eye(4)[n // 2] for n in range(8)])
    one, other = (
        estimates / UNIT
        for estimates in (
            fixed(DESIGN, held, 20_000, rng).counts,
            vector_sums(DESIGN, np.repeat(axes, held, axis=0), 20_000, rng),
        )
    )
    assert one[0, 4:] == pytest.approx(other[0, 4:])
    assert one.mean(axis=0)[:4] == pytest.approx(other.mean(axis=0)[:4], abs=0.3)
    assert np.cov(one[:, :4].T) == pytest.approx(np.cov(other[:, :4].T), abs=1.2)


def test_honest_reports_fit_and_reports_of_one_direction_do_not() -> None:
    """Honest reports fit even if everybody holds the same vector of length one."""
    draws = fixed(DESIGN, [5_000, *[0] * 7], 200, np.random.default_rng(2)).counts
    assert all(fit(DESIGN, cells, 5_000).p_value > FALSE_ALARM for cells in draws)
    forged = np.array([UNIT, 0, 0, 0, UNIT, 0, 0, 0])
    found = fit(DESIGN, draws[0] + 2_000 * forged, 7_000)
    assert found.p_value < FALSE_ALARM
    assert 0 < found.forged <= 2_000
    assert math.isclose(fit(DESIGN, 0 * draws[0], 0).p_value, 1.0)


@pytest.mark.parametrize(("looks", "ever"), [(True, range(96)), (False, range(300, 1001))])
def test_an_interval_for_repeated_looks_holds_at_every_look(looks: bool, ever: range) -> None:
    """Look 2,000 times at 1,000 normal sums: at most 5 % may ever leave (false alarm 1e-9).

    Twin: far more sums leave the interval for one look.
    """
    sums = np.random.default_rng(20261119).normal(size=(1_000, 2_000)).cumsum(axis=1)
    reports = np.arange(1, 2_001)
    reach = deviations(reports, 0.95, looks=looks)
    assert int((np.abs(sums) > reach * np.sqrt(reports)).any(axis=1).sum()) in ever


def coverage(people: npt.NDArray[np.int64], truth: float, epsilon: str, runs: int) -> int:
    """Count the intervals of the first coordinate that contain the truth.

    `people` has one row per run: the number of reports of people at both ends of the first axis.
    """
    design = KClosest(Epsilon(epsilon), 2)
    rng, reports = np.random.default_rng(20261120), int(people[0].sum())
    first = pool(design, 20_000)
    held = np.arange(reports) < people[:, :1]
    drawn = first[rng.integers(0, len(first), (runs, reports))]
    low, high = estimator(design, np.where(held, drawn, -drawn)).like(0.95)
    return int(((low[:, 0] <= truth + 1e-9) & (truth - 1e-9 <= high[:, 0])).sum())


def estimator(design: KClosest, reported: Array) -> VectorEstimator:
    """Return the estimator of reports with these first coordinates, a row for each run."""
    runs, reports = reported.shape
    mean, square = reported.mean(axis=1), (reported**2).mean(axis=1)
    sums = np.column_stack([mean, 0 * mean, square, 1 - square]) * reports * UNIT
    cells = np.rint(sums).astype(np.int64)
    return VectorEstimator(Vector("v", design), cells, np.full(runs, reports))


@cache
def pool(design: KClosest, size: int) -> Array:
    """Return first coordinates of codewords reported by people at (1, 0)."""
    rng, pairs, closest = np.random.default_rng(7), design.codewords // 2, design.closest
    turns = np.cos(rng.uniform(0, 2 * np.pi, (size, pairs)))
    order = np.argsort(-np.abs(turns), axis=1)
    near = rng.random(size) < closest * design.near / 2**64
    rank = np.where(near, rng.integers(0, closest, size), 0)
    # others: the opposites of the closest, and both directions of the rest
    other = rng.integers(0, 2 * pairs - closest, size)
    rank = np.where(near, rank, np.where(other < closest, other, (other + closest) // 2))
    value = np.take_along_axis(np.abs(turns), np.take_along_axis(order, rank[:, None], 1), 1)[:, 0]
    opposite = ~near & ((other < closest) | (other % 2 == 0))
    return np.asarray(np.where(opposite, -value, value))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, *map(LONG, (0.03, 0.1))])
@pytest.mark.parametrize("reports", [2, 30, 100, *map(LONG, (10, 300))])
@pytest.mark.parametrize("epsilon", ["1", "8", LONG("4")])
def test_few_reports_of_a_mixed_population_are_covered(
    epsilon: str, reports: int, share: float
) -> None:
    """A share of the population points the other way. False alarms have probability 1e-9."""
    runs, rng = 1_000, np.random.default_rng(3)
    away = rng.binomial(reports, share, runs)
    found = coverage(np.column_stack([reports - away, away]), 1 - 2 * share, epsilon, runs)
    assert binom.cdf(found, runs, 0.95) > 1e-9
    assert found == runs or reports >= 100


@pytest.mark.parametrize("away", [0.1, 1.3, 2.4, 4.0])
@pytest.mark.parametrize("reports", [100, 1_000])
@pytest.mark.parametrize("epsilon", ["1", "4", "8", "12", "16", "20"])
def test_a_few_people_along_an_axis_that_others_are_orthogonal_to_are_covered(
    epsilon: str, reports: int, away: float
) -> None:
    """About `away` people point along the first axis, and the others along the second.

    False alarms have probability 1e-9. Twin: the observed spread misses people who were not seen.
    """
    runs, rng, design = 1_000, np.random.default_rng(3), KClosest(Epsilon(epsilon), 2)
    along = pool(design, 20_000)
    across = np.sqrt(1 - along**2)
    held = np.arange(reports) < rng.binomial(reports, away / reports, (runs, 1))
    drawn, side = rng.integers(0, len(along), held.shape), rng.choice([-1, 1], held.shape)
    made = estimator(design, np.where(held, along[drawn], side * across[drawn]))
    (low, high), points, truth = made.like(0.95), made.points, away / reports
    found = int(((low[:, 0] <= truth) & (truth <= high[:, 0])).sum())
    assert binom.cdf(found, runs, 0.95) > 1e-9
    off = np.abs(points.estimate - truth) / points.standard_error
    if float(epsilon) >= 16 and away == 1.3:
        assert binom.cdf(int((off[:, 0] <= 1.96).sum()), runs, 0.95) < 1e-9


def test_limits_that_use_the_observed_spread_miss_a_few_people() -> None:
    """Twin: the standard error leaves out people who point elsewhere and were not seen."""
    design, reports, runs = KClosest(Epsilon("8"), 2), 100, 1_000
    rng = np.random.default_rng(3)
    away = rng.binomial(reports, 0.01, runs)
    drawn = pool(design, 20_000)[rng.integers(0, 20_000, (runs, reports))]
    signed = np.where(np.arange(reports) < reports - away[:, None], drawn, -drawn)
    sums = np.column_stack([signed.sum(1), 0 * away, (drawn**2).sum(1), 0 * away]) * UNIT
    made = coordinates(np.rint(sums).astype(np.int64), np.full((runs, 1), reports), design)
    off = np.abs(made.estimate - 0.98)[:, 0]
    assert binom.cdf(int((off <= 1.96 * made.standard_error[:, 0]).sum()), runs, 0.95) < 1e-9


def test_the_variance_of_pooled_vectors_counts_the_same_people_in_all_rounds() -> None:
    """Sixteen rounds of the same hundred people, half of whom point each way.

    Their noise averages out, but their sampling error does not. Twin: treat them as 1,600 people.
    """
    runs, rounds, people = 1_000, 16, 100
    away = np.random.default_rng(3).binomial(people, 0.5, runs)
    question = Vector("v", KClosest(Epsilon("8"), 2))
    design, reports = question.mechanism, rounds * people
    square = np.full(runs, design.along)
    mean = design.gain * (1 - 2 * away / people)
    sums = np.column_stack([mean, 0 * mean, square, 1 - square]) * reports * UNIT
    for number, plausible in ((rounds, True), (1, False)):
        cells, total = np.rint(sums).astype(np.int64), np.full(runs, reports)
        sizes = np.full((runs, number), reports // number)
        made = VectorEstimator(question, cells, total, False, sizes)
        low, high = made.like(0.95)
        found = int(((low[:, 0] <= 0) & (high[:, 0] >= 0)).sum())
        assert (binom.cdf(found, runs, 0.95) > 1e-9) == plausible
        sampling = made.sampling((low, high))[:, 0]
        assert sampling == pytest.approx(np.full(runs, number / reports), rel=0.1)
