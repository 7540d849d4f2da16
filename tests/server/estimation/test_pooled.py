"""Periods and their comparisons: coverage summed exactly, with the same people in all rounds,
with half of them the same, and with none.

A count is a sum over independent people, each with the reports of all rounds. So its exact
distribution is a power of one person's generating function, computed by the fast Fourier transform.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from scipy.fft import next_fast_len
from scipy.stats import binom

from deniable.server.estimation import ESTIMATORS
from deniable.server.estimation.statements import (
    CONFIDENCE,
    Side,
    Statements,
    differences,
    halved,
    largest_sampling,
    reach,
)
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanisms import (
    KRandomizedResponse,
    LocalLaplace,
    RandomizedResponse,
    Ternary,
)
from deniable.shared.survey.kinds.base import ShareQuestion
from deniable.shared.survey.kinds.choice import Bit, Choice
from deniable.shared.survey.kinds.number import Number

Array = npt.NDArray[np.float64]

ROUNDS = 4
CASES = ("the same", "half the same", "others")
SHARES = (0.0, 0.02, 0.07, 0.5)
PEOPLE = (50, 400, 250_000)  # in each round; the last have a million reports
EPSILONS = ("0.25", "1", "8")
CORNERS = ["0.25", pytest.param("1", marks=pytest.mark.long), "8"]
NEGLIGIBLE = 1e-13  # the transform's rounding errors


@cache
def question(epsilon: str, options: int = 2) -> ShareQuestion:
    if options == 2:
        return Bit("it", RandomizedResponse(Epsilon(epsilon)))
    names = tuple(map(str, range(options)))
    return Choice("it", KRandomizedResponse(Epsilon(epsilon), options), names, None)


def statements(
    asked: ShareQuestion,
    counts: npt.NDArray[np.int64],
    reports: int,
    rounds: int,
    c: float = CONFIDENCE,
    looks: bool = False,
) -> Statements:
    """Return the statements for each count of the last option, in rounds of equal size."""
    sizes = [len(part) for part in np.array_split(np.empty(reports), rounds)]
    return of_sizes(asked, counts, sizes, c, looks)


def of_sizes(
    asked: ShareQuestion,
    counts: npt.NDArray[np.int64],
    sizes: Sequence[int],
    c: float = CONFIDENCE,
    looks: bool = False,
) -> Statements:
    reports, rows = sum(sizes), np.tile(np.array(sizes), (len(counts), 1))
    cells = np.zeros((len(counts), asked.mechanism.cells), np.int64)
    cells[:, -1], cells[:, 0] = counts, reports - counts
    made = ESTIMATORS[asked.estimation](asked, cells, np.full(len(counts), reports), looks, rows)
    return made.statements(c)


def generating(
    design: SupportDesign, share: float, rounds: int, size: int
) -> npt.NDArray[np.complex128]:
    """Return the transform of one person's count in some rounds."""
    turn = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
    keep, lie = design.keep / ONE, design.lie / ONE
    yes, no = (1 - keep + keep * turn) ** rounds, (1 - lie + lie * turn) ** rounds
    return np.asarray(share * yes + (1 - share) * no)


@cache
def law(
    epsilon: str, options: int, people: int, share: float, case: str
) -> tuple[npt.NDArray[np.int64], Array]:
    """Return the counts of a period that are not negligibly rare, and their probabilities."""
    design, size = question(epsilon, options).mechanism, next_fast_len(ROUNDS * people + 1)
    loyal = {"the same": people, "half the same": people // 2, "others": 0}[case]
    transform = generating(design, share, ROUNDS, size) ** loyal
    transform *= generating(design, share, 1, size) ** (ROUNDS * (people - loyal))
    chances = np.fft.irfft(transform, size)
    counts = np.flatnonzero(chances > NEGLIGIBLE)
    return counts, chances[counts]


def coverage(
    epsilon: str, options: int, people: int, share: float, case: str, rounds: int = ROUNDS
) -> float:
    """Return the coverage of the population's share."""
    counts, chances = law(epsilon, options, people, share, case)
    spread = np.unique(
        np.linspace(0, len(counts) - 1, 4_001).astype(int)
    )  # limits rise with counts
    low, high = statements(question(epsilon, options), counts[spread], ROUNDS * people, rounds).like
    inside = (low[:, -1] <= share + 1e-12) & (share - 1e-12 <= high[:, -1])
    if not inside.any():
        return 0.0
    first, last = counts[spread[inside][[0, -1]]]
    return float(chances[(first <= counts) & (counts <= last)].sum())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("people", [*PEOPLE[:2], pytest.param(PEOPLE[2], marks=pytest.mark.long)])
@pytest.mark.parametrize("epsilon", CORNERS)
def test_the_population_of_a_period_is_covered(epsilon: str, people: int, case: str) -> None:
    shares = SHARES if people < 1_000 else SHARES[1::2]
    worst = min(
        coverage(epsilon, options, people, share, case) for options in (2, 20) for share in shares
    )
    assert worst >= CONFIDENCE


@pytest.mark.parametrize("epsilon", ["2", "8"])
def test_reports_of_the_same_people_do_not_count_as_independent(epsilon: str) -> None:
    """Twin: without the number of rounds, the interval of a period is far too narrow."""
    assert coverage(epsilon, 2, 400, 0.3, "others", rounds=1) >= CONFIDENCE
    assert coverage(epsilon, 2, 400, 0.3, "the same", rounds=1) < 0.9


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_population_of_an_open_period_is_covered(epsilon: str, case: str) -> None:
    """Limits for repeated looks miss far less often at a single look."""
    asked, people = question(epsilon), 400
    for share in SHARES:
        counts, chances = law(epsilon, 2, people, share, case)
        low, high = statements(asked, counts, ROUNDS * people, ROUNDS, looks=True).like
        inside = (low[:, 0] <= share + 1e-12) & (share - 1e-12 <= high[:, 0])
        assert chances[inside].sum() >= 0.99


@pytest.mark.parametrize("mechanism", [LocalLaplace(Epsilon("2"), 8), Ternary(Epsilon("4"))])
def test_the_mean_of_a_period_is_covered_if_all_rounds_have_the_same_people(
    mechanism: NumberTable,
) -> None:
    """More than 227 of 3,000 intervals would miss with probability below 1e-9, at 5 % each.

    Twin: without the number of rounds, many more miss.
    """
    rng, runs, people = np.random.default_rng(8), 3_000, 60
    assert binom.sf(227, runs, 1 - CONFIDENCE) < 1e-9
    rows = np.array([[float(units) / ONE for units in row] for row in mechanism.rows])
    asked = Number("it", mechanism, 0, 1)
    cells = np.zeros((runs, mechanism.cells), np.int64)
    for run in range(runs):
        held = rng.multinomial(people, [0.7, *[0.0] * (len(rows) - 2), 0.3])
        for number, row in zip(ROUNDS * held, rows, strict=True):
            cells[run] += rng.multinomial(number, row / row.sum())
    missed = []
    for rounds in (ROUNDS, 1):
        sizes = np.full((runs, rounds), ROUNDS * people // rounds)
        estimator = ESTIMATORS["mean"](asked, cells, cells.sum(1), False, sizes)
        low, high = estimator.statements(CONFIDENCE).like
        missed.append(int(((low > 0.3) | (high < 0.3)).sum()))
    assert missed[0] <= 227 < missed[1]


# Rounds of different sizes

SIZES = ((1_000, 100, 10), (900, *[60] * 9), (300, 290, 280, 20))
UNEQUAL = ("the same share", "more in small rounds", "more in large rounds")


def share_in_each(sizes: Sequence[int], share: float, kind: str) -> Array:
    """Return the rounds' shares; together they are the share of all reports."""
    weights = np.array(sizes) / sum(sizes)
    if kind == "the same share":
        return np.full(len(sizes), share)
    tilt = weights**-0.9 if kind == "more in small rounds" else weights**2
    shares = np.minimum(share * tilt / (weights @ tilt), 1)
    return np.asarray(shares * share / (weights @ shares))


def unequal_law(
    design: SupportDesign, sizes: Sequence[int], shares: Array, case: str
) -> tuple[npt.NDArray[np.int64], Array]:
    """Return the law of a period's count; the people of a small round are in all larger ones.

    A person who holds the answer in one round also holds it in all rounds with a larger share.
    """
    keep, lie, size = design.keep / ONE, design.lie / ONE, next_fast_len(sum(sizes) + 1)
    turn = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
    yes, no = 1 - keep + keep * turn, 1 - lie + lie * turn

    def person(rounds: Sequence[int]) -> npt.NDArray[np.complex128]:
        falling = [1.0, *sorted((float(shares[n]) for n in rounds), reverse=True), 0.0]
        made = np.zeros(len(turn), complex)
        for held, (above, below) in enumerate(itertools.pairwise(falling)):
            made += (above - below) * yes**held * no ** (len(rounds) - held)
        return made

    loyal = {"the same": 1.0, "half the same": 0.5, "others": 0.0}[case]
    transform, inside = np.ones(len(turn), complex), [round(loyal * n) for n in sizes]
    order = sorted(range(len(sizes)), key=inside.__getitem__, reverse=True)
    for last, number in enumerate(order):
        smaller = inside[order[last + 1]] if last + 1 < len(order) else 0
        transform *= person(order[: last + 1]) ** (inside[number] - smaller)
        transform *= person([number]) ** (sizes[number] - inside[number])
    chances = np.fft.irfft(transform, size)
    counts = np.flatnonzero(chances > NEGLIGIBLE)
    return counts, chances[counts]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(
    "epsilon", ["1", *(pytest.param(more, marks=pytest.mark.long) for more in ("0.25", "8"))]
)
def test_periods_of_unequal_rounds_are_covered(
    epsilon: str, sizes: tuple[int, ...], case: str
) -> None:
    cases = product((2, 20), (0.004, 0.02, 0.07, 0.5), UNEQUAL)
    for options, share, kind in (one for one in cases if one[0] == 2 or one[2] == UNEQUAL[1]):
        asked = question(epsilon, options)
        shares = share_in_each(sizes, share, kind)
        truth = float(shares @ sizes) / sum(sizes)
        counts, chances = unequal_law(asked.mechanism, sizes, shares, case)
        low, high = of_sizes(asked, counts, sizes).like
        inside = (low[:, -1] <= truth + 1e-12) & (truth - 1e-12 <= high[:, -1])
        assert chances[inside].sum() >= CONFIDENCE, (options, share, kind)


def test_unequal_rounds_need_more_than_one_round() -> None:
    """Twin: the interval of one round with as many reports is too narrow."""
    asked, sizes = question("8"), SIZES[1]
    shares = share_in_each(sizes, 0.07, "more in small rounds")
    counts, chances = unequal_law(asked.mechanism, sizes, shares, "the same")
    low, high = of_sizes(asked, counts, [sum(sizes)]).like
    inside = (low[:, 0] <= 0.07 + 1e-12) & (high[:, 0] >= 0.07 - 1e-12)
    assert chances[inside].sum() < 0.9


def largest(sizes: Array, share: float, rng: np.random.Generator) -> float:
    """Return the largest variance, times all reports, that a search over shares finds.

    Common people have the largest covariance of two yes-or-no answers: min(f, g) - f g.
    """
    weights, best = sizes / sizes.sum(), 0.0
    common = np.minimum(weights[:, None], weights)
    for spread in (0.3, 1.0, 3.0, 10.0, 100.0):
        for parts in rng.dirichlet(np.full(len(sizes), spread), 2_000):
            shares = share * parts / weights
            if shares.max() <= 1:
                moved = np.minimum(shares[:, None], shares) - np.outer(shares, shares)
                best = max(best, float((common * moved).sum()))
    return best


@pytest.mark.parametrize("sizes", [(2, 1), (100, 1), (3, 2, 1), (100, *[1] * 9), (5, 5, 5)])
def test_no_overlap_of_people_varies_more_than_the_bound(sizes: tuple[int, ...]) -> None:
    """Twin: the same share in every round would not be the worst case."""
    rng, counted = np.random.default_rng(7), np.array(sizes)
    weights = counted / counted.sum()
    together, exceeded = np.minimum(weights[:, None], weights).sum(), False
    for share in (0.001, 0.01, 0.05, 0.2, 0.4):
        bound = counted.sum() * float(largest_sampling(counted, counted, np.array([share]))[0])
        found = largest(counted.astype(float), share, rng)
        assert found <= bound <= len(sizes) * share * (1 - share) * (1 + 1e-12)
        mirrored = counted.sum() * float(
            largest_sampling(counted, counted, np.array([1 - share]))[0]
        )
        assert mirrored == pytest.approx(bound), "yes and no are alike"
        exceeded |= found > 1.1 * together * share * (1 - share)
    assert exceeded == (sizes == (100, *[1] * 9))
    half = counted.sum() * float(largest_sampling(counted, counted, np.array([0.5]))[0])
    assert half == pytest.approx(together / 4), "attained by the same people and share"


def test_a_small_round_hardly_widens_a_large_one() -> None:
    """The bound for T equal rounds would be 1.28 times as wide."""
    asked, counts = question("8"), np.array([5_000])
    alone, both, equal = (
        float(np.ptp(of_sizes(asked, counts, sizes).like))
        for sizes in ([10_100], [10_000, 100], [5_050, 5_050])
    )
    assert both < 1.03 * alone
    assert equal > 1.28 * both


def noise_law(
    design: SupportDesign, holders: int, people: int
) -> tuple[npt.NDArray[np.int64], Array]:
    """Return the counts and their probabilities if the answers in all reports are given."""
    size = next_fast_len(people + 1)
    transform = generating(design, 1.0, holders, size) * generating(
        design, 0.0, people - holders, size
    )
    chances = np.fft.irfft(transform, size)
    counts = np.flatnonzero(chances > NEGLIGIBLE)
    return counts, chances[counts]


@pytest.mark.parametrize(
    "reports", [50, 1_000, 30_000, pytest.param(1_000_000, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_answers_in_the_reports_of_a_period_are_covered(epsilon: str, reports: int) -> None:
    """Given the answers, it does not matter who sent the reports, or in which round.

    Twin: latched reports that count once for each of four rounds.
    """
    asked = question(epsilon)

    def covered(holders: int, times: int) -> float:
        counts, chances = noise_law(asked.mechanism, holders, reports)
        low, high = statements(asked, times * counts, times * reports, ROUNDS).these
        share = holders / reports
        return float(chances[(low[:, 0] <= share + 1e-12) & (share - 1e-12 <= high[:, 0])].sum())

    holders = [round(share * reports) for share in (0, 0.02, 0.3, 0.5)]
    assert min(covered(number, 1) for number in holders) >= CONFIDENCE
    if asked.mechanism.lie / ONE * reports > 10:
        assert min(covered(number, ROUNDS) for number in holders) < 0.9


# Comparisons of two periods


def joint_law(
    design: SupportDesign,
    people: int,
    shares: Array,
    rounds: tuple[int, int],
    case: str = "the same",
) -> Array:
    """Return the probability of each pair of counts; `shares` is that of each pair of answers."""
    sizes = [number * people + 1 for number in rounds]
    turns = [np.exp(-2j * np.pi * np.arange(size) / size) for size in sizes]
    rates = design.lie / ONE, design.keep / ONE
    person = sum(
        shares[a, b]
        * np.outer(
            (1 - rates[a] + rates[a] * turns[0]) ** rounds[0],
            (1 - rates[b] + rates[b] * turns[1]) ** rounds[1],
        )
        for a in (0, 1)
        for b in (0, 1)
    )
    loyal = {"the same": people, "half the same": people // 2, "others": 0}[case]
    apart = person[:, :1] * person[:1]  # different people in the two periods
    return np.asarray(np.fft.ifft2(person**loyal * apart ** (people - loyal)).real)


def side(asked: ShareQuestion, people: int, rounds: int) -> Side:
    reports = people * rounds
    counts = np.arange(reports + 1)
    made = statements(asked, counts, reports, rounds)
    return Side(made, statements(asked, counts, reports, rounds, halved(CONFIDENCE)).like, None)


def pairwise(
    one: Side, other: Side, now: npt.NDArray[np.int64], then: npt.NDArray[np.int64]
) -> Array:
    """Return both limits of the difference for the population, for each pair of counts."""

    def rows(of: Side, index: npt.NDArray[np.int64]) -> Side:
        chosen = Statements(of.statements.table[:, index, -1:], of.statements.floor[index])
        return Side(chosen, (of.like[0][index, -1:], of.like[1][index, -1:]), None)

    return np.stack(differences(rows(one, now), rows(other, then)).like)[..., 0]


TOGETHER = {  # the share of each pair of answers (in the first period, in the second)
    "the same answer": lambda f: [[1 - f, 0], [0, f]],
    "the opposite answer": lambda f: [[0, f], [1 - f, 0]],
    "any answer": lambda f: [[(1 - f) ** 2, f * (1 - f)], [f * (1 - f), f**2]],
}


OVERLAPS = [*product(TOGETHER, CASES[:1]), *product(["the same answer"], CASES[1:])]
MORE = [pytest.param(kind, CASES[1], marks=pytest.mark.long) for kind in [*TOGETHER][1:]]


@pytest.mark.parametrize(("kind", "case"), [*OVERLAPS, *MORE])
@pytest.mark.parametrize(("people", "rounds"), [(50, (1, 1)), (200, (1, 1)), (50, (3, 2))])
@pytest.mark.parametrize("epsilon", CORNERS)
def test_differences_cover_under_any_dependence(
    epsilon: str, people: int, rounds: tuple[int, int], kind: str, case: str
) -> None:
    """All, half or none of the people answer in both periods, and in all rounds of each.

    Their answers depend on each other in three ways.
    """
    for options in (2, 20):
        asked = question(epsilon, options)
        one, other = (side(asked, people, number) for number in rounds)
        grid = np.indices([number * people + 1 for number in rounds]).reshape(2, -1)
        low, high = pairwise(one, other, *grid)
        for share in (0.0, 0.02, 0.1, 0.5):
            shares = np.array(TOGETHER[kind](share))
            chances = joint_law(asked.mechanism, people, shares, rounds, case).ravel()
            truth = shares[1].sum() - shares[:, 1].sum()
            inside = (low <= truth + 1e-12) & (truth - 1e-12 <= high)
            assert chances[inside].sum() >= CONFIDENCE, (options, share)


def test_sampling_errors_that_add_up_need_their_sum() -> None:
    """Twin: variances of sampling that are added as if different people were in both periods."""
    asked, people = question("4"), 400
    one = side(asked, people, 1)
    shares = np.array([[0, 0.5], [0.5, 0]])
    chances = joint_law(asked.mechanism, people, shares, (1, 1)).ravel()
    grid = np.indices([people + 1] * 2).reshape(2, -1)
    table = one.statements.table[:, :, -1]
    estimate, noise, step = (table[row][grid] for row in (0, 9, 10))
    far = reach(noise.sum(0), np.array(2 * 0.25 / people), step.sum(0), CONFIDENCE)
    independent = np.abs(estimate[0] - estimate[1]) <= far
    assert chances[independent].sum() < 0.9


@pytest.mark.parametrize("mechanism", [LocalLaplace(Epsilon("2"), 8), Ternary(Epsilon("1"))])
def test_the_difference_of_two_means_is_covered_for_opposite_answers(
    mechanism: NumberTable,
) -> None:
    """People at one end in the first period are at the other end in the second.

    More than 227 of 3,000 intervals would miss with probability below 1e-9, at 5 % each.
    """
    rng, runs, people = np.random.default_rng(9), 3_000, 400
    rows = np.array([[float(units) / ONE for units in row] for row in mechanism.rows])
    asked, last = Number("it", mechanism, 0, 1), len(rows) - 1
    cells = np.zeros((2, runs, mechanism.cells), np.int64)
    for run, high in enumerate(rng.binomial(people, 0.4, runs).tolist()):
        for period, held in enumerate((high, people - high)):
            for number, row in ((held, rows[last]), (people - held, rows[0])):
                cells[period, run] += rng.multinomial(2 * number, row / row.sum())
    sides, halves = [], np.full((runs, 2), people)
    for counted in cells:
        estimator = ESTIMATORS["mean"](asked, counted, counted.sum(1), False, halves)
        like = estimator.like(halved(CONFIDENCE))
        sides.append(Side(estimator.statements(CONFIDENCE), like, None))
    assert np.isfinite(sides[0].statements.sampling).all()
    now, then = sides
    low, high = differences(now, then).like
    assert int(((low > -0.2) | (high < -0.2)).sum()) <= 227
