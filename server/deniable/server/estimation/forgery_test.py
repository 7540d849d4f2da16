"""Test for forged reports: whether honest reports could give these counts, for any answers.

An honest report is drawn from one row of its mechanism's table, so the expected counts are a
mixture of the rows. Most counts are not such a mixture: for example, "yes" from a larger share of
reports than `keep`, or an option in a smaller share than `lie`. If counts lie farther outside than
noise can explain, reports were forged. The test uses scores whose expectation, for one report, is
bounded whatever the answer.

Designs: the score is the number of supported options among s options. It is distributed like a sum
of independent bits: for one option by definition, for unary encoding by construction, and for
subset selection because a uniform subset, weighted at one option, is strongly Rayleigh [2]. So
Chernoff's bound [1] holds with the mean of the rates, which is at least `lie` and at most (keep +
(s - 1) lie) / s. For every s, the s rarest and the s most frequent options are tested, corrected
for all (k choose s) choices.

If several symbols support an option, the scores of s options may depend on each other in any way.
So options are tested one by one, and so are symbols: whether a report is one of s symbols is one
bit, and at most r of them are more probable than the others.

Grouped designs: each group is tested separately, and the smallest p-value is multiplied by the
number of groups.

Tables: a mixture r of rows has non-negative weights r U, with U the pseudo-inverse of the table, so
their sums over any stretch of the grid are non-negative too. If there are more symbols than
answers, r is also orthogonal to every vector that is orthogonal to all rows. And no symbol is more
frequent than in its most favourable row. Each bound is Chernoff's with the worst row, so it holds
however U is rounded.

Vectors: a report is a direction of length one whose expectation has at most the length `gain`. So n
reports add up to at most n gain + sqrt(n) (1 + s), except with probability exp(-s^2 / 2): the
distance from their expectation is at most sqrt(n) on average, and each report changes it by at most
2 [3].

False alarms: all of a question's bounds hold jointly with probability 1 - p, at every number of
reports n, because p is split as 1 / (n (n + 1)). So an honest round is flagged with probability at
most FALSE_ALARM, however often it is checked. The test cannot detect forgery that stays within the
possible region.

[1] Hoeffding 1963, "Probability inequalities for sums of bounded random variables", Journal of the
    American Statistical Association 58(301).
[2] Borcea, Brändén, Liggett 2009, "Negative dependence and the geometry of polynomials", Journal of
    the American Mathematical Society 22(2).
[3] McDiarmid 1989, "On the method of bounded differences", Surveys in Combinatorics.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.roots import least
from deniable.server.estimation.shares import support_counts
from deniable.server.estimation.statements import Array, Cells
from deniable.shared.privacy.encodings import UNIT
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.group_design import GroupedDesign
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import CyclicDesign, SupportDesign
from deniable.shared.privacy.families.vector_design import VectorDesign
from deniable.shared.privacy.mechanism import MULTINOMIAL, FamilyTable, Mechanism

FALSE_ALARM = 1e-6  # probability per round
LEAST_P = 1e-300
MIN_DEVIATIONS = 3.0  # counts closer than this have no small p
SMALLEST_TILT, LARGEST_TILT = math.log(1e-12), math.log(1e4)


class Fit(NamedTuple):
    p_value: float  # upper bound on the probability of such counts from honest reports
    forged: int  # lower bound on the number of forged reports; 0 if none is detected


Bound = Callable[[Cells, Cells], Array]  # log p, given the numbers of removed and remaining reports
Test = Callable[[Any, Cells, Cells, int], list[Fit]]  # Any: the family that the test is for


def fits(mechanism: Mechanism, cells: Cells, reports: Cells, questions: int = 1) -> list[Fit]:
    """Test one question's tally of each round, for a survey with this number of questions."""
    return TESTS.of(mechanism)(mechanism, cells, reports, questions)


def _bounded(bound_of: Callable[[Any, Cells, Cells], Bound]) -> Test:
    """Return the test that uses this bound."""

    def test(mechanism: Mechanism, cells: Cells, reports: Cells, questions: int) -> list[Fit]:
        forged, allowed = np.zeros_like(reports), math.log(FALSE_ALARM / questions)
        log_p = np.minimum(0.0, _log_p(bound_of(mechanism, cells, reports), reports, forged))
        if (flagged := log_p <= allowed).any():
            sent = reports[flagged]
            bound = bound_of(mechanism, cells[flagged], sent)
            forged[flagged] = least(
                lambda removed: _log_p(bound, sent, removed) > allowed, np.zeros_like(sent), sent
            )
        return [
            Fit(max(LEAST_P, math.exp(max(exponent, math.log(LEAST_P)))), removed)
            for exponent, removed in zip(log_p.tolist(), forged.tolist(), strict=True)
        ]

    return test


def _log_p(bound: Bound, reports: Cells, removed: Cells) -> Array:
    """Return log p after removing a number of the worst-fitting reports."""
    return np.where(removed < reports, bound(removed, np.maximum(reports - removed, 1)), 0.0)


def _groups(mechanism: GroupedDesign, cells: Cells, _: Cells, questions: int) -> list[Fit]:
    """Test each group separately, since groups have different reports."""
    groups, size = mechanism.groups, mechanism.each.cells
    tests = []
    for group in range(groups):
        counts, reports = cells[:, group * size : (group + 1) * size], cells[:, group - groups]
        tests.append(fits(mechanism.each, counts, reports, questions * groups))
    return [
        Fit(min(1.0, groups * min(fit.p_value for fit in row)), sum(fit.forged for fit in row))
        for row in zip(*tests, strict=True)
    ]


def _of_design(design: SupportDesign, cells: Cells, _: Cells) -> Bound:
    if not design.sums_are_bounded:
        return _of_options(design, cells, math.log(2 * design.options))
    few, many, size = _sums(cells)
    p, q = design.keep / ONE, design.lie / ONE
    highest = np.minimum(p + (size - 1) * q, 1.0 if design.joint == MULTINOMIAL else np.inf)
    lowest = np.append(size[:-1] * q, highest[-1])  # one of the options is the answer
    most = np.minimum(size, design.encoding.max_cells)
    bits = np.ones_like(size) if design.joint == MULTINOMIAL else size
    correction = _log_choose(size) + math.log(2 * len(size))
    return _of_sums(few, many, lowest / bits, highest / bits, correction, most, bits)


def _of_options(design: SupportDesign, cells: Cells, correction: float) -> Bound:
    """Bound each option separately: in any design, its support is one bit per report."""
    options = np.sort(support_counts(design, cells), axis=1).astype(np.float64)
    keep, lie = np.array([design.keep / ONE]), np.array([design.lie / ONE])
    return _of_sums(options[:, :1], options[:, -1:], lie, keep, correction)


def _of_symbols(design: CyclicDesign, cells: Cells, _: Cells) -> Bound:
    """Return the better of two bounds, corrected for testing both."""
    few, many, size = _sums(cells)
    blind, speaking = design.rates
    silent = len(size) - design.speaking
    highest = blind * size + (speaking - blind) * np.minimum(size, design.speaking)
    lowest = blind * size + (speaking - blind) * np.maximum(size - silent, 0)
    correction = _log_choose(size) + math.log(4 * len(size))
    lowest, highest = np.minimum(lowest, 1.0), np.minimum(highest, 1.0)
    of_symbols = _of_sums(few, many, lowest, highest, correction)
    of_options = _of_options(design, cells, math.log(4 * design.options))
    return lambda removed, left: np.minimum(of_symbols(removed, left), of_options(removed, left))


def _sums(cells: Cells) -> tuple[Array, Array, Cells]:
    """Return the total counts of the s rarest and the s most frequent cells, for every s."""
    ascending = np.sort(cells, axis=1).astype(np.float64)
    size = np.arange(1, cells.shape[1] + 1)
    return np.cumsum(ascending, axis=1), np.cumsum(ascending[:, ::-1], axis=1), size


def _of_sums(
    few: Array,
    many: Array,
    lowest: Array,
    highest: Array,
    correction: Array | float,
    most: Cells | int = 1,
    bits: Cells | int = 1,
) -> Bound:
    """Bound sums of independent bits, `bits` per report, by the limits of their mean rates.

    Removing a report reduces a sum by at most `most`.
    """

    def bound(removed: Cells, left: Cells) -> Array:
        trials = left[:, None] * bits
        below = _surprise(few, trials, lowest, -1)
        above = _surprise(np.maximum(many - removed[:, None] * most, 0), trials, highest, 1)
        return np.asarray((correction - np.maximum(below, above)).min(1) + _looks(left))

    return bound


def _of_table(table: NumberTable, counts: Cells, reports: Cells) -> Bound:
    cells = counts.astype(np.float64)
    scores, bounds, log_rows = _scores(table)
    totals, squares = ((powers @ cells[:, :, None])[:, :, 0] for powers in (scores, scores**2))
    number = np.maximum(reports, 1)[:, None]
    spread = np.sqrt(np.maximum(squares - totals**2 / number, 1e-9))
    outside = (totals - number * bounds) / spread
    far = [(row, outside[row].argmax()) for row in np.flatnonzero(outside.max(1) >= MIN_DEVIATIONS)]

    def bound(removed: Cells, left: Cells) -> Array:
        log_p, correction = np.zeros(len(cells)), math.log(len(scores)) + _looks(left)
        for row, worst in far:
            score = scores[worst]
            rest = float(totals[row, worst] - removed[row] * score.max())
            log_p[row] = correction[row] - _chernoff(rest, int(left[row]), score, log_rows)
        return log_p

    return bound


def _of_vectors(design: VectorDesign, cells: Cells, _: Cells) -> Bound:
    sums = cells[:, : design.dimension] / UNIT
    length = np.sqrt(np.vecdot(sums, sums))

    def bound(removed: Cells, left: Cells) -> Array:
        outside = (length - removed - left * design.gain) / np.sqrt(left) - 1
        return np.asarray(_looks(left) - np.maximum(0.0, outside) ** 2 / 2)

    return bound


def _surprise(totals: Array, trials: Cells, rates: Array, side: int) -> Array:
    """Return -log of Chernoff's bound for mean rates at least (side -1) or at most (1) `rates`."""
    from scipy.special import rel_entr

    observed = np.minimum(totals / trials, 1.0)
    outside = np.sign(observed - rates) == side
    divergence = rel_entr(observed, rates) + rel_entr(1 - observed, np.maximum(1 - rates, 0.0))
    return np.where(outside, trials * divergence, 0.0)


def _chernoff(total: float, reports: int, score: Array, log_rows: Array) -> float:
    """Return -log of Chernoff's bound for scores of any size, at the best exponent."""
    from scipy.optimize import minimize_scalar

    def negative(logarithm: float) -> float:
        tilt = math.exp(logarithm)
        exponents = log_rows + tilt * score
        most = exponents.max(axis=1)  # avoids overflow in powers
        sums = np.exp(exponents - most[:, np.newaxis]).sum(axis=1)
        worst = float((most + np.log(sums)).max())
        return reports * worst - tilt * total

    best = minimize_scalar(negative, bounds=(SMALLEST_TILT, LARGEST_TILT), method="bounded")
    return max(0.0, -float(best.fun))


@lru_cache(maxsize=32)
def _scores(table: NumberTable) -> tuple[Array, Array, Array]:
    """Return rows of scores from 0 to 1, their largest expectations, and the table's logarithms."""
    rows = np.array([[units / ONE for units in row] for row in table.rows])
    weights = np.linalg.pinv(rows)
    _, values, directions = np.linalg.svd(rows)
    free = directions[len(values) :]
    raw = np.vstack([-_stretches(weights.T), free, -free, np.eye(len(weights))])
    raw -= raw.min(axis=1, keepdims=True)
    scores = raw / raw.max(axis=1, keepdims=True)
    return scores, (rows @ scores.T).max(axis=0), np.log(rows)


def _stretches(weights: Array) -> Array:
    """Return the sums over stretches of the grid whose lengths are powers of two.

    They overlap by half and start at each of the first two points, so that some stretch contains an
    anomaly next to an end but not that end.
    """
    points = len(weights)
    until = np.vstack([np.zeros(weights.shape[1]), np.cumsum(weights, axis=0)])
    ends = {
        (first, first + length)
        for length in (2**power for power in range(points.bit_length()))
        for start in (0, 1)
        for first in range(start, points - length + 1, max(1, length // 2))
        if length < points
    }
    first, last = np.array(sorted(ends)).T
    return np.asarray(until[last] - until[first])


def _log_choose(size: npt.NDArray[np.int64]) -> Array:
    from scipy.special import gammaln

    k = len(size)
    return np.asarray(gammaln(k + 1) - gammaln(size + 1) - gammaln(k - size + 1))


def _looks(reports: Cells) -> Array:
    """Return the logarithm of the correction for looking at every number of reports."""
    return np.array([math.log(n) + math.log(n + 1) for n in reports.tolist()])


TESTS: FamilyTable[Test] = FamilyTable(
    {
        # Forgery is never detected in a family without a bound.
        Mechanism: _bounded(lambda _, cells, __: lambda *_: np.zeros(len(cells))),
        SupportDesign: _bounded(_of_design),
        CyclicDesign: _bounded(_of_symbols),
        NumberTable: _bounded(_of_table),
        VectorDesign: _bounded(_of_vectors),
        GroupedDesign: _groups,
    }
)
