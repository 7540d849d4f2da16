"""Differences between two rounds: coverage summed exactly over both counts."""

import numpy as np
import pytest

from deniable.server.estimation.share_limits import share_limits, share_noise
from deniable.server.estimation.shares import unbiased_share
from deniable.server.estimation.statements import (
    Differences,
    Side,
    Statements,
    differences,
    halved,
    reach,
)
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import KRandomizedResponse, RandomizedResponse
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.kinds.choice import Bit, Choice
from tests.server.estimation.fixed import designs, law
from tests.server.estimation.single import counted, statements

SHARES = [(0, 0), (0.02, 0), (0.5, 0), (0.5, 0.5), (0.3, 0.1), (1, 1), (0.95, 0.05)]


def found(question: Question, now: tuple[int, int], then: tuple[int, int]) -> Differences:
    """Return the estimated differences.

    `now` and `then` are pairs: the reports of the last option, and all reports.
    """
    later, earlier = (
        Side(
            Statements.of_rounds([statements(question, cells, reports)]),
            counted(question, cells[None], reports).like(halved(0.95)),
            None,
        )
        for count, reports in (now, then)
        for cells in (np.array([reports - count, count]),)
    )
    return differences(later, earlier)


def coverage(now: int, then: int, shares: tuple[float, float], epsilon: str, scale: float) -> float:
    """Return the lowest coverage over all designs, for the difference between exactly these people.

    Each interval is first made `scale` times as wide.
    """
    worst = 1.0
    for design in designs(epsilon):
        holders = [round(share * people) for share, people in zip(shares, (now, then), strict=True)]
        middle, spread, step, chance = [], [], 0.0, []
        for held, people in zip(holders, (now, then), strict=True):
            counts, probabilities = law(held, people, design)
            middle.append(unbiased_share(counts / people, design))
            spread.append(
                share_noise(share_limits(counts, people, design, 0.95), np.array(people), design)
            )
            step += ONE / (2 * people * (design.keep - design.lie))
            chance.append(probabilities)
        truth = holders[0] / now - holders[1] / then
        far = reach(spread[0][:, None], spread[1][None], step, 0.95) * scale
        held_by = np.abs(middle[0][:, None] - middle[1][None] - truth) <= far + 1e-12
        worst = min(worst, float(chance[0] @ held_by @ chance[1]))
    return worst


@pytest.mark.parametrize("epsilon", ["0.5", "1", "4", "8"])
@pytest.mark.parametrize("people", [(20, 20), (20, 200), (200, 201), (1_000, 1_000)])
def test_intervals_cover_the_difference_about_these_people(
    people: tuple[int, int], epsilon: str
) -> None:
    assert min(coverage(*people, shares, epsilon, 1) for shares in SHARES) >= 0.95


def test_an_interval_a_tenth_narrower_fails_the_same_check() -> None:
    assert min(coverage(1_000, 1_000, shares, "1", 0.9) for shares in SHARES) < 0.95


def test_where_noise_hides_few_people_each_limit_gets_half_of_the_error() -> None:
    """If each of two intervals misses in at most 2.5 % of cases, both hold in at least 95 %.

    Which interval is used depends on the number of reports and on the mechanism, not on counts.
    """
    question = Bit("crashed", RandomizedResponse(Epsilon("8")))
    both = found(question, (600, 1_000), (500, 1_000))
    now, then = (
        statements(question, np.array([1_000 - count, count]), 1_000, 0.975).like
        for count in (600, 500)
    )
    assert both.like == (now[0] - then[1], now[1] - then[0])
    assert both.like[0] < both.these[0] < both.estimate < both.these[1] < both.like[1]


@pytest.mark.parametrize(("epsilon", "people", "ratio"), [("0.5", 1_000, 0.64), ("1", 1_000, 0.68)])
def test_added_variances_give_a_narrower_interval_than_two_limits(
    epsilon: str, people: int, ratio: float
) -> None:
    question = Bit("crashed", RandomizedResponse(Epsilon(epsilon)))
    half = people // 2
    (low,), (high,) = found(question, (half, people), (half, people)).like
    limits = statements(question, np.array([half, half]), people, halved(0.95)).like
    assert (high[0] - low[0]) / (2 * (limits[1][0] - limits[0][0])) == pytest.approx(
        ratio, abs=0.01
    )


def test_equal_rounds_have_a_difference_of_zero() -> None:
    question = Choice("it", KRandomizedResponse(Epsilon("1"), 2), ("a", "b"), None)
    same = found(question, (300, 500), (300, 500))
    assert same.estimate == pytest.approx(0)
    assert (same.these[0] == -same.these[1]).all()
