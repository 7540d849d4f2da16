"""Simulated populations: the same distribution as people who are asked one by one."""

import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from deniable.server.intake.tally import tally as server_tally
from deniable.shared.envelope import encode_report
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.mechanism import DEPENDENT, Mechanism
from deniable.shared.privacy.mechanisms import (
    KRandomizedResponse,
    LocalLaplace,
    OptimalTable,
    SplitSign,
    Ternary,
    mechanisms,
)
from deniable.shared.survey.document import Survey, parse_toml
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.kinds.number import Number
from deniable.simulations.central.noise import DiscreteLaplace, discrete_laplace
from deniable.simulations.population import JOINT, drawn, fixed, on_grid
from deniable.simulations.population.walk import walk_rate, walk_rows
from deniable.simulations.population.whole_numbers import grid_distribution
from tests.asked import ANSWERS, survey
from tests.plausible import assert_implausible, assert_plausible

# Questions that are counted. The moments of sums are in tests/server/estimation/test_vectors.py,
# and texts have a separate population, in tests/server/estimation/test_texts.py.
SURVEY = survey(
    [name for name, mechanism in mechanisms().items() if mechanism.kind not in ("text", "vector")]
)
COUNTS = (4_500, 1_000, 400, 100)  # people who give each of the `ANSWERS`


def held_by_people(question: Question) -> list[tuple[object, int]]:
    answers = ANSWERS[question.kind]
    most = [*COUNTS[: len(answers) - 1], sum(COUNTS[len(answers) - 1 :])]
    return list(zip(answers, most, strict=True))


N = sum(COUNTS)


def generator(seed: int = 20261118) -> np.random.Generator:
    return np.random.default_rng(seed)


def client_tallies(survey: Survey) -> list[int]:
    """Ask every person for a report; the server counts the bytes that devices send."""
    draw = random.Random(20261118).getrandbits
    everyone = {
        question.name: [answer for answer, count in held_by_people(question) for _ in range(count)]
        for question in survey.questions
    }
    reports = [
        encode_report(
            survey, survey.report(dict(zip(everyone, answers, strict=True)), draw).symbols
        )
        for answers in zip(*everyone.values(), strict=True)
    ]
    return [int(count) for count in server_tally(survey, b"".join(reports), len(reports))]


def population_tallies(survey: Survey, factor: int = 1) -> list[int]:
    """Simulate the same people; twins pass another ε with the same number of cells."""
    counts: list[int] = []
    for question in survey.questions:
        mechanism = question.mechanism if factor == 1 else widened(question.mechanism, factor)
        found = fixed(mechanism, held_by(question), 1, generator()).counts[0].tolist()
        counts += (found + [0] * question.mechanism.cells)[: question.mechanism.cells]
    return counts


def widened(mechanism: Mechanism, factor: int) -> Mechanism:
    epsilon = Epsilon(str(float(mechanism.epsilon) * factor))
    return mechanisms()[mechanism.name](epsilon, mechanism.size)


def held_by(question: Question) -> NDArray[np.int64]:
    """Return the people by answer, or by point of the grid."""
    held = held_by_people(question)
    if isinstance(question, Number):
        whole = question.mechanism.answer_at(question.mechanism.steps)
        places = [placed(question, answer) / whole for answer, _ in held]
        counts = [count for _, count in held]
        points = on_grid(places, counts, question.mechanism.steps, 1, generator(5))
        return np.asarray(points[0])
    people = np.zeros(question.mechanism.answers, dtype=np.int64)
    for answer, count in held:
        people[placed(question, answer)] += count
    return people


def placed(question: Question, answer: object) -> Any:  # Any: as each kind places it
    found = question.place(answer)
    assert found is not None
    return found


def expected_rates(survey: Survey) -> list[float]:
    """Return the stated probability of each cell, averaged over these people."""
    return [
        sum(
            count * cell_rate(question.mechanism, placed(question, answer), cell)
            for answer, count in held_by_people(question)
        )
        / N
        for question in survey.questions
        for cell in range(question.mechanism.cells)
    ]


def cell_rate(mechanism: Mechanism, read: int, cell: int) -> float:
    """Return the rate for people who hold an answer, or are between two grid points."""
    if not isinstance(mechanism, NumberTable):
        return mechanism.rate(cell, read) / ONE
    place = Fraction(read, ONE)
    below = min(math.floor(place), mechanism.answers - 2)
    up = place - below
    return float(
        ((1 - up) * mechanism.rate(cell, below) + up * mechanism.rate(cell, below + 1)) / ONE
    )


def test_single_people_and_simulated_populations_have_the_same_rates() -> None:
    """Check every cell of every kind of question; false alarm at most 1e-9 per assertion."""
    asked = parse_toml(SURVEY)
    one_by_one, at_once = client_tallies(asked), population_tallies(asked)
    for cell, rate in enumerate(expected_rates(asked)):
        assert_plausible(one_by_one[cell], N, rate)
        assert_plausible(at_once[cell], N, rate)


def test_the_test_above_can_fail() -> None:
    """Twin: a population simulated at twice the ε is rejected in every question."""
    asked = parse_toml(SURVEY)
    wrong, rates = population_tallies(asked, 2), expected_rates(asked)
    start = 0
    for question in asked.questions:
        cells = range(start, start + question.mechanism.cells)
        worst = max(cells, key=lambda cell: abs(wrong[cell] / N - rates[cell]))
        assert_implausible(wrong[worst], N, rates[worst])
        start = cells.stop


SMALL: list[tuple[Mechanism, tuple[int, ...]]] = [
    (made, {2: (1, 2), 3: (2, 1, 0)}[made.answers])
    for mechanism in mechanisms().values()
    for size in (mechanism.proved_sizes if mechanism.given else mechanism.sizes)[:2]
    if (made := mechanism(Epsilon("1"), size)).joint != DEPENDENT and made.answers <= 3
]


def cells_distribution(mechanism: Mechanism, answer: int) -> dict[tuple[int, ...], float]:
    """Return the probability of every set of cells in which one report can count."""
    return {
        tuple(
            int(cell in set(mechanism.cells_of(symbol))) for cell in range(mechanism.cells)
        ): float(mechanism.weight(symbol, answer))
        for symbol in mechanism.encoding.symbols()
    }


def joint_distribution(mechanism: Mechanism, held: Sequence[int]) -> dict[tuple[int, ...], float]:
    """Return the distribution of the whole tally of a few people, by convolution."""
    distribution = {(0,) * mechanism.cells: 1.0}
    for answer, count in enumerate(held):
        for _ in range(count):
            following: dict[tuple[int, ...], float] = defaultdict(float)
            for (tally, p), (report, q) in itertools.product(
                distribution.items(), cells_distribution(mechanism, answer).items()
            ):
                following[tuple(a + b for a, b in zip(tally, report, strict=True))] += p * q
            distribution = dict(following)
    return distribution


@pytest.mark.parametrize(("mechanism", "held"), SMALL, ids=lambda x: getattr(x, "name", str(x)))
def test_joint_tallies_have_the_joint_distribution(
    mechanism: Mechanism, held: tuple[int, ...]
) -> None:
    """Enumerate the distribution of the whole vector; false alarm at most 1e-9 in total."""
    n, distribution = 20_000, joint_distribution(mechanism, held)
    tallies = fixed(mechanism, held, n, generator())
    assert tallies.exactness == JOINT
    seen = Counter(map(tuple, tallies.counts.tolist()))
    assert set(seen) <= set(distribution)
    for tally, probability in distribution.items():
        assert_plausible(seen[tally], n, min(probability, 1.0), 1e-9 / len(distribution))


WALKED = [LocalLaplace(Epsilon(e), m) for e in ("0.1", "1", "4") for m in (1, 2, 4, 64, 255)]


@pytest.mark.parametrize("table", WALKED, ids=lambda x: f"{x.epsilon}, {x.steps}")
def test_local_laplace_equals_a_random_walk_up_to_rounding(table: LocalLaplace) -> None:
    rows = np.array([[units / ONE for units in row] for row in table.rows])
    rate = walk_rate(table, rows)
    assert rate == pytest.approx(math.exp(-float(table.epsilon) / table.steps), rel=1e-14)
    assert rate is not None
    assert np.abs(walk_rows(table.steps, rate) / rows - 1).max() <= 1e-13


def test_no_other_table_is_simulated_as_a_walk() -> None:
    for other in (Ternary(Epsilon("1")), SplitSign(Epsilon("1")), OptimalTable(Epsilon("1"), 4)):
        assert walk_rate(other, np.array([[u / ONE for u in row] for row in other.rows])) is None


@pytest.mark.parametrize("held", [(1, 0, 2, 1, 1), (0, 0, 4, 0, 0), (3, 0, 0, 0, 1)])
def test_merging_people_at_one_point_keeps_the_distribution(held: tuple[int, ...]) -> None:
    """Enumerate all tallies of a few people on five points; false alarm at most 1e-9.

    Twin: the most likely tally rejects another ε.
    """
    n, table = 100_000, LocalLaplace(Epsilon("2"), 4)
    distribution = joint_distribution(table, held)
    seen = Counter(map(tuple, fixed(table, held, n, generator()).counts.tolist()))
    assert set(seen) <= set(distribution)
    for tally, probability in distribution.items():
        assert_plausible(seen[tally], n, min(probability, 1.0), 1e-9 / len(distribution))
    likeliest = max(distribution, key=lambda tally: distribution[tally])
    wrong = fixed(LocalLaplace(Epsilon("3"), 4), held, n, generator()).counts
    assert_implausible(int((wrong == likeliest).all(axis=1).sum()), n, distribution[likeliest])


def test_a_walk_accepts_other_people_in_each_repetition() -> None:
    table, rng = LocalLaplace(Epsilon("1"), 64), generator()
    held = rng.multinomial(10_000, [1 / 65] * 65, 50)
    counts = fixed(table, held, 50, rng).counts
    assert (counts.sum(axis=1) == 10_000).all()
    assert counts.min() >= 0


def test_independent_marginals_are_no_joint_distribution() -> None:
    """Twin: independent binomials for k-RR have correct single counts but impossible tallies."""
    mechanism, held = KRandomizedResponse(Epsilon("1"), 3), (2, 1, 0)
    rng, n = generator(), 20_000
    p, q = mechanism.keep / ONE, mechanism.lie / ONE
    counts = rng.binomial(held, p, (n, 3)) + rng.binomial(3 - np.array(held), q, (n, 3))
    seen, distribution = Counter(map(tuple, counts.tolist())), joint_distribution(mechanism, held)
    assert not set(seen) <= set(distribution)


@pytest.mark.parametrize(("mechanism", "held"), SMALL, ids=lambda x: getattr(x, "name", str(x)))
def test_people_drawn_in_each_repetition_follow_the_mixture(
    mechanism: Mechanism, held: tuple[int, ...]
) -> None:
    """Enumerate two people drawn from a distribution; false alarm at most 1e-9 in total."""
    n, shares = 20_000, [count / sum(held) for count in held]
    distribution: dict[tuple[int, ...], float] = defaultdict(float)
    for pair in itertools.product(range(len(held)), repeat=2):
        weight = shares[pair[0]] * shares[pair[1]]
        both = [pair.count(answer) for answer in range(len(held))]
        for tally, probability in joint_distribution(mechanism, both).items():
            distribution[tally] += weight * probability
    seen = Counter(map(tuple, drawn(mechanism, shares, 2, n, generator()).counts.tolist()))
    assert set(seen) <= set(distribution)
    for tally, probability in distribution.items():
        assert_plausible(seen[tally], n, min(probability, 1.0), 1e-9 / len(distribution))


@pytest.mark.parametrize("people", [10**6, 10**9])
def test_a_billion_people_have_the_right_mean_and_variance(people: int) -> None:
    """Compare exact moments with 4,000 repetitions.

    Mean and variance are within 6.5 standard errors (false alarm about 1e-10 each, because such
    large sums are normally distributed).
    """
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
    """Compare exact sums of the expected people at each point: (1 - t) below, t above."""
    distribution = grid_distribution([0.3, 1.0, -2.0], [0.5, 0.25, 0.25], 4)
    assert distribution == pytest.approx([0.25, 0.4, 0.1, 0.0, 0.25])
    points = on_grid([0.3], [1_000_000], 4, 1, generator())[0]
    assert points[3] == points[4] == points[0] == 0
    assert points.sum() == 1_000_000
    assert_plausible(int(points[2]), 1_000_000, 0.2)
    assert_implausible(int(points[2]), 1_000_000, 0.21)


def test_noise_in_doubles_has_its_distribution() -> None:
    """Keep false alarms at 1.3e-8. Twin: the noise of three people is rejected."""
    noise, n, reach = DiscreteLaplace(Epsilon("1")), 40_000, 60
    one = np.array([noise.probability(z) for z in range(-reach, reach + 1)])
    three = np.convolve(np.convolve(one, one), one)
    singles = discrete_laplace(noise, n, generator())
    for z in range(-6, 7):
        assert_plausible(int((singles == z).sum()), n, noise.probability(z))
    assert_implausible(int((singles == 0).sum()), n, float(three[3 * reach]))
