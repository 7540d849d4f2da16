"""Smoothed trend: exact coverage at the largest admissible drift, and the stated widths.

Given the answers, a count is a sum of two binomials. In the population's tests the same people are
in all rounds, so a count is a sum over independent people.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from deniable.server.estimation import ESTIMATORS
from deniable.server.estimation.statements import CONFIDENCE, Estimator, Reading
from deniable.server.estimation.trend import (
    LENGTHS,
    Window,
    half_width,
    largest_error,
    period_confidence,
    windows,
)
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.survey.kinds.base import ShareQuestion
from tests.server.estimation.test_pooled import NEGLIGIBLE, noise_law, question

Array = npt.NDArray[np.float64]
Law = tuple[npt.NDArray[np.int64], Array]  # counts, and their probabilities

EPSILONS = ("0.25", "1", "2", "8")
PEOPLE = (50, 1_000, 100_000, 1_000_000)  # reports of the whole window, but at least 10 a round
DRIFTS = (0.0, 0.001, 0.005, 0.02, 0.1)  # largest change per round
LONG = partial(pytest.param, marks=pytest.mark.long)
TWELVE_DAYS = {0: 1.62, 0.1: 1.90, 0.25: 2.44, 0.5: 3.00, 1: 3.61, 2: 4.29}


def chosen(asked: ShareQuestion, people: int, drift: float) -> Window:
    """Return the window of the last of twelve rounds with this many people each."""
    _, noise = asked.mechanism.variances(None)
    return windows(np.full(12, people), drift, noise)[-1]


def coverage(
    asked: ShareQuestion, law: Law, reports: int, window: Window, truth: float, *, sampling: bool
) -> float:
    """Return the probability that the limits for the last option contain the truth.

    They rise with the count, so a selection of counts is enough for a lower bound.
    """
    counts, chances = law
    spread = counts[np.unique(np.linspace(0, len(counts) - 1, 2_001).astype(int))]
    cells = np.zeros((len(spread), asked.mechanism.cells), np.int64)
    cells[:, -1], cells[:, 0] = spread, reports - spread
    all_reports = np.full(len(spread), reports)
    sizes = np.full((len(spread), window.rounds), reports // window.rounds)
    made: Estimator = ESTIMATORS[asked.estimation](asked, cells, all_reports, False, sizes)
    error = largest_error(made, reports, window.rounds, sampling=sampling)
    confidence = period_confidence(Reading(), window.bias, error)
    low, high = made.like(confidence) if sampling else made.these(confidence)
    low, high = low[:, -1] - window.bias, high[:, -1] + window.bias
    inside = spread[(low <= truth + 1e-12) & (truth - 1e-12 <= high)]
    if not len(inside):
        return 0.0
    return float(chances[(inside[0] <= counts) & (counts <= inside[-1])].sum())


def covered(asked: ShareQuestion, people: int, drift: float, start: float, moves: float) -> float:
    """Return the coverage of the last round's share if it moves by `moves` in every round."""
    window = chosen(asked, people, drift)
    first, each = round(start * people), math.trunc(moves * people)
    held = np.clip([first + each * n for n in range(window.rounds)], 0, people)
    law, reports = noise_law(asked.mechanism, int(held.sum()), people * window.rounds), len(held)
    return coverage(asked, law, people * reports, window, held[-1] / people, sampling=False)


@pytest.mark.parametrize("people", [*PEOPLE[:2], *map(LONG, PEOPLE[2:])])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_respondents_of_a_round_are_covered_at_the_largest_drift(
    epsilon: str, people: int
) -> None:
    """Sum over all counts, for shares that rise and fall by the stated change in every round."""
    each, every = max(10, people // 12), 1 if people < 100_000 else 3
    for options, start, drift in product((2, 20), (0.0, 0.02, 0.3, 0.6)[::every], DRIFTS[1::every]):
        for moves in (drift, -drift):
            found = covered(question(epsilon, options), each, drift, start, moves)
            assert found >= CONFIDENCE, (options, start, moves)


@pytest.mark.parametrize("epsilon", ["1", "2"])
def test_a_larger_drift_than_stated_is_not_covered(epsilon: str) -> None:
    """Twin: the share moves by five times as much as the survey states."""
    asked, drift = question(epsilon), 0.002
    assert chosen(asked, 4_000, drift).rounds > 2
    assert covered(asked, 4_000, drift, 0.2, 5 * drift) < 0.9
    assert covered(asked, 4_000, drift, 0.2, drift) >= CONFIDENCE


def of_population(
    asked: ShareQuestion, people: int, shares: Array, window: Window, *, sampling: bool = True
) -> float:
    """Return the coverage of the last round's share in the population."""
    law, reports = population(asked, people, shares), people * len(shares)
    return coverage(asked, law, reports, window, float(shares[-1]), sampling=sampling)


def population(asked: ShareQuestion, people: int, shares: Array) -> Law:
    """Return the law of a pooled count if the same people report in all rounds.

    Each person has a level: they hold the answer in the rounds whose share is above it.
    """
    size, design = people * len(shares) + 1, asked.mechanism
    turn = np.exp(-2j * np.pi * np.arange(size) / size)
    yes, no = (1 - p / ONE + p / ONE * turn for p in (design.keep, design.lie))
    edges = np.concatenate([[0.0], np.sort(shares), [1.0]])
    transform = sum(
        width * yes ** (len(shares) - n) * no**n for n, width in enumerate(np.diff(edges))
    )
    chances = np.fft.ifft(np.asarray(transform) ** people).real
    counts = np.flatnonzero(chances > NEGLIGIBLE)
    return counts, chances[counts]


@pytest.mark.parametrize("people", [50, *map(LONG, (400, 5_000))])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_population_is_covered_if_the_same_people_are_in_all_rounds(
    epsilon: str, people: int
) -> None:
    for options, drift in product((2, 20), (0.001, 0.005, 0.02)):
        asked = question(epsilon, options)
        window = chosen(asked, people, drift)
        for start, moves in product((0.0, 0.05, 0.3, 0.5), (drift, -drift)):
            shares = np.clip(start + moves * np.arange(window.rounds), 0, 1)
            found = of_population(asked, people, shares, window)
            assert found >= CONFIDENCE, (options, start, moves)


def test_sampling_errors_of_the_same_people_do_not_average_out() -> None:
    """Twin: the limits for the respondents, which leave sampling out, miss the population."""
    asked, drift = question("2"), 0.001
    window = chosen(asked, 400, drift)
    shares = np.array([0.3 + drift * n for n in range(window.rounds)])
    assert of_population(asked, 400, shares, window) >= CONFIDENCE
    assert of_population(asked, 400, shares, window, sampling=False) < 0.9


@pytest.mark.parametrize(("points", "stated"), TWELVE_DAYS.items())
def test_twelve_days_have_the_stated_width(points: float, stated: float) -> None:
    """At most 5 % above the width with the best weights, and equal without drift."""
    deviation = 1.62 * math.sqrt(12) / 1.959964
    window = windows(np.full(12, 1), points, deviation**2)[-1]
    error = deviation / math.sqrt(window.rounds)
    width = float(half_width(np.array([window.bias / error]))[0]) * error
    assert width <= 1.05 * stated
    assert width >= stated - 0.005
    assert (window.rounds == 12) == (points <= 0.1)


def test_the_half_width_has_its_known_values() -> None:
    """It is 1.96 without bias, and tends to the bias plus 1.645."""
    found = half_width(np.array([0.0, 0.5, 1.0, 8.0]))
    assert found == pytest.approx([1.959964, 2.181477, 2.646146, 9.644854], abs=1e-6)


def test_every_look_is_read_jointly_for_all_lengths() -> None:
    """The window may change as reports arrive, so each length has its share of the error."""
    read = Reading(0.975, any_time=True)
    assert 1 - period_confidence(read, 1.0, 0.1) == pytest.approx(0.025 / len(LENGTHS))
    assert period_confidence(Reading(), 0.0, 0.1) == CONFIDENCE
    assert period_confidence(Reading(), 1.0, math.inf) == CONFIDENCE
    assert period_confidence(Reading(), 1.0, 0.01) == pytest.approx(2 * CONFIDENCE - 1)


def test_a_window_never_reaches_before_the_first_round_and_ages_by_reports() -> None:
    reports = np.array([100, 0, 300, 5])
    found = windows(reports, 0.0, 1.0)
    assert [window.rounds for window in found] == [1, 2, 3, 4]
    (*_, last) = windows(reports, 0.1, 1.0)
    assert last.rounds == 2
    assert last.bias == pytest.approx(0.1 * 300 / 305)
