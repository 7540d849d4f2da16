"""Whole populations at once have the law of their people, asked one by one as a client does."""

import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from deniable.server.intake.tally import tally as server_tally
from deniable.shared.envelope import encode_report
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import (
    KRandomizedResponse,
    LocalLaplace,
    OneBitMean,
    RandomizedResponse,
    Unary,
)
from deniable.shared.privacy.shapes.number_table import NumberTable
from deniable.shared.privacy.shapes.support import SupportDesign
from deniable.shared.privacy.thresholds import ONE
from deniable.shared.survey.document import Survey, parse_toml
from deniable.shared.survey.questions import Number, Question
from deniable.simulations.central import DiscreteLaplace
from deniable.simulations.population import (
    JOINT,
    discrete_laplace,
    discrete_laplace_sum,
    drawn,
    fixed,
    on_grid,
)
from deniable.simulations.population.numbers import grid_law
from tests.plausible import assert_implausible, assert_plausible

SURVEY = """
[survey]
name = "all-kinds"
title = "Each kind of question"
purpose = "A test of the simulator."
owner = "Tests"
opens = 2026-12-01
closes = 2026-12-31
round = "month"
grace_days = 14
retention_days = 90
minimum_reports = 1

[[question]]
name = "yes"
kind = "bit"
epsilon = "0.8"

[[question]]
name = "bit_mean"
kind = "number"
low = 0
high = 10
epsilon = "1"
mechanism = "one-bit-mean"

[[question]]
name = "laplace"
kind = "number"
low = -1
high = 1
epsilon = "3"
mechanism = "local-laplace"
grid = 5

[[question]]
name = "few"
kind = "choice"
options = ["a", "b", "c", "d"]
epsilon = "1"
mechanism = "k-randomized-response"

[[question]]
name = "many"
kind = "choice"
options = ["a", "b", "c", "d"]
epsilon = "1"
mechanism = "unary"
"""
PEOPLE = [  # answers, and how many people give them
    ({"yes": True, "bit_mean": 2.5, "laplace": -0.9, "few": "a", "many": "c"}, 4_500),
    ({"yes": False, "bit_mean": 9, "laplace": 0.25, "few": "b", "many": "c"}, 1_000),
    ({"yes": False, "bit_mean": 0, "laplace": 1, "few": "d", "many": "a"}, 500),
]
N = sum(count for _, count in PEOPLE)


def generator(seed: int = 20261118) -> np.random.Generator:
    return np.random.default_rng(seed)


def client_tallies(survey: Survey) -> list[int]:
    """Every person answers, report by report; the server counts the bytes that devices send."""
    draw = random.Random(20261118).getrandbits
    reports = [
        encode_report(survey, survey.report(answers, draw))
        for answers, count in PEOPLE
        for _ in range(count)
    ]
    return [int(count) for count in server_tally(survey, b"".join(reports), len(reports))]


def population_tallies(survey: Survey, factor: int = 1) -> list[int]:
    """The same people by the generators; another ε where a twin wants one."""
    counts: list[int] = []
    for question in survey.questions:
        mechanism = question.mechanism if factor == 1 else widened(question.mechanism, factor)
        counts += fixed(mechanism, held_by(question), 1, generator()).counts[0].tolist()
    return counts


def widened(mechanism: Mechanism, factor: int) -> Mechanism:
    epsilon = Epsilon(str(float(mechanism.epsilon) * factor))
    if isinstance(mechanism, LocalLaplace):
        return LocalLaplace(epsilon, mechanism.steps)
    if isinstance(mechanism, KRandomizedResponse):
        return KRandomizedResponse(epsilon, mechanism.options)
    if isinstance(mechanism, Unary):
        return Unary(epsilon, mechanism.options)
    return RandomizedResponse(epsilon) if mechanism.kind == "bit" else OneBitMean(epsilon)


def held_by(question: Question) -> NDArray[np.int64]:
    """People by answer, or by point of the grid."""
    if isinstance(question, Number):
        places = [float(Fraction(*question.read(answers[question.name]))) for answers, _ in PEOPLE]
        counts = [count for _, count in PEOPLE]
        points = on_grid(places, counts, question.mechanism.steps, 1, generator(5))
        return np.asarray(points[0])
    held = np.zeros(question.mechanism.cells, dtype=np.int64)
    for answers, count in PEOPLE:
        held[question.read(answers[question.name])] += count
    return held


def expected_rates(survey: Survey) -> list[float]:
    """The stated chance of each cell, over these people."""
    return [
        sum(
            count * cell_chance(question.mechanism, question.read(answers[question.name]), cell)
            for answers, count in PEOPLE
        )
        / N
        for question in survey.questions
        for cell in range(question.mechanism.cells)
    ]


def cell_chance(mechanism: Mechanism, read: int | tuple[int, int], cell: int) -> float:
    if isinstance(mechanism, NumberTable):
        assert isinstance(read, tuple)
        place = Fraction(*read) * mechanism.steps
        below = min(math.floor(place), mechanism.steps - 1)
        up, rows = place - below, mechanism.rows
        return float(((1 - up) * rows[below][cell] + up * rows[below + 1][cell]) / ONE)
    assert isinstance(mechanism, SupportDesign)
    return (mechanism.keep if cell == read else mechanism.lie) / ONE


def test_people_one_by_one_and_all_at_once_have_the_same_rates() -> None:
    """Every cell of every kind of question; false alarm at most 1e-9 for each assertion."""
    survey = parse_toml(SURVEY)
    one_by_one, at_once = client_tallies(survey), population_tallies(survey)
    for cell, rate in enumerate(expected_rates(survey)):
        assert_plausible(one_by_one[cell], N, rate)
        assert_plausible(at_once[cell], N, rate)


def test_the_test_above_can_fail() -> None:
    """Twin: a population simulated at twice the ε is rejected in every question."""
    survey = parse_toml(SURVEY)
    wrong, rates = population_tallies(survey, 2), expected_rates(survey)
    start = 0
    for question in survey.questions:
        cells = range(start, start + question.mechanism.cells)
        worst = max(cells, key=lambda cell: abs(wrong[cell] / N - rates[cell]))
        assert_implausible(wrong[worst], N, rates[worst])
        start = cells.stop


SMALL: list[tuple[Mechanism, tuple[int, ...]]] = [
    (RandomizedResponse(Epsilon("1")), (1, 2)),
    (KRandomizedResponse(Epsilon("1"), 3), (2, 1, 0)),
    (Unary(Epsilon("1"), 3), (2, 1, 0)),
    (OneBitMean(Epsilon("1")), (1, 2)),
    (LocalLaplace(Epsilon("2"), 2), (2, 0, 1)),
]


def cells_law(mechanism: Mechanism, answer: int) -> dict[tuple[int, ...], float]:
    """The chance of every set of cells that one report can count in."""
    cells = mechanism.cells
    if isinstance(mechanism, Unary):
        rates = [cell_chance(mechanism, answer, cell) for cell in range(cells)]
        return {
            bits: math.prod(r if bit else 1 - r for bit, r in zip(bits, rates, strict=True))
            for bits in itertools.product((0, 1), repeat=cells)
        }
    read = (answer, mechanism.steps) if isinstance(mechanism, NumberTable) else answer
    return {
        tuple(int(cell == symbol) for cell in range(cells)): cell_chance(mechanism, read, symbol)
        for symbol in range(cells)
    }


def joint_law(mechanism: Mechanism, held: Sequence[int]) -> dict[tuple[int, ...], float]:
    """The law of the whole tally of a few people, by convolution."""
    law = {(0,) * mechanism.cells: 1.0}
    for answer, count in enumerate(held):
        for _ in range(count):
            following: dict[tuple[int, ...], float] = defaultdict(float)
            for (tally, p), (report, q) in itertools.product(
                law.items(), cells_law(mechanism, answer).items()
            ):
                following[tuple(a + b for a, b in zip(tally, report, strict=True))] += p * q
            law = dict(following)
    return law


@pytest.mark.parametrize(("mechanism", "held"), SMALL, ids=lambda x: getattr(x, "name", str(x)))
def test_tallies_labelled_joint_are_joint(mechanism: Mechanism, held: tuple[int, ...]) -> None:
    """The law of the whole vector, by enumeration; false alarm at most 1e-9 in all."""
    n, law = 20_000, joint_law(mechanism, held)
    tallies = fixed(mechanism, held, n, generator())
    assert tallies.law == JOINT
    seen = Counter(map(tuple, tallies.counts.tolist()))
    assert set(seen) <= set(law)
    for tally, chance in law.items():
        assert_plausible(seen[tally], n, min(chance, 1.0), 1e-9 / len(law))


def test_independent_marginals_do_not_pass_for_a_joint_law() -> None:
    """Twin: k-RR by independent binomials, right in each count, makes impossible tallies."""
    mechanism, held = SMALL[1]
    assert isinstance(mechanism, KRandomizedResponse)
    rng, n = generator(), 20_000
    p, q = mechanism.keep / ONE, mechanism.lie / ONE
    counts = rng.binomial(held, p, (n, 3)) + rng.binomial(3 - np.array(held), q, (n, 3))
    seen, law = Counter(map(tuple, counts.tolist())), joint_law(mechanism, held)
    assert not set(seen) <= set(law)


@pytest.mark.parametrize(("mechanism", "held"), SMALL, ids=lambda x: getattr(x, "name", str(x)))
def test_people_drawn_anew_have_the_mixed_law(mechanism: Mechanism, held: tuple[int, ...]) -> None:
    """Two people drawn from a law, by enumeration; false alarm at most 1e-9 in all."""
    n, shares = 20_000, [count / sum(held) for count in held]
    law: dict[tuple[int, ...], float] = defaultdict(float)
    for pair in itertools.product(range(len(held)), repeat=2):
        weight = shares[pair[0]] * shares[pair[1]]
        both = [pair.count(answer) for answer in range(len(held))]
        for tally, chance in joint_law(mechanism, both).items():
            law[tally] += weight * chance
    seen = Counter(map(tuple, drawn(mechanism, shares, 2, n, generator()).counts.tolist()))
    assert set(seen) <= set(law)
    for tally, chance in law.items():
        assert_plausible(seen[tally], n, min(chance, 1.0), 1e-9 / len(law))


@pytest.mark.parametrize("people", [10**6, 10**9])
def test_a_billion_people_have_the_right_mean_and_spread(people: int) -> None:
    """Exact moments against 4,000 repetitions: mean within 6.5 standard errors, variance within
    6.5 of its own (false alarm about 1e-10 each, by the normal law that sums this large have)."""
    repetitions, mechanism = 4_000, KRandomizedResponse(Epsilon("1"), 4)
    held = [people // 2, people // 4, people // 4, 0]
    counts = fixed(mechanism, held, repetitions, generator()).counts
    assert (counts.sum(axis=1) == people).all()
    p, q = mechanism.keep / ONE, mechanism.lie / ONE
    for option, count in enumerate(held):
        mean = count * p + (people - count) * q
        variance = count * p * (1 - p) + (people - count) * q * (1 - q)
        seen = counts[:, option]
        assert abs(seen.mean() - mean) <= 6.5 * math.sqrt(variance / repetitions)
        assert abs(seen.var() / variance - 1) <= 6.5 * math.sqrt(2 / repetitions)


def test_numbers_between_two_points_keep_their_mean_exactly() -> None:
    """The expected people at each point, in exact sums: (1 - t) below, t above."""
    law = grid_law([0.3, 1.0, -2.0], [0.5, 0.25, 0.25], 4)
    assert law == pytest.approx([0.25, 0.4, 0.1, 0.0, 0.25])
    points = on_grid([0.3], [1_000_000], 4, 1, generator())[0]
    assert points[3] == points[4] == points[0] == 0
    assert points.sum() == 1_000_000
    assert_plausible(int(points[2]), 1_000_000, 0.2)
    assert_implausible(int(points[2]), 1_000_000, 0.21)


def test_the_sum_of_many_noises_is_the_convolution_of_one() -> None:
    """Three people's noise, by convolution of the law; false alarm at most 2.6e-8, with a twin."""
    law, n, reach = DiscreteLaplace(Epsilon("1")), 40_000, 60
    one = np.array([law.chance(z) for z in range(-reach, reach + 1)])
    three = np.convolve(np.convolve(one, one), one)
    sums = discrete_laplace_sum(law, 3, n, generator())
    singles = discrete_laplace(law, n, generator())
    for z in range(-6, 7):
        assert_plausible(int((sums == z).sum()), n, float(three[z + 3 * reach]))
        assert_plausible(int((singles == z).sum()), n, law.chance(z))
    assert_implausible(int((singles == 0).sum()), n, float(three[3 * reach]))
    assert not discrete_laplace_sum(law, 0, 5, generator()).any()


def test_noise_of_a_billion_people_has_the_right_spread() -> None:
    law, n, people = DiscreteLaplace(Epsilon("0.5"), 64), 20_000, 10**9
    sums = discrete_laplace_sum(law, people, n, generator())
    assert sums.var() / (people * law.variance) == pytest.approx(1, abs=6.5 * math.sqrt(2 / n))
    assert abs(sums.mean()) <= 6.5 * math.sqrt(people * law.variance / n)
