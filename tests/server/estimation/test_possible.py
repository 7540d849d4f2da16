"""Forgery test: it flags counts that honest reports cannot produce, and never honest counts.

Every assertion about honest counts is either exact or fails with probability below 1e-9: no p-value
may be below 1e-9 / CHECKS.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from deniable.server.estimation import forgery_test
from deniable.server.estimation.forgery_test import FALSE_ALARM, fits
from deniable.server.estimation.statements import Cells
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.mechanism import MULTINOMIAL, Mechanism
from deniable.shared.privacy.mechanisms import (
    KRandomizedResponse,
    LocalLaplace,
    ProjectiveGeometry,
    RandomizedResponse,
    SplitSign,
    SubsetSelection,
    Ternary,
    Unary,
)
from deniable.simulations.population.tallies import fixed
from tests.server.estimation.single import fit
from tests.shared.contract import exact_rows, for_each, named, small_mechanisms

ONE_EPSILON = Epsilon("1")
REPORTS, FORGED = 100_000, 20_000
CHECKS = 10_000  # an upper bound on the number of p-values
BIG = [
    RandomizedResponse(ONE_EPSILON, 2),
    KRandomizedResponse(Epsilon("2"), 5),
    KRandomizedResponse(ONE_EPSILON, 1_024),
    SubsetSelection(ONE_EPSILON, 64),
    Unary(Epsilon("2"), 5),
    Unary(ONE_EPSILON, 300),
    ProjectiveGeometry(ONE_EPSILON, 300),
    ProjectiveGeometry(Epsilon("0.4"), 64),
    LocalLaplace(Epsilon("2"), 64),
    LocalLaplace(Epsilon("4"), 8),
    Ternary(Epsilon("2"), 2),
    SplitSign(ONE_EPSILON, 2),
]
TINY = [RandomizedResponse(ONE_EPSILON, 2), KRandomizedResponse(ONE_EPSILON, 3)]


def honest(mechanism: Mechanism, held: list[int], rng: np.random.Generator) -> Cells:
    """Return counts of reports drawn symbol by symbol from the exact table."""
    symbols = list(mechanism.encoding.symbols())
    rows = np.array(exact_rows(mechanism), dtype=float)
    drawn = sum(rng.multinomial(n, row / row.sum()) for n, row in zip(held, rows, strict=True))
    cells = np.zeros(mechanism.cells, np.int64)
    for symbol, count in zip(symbols, np.asarray(drawn), strict=True):
        for cell in mechanism.cells_of(symbol):
            cells[cell] += count
    return cells


@for_each(small_mechanisms())
def test_honest_rounds_are_never_flagged(mechanism: Mechanism) -> None:
    """People either all give the same answer, which is the extreme case, or have mixed answers."""
    rng = np.random.default_rng(5)
    for people in (1, 10, 1_000, 100_000):
        alike = [
            [people if a == b else 0 for b in range(mechanism.answers)]
            for a in (0, -1 % mechanism.answers)
        ]
        mixed = rng.multinomial(people, rng.dirichlet(np.ones(mechanism.answers))).tolist()
        for held in (*alike, mixed):
            assert fit(mechanism, honest(mechanism, held, rng), people).p_value > 1e-9 / CHECKS


@pytest.mark.parametrize("mechanism", BIG, ids=named)
def test_large_honest_rounds_are_never_flagged(mechanism: Mechanism) -> None:
    rng = np.random.default_rng(6)
    one = np.eye(mechanism.answers, dtype=np.int64)[0] * REPORTS
    few = rng.multinomial(REPORTS, rng.dirichlet(np.full(mechanism.answers, 0.1)))
    for held in (one, few):
        for counts in fixed(mechanism, held, 20, rng).counts:
            assert fit(mechanism, counts, REPORTS).p_value > 1e-9 / CHECKS


def test_all_questions_of_a_round_share_one_false_alarm_rate() -> None:
    """A p-value of 1e-7 raises an alarm in a round with one question, but not with a hundred."""
    mechanism, reports = RandomizedResponse(ONE_EPSILON, 2), 1_000
    p_values = {
        yes: fit(mechanism, np.array([reports - yes, yes]), reports).p_value
        for yes in range(731, reports)
    }
    yes = next(yes for yes, p_value in p_values.items() if p_value < 1e-7)
    assert p_values[yes] > FALSE_ALARM / 100
    cells, total = np.array([[reports - yes, yes]]), np.array([reports])
    assert [fits(mechanism, cells, total, asked)[0].forged > 0 for asked in (1, 100)] == [
        True,
        False,
    ]


@pytest.mark.parametrize("level", [0.5, 0.1, 0.001])
@pytest.mark.parametrize("answer", [0, 1])
def test_looking_after_every_report_keeps_the_false_alarm_rate(answer: int, level: float) -> None:
    """Sum exactly over all sequences of reports: at most a share `level` is ever flagged."""
    mechanism = RandomizedResponse(ONE_EPSILON, 2)
    rate = float(mechanism.weight(1, answer))
    unflagged = np.array([1.0])
    for reports in range(1, 80):
        unflagged = np.append(unflagged * (1 - rate), 0) + np.append(0, unflagged * rate)
        ones = np.arange(reports + 1)
        cells = np.stack([reports - ones, ones], axis=1)
        found = fits(mechanism, cells, np.full_like(ones, reports))
        unflagged[[fitted.p_value <= level for fitted in found]] = 0
    assert 1 - unflagged.sum() <= level


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("mechanism", TINY, ids=named)
def test_the_bound_for_repeated_looks_holds_and_is_not_loose(
    mechanism: Mechanism, side: int
) -> None:
    """The p-value is at least the exact tail times the correction for all looks.

    It is at most 40 times that, for each bound in the comparison.
    """
    reports, rate = 1_000, float(mechanism.weight(side, side))
    for count in range(int(reports * rate) + 30, int(reports * rate) + 120, 10):
        rest = [(reports - count) // (mechanism.cells - 1)] * (mechanism.cells - 1)
        rest[0] += reports - count - sum(rest)
        cells = np.array([*rest[:side], count, *rest[side:]])
        looks, others = reports * (reports + 1), 2 * mechanism.cells**2
        tail = binom.sf(count - 1, reports, rate)
        found = fit(mechanism, cells, reports).p_value
        assert min(1, tail * looks) <= found <= min(1, tail * looks * others * 40)


def with_forged(mechanism: Mechanism, symbol: int, rng: np.random.Generator) -> Cells:
    """Draw people with mixed answers, and make a fifth of all reports identical forgeries."""
    held = rng.multinomial(REPORTS - FORGED, np.full(mechanism.answers, 1 / mechanism.answers))
    held[0] += held[1]
    held[1] = 0
    counts = fixed(mechanism, held, 1, rng).counts[0]
    for cell in mechanism.cells_of(symbol):
        counts[cell] += FORGED
    return np.asarray(counts)


def kinds_of_forgery(mechanism: Mechanism) -> dict[str, int]:
    kinds = {
        "first": mechanism.encoding.symbol_in(0),
        "last": mechanism.encoding.symbol_in(-1 % mechanism.cells),
    }
    if mechanism.joint != MULTINOMIAL and mechanism.encoding.max_cells == mechanism.cells:
        kinds |= {"all": mechanism.symbols - 1, "none": 0}
    return kinds


@pytest.mark.parametrize(
    "mechanism", [mechanism for mechanism in BIG if mechanism.answers > 3], ids=named
)
def test_the_number_of_forged_reports_is_bounded_from_below(mechanism: Mechanism) -> None:
    rng = np.random.default_rng(7)
    for symbol in kinds_of_forgery(mechanism).values():
        found = fit(mechanism, with_forged(mechanism, symbol, rng), REPORTS)
        assert found.p_value <= FALSE_ALARM
        assert 0 < found.forged <= FORGED


@pytest.mark.parametrize(
    "mechanism", [mechanism for mechanism in BIG if isinstance(mechanism, Unary)], ids=named
)
def test_reports_that_name_everything_are_nearly_all_counted(mechanism: Unary) -> None:
    counts = with_forged(mechanism, mechanism.symbols - 1, np.random.default_rng(8))
    assert 0.9 * FORGED < fit(mechanism, counts, REPORTS).forged <= FORGED


@pytest.mark.parametrize("mechanism", BIG, ids=named)
def test_forgers_who_report_by_the_mechanism_are_not_noticed(mechanism: Mechanism) -> None:
    """A forger who randomizes an answer with the mechanism counts as one more person.

    In a round whose people answer differently, such forgers shift the result by at most their share
    of reports.
    """
    rng = np.random.default_rng(9)
    answers = np.eye(mechanism.answers, dtype=np.int64)
    held = answers[0] * (REPORTS - FORGED) + answers[-1] * FORGED
    found = fit(mechanism, fixed(mechanism, held, 1, rng).counts[0], REPORTS)
    assert found.forged == 0


def test_bits_forged_within_bounds_shift_the_share_by_their_leverage() -> None:
    """All forged reports, a fifth of all, are yes: they shift the share by leverage / 5."""
    mechanism, rng = RandomizedResponse(ONE_EPSILON, 2), np.random.default_rng(10)
    counts = fixed(mechanism, [64_000, 16_000], 1, rng).counts[0] + np.array([0, FORGED])
    assert fit(mechanism, counts, REPORTS) == forgery_test.Fit(1.0, 0)
    counts = fixed(mechanism, [0, 80_000], 1, rng).counts[0] + np.array([0, FORGED])
    assert FORGED / 2 < fit(mechanism, counts, REPORTS).forged <= FORGED


def test_a_symbol_above_its_largest_possible_rate_is_counted() -> None:
    """Every person and every forged report is at the low end."""
    mechanism, rng = LocalLaplace(Epsilon("0.5"), 5), np.random.default_rng(12)
    held = np.eye(mechanism.answers, dtype=np.int64)[0] * (REPORTS - FORGED)
    counts = fixed(mechanism, held, 1, rng).counts[0] + FORGED * np.eye(mechanism.cells)[0]
    assert 0.85 * FORGED < fit(mechanism, counts.astype(np.int64), REPORTS).forged <= FORGED


def test_both_ends_of_a_range_are_checked() -> None:
    mechanism, rng = LocalLaplace(ONE_EPSILON, 64), np.random.default_rng(13)
    held = np.full(mechanism.answers, (REPORTS - FORGED) // mechanism.answers)
    counts = fixed(mechanism, held, 1, rng).counts[0]
    counts[0] += REPORTS - counts.sum()
    low, high = fit(mechanism, counts, REPORTS), fit(mechanism, counts[::-1], REPORTS)
    assert low.forged == high.forged > FORGED / 10
    assert low.p_value == pytest.approx(high.p_value)


def test_a_biased_coin_is_noticed() -> None:
    """Split-sign has four symbols for three answers; one of their contrasts never varies."""
    mechanism = SplitSign(ONE_EPSILON, 2)
    counts = np.array([float(units) for units in mechanism.rows[1]]) * REPORTS / 2**64
    tilt = np.array([1, -1, 1, -1]) * 0.02 * REPORTS
    assert fit(mechanism, (counts + tilt).astype(np.int64), REPORTS).forged > 0.04 * REPORTS
    assert fit(mechanism, counts.astype(np.int64), REPORTS).forged == 0


@pytest.mark.parametrize("mechanism", [*(b for b in BIG if isinstance(b, NumberTable))], ids=named)
def test_every_mixture_of_rows_keeps_every_bound_of_a_table(mechanism: NumberTable) -> None:
    """A distribution that is no mixture, such as a single symbol, breaks some bound."""
    scores, bounds, log_rows = forgery_test._scores(mechanism)
    assert (scores @ np.exp(log_rows).T <= bounds[:, None] + 1e-12).all()
    assert ((scores >= 0) & (scores <= 1)).all()
    assert (scores.max(axis=0) > 0).all()
    for symbol in range(mechanism.cells):
        assert (scores[:, symbol] > bounds + 1e-6).any()


@pytest.mark.parametrize(("mechanism", "reports"), list(product(BIG, [0, 1])))
def test_almost_no_reports_fit_any_mixture(mechanism: Mechanism, reports: int) -> None:
    held = reports * np.eye(mechanism.answers, dtype=np.int64)[0]
    (cells,) = fixed(mechanism, held, 1, np.random.default_rng(11)).counts
    assert fit(mechanism, cells, reports) == forgery_test.Fit(1.0, 0)
