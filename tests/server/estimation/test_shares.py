"""Shares: exactly unbiased and never clipped, with a consistent version next to each."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.server.estimation import estimates
from deniable.server.estimation.shares import nearest_shares, shares, unbiased_share
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanisms import KRandomizedResponse, RandomizedResponse, Unary
from deniable.shared.survey.kinds.choice import Bit, Choice
from tests.server.estimation.single import statements

DESIGNS = [
    RandomizedResponse(Epsilon("0.1")),
    KRandomizedResponse(Epsilon("8"), 5),
    KRandomizedResponse(Epsilon("0.5"), 1000),
    Unary(Epsilon("2"), 7),
]


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 3), Fraction(1)])
def test_expected_rates_reproduce_the_truth_exactly(design: SupportDesign, share: Fraction) -> None:
    rate = share * Fraction(design.keep, ONE) + (1 - share) * Fraction(design.lie, ONE)
    assert unbiased_share(rate, design) == share


def test_an_estimate_is_not_clipped_and_has_a_possible_version() -> None:
    question = Bit("crashed", RandomizedResponse(Epsilon("0.5")))
    (estimate,) = estimates(question, np.array([900, 100]), 1000)
    assert estimate.label == "yes"
    assert estimate.high < 0  # the count is a fifth of the number of lies expected
    assert estimate.low < estimate.estimate < estimate.high
    assert estimate.consistent == 0
    assert estimate.standard_error > 0
    assert (estimate.reports, estimate.confidence) == (1000, 0.95)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("reports", [1, 2, 1_000])
def test_the_standard_error_is_binomial_at_the_nearest_possible_share(
    design: SupportDesign, reports: int
) -> None:
    """Check no reports, all reports and half of them: the rates are q, p and the observed rate."""
    keep, lie = design.keep / ONE, design.lie / ONE
    found = shares(np.array([0, reports]), reports, design)
    for error, rate in zip(found.standard_error, (lie, keep), strict=True):
        expected = math.sqrt(rate * (1 - rate) / reports) / (keep - lie)
        assert error == pytest.approx(expected, rel=1e-12)
    middle = round(reports * (lie + keep) / 2)
    (error,) = shares(np.array([middle]), reports, design).standard_error
    rate = min(max(middle / reports, lie), keep)
    expected = math.sqrt(rate * (1 - rate) / reports) / (keep - lie)
    assert error == pytest.approx(expected, rel=1e-9)


def test_a_bit_estimates_the_share_who_say_yes() -> None:
    question = Bit("crashed", RandomizedResponse(Epsilon("2")))
    (low,), (high,) = (estimates(question, np.array(cells), 100) for cells in ([80, 20], [20, 80]))
    assert low.estimate < 0.5 < high.estimate
    assert low.estimate + high.estimate == pytest.approx(1)


def test_every_option_gets_its_own_estimate_in_order() -> None:
    question = Choice("browser", KRandomizedResponse(Epsilon("4"), 3), ("a", "b", "c"), None)
    found = estimates(question, np.array([10, 20, 70]), 100)
    assert [estimate.label for estimate in found] == ["a", "b", "c"]
    assert sum(estimate.estimate for estimate in found) == pytest.approx(1)
    assert found[0].estimate < found[1].estimate < found[2].estimate


def test_without_reports_the_interval_is_the_whole_range_of_the_mechanism() -> None:
    design = RandomizedResponse(Epsilon("1"))
    (estimate,) = estimates(Bit("crashed", design), np.array([0, 0]), 0)
    assert math.isnan(estimate.estimate)
    assert math.isnan(estimate.consistent)
    assert math.isnan(estimate.standard_error)
    assert estimate.low == pytest.approx(1 - design.leverage)
    assert estimate.high == pytest.approx(design.leverage)


@pytest.mark.parametrize("reports", [1, 50, 10**15])
def test_estimates_of_all_options_can_be_zero(reports: int) -> None:
    question = Choice("it", Unary(Epsilon("1"), 4), ("a", "b", "c", "d"), None)
    found = statements(question, np.zeros(4, dtype=np.int64), reports)
    low, high = found.like
    assert np.isfinite(found.estimate).all()
    assert (low <= found.estimate).all()
    assert (found.estimate < high).all()
    assert (found.standard_error > 0).all()
    assert found.consistent == pytest.approx(0.25)


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=40))
def test_the_consistent_shares_are_the_nearest_possible_shares(raw: list[float]) -> None:
    """p is the projection of x on a convex set if and only if (x - p)(y - p) <= 0 for all y in it.

    It is enough to check the corners, which are the single options.
    """
    x = np.array(raw)
    p = nearest_shares(x)
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1)
    corners = (x - p) @ (np.eye(len(x)) - p).T
    assert corners.max() <= 1e-9
