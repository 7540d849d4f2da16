"""Test for forged reports: whether honest reports could give these counts, whatever people answer.

An honest report is drawn from one row of its mechanism's table, so the expected counts are a
mixture of the rows, and most counts are none: "yes" from more reports than `keep`, an option named
by fewer than `lie`. Where counts lie farther outside than the noise can throw them, reports were
forged. The test is of scores, of which one report's expectation is bounded whatever the answer.

Designs: the score is how many of s options a report supports. It is a sum of independent bits of
any rates: for one option by definition, for unary encoding as drawn, and for subset selection
since a uniform subset, weighted at one option, is strongly Rayleigh [2]. So Chernoff's bound [1]
holds with the rates' mean, which is at least `lie` and at most (keep + (s - 1) lie) / s. The s
rarest and the s most frequent options are tested for every s, and all (k choose s) paid for.

Where a report is one symbol of several that speak for an option, the scores of s options can be
tied in any way, so options are tested one by one, and symbols as well: whether a report is
one of s symbols is one bit, and at most r of these are more probable than the others.

Grouped designs: each group separately, so the p-value is the least one times the groups.

Tables: a mixture r of rows has weights r U, with U the pseudo-inverse of the table, that are not
negative; nor is their sum over any stretch of the grid. Where there are more symbols than answers,
r is also orthogonal to what is orthogonal to all rows. And no symbol is more frequent than in the
row where it is most. Each bound is Chernoff's with the worst row, so it holds however U is rounded.

Vectors: a report is a direction of length one whose expectation has at most the length `gain`, so n
of them add up to at most n gain + sqrt(n) (1 + s), but for a probability of exp(-s^2 / 2): their
distance from their expectation is at most sqrt(n) in the mean, and each moves it by at most 2 [3].

False alarms: all of a question's bounds together hold with probability 1 - p, and they do so at
every number of reports n simultaneously, since p is split as 1 / (n (n + 1)). So however often a
round is looked at, it is flagged with probability at most FALSE_ALARM if every report is honest.
Forgery that stays within the possible region is not detected.

[1] Hoeffding 1963, "Probability inequalities for sums of bounded random variables", Journal of the
    American Statistical Association 58(301).
[2] Borcea, Brändén, Liggett 2009, "Negative dependence and the geometry of polynomials", Journal of
    the American Mathematical Society 22(2).
[3] McDiarmid 1989, "On the method of bounded differences", Surveys in Combinatorics.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.point_estimates import support_counts
from deniable.server.estimation.roots import least
from deniable.shared.privacy.encodings import UNIT
from deniable.shared.privacy.families.cyclic import CyclicDesign
from deniable.shared.privacy.families.grouped import GroupedDesign
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.families.vector_design import VectorDesign
from deniable.shared.privacy.mechanism import MULTINOMIAL, FamilyTable, Mechanism
from deniable.shared.privacy.thresholds import ONE

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]
Test = Callable[[Cells], Array]  # log p of all reports but so many of those that fit worst
Bound = Callable[[Cells, Cells], Array]  # the same, told how many are left: at least one

FALSE_ALARM = 1e-6  # of a round
LEAST_P = 1e-300
WORTH_A_LOOK = 3.0  # standard deviations outside; what is nearer has no small p
SMALLEST_TILT, LARGEST_TILT = math.log(1e-12), math.log(1e4)


@dataclass(frozen=True)
class Fit:
    p_value: float  # honest reports give counts so far outside with at most this probability
    forged: int  # so many reports at least are not honest; 0 where none is noticed


def fits(mechanism: Mechanism, cells: Cells, reports: Cells, questions: int = 1) -> list[Fit]:
    """Test the tally of one of a round's questions, for each row of cells."""
    return TESTS.of(mechanism)(mechanism, cells, reports, questions)


def _bounded(
    bound_of: Callable[[Any, Cells, Cells], Bound],
) -> Callable[[Any, Cells, Cells, int], list[Fit]]:
    """Return the test that a bound makes."""

    def test(mechanism: Mechanism, cells: Cells, reports: Cells, questions: int) -> list[Fit]:
        log_p = _log_p(bound_of(mechanism, cells, reports), reports)(np.zeros_like(reports))
        log_p, allowed = np.minimum(0.0, log_p), math.log(FALSE_ALARM / questions)
        forged, noticed = np.zeros_like(reports), log_p <= allowed
        if noticed.any():
            of = cells[noticed], reports[noticed]
            without = _log_p(bound_of(mechanism, *of), of[1])
            forged[noticed] = least(
                lambda removed: without(removed) > allowed, np.zeros_like(of[1]), of[1]
            )
        return [
            Fit(max(LEAST_P, math.exp(max(exponent, math.log(LEAST_P)))), removed)
            for exponent, removed in zip(log_p.tolist(), forged.tolist(), strict=True)
        ]

    return test


def _log_p(bound: Bound, reports: Cells) -> Test:
    def log_p(removed: Cells) -> Array:
        left = np.maximum(reports - removed, 1)
        return np.where(removed < reports, bound(removed, left), 0.0)

    return log_p


def _groups(mechanism: GroupedDesign, cells: Cells, _: Cells, questions: int) -> list[Fit]:
    """Test each group separately; what is forged in one group is not in another."""
    groups, size = mechanism.groups, mechanism.each.cells
    parts = [
        fits(
            mechanism.each,
            cells[:, group * size : (group + 1) * size],
            cells[:, group - groups],
            questions * groups,
        )
        for group in range(groups)
    ]
    return [
        Fit(
            min(1.0, groups * min(part.p_value for part in row)),
            sum(part.forged for part in row),
        )
        for row in zip(*parts, strict=True)
    ]


def _of_design(design: SupportDesign, cells: Cells, _: Cells) -> Bound:
    if not design.sums_are_bounded:
        return _of_options(design, cells, math.log(2 * design.options))
    ascending = np.sort(cells, axis=1).astype(np.float64)
    size = np.arange(1, cells.shape[1] + 1)
    few, many = np.cumsum(ascending, axis=1), np.cumsum(ascending[:, ::-1], axis=1)
    p, q = design.keep / ONE, design.lie / ONE
    highest = np.minimum(p + (size - 1) * q, 1.0 if design.joint == MULTINOMIAL else np.inf)
    lowest = np.append(size[:-1] * q, highest[-1])  # some option is the answer
    most = np.minimum(size, design.encoding.most_cells)
    bits = np.ones_like(size) if design.joint == MULTINOMIAL else size
    paid = _log_choose(size) + math.log(2 * len(size))

    def bound(removed: Cells, left: Cells) -> Array:
        trials = left[:, None] * bits
        below = _surprise(few, trials, lowest / bits, -1)
        above = _surprise(np.maximum(many - removed[:, None] * most, 0), trials, highest / bits, 1)
        return np.asarray((paid - np.maximum(below, above)).min(1) + _looks(left))

    return bound


def _of_options(design: SupportDesign, cells: Cells, paid: float) -> Bound:
    """Bound each option separately: whether a report supports it is one bit in any design."""
    options = np.sort(support_counts(design, cells), axis=1).astype(np.float64)
    keep, lie = np.array([design.keep / ONE]), np.array([design.lie / ONE])

    def bound(removed: Cells, left: Cells) -> Array:
        trials = left[:, None]
        rarest = _surprise(options[:, :1], trials, lie, -1)
        commonest = _surprise(np.maximum(options[:, -1:] - removed[:, None], 0), trials, keep, 1)
        return np.asarray(paid - np.maximum(rarest, commonest)[:, 0] + _looks(left))

    return bound


def _of_symbols(design: CyclicDesign, cells: Cells, _: Cells) -> Bound:
    """Bound of the test that finds more; both are paid for."""
    ascending = np.sort(cells, axis=1).astype(np.float64)
    size = np.arange(1, cells.shape[1] + 1)
    few, many = np.cumsum(ascending, axis=1), np.cumsum(ascending[:, ::-1], axis=1)
    blind, speaking = design.rates
    silent = len(size) - design.speaking
    highest = blind * size + (speaking - blind) * np.minimum(size, design.speaking)
    lowest = blind * size + (speaking - blind) * np.maximum(size - silent, 0)
    paid = _log_choose(size) + math.log(4 * len(size))
    of_options = _of_options(design, cells, math.log(4 * design.options))

    def bound(removed: Cells, left: Cells) -> Array:
        trials = left[:, None]
        below = _surprise(few, trials, np.minimum(lowest, 1.0), -1)
        fewer = np.maximum(many - removed[:, None], 0)
        above = _surprise(fewer, trials, np.minimum(highest, 1.0), 1)
        symbols = (paid - np.maximum(below, above)).min(1) + _looks(left)
        return np.asarray(np.minimum(symbols, of_options(removed, left)))

    return bound


def _of_table(table: NumberTable, counts: Cells, reports: Cells) -> Bound:
    cells = counts.astype(np.float64)
    scores, bounds, log_rows = _scores(table)
    totals, squares = ((each @ cells[:, :, None])[:, :, 0] for each in (scores, scores**2))
    number = np.maximum(reports, 1)[:, None]
    spread = np.sqrt(np.maximum(squares - totals**2 / number, 1e-9))
    outside = (totals - number * bounds) / spread
    far = [(row, outside[row].argmax()) for row in np.flatnonzero(outside.max(1) >= WORTH_A_LOOK)]

    def bound(removed: Cells, left: Cells) -> Array:
        log_p, paid = np.zeros(len(cells)), math.log(len(scores)) + _looks(left)
        for row, worst in far:
            score = scores[worst]
            rest = float(totals[row, worst] - removed[row] * score.max())
            log_p[row] = paid[row] - _chernoff(rest, int(left[row]), score, log_rows)
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
    """Return -log of Chernoff's bound for a total of independent bits.

    Their mean rate is at least this one (side -1) or at most this one (side 1).
    """
    from scipy.special import rel_entr

    seen = np.minimum(totals / trials, 1.0)
    outside = np.sign(seen - rates) == side
    divergence = rel_entr(seen, rates) + rel_entr(1 - seen, np.maximum(1 - rates, 0.0))
    surprise: Array = np.where(outside, trials * divergence, 0.0)
    return surprise


def _chernoff(total: float, reports: int, score: Array, log_rows: Array) -> float:
    """Return the same for scores of any size, by the best exponent; any other gives less."""
    from scipy.optimize import minimize_scalar

    def negative(logarithm: float) -> float:
        tilt = math.exp(logarithm)
        exponents = log_rows + tilt * score
        most = exponents.max(axis=1)  # so that no power is too large
        sums = np.exp(exponents - most[:, np.newaxis]).sum(axis=1)
        worst = float((most + np.log(sums)).max())
        return reports * worst - tilt * total

    best = minimize_scalar(negative, bounds=(SMALLEST_TILT, LARGEST_TILT), method="bounded")
    return max(0.0, -float(best.fun))


@lru_cache(maxsize=32)
def _scores(table: NumberTable) -> tuple[Array, Array, Array]:
    """Return scores of symbols from 0 to 1, their largest expectations, and the table's logarithms.

    Each row is one score.
    """
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

    They overlap by half and begin at each of the first two points: what is wrong next to an end is
    in a stretch without it.
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
    stretches: Array = until[last] - until[first]
    return stretches


def _log_choose(size: npt.NDArray[np.int64]) -> Array:
    from scipy.special import gammaln

    k = len(size)
    logarithms: Array = gammaln(k + 1) - gammaln(size + 1) - gammaln(k - size + 1)
    return logarithms


def _looks(reports: Cells) -> Array:
    """Return the logarithm of the price for looking at every number of reports."""
    return np.array([math.log(each) + math.log(each + 1) for each in reports.tolist()])


def _unknown(_: Mechanism, cells: Cells, reports: Cells) -> Bound:  # noqa: ARG001 # as all have it
    """Bound of a family that has none: nothing is ever noticed."""
    return lambda removed, left: np.zeros(len(cells))  # noqa: ARG005 # as every bound has them


# Any: each function takes the family of its key
TESTS: FamilyTable[Callable[[Any, Cells, Cells, int], list[Fit]]] = FamilyTable(
    {
        Mechanism: _bounded(_unknown),
        SupportDesign: _bounded(_of_design),
        CyclicDesign: _bounded(_of_symbols),
        NumberTable: _bounded(_of_table),
        VectorDesign: _bounded(_of_vectors),
        GroupedDesign: _groups,
    }
)
