"""Formula terms that are easily lost, each checked against an independently computed value.

Each test has a twin: the same formula without the term, which is measurably wrong.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise, product
from statistics import NormalDist

import numpy as np
import pytest

from deniable.server.estimation import crosstab, frequent_texts, mean_limits, means, share_limits
from deniable.server.estimation.frequent_texts import candidates
from deniable.server.estimation.statements import CONFIDENCE, Side, Statements, differences
from deniable.shared.privacy.encodings import UNIT
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.mechanisms import KClosest, LocalLaplace, RandomizedResponse, Ternary
from deniable.shared.survey.kinds.choice import Bit
from deniable.shared.survey.kinds.text import FINAL
from tests.server.estimation.single import counted, statements
from tests.server.estimation.test_texts import PEOPLE, WORDS, asking, found, tally

Z95 = NormalDist().inv_cdf(0.975)


def test_a_difference_allows_for_half_a_report_on_each_side() -> None:
    """Check the continuity correction for 50 and 400 reports, with keep and lie from `math`.

    The two sides have different corrections, so using one of them twice would fail.
    """
    keep = math.e / (math.e + 1)
    lie = 1 - keep
    question = Bit("crashed", RandomizedResponse(Epsilon("1")))
    sides, noise, halves = [], [], []
    for count, reports in ((30, 50), (180, 400)):
        cells = np.array([reports - count, count])
        one = statements(question, cells, reports)
        like = counted(question, cells[None], reports).like(0.975)
        sides.append(Side(Statements.of_rounds([one]), like, None))
        held = [min(1.0, max(0.0, float(end[0]))) for end in one.these]
        noise.append(
            max(
                (share * keep * (1 - keep) + (1 - share) * lie * (1 - lie)) / reports
                for share in held
            )
            / (keep - lie) ** 2
        )
        halves.append(1 / (2 * reports * (keep - lie)))
    now, then = sides
    low, high = differences(now, then).these
    width = float(high[0, 0] - low[0, 0]) / 2
    normal = Z95 * math.sqrt(sum(noise))
    assert width == pytest.approx(normal + sum(halves), rel=1e-9)
    for half in halves:
        assert abs(width - (normal + sum(halves) - half)) > 1e-3


def growth(table: NumberTable, tilt: float, place: float) -> float:
    """Compute log E[e^(tilt · value) | position] in plain Python."""
    point = min(int(place * table.steps), table.steps - 1)
    up = place * table.steps - point
    values = [float(value) / table.steps for value in table.values]
    rows = [
        math.fsum(
            weight / ONE * math.exp(tilt * value) for weight, value in zip(row, values, strict=True)
        )
        for row in table.rows[point : point + 2]
    ]
    return math.log((1 - up) * rows[0] + up * rows[1])


@pytest.mark.parametrize("table", [Ternary(Epsilon("4")), LocalLaplace(Epsilon("6"), 3)])
def test_the_growth_of_a_capital_is_never_above_its_bound(table: NumberTable) -> None:
    """Check positions between those that the code examines.

    Twin: with a tenth of the slack, the bound is exceeded.
    """
    values = [float(value) / table.steps for value in table.values]
    tilts = share_limits.TILTS / (values[-1] - values[0])
    places = mean_limits.places_of(table)
    between = (places[:-1] + places[1:]) / 2
    over, slack = [], []
    for tilt, (at, bound) in list(zip(tilts, mean_limits._growths(table, False), strict=True))[:4]:
        exact = np.array([growth(table, tilt, position) for position in between.tolist()])
        rises = [abs(b - a) for a, b in pairwise(growth(table, tilt, p) for p in places.tolist())]
        over.append(float((exact - np.interp(between, at, bound)).max()))
        slack.append(max(rises) ** 2 / 8)
    assert max(over) <= 1e-12
    assert max(excess + 0.9 * room for excess, room in zip(over, slack, strict=True)) > 1e-9


@pytest.mark.parametrize("table", [Ternary(Epsilon("2")), LocalLaplace(Epsilon("6"), 8)])
def test_the_largest_noise_bounds_the_noise_at_every_position(table: NumberTable) -> None:
    """Check positions between those that the code examines.

    Twin: a hull without its rise is too low at some positions.
    """
    places = mean_limits.places_of(table)
    between = np.concatenate([np.linspace(a, b, 5)[1:-1] for a, b in pairwise(places)])
    exact = np.array([table.variance(1, position) for position in between.tolist()])
    assert (np.interp(between, *mean_limits.largest_noise(table)) - exact).min() > -1e-15
    flat = mean_limits.hull(places, np.array([table.variance(1, p) for p in places.tolist()]))
    assert (exact - np.interp(between, *flat)).max() > places[1] ** 2 / 8


def test_limits_of_a_mean_allow_for_one_more_report() -> None:
    """Check 50 reports of the middle symbol against its row of the table.

    Twin: limits from noise alone.
    """
    table, reports = Ternary(Epsilon("4")), 50
    low_value, middle, high_value = table.values
    noise = sum(
        Fraction(weight, ONE) * ((value - middle) / table.steps) ** 2
        for weight, value in zip(table.rows[1], table.values, strict=True)
    )
    counts = np.array([[0.0, reports, 0.0]])
    low, high = mean_limits.mean_limits(table, counts, CONFIDENCE)
    normal = Z95 * math.sqrt(noise / reports)
    step = float(high_value - low_value) / table.steps / reports
    assert (float(low[0]), float(high[0])) == pytest.approx(
        (0.5 - normal - step, 0.5 + normal + step), abs=1e-9
    )
    assert step > 0.2 * normal


@pytest.mark.parametrize(("count", "reports"), [(3, 10), (60, 200), (25_000, 50_000)])
def test_each_side_of_a_betting_interval_gets_half_of_the_error(count: int, reports: int) -> None:
    """Compute the capital of all forty bets at each limit, in plain Python.

    It is at most 1.1 times the threshold; the excess comes from the distant bets. Twin: each side
    gets the whole error.
    """
    low, high = share_limits.anytime_rates(np.array([count]), reports, CONFIDENCE)
    for rate, seen in ((float(low[0]), count), (1 - float(high[0]), reports - count)):
        capital = math.fsum(
            math.exp(tilt * seen - reports * math.log1p(rate * math.expm1(tilt)))
            for tilt in (8 / math.sqrt(2) ** number for number in range(40))
        )
        needed = 2 / (1 - CONFIDENCE)
        assert needed * (1 - 1e-6) <= capital / 40 <= 1.1 * needed


@pytest.mark.parametrize("reports", [1, 4])
def test_equal_reports_give_a_vector_its_minimum_variance(reports: int) -> None:
    """All reports lie along one axis, so their spread is 0 and cannot estimate the variance.

    Twin: a variance of 0.
    """
    design = KClosest(Epsilon("2"), 4)
    cells = np.zeros(8, np.int64)
    cells[0] = cells[4] = UNIT * reports
    found = means.coordinates(cells, reports, design)
    least = min(design.across, design.along - design.gain**2)
    assert least > 0.01
    assert found.standard_error[0] * design.gain * math.sqrt(reports) == pytest.approx(
        math.sqrt(least), rel=1e-12
    )
    observed = cells[4] / UNIT / reports - (cells[0] / UNIT / reports) ** 2
    assert observed == 0


def test_the_standard_error_of_a_joint_share_is_centred_on_its_mean() -> None:
    """The expected value is computed report by report, in rational numbers.

    Twin: a standard error centred on 0 is a tenth larger.
    """
    design = RandomizedResponse(Epsilon("3"))
    keep, lie = Fraction(design.keep, ONE), Fraction(design.lie, ONE)
    counts = {(1, 1): 900, (1, 0): 40, (0, 1): 40, (0, 0): 20}
    both = np.array([[counts[a, b] for b in (0, 1)] for a in (0, 1)])
    pair = crosstab.PairCounts.of((design, design), (both.sum(1), both.sum(0)), both, 1_000)
    error = float(crosstab.joint(pair).standard_error[-1])  # the share of people who hold both
    values = Counter[Fraction]()
    for a, b in product((0, 1), repeat=2):
        values[(a - lie) / (keep - lie) * ((b - lie) / (keep - lie))] += counts[a, b]
    mean = sum(value * number for value, number in values.items()) / 1_000
    square = sum(value**2 * number for value, number in values.items()) / 1_000
    assert error == pytest.approx(math.sqrt((square - mean**2) / 1_000), rel=1e-12)
    assert math.sqrt(square / 1_000) > 1.1 * error


def test_intervals_of_found_texts_allow_for_their_selection() -> None:
    """Each of R texts found among m tested has a confidence of 1 - R / 20 m.

    Twin: a confidence of 95 %, which gives a narrower interval.
    """
    question = asking()
    cells = tally(question, WORDS)
    counts = frequent_texts.counts_of(question.mechanism, cells)
    scores = (counts.shares / counts.errors)[:-FINAL]
    tested = len(
        frequent_texts._shown(candidates(scores, question.beginnings, frequent_texts.TESTED))
    )
    assert tested > 500
    for text in found():
        assert text.confidence == pytest.approx(1 - 0.05 * len(WORDS) / tested, rel=1e-12)
        of = int(cells[-FINAL:].sum())
        design = question.mechanism.each
        rate = design.lie / ONE + (design.keep - design.lie) / ONE * (
            text.estimate * (1 - 1 / design.options) + 1 / design.options
        )
        least = NormalDist().inv_cdf(1 - 0.025 * len(WORDS) / tested)
        spread = math.sqrt(rate * (1 - rate) / of) / ((design.keep - design.lie) / ONE)
        assert (text.high - text.low) / 2 > 0.97 * least * spread
        assert least > 1.5 * NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    assert found()[0].reports == PEOPLE


def test_a_p_value_is_corrected_for_every_text_and_every_look() -> None:
    """Every bucket of one text has the highest of 16 counts; chance alone gives (1/16)^6.

    The p-value is multiplied by the four texts and the three looks. Twin: it is multiplied by the
    four texts only.
    """
    options = 16
    supports = np.full((FINAL, options), 1_000)
    supports[:, 0] = 1_400
    reports = np.full(FINAL, supports.sum() // FINAL)
    final = frequent_texts.Counts(supports, reports, 1 / options, 0.5)
    assert (final.shares[:, 0] > 4 * final.errors[:, 0]).all()
    buckets = np.array([[0, 5, 6, 7]] * FINAL)
    _, p, _ = frequent_texts._standing_out(final, buckets)
    alone = (1 / options) ** FINAL
    assert p[0] == pytest.approx(3 * 4 * alone, rel=1e-6)
    assert p[0] > 2 * 4 * alone
