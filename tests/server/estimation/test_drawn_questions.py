"""Periods in which each person draws one of several questions in every round (`ask = 1`).

The same people take part in every round. A question's count is then a sum over independent people,
each with a pair (number of times asked, number of reports that support the option). Its exact law,
given the number of reports, is a part of a power of one person's generating function. The transform
of that power is negligible except near 0, so a few hundred of its frequencies are enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import hypergeom

from deniable.server.estimation import ESTIMATORS
from deniable.server.estimation.statements import (
    CONFIDENCE,
    Reading,
    RoundSize,
    largest_sampling,
)
from deniable.server.planning.display_gate import at_worst
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.survey.kinds.choice import Bit

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]

FAR = 9  # standard deviations beyond which a probability is negligible
SHARES = (0.0, 0.02, 0.3, 0.5)


@cache
def bit(epsilon: str) -> Bit:
    return Bit("it", RandomizedResponse(Epsilon(epsilon)))


def covered(
    asked: Bit, sizes: Sequence[tuple[int, int]], law: tuple[Cells, Array], truth: float
) -> float:
    """Return the probability that the limits for the population contain the truth.

    They rise with the count, so it is enough to find the first and the last count that cover.
    """
    counts, chances = law
    spread = np.unique(np.linspace(0, len(counts) - 1, 201).astype(int))
    rough = np.flatnonzero(contains(asked, sizes, counts[spread], truth))
    if not len(rough):
        return 0.0
    first, last = (np.clip([n - 1, n + 1], 0, len(spread) - 1) for n in rough[[0, -1]])
    near = np.concatenate([np.arange(*spread[ends] + [0, 1]) for ends in (first, last)])
    inside = near[contains(asked, sizes, counts[near], truth)]
    return float(chances[inside[0] : inside[-1] + 1].sum())


def contains(
    asked: Bit, sizes: Sequence[tuple[int, int]], counts: Cells, truth: float
) -> npt.NDArray[np.bool_]:
    rows = [np.tile(column, (len(counts), 1)) for column in np.array(sizes).T]
    reports = int(rows[0][0].sum())
    cells, total = np.stack([reports - counts, counts], axis=1), np.full(len(counts), reports)
    low, high = ESTIMATORS["shares"](asked, cells, total, False, *rows).like(CONFIDENCE)
    return np.asarray((low[:, 0] <= truth + 1e-12) & (truth - 1e-12 <= high[:, 0]))


def equal_rounds(
    epsilon: str, people: int, rounds: int, questions: int, share: float, *, fresh: bool = True
) -> tuple[Cells, Array]:
    """Return the law of the count, given the expected number of reports of the question.

    Unless `fresh`, each person draws a question once, for all rounds.
    """
    design, chance = bit(epsilon).mechanism, 1 / questions
    keep, lie = design.keep / ONE, design.lie / ONE
    reports = people * rounds // questions
    smallest = math.sqrt(reports * lie * (1 - lie))  # of both deviations, given the other number
    times = rounds if fresh else rounds**2
    asked, z = frequencies(math.sqrt(people * times * chance * (1 - chance)), smallest)
    often = rounds * chance
    square = often + often**2 if fresh else rounds * often  # of one person's number of reports
    counted, w = frequencies(math.sqrt(people * square), smallest)
    person = np.zeros((len(z), len(w)), complex)
    for part, rate in ((share, keep), (1 - share, lie)):
        report = z[:, None] * (1 - rate + rate * w)
        drawn = (
            (1 - chance + chance * report) ** rounds
            if fresh
            else 1 - chance + chance * report**rounds
        )
        person += part * drawn
    given = z.conj() ** reports @ person**people / asked
    middle = round(reports * (lie + share * (keep - lie)))
    counts = np.arange(max(0, middle - counted // 2), min(reports, middle + counted // 2) + 1)
    chances = (w.conj()[None] ** counts[:, None] @ given).real / counted
    return counts, np.asarray(chances / chances.sum())


def frequencies(deviation: float, smallest: float) -> tuple[int, npt.NDArray[np.complex128]]:
    """Return a period beyond which a number is negligible, and the frequencies that are not."""
    period = 2 * math.ceil(FAR * deviation + FAR) + 1
    highest = min(period // 2, math.ceil(period * FAR / (2 * math.pi * smallest)))
    return period, np.exp(-2j * np.pi * np.arange(-highest, highest + 1) / period)


@pytest.mark.parametrize(
    ("people", "rounds", "questions"),
    [
        (50, 2, 2),
        (50, 4, 5),
        (400, 4, 2),
        (400, 12, 4),
        pytest.param(500_000, 4, 2, marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("epsilon", ["0.25", "1", "8"])
def test_the_population_is_covered_if_questions_are_drawn_in_every_round(
    epsilon: str, people: int, rounds: int, questions: int
) -> None:
    sizes = [(people // questions, people)] * rounds
    for share in SHARES if people < 1_000 else SHARES[2:3]:
        law = equal_rounds(epsilon, people, rounds, questions, share)
        assert law[1].sum() == pytest.approx(1)
        assert covered(bit(epsilon), sizes, law, share) >= CONFIDENCE, share


def test_questions_that_are_drawn_once_need_wider_intervals() -> None:
    """Twin: each person answers the same question in all rounds."""
    case = ("8", 400, 12, 4, 0.3)
    once, always = (equal_rounds(*case, fresh=fresh) for fresh in (False, True))
    sizes = [(100, 400)] * 12
    assert covered(bit("8"), sizes, once, 0.3) < 0.8
    assert covered(bit("8"), [(100, 100)] * 12, once, 0.3) >= CONFIDENCE
    assert covered(bit("8"), sizes, always, 0.3) >= CONFIDENCE


def two_rounds(
    epsilon: str, sizes: Sequence[tuple[int, int]], share: float, *, leave: bool
) -> tuple[Cells, Array]:
    """Return the law of the count in two rounds with these numbers of reports and of people.

    The second round's people are among the first's, or the reverse. If those `leave` who were not
    asked the question in the first round, those who were asked it are in the second.
    """
    design = bit(epsilon).mechanism
    keep, lie = design.keep / ONE, design.lie / ONE
    (first, everyone), (second, others) = sizes
    most = max(everyone, others)
    again = (
        hypergeom(others, first, second)
        if leave
        else hypergeom(most, first, round(second * min(everyone, others) / others))
    )
    period = first + second + 1
    turn = np.exp(-2j * np.pi * np.arange(period) / period)
    one, both = (
        share * (1 - keep + keep * turn) ** times + (1 - share) * (1 - lie + lie * turn) ** times
        for times in (1, 2)
    )
    law = np.zeros(period, complex)
    for common in range(min(first, second) + 1):
        law += again.pmf(common) * both**common * one ** (first + second - 2 * common)
    return np.arange(period), np.fft.ifft(law).real


@pytest.mark.parametrize(
    ("sizes", "leave"),
    [
        ([(25, 50), (25, 50)], False),
        ([(200, 1_000), (20, 100)], False),
        ([(20, 100), (200, 1_000)], False),
        ([(100, 500), (50, 100)], True),
        ([(100, 500), (100, 100)], True),
    ],
)
@pytest.mark.parametrize("epsilon", ["0.25", "1", "8"])
def test_two_rounds_of_any_size_are_covered(
    epsilon: str, sizes: list[tuple[int, int]], leave: bool
) -> None:
    """Given both numbers of reports. Participation may depend on the question drawn before."""
    for share in SHARES:
        law = two_rounds(epsilon, sizes, share, leave=leave)
        assert covered(bit(epsilon), sizes, law, share) >= CONFIDENCE, share


def test_the_larger_of_both_rounds_is_too_large_if_people_leave() -> None:
    """Twin: as if people who were not asked in the first round took part in the second."""
    sizes = [(100, 500), (100, 100)]
    law = two_rounds("8", sizes, 0.3, leave=True)
    assert covered(bit("8"), sizes, law, 0.3) >= CONFIDENCE
    assert covered(bit("8"), [(100, 500), (100, 500)], law, 0.3) < 0.93


@pytest.mark.parametrize(("rounds", "questions"), [(2, 2), (7, 3), (30, 5)])
def test_the_variance_of_equal_rounds_is_the_formula(rounds: int, questions: int) -> None:
    sizes = np.full(rounds, 100)
    for share in (0.01, 0.2, 0.5):
        bound = 100 * rounds * largest_sampling(sizes, questions * sizes, np.array([share]))[0]
        times = 1 + (rounds - 1) / questions
        assert bound == pytest.approx(times * share * (1 - share))


def test_a_plan_of_drawn_questions_needs_fewer_people() -> None:
    """A month of days, one of five questions each: .50 of the margin at ε 8, .58 at ε 1."""
    for epsilon, gain in (("8", 0.5), ("1", 0.58)):
        margins = []
        for people in (100, 500):
            plan = at_worst(bit(epsilon), Reading(), 1, (RoundSize(100, people),) * 30)
            assert plan is not None
            margins.append(plan.margin(3_000))
        assert margins[1] / margins[0] == pytest.approx(gain, abs=0.03)
