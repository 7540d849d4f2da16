"""Limits for exactly the people who answered: they contain the truth, and are not too wide."""

from collections.abc import Callable
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from deniable.server.estimation import share_limits as module
from deniable.server.estimation.share_limits import MAX_SUMMED_REPORTS, share_limits
from deniable.server.estimation.shares import clopper_pearson as rate_limits
from deniable.server.estimation.shares import unbiased_share
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanisms import KRandomizedResponse, RandomizedResponse
from tests.server.estimation.fixed import EPSILONS, designs, holders_of, law

Array = npt.NDArray[np.float64]
Ends = tuple[Array, Array]

PEOPLE = (5, 20, 50, MAX_SUMMED_REPORTS, MAX_SUMMED_REPORTS + 1, 1_000, 10_000)
ROUNDING = 1e-9


def found(people: int, design: SupportDesign) -> Ends:
    return share_limits(np.arange(people + 1), people, design, 0.95)


def worst_coverage(
    people: int, design: SupportDesign, of: Callable[[int, SupportDesign], Ends] = found
) -> float:
    low, high = of(people, design)
    return min(
        float(probabilities[(low[counts] <= truth) & (truth <= high[counts])].sum())
        for holders in holders_of(people)
        for counts, probabilities in [law(holders, people, design)]
        for truth in [holders / people]
    )


@pytest.mark.parametrize("people", [5, 20, 50, MAX_SUMMED_REPORTS, MAX_SUMMED_REPORTS + 1, 1_000])
def test_coverage_is_never_below_95_percent(people: int) -> None:
    assert min(worst_coverage(people, d) for e in EPSILONS for d in designs(e)) >= 0.95


@pytest.mark.long
@pytest.mark.parametrize("people", PEOPLE)
def test_coverage_is_never_below_95_percent_at_any_size(people: int) -> None:
    assert min(worst_coverage(people, d) for e in EPSILONS for d in designs(e)) >= 0.95


def test_limits_a_twentieth_narrower_fail_the_same_check() -> None:
    def narrower(people: int, design: SupportDesign) -> Ends:
        low, high = found(people, design)
        reach = (high - low) / 40
        return low + reach, high - reach

    design = RandomizedResponse(Epsilon("1"))
    for people in (MAX_SUMMED_REPORTS, 1_000, 10_000):
        assert worst_coverage(people, design, narrower) < 0.95


def least(count: int, people: int, design: SupportDesign) -> int:
    """Return the smallest number of holders for which this count has an upper tail above 2.5 %.

    It is found by bisection on the exact sum.
    """
    low, high = 0, people
    while low < high:
        holders = (low + high) // 2
        counts, probabilities = law(holders, people, design)
        if probabilities[counts >= count].sum() > 0.025:
            high = holders
        else:
            low = holders + 1
    return low


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("people", [1_000, 10_000])
def test_a_limit_is_close_to_the_exact_limit(people: int, epsilon: str) -> None:
    """Allow a fortieth of the distance from the estimate to the limit, plus one person."""
    for design, share in product(designs(epsilon)[:5:2], (0.02, 0.5)):
        counts, probabilities = law(round(share * people), people, design)
        seen = counts[[int(np.searchsorted(np.cumsum(probabilities), at)) for at in (0.1, 0.9)]]
        estimates = people * unbiased_share(seen / people, design)
        low, _ = share_limits(seen, people, design, 0.95)
        for count, estimate, mine in zip(seen, estimates, low * people, strict=True):
            if mine > 0:
                exact = least(int(count), people, design)
                assert exact >= mine - ROUNDING
                assert exact - mine <= (estimate - exact) / 40 + 1


FEW: list[SupportDesign] = [
    *(RandomizedResponse(Epsilon(epsilon)) for epsilon in ("4", "6", "8")),
    KRandomizedResponse(Epsilon("8"), 100),
]


@pytest.mark.parametrize("design", FEW, ids=lambda each: f"{each.name}-{each.epsilon}")
def test_limits_are_summed_exactly_if_the_noise_is_only_a_few_people(
    design: SupportDesign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limits are within 0.1 person of the exact sum; the saddlepoint alone errs by a person."""
    people = 300
    assert people > MAX_SUMMED_REPORTS
    ends = found(people, design)
    with monkeypatch.context() as patched:
        patched.setattr(module, "MAX_SUMMED_REPORTS", people)
        for law in ("_binomials", "_tails"):  # both memoize by size
            patched.setattr(module, law, getattr(module, law).__wrapped__)
        exactly = found(people, design)
    for mine, exact in zip(ends, exactly, strict=True):
        assert people * np.abs(mine - exact).max() < 0.1


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("people", [1, 7, MAX_SUMMED_REPORTS])
def test_limits_of_few_people_are_exact(people: int, epsilon: str) -> None:
    for design in designs(epsilon)[::2]:
        counts = np.unique(np.linspace(0, people, 12).astype(np.int64))
        low, _ = share_limits(counts, people, design, 0.95)
        exact = np.array([least(int(count), people, design) for count in counts])
        assert (np.clip(np.rint(low * people), 0, people) == exact).all()


def test_limits_of_many_people_are_exact_if_hardly_any_report_is_a_lie() -> None:
    people, design = 1_000, RandomizedResponse(Epsilon("8"))
    counts = np.array([3, 40, 500, 997])
    low, _ = share_limits(counts, people, design, 0.95)
    assert np.rint(low * people).tolist() == [least(int(count), people, design) for count in counts]


@pytest.mark.parametrize("people", [*PEOPLE[:-1], pytest.param(PEOPLE[-1], marks=pytest.mark.long)])
def test_every_limit_is_finite_ordered_and_rises_with_the_count(people: int) -> None:
    for epsilon in EPSILONS:
        for design in designs(epsilon):
            low, high = found(people, design)
            assert np.isfinite(low).all()
            assert np.isfinite(high).all()
            assert (low <= high).all()
            assert (np.diff(low) >= -ROUNDING).all()
            assert (np.diff(high) >= -ROUNDING).all()


@pytest.mark.parametrize(("epsilon", "narrower"), [("1", 0.11), ("2", 0.36), ("4", 0.73)])
def test_limits_about_these_people_are_narrower_by_the_expected_factor(
    epsilon: str, narrower: float
) -> None:
    """If half of many people hold the value, only the noise varies: √(4 p (1 - p)) of the width."""
    design, people = RandomizedResponse(Epsilon(epsilon)), 10_000
    counts = np.array([people // 2])
    low, high = share_limits(counts, people, design, 0.95)
    rates = rate_limits(counts, people, 0.95)
    like_low, like_high = (unbiased_share(rate, design) for rate in rates)
    assert 1 - (high - low) / (like_high - like_low) == pytest.approx(narrower, abs=0.012)


def test_nothing_is_clipped() -> None:
    low, high = share_limits(np.array([0, 1_000]), 1_000, RandomizedResponse(Epsilon("1")), 0.95)
    assert low[0] < high[0] < 0
    assert high[1] > low[1] > 1
