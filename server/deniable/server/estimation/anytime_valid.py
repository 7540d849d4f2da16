"""Anytime-valid limits: they hold at every look together, however often an open round is read.

For a tilt t, reports of expected logarithmic growth ψ(t) make

    M = exp(t · sum of the reports - their ψ(t)s)

a fair game's capital: its expectation stays 1, report by report. So does that of any mixture of
tilts with weights fixed beforehand, and it ever reaches 2 / error with probability at most
error / 2 (Ville). The lower limit is the least truth under which the mixture of positive tilts is
not yet there; the upper one mirrors it. Both together hold at all numbers of reports simultaneously
with the requested confidence [1].

The order in which reports came is unknown here, and is not needed: M depends on their sum,
or on their counts, and on their number. There was an order, and along it the game was fair: the
noise of a report is drawn afresh, whatever came before it, and nothing about a report's coming
depends on its noise. So who reports next may depend on anything but that.

ψ, from what is known of the reports:

    these people, shares     k log(1 - p + p e^t) + (n - k) log(1 - q + q e^t), exactly
    the population           n log(1 - r + r e^t): what people of any mixture have at most (Jensen)
    these people, a mean     n times the least concave function above log E[e^(t value) | x]

and for the mean of the population, where the distribution of values is unknown, the
capital is that of bets, prod (1 + t (value - m)): the expectation of each is 1, and again people of
different means only make it less [1].

Each limit uses the tilts around the one that matters at its n: what is left out of a mixture of
positive terms makes it smaller, and the limit only wider.

[1] Howard, Ramdas, McAuliffe, Sekhon 2021, "Time-uniform, nonparametric, nonasymptotic confidence
    sequences", Annals of Statistics 49(2). Waudby-Smith, Ramdas 2024, "Estimating means of bounded
    random variables by betting", Journal of the Royal Statistical Society B 86(1).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.finite_population import hull, places_of, positions
from deniable.server.estimation.roots import deduplicate_rows, roots
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.thresholds import ONE

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]
Interval = tuple[Array, Array]

TILTS = 8.0 * 2.0 ** (-np.arange(40) / 2)  # each as likely to be the one that matters
WEIGHT = -math.log(len(TILTS))
NEAR = np.arange(-4, 5)  # of them, on either side of the one that matters
DEVIATIONS = 3.5  # at which it does
STEPS = 5  # of Newton's method, after which limits are exact to nine digits


@deduplicate_rows
def rates(counts: Array, reports: Array, confidence: float) -> Interval:
    """Limits for the population's rate of support for the label of each count."""
    low = lowest_rate(counts, reports, confidence)
    return low, 1 - lowest_rate(reports - counts, reports, confidence)


@deduplicate_rows
def holders(counts: Array, people: Array, design: SupportDesign, confidence: float) -> Interval:
    """The lowest and the highest share of these people."""
    keep, lie, needed = design.keep / ONE, design.lie / ONE, _needed(confidence)
    low = _holders(counts, people, keep, lie, needed) / people
    return low, 1 - _holders(people - counts, people, 1 - lie, 1 - keep, needed) / people


def mean(values: Array, counts: Array, confidence: float) -> Interval:
    """Limits for the mean of the population, from reports of ascending `values`.

    There are as many means as `values` or `counts` has rows.
    """
    needed = _needed(confidence)
    return _bets(values, counts, needed), -_bets(-values[..., ::-1], counts[..., ::-1], needed)


def mean_of_these(table: NumberTable, counts: Array, confidence: float) -> Interval:
    """Limits for the mean of these people, as positions in the range."""
    values, needed = positions(table), _needed(confidence)
    low = _known_noise(table, False, values, counts, needed)
    return low, 1 - _known_noise(table, True, 1 - values[::-1], counts[..., ::-1], needed)


def _needed(confidence: float) -> float:
    """The logarithm of the capital, of tilts that each were staked 1."""
    return math.log(2 / (1 - confidence)) - WEIGHT


def lowest_rate(counts: Array, reports: Array, confidence: float) -> Array:
    """Return the least rate under which the capital is not yet there.

    One tilt alone is there at log(1 + r (e^t - 1)) = (t count - needed) / n. All of them together
    are there at a higher rate.
    """
    needed, of = _needed(confidence), reports[..., None]
    tilts = _around(counts, reports)
    grown, staked = np.expm1(tilts), tilts * counts[..., None]
    rate: Array = (np.expm1((staked - needed) / of) / grown).max(-1)
    for _ in range(STEPS):
        inside = 1 + rate[..., None] * grown
        rate = rate + _farther(staked - of * np.log(inside), of * grown / inside, needed)
    return rate


def _holders(counts: Array, reports: Array, keep: float, lie: float, needed: float) -> Array:
    """Return the least number of holders under which the capital is not yet there.

    The logarithm of each capital is linear in it.
    """
    tilts = _around(counts, reports)
    yes, no = (np.log1p(rate * np.expm1(tilts)) for rate in (keep, lie))
    free, fall = tilts * counts[:, None] - reports[:, None] * no, yes - no
    holders: Array = ((free - needed) / fall).max(1)
    for _ in range(STEPS):
        holders += _farther(free - holders[:, None] * fall, fall, needed)
    return holders


def _farther(capitals: Array, falls: Array, needed: float) -> Array:
    """Return one step of Newton's method.

    The logarithm of all capital is convex and falls, so steps from below stay below: too few steps
    only widen the limit.
    """
    highest = capitals.max(-1)
    parts = np.exp(capitals - highest[..., None])
    total = parts.sum(-1)
    farther: Array = (highest + np.log(total) - needed) * total / (parts * falls).sum(-1)
    return np.maximum(farther, 0)


def _around(counts: Array, reports: Array) -> Array:
    """Return the tilts that are best for counts DEVIATIONS standard deviations away."""
    rate = (counts + 1) / (reports + 2)
    best = DEVIATIONS / np.sqrt(reports * rate * (1 - rate))
    places = np.rint(-2 * np.log2(best / TILTS[0])).astype(np.int64)
    first = np.clip(places + NEAR[0], 0, len(TILTS) - len(NEAR))
    return np.asarray(TILTS[first[..., None] + np.arange(len(NEAR))])


def _logsumexp(exponents: Array) -> Array:
    highest = exponents.max(-1)
    total: Array = highest + np.log(np.exp(exponents - highest[..., None]).sum(-1))
    return total


def _bets(values: Array, counts: Array, needed: float) -> Array:
    """Return the least mean against which no bet has won enough."""
    reports, stakes = counts.sum(-1), _stakes(values)
    mean = np.vecdot(values, counts) / reports

    def short(m: Array) -> Array:
        return needed - _won(values, counts, stakes, m)

    won = np.expm1(needed / reports) / stakes[..., 0]
    return np.maximum(roots(short, values[..., 0] - won, mean), values[..., 0])


def _won(values: Array, counts: Array, stakes: Array, mean: Array) -> Array:
    """Return the logarithm of the capital of all bets.

    None loses everything: each stakes at most half.
    """
    apart = values - mean[..., None]
    gains = np.log1p(stakes[..., :, None] * apart[..., None, :])
    return _logsumexp((gains @ counts[..., None])[..., 0])


def _stakes(values: Array) -> Array:
    span = values[..., -1] - values[..., 0]
    stakes: Array = TILTS / TILTS[0] / (2 * span[..., None])
    return stakes


def _known_noise(
    table: NumberTable, mirrored: bool, values: Array, counts: Array, needed: float
) -> Array:
    """Return the least mean that these people may have, wherever they stand.

    Bets on the mean play no part: these people's mean moves with each report, so such bets would
    not be fair.
    """
    reports, total = counts.sum(-1), np.vecdot(counts, values)
    span = values[-1] - values[0]
    tilts, hulls = TILTS / span, _growths(table, mirrored)

    def short(m: Array) -> Array:
        inside = np.clip(m, 0.0, 1.0)
        growths = np.stack([np.interp(inside, *corners) for corners in hulls], axis=-1)
        free = total - reports * (m - inside)
        return needed - _logsumexp(tilts * free[..., None] - reports[..., None] * growths)

    mean = total / reports
    low = np.minimum(0.0, mean) - span * (1 + needed / reports)
    return np.asarray(np.maximum(roots(short, low, mean), values[0]))


@lru_cache(maxsize=32)
def _growths(table: NumberTable, mirrored: bool) -> tuple[tuple[Array, Array], ...]:
    """Return, per tilt, the corners of the least concave function above log E[e^(t value) | x].

    Between two grid points the expectation itself is on a line, by the rounding; between two places
    there its logarithm is above the chord by at most an eighth of its rise, squared.
    """
    rows = np.array([[units / ONE for units in row] for row in table.rows])
    values = positions(table)
    if mirrored:
        rows, values = rows[::-1, ::-1], 1 - values[::-1]
    grid = np.linspace(0, 1, table.steps + 1)
    places = places_of(table)
    found = []
    for tilt in TILTS / (values[-1] - values[0]):
        growth = np.log(np.interp(places, grid, rows @ np.exp(tilt * values)))
        rises = np.abs(np.diff(growth))
        rise = float(rises.max()) ** 2 / 8
        found.append(hull(places, growth + rise))
    return tuple(found)
