"""Statements about a question: joint confidence, the floor, and means for exactly these people."""

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom

from deniable.server.estimation import mean_limits
from deniable.server.estimation.mean_limits import bounded_mean
from deniable.server.estimation.statements import Statements, joint_confidence
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanisms import (
    KRandomizedResponse,
    LocalLaplace,
    OneBitMean,
    SubsetSelection,
    Ternary,
    Unary,
)
from deniable.shared.survey.kinds.choice import Choice
from tests.server.estimation.single import statements

OPTIONS, PEOPLE, PICKED = 300, 20_000, 20
RUNS = 200
DESIGNS = [
    KRandomizedResponse(Epsilon("2"), OPTIONS),
    Unary(Epsilon("1"), OPTIONS),
    SubsetSelection(Epsilon("2"), OPTIONS),
]


def choice(design: SupportDesign) -> Choice:
    return Choice("it", design, tuple(map(str, range(design.options))), None)


def zipf() -> npt.NDArray[np.int64]:
    shares = 1 / np.arange(1, OPTIONS + 1)
    held: npt.NDArray[np.int64] = np.floor(PEOPLE * shares / shares.sum()).astype(np.int64)
    held[0] += PEOPLE - held.sum()
    return held


def drawn(design: SupportDesign, held: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.int64]:
    """Draw each option's count from its exact distribution, independently."""
    rng, counts = np.random.default_rng(seed), np.zeros(len(held), dtype=np.int64)
    counts += rng.binomial(held, design.keep / ONE)
    counts += rng.binomial(PEOPLE - held, design.lie / ONE)
    return counts


def picked_are_covered(found: Statements, shares: npt.NDArray[np.float64], kind: str) -> bool:
    """Return True if the intervals of all the highest estimates contain the truth."""
    highest = np.argsort(-found.estimate)[:PICKED]
    low, high = getattr(found, kind)
    return bool(((low <= shares) & (shares <= high))[highest].all())


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_the_highest_options_of_a_list_are_covered(design: SupportDesign) -> None:
    """Bonferroni's inequality: the intervals of a list all hold with a probability of 95 %.

    More than 31 of 200 lists would then miss with probability below 1e-7. Twin: far more lists miss
    if each interval has its confidence only individually.
    """
    held = zipf()
    found = [statements(choice(design), drawn(design, held, run), PEOPLE) for run in range(RUNS)]
    every, one_by_one = (
        sum(picked_are_covered(result, held / PEOPLE, kind) for result in found)
        for kind in ("every", "like")
    )
    assert RUNS - every <= 31
    assert RUNS - one_by_one > 31


@pytest.mark.parametrize("epsilon", ["0.5", "2", "8"])
def test_the_error_probabilities_of_all_labels_add_up_to_five_percent(epsilon: str) -> None:
    """The probabilities are summed exactly, for people drawn at random."""
    people, options = 1_000, 1_001
    design, counts = Unary(Epsilon(epsilon), options), np.arange(people + 1)
    low, high = statements(choice(design), counts, people).every
    for share in (0, 0.01, 0.1, 0.5, 1):
        rate = (share * design.keep + (1 - share) * design.lie) / ONE
        missed = (share < low - 1e-12) | (high + 1e-12 < share)
        assert binom.pmf(counts, people, rate)[missed].sum() <= 0.05 / options


def test_the_joint_confidence_of_one_label_is_the_confidence_itself() -> None:
    assert joint_confidence(1, 0.95) == pytest.approx(0.95)
    assert joint_confidence(20, 0.95) == pytest.approx(0.9975)


@pytest.mark.parametrize(("design", "looks"), list(product(DESIGNS, [False, True])))
def test_the_floor_separates_options_above_zero_from_the_rest(
    design: SupportDesign, looks: bool
) -> None:
    found = statements(choice(design), drawn(design, zipf(), 1), PEOPLE, looks=looks)
    told = found.every[0] > 0
    assert 0 < told.sum() < OPTIONS
    assert ((found.estimate >= found.floor - 1e-12) == told).all()


@pytest.mark.parametrize("epsilon", ["0.1", "2", "8"])
@pytest.mark.parametrize("looks", [False, True])
def test_the_floor_is_the_lowest_estimate_clearly_above_zero(epsilon: str, looks: bool) -> None:
    """Check every count. If even the largest count is not clearly above zero, there is no floor."""
    told = []
    for reports in (1, 2, 10, 60, 500, 5_000):
        counts, design = np.arange(reports + 1), Unary(Epsilon(epsilon), reports + 1)
        found = statements(choice(design), counts, reports, looks=looks)
        above = np.append(found.estimate[found.every[0] > 0], np.nan)
        assert above[0] == found.floor or (np.isnan(above[0]) and np.isnan(found.floor))
        told.append(len(above) > 1)
    assert told == sorted(told)
    assert (told[0], told[-1]) == (epsilon == "8" and not looks, True)


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_options_that_nobody_holds_hardly_ever_pass_the_floor(design: SupportDesign) -> None:
    """Bound the exact probability that any unheld option reaches the floor."""
    held = np.array([PEOPLE, *[0] * (OPTIONS - 1)])
    floor = float(statements(choice(design), drawn(design, held, 1), PEOPLE).floor)
    rate = design.lie / ONE
    count = round(PEOPLE * (rate + floor * (design.keep - design.lie) / ONE))
    assert OPTIONS * binom.sf(count - 1, PEOPLE, rate) <= 0.025
    # A floor that is one report lower would break the bound.
    assert OPTIONS * binom.sf(count - 2, PEOPLE, rate) > 0.025


TABLES = [LocalLaplace(Epsilon("1"), 8), LocalLaplace(Epsilon("4"), 8), Ternary(Epsilon("2"), 2)]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table.name}-{table.epsilon}")
def test_the_noise_bound_of_a_mean_holds_for_every_population(table: NumberTable) -> None:
    rng = np.random.default_rng(4)
    places, most = mean_limits.largest_noise(table)
    for _ in range(200):
        where, weights = rng.random(4), rng.dirichlet([0.5] * 4)
        noise = weights @ [table.variance(1, position) for position in where]
        assert noise <= np.interp(weights @ where, places, most) + 1e-12


def test_interpolation_between_positions_equals_numpys() -> None:
    rng, places = np.random.default_rng(2), np.array([0.0, 0.1, 0.5, 0.9, 1.0])
    heights, at = rng.random((50, len(places))), rng.uniform(-0.5, 1.5, 50)
    found = mean_limits._between(places, heights, at)
    pairs = zip(at, heights, strict=True)
    assert found == pytest.approx(
        [np.interp(position, places, row) for position, row in pairs], rel=1e-15
    )


def missed(table: NumberTable, high: float, people: int, runs: int, scale: float) -> int:
    """Count runs whose limits, scaled by `scale`, miss the mean of people at the two ends."""
    rng = np.random.default_rng(people)
    rows = [np.array(row, dtype=np.float64) / ONE for row in (table.rows[0], table.rows[-1])]
    held = round(high * people)
    result = 0
    for _ in range(runs):
        counts = rng.multinomial(people - held, rows[0] / rows[0].sum()).astype(float)
        counts += rng.multinomial(held, rows[1] / rows[1].sum())
        low, top = mean_limits.mean_limits(table, counts, 0.95)
        middle, reach = (low + top) / 2, (top - low) / 2 * scale
        result += not middle - reach <= held / people <= middle + reach
    return result


@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table.name}-{table.epsilon}")
@pytest.mark.parametrize("high", [0.0, 0.02, 0.5])
def test_the_mean_of_these_people_is_covered(table: NumberTable, high: float) -> None:
    """If 5 % of runs miss, more than 31 of 200 runs miss with probability below 1e-7."""
    assert missed(table, high, 100, 200, 1) <= 31
    assert missed(table, high, 100, 200, 0.4) > 31  # the twin


def test_the_interval_for_these_people_is_narrower_if_they_differ() -> None:
    """With little noise and half of the people at each end, most variation is sampling."""
    table = TABLES[1]
    counts = np.array(table.rows[0], dtype=float) + np.array(table.rows[-1], dtype=float)
    counts = np.round(10_000 * counts / counts.sum())
    low, high = mean_limits.mean_limits(table, counts, 0.95)
    values = np.array([float(value) for value in table.values]) / table.steps
    like = bounded_mean(values, counts, 0.95)
    assert (high - low) / (like[1] - like[0]) < 0.7


def test_with_two_symbols_these_people_get_no_narrower_interval() -> None:
    table, counts = OneBitMean(Epsilon("1")), np.array([400.0, 600.0])
    values = np.array([float(value) for value in table.values])
    assert mean_limits.mean_limits(table, counts, 0.95) == bounded_mean(values, counts, 0.95)
