"""Estimates that were measured but not adopted, compared with those that results contain.

A small share: the interval by likelihood ratios with the share between 0 and 1 (Feldman, Cousins
1998), and the least mean width that any valid set can have (Pratt 1961), compared with the interval
of results, cut to 0 and 1.

Values of a label: shrunk towards their mean, with robust empirical Bayes intervals (Armstrong,
Kolesár, Plagborg-Møller 2022, "Robust empirical Bayes confidence intervals", Econometrica 90(6)).
They promise 95 % on average over the values, for many values. With few, the average is lower. One
value that differs from all others, such as a release that crashes, is almost always missed.

The likelihood of all reports: no unbiased estimate has less variance than its information allows
(Cramér, Rao), and for many people the maximum-likelihood estimate attains that. The estimates of a
cross table and of a distribution are compared with this bound. In the first round of a survey, a
distribution could only reach it with weights from the same reports, which would bias it.
Constraints (no share below 0) gain at the edges only, as measured for a single share.

A follow-up survey for the population: results of the same people chose its range, but the noise is
fresh, and the shares of the respondents at or below all thresholds are within √(log(2 / error) /
(2 n)) of the population's simultaneously, whichever was chosen (Massart 1990, "The tight constant
in the Dvoretzky-Kiefer-Wolfowitz inequality", Annals of Probability 18(3)). So the band, at half of
the error, widened by that much, holds for the population. It would need to know that the questions
are those of the draft, and needs another bound while an open round is watched.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr
from scipy.stats import binom

from deniable.server.estimation.distribution import (
    EVEN,
    band,
    informative_parts,
    quantile_interval,
    weighed_values,
)
from deniable.server.estimation.shares import clopper_pearson, unbiased_share
from deniable.server.estimation.statements import final_reading, halved
from deniable.server.planning.follow_up import BAND_CONFIDENCE
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.mechanisms import KRandomizedResponse, SubsetSelection
from tests.bench.distribution import PARTS, optimal
from tests.bench.measure import Measurement

Array = npt.NDArray[np.float64]

DESIGN, REPORTS = SubsetSelection(Epsilon("1"), 16), 1_000
SHARES = (0.0, 0.01, 0.02, 0.05)
SQUARES = np.linspace(0, 400, 8_001)  # squared biases, in variances
RUNS, FOLLOW_UPS = 4_000, 20


def measurements() -> Iterator[Measurement]:
    rate, counts = rates(np.array(SHARES)), np.arange(REPORTS + 1)
    low, high = (unbiased_share(end, DESIGN) for end in clopper_pearson(counts, REPORTS, 0.95))
    raw, cut = high - low, np.clip(high, 0, 1) - np.clip(low, 0, 1)
    ratio = by_likelihood_ratio(counts)
    for share, r in zip(SHARES, rate.tolist(), strict=True):
        law, about = binom.pmf(counts, REPORTS, r), f"a true share of {share:.0%}"
        widths = [float(law @ width) for width in (raw, cut, ratio)]
        least, note = narrowest(law), f"uncut {widths[0]:.4f}"
        yield Measurement(f"likelihood ratios, cut, {about}", widths[2], widths[1], "of 1", 1.05)
        yield Measurement(f"cut, least, {about}", widths[1], least, "of 1", 1.25, note=note)
    yield from by_likelihood()
    for epsilon, people in (("1", 20_000), ("2", 20_000), ("1", 200_000)):
        alone, widened, covered = follow_ups(epsilon, people)
        name = f"median in {people:,} people's follow-up at ε {epsilon}, population and respondents"
        note = f"{covered} of {FOLLOW_UPS} cover"
        yield Measurement(name, widened, alone, "of 10", 1.2, note=note)
    for values in (5, 20, 64):
        average, one, width = shrunk(values)
        note = f"average coverage {average:.3f}, width {width:.2f} of the unshrunk"
        name = f"coverage of one of {values} values that differs, shrunk"
        yield Measurement(name, one, None, "of 1", 0.8, note=note)


def by_likelihood() -> Iterator[Measurement]:
    """Compare deviations of unbiased estimates, as root mean squares over pairs or points."""
    options = KRandomizedResponse(Epsilon("1"), 4)
    rows = np.full((4, 4), options.lie / ONE) + np.eye(4) * (options.keep - options.lie) / ONE
    pairs = np.asarray(np.kron(rows, rows), np.float64)
    shares = np.outer([0.7, 0.2, 0.1, 0.0], [0.4, 0.3, 0.2, 0.1]).ravel()
    alone = (np.eye(4) - options.lie / ONE) / ((options.keep - options.lie) / ONE)
    least = deviation(least_values(pairs, np.eye(16), shares), pairs, shares)
    product = np.asarray(np.kron(alone, alone), np.float64)
    published = deviation(product, pairs, shares)
    name = "cross table of two choices of 4 at ε 1, compared with the likelihood's bound"
    yield Measurement(name, published, least, "of 1", 1.1)
    for epsilon, table in ((e, optimal(e, 16)) for e in ("1", "2", "4")):
        rows = np.array([[units / ONE for units in row] for row in table.rows])
        even, near = np.full(17, 1 / 17), np.exp(-np.abs(np.arange(17) - 5.0))
        near /= near.sum()
        bound = deviation(weighed_values(table, PARTS, near)[0], rows, near)
        for weights, when, limit in (
            ((1 - EVEN) * near + EVEN * even, "after an earlier round", 1.1),
            (even, "in a first round", 1.5),
        ):
            made = deviation(weighed_values(table, PARTS, weights)[0], rows, near)
            name = f"distribution {when} at ε {epsilon}, compared with the likelihood's bound"
            yield Measurement(name, made, bound, "of 1", limit)


def follow_ups(epsilon: str, people: int) -> tuple[float, float, int]:
    """Return mean widths of the median's intervals, and how often the population's covers.

    Values have an exponential law with mean 1, cut at 10.
    """
    table, rng = optimal(epsilon, 16), np.random.default_rng(3)
    final = final_reading("any-time").confidence
    widths, covered = np.zeros(2), 0
    sampling = math.sqrt(math.log(2 / (1 - halved(final))) / (2 * people))
    for _ in range(FOLLOW_UPS):
        values = np.minimum(rng.exponential(1, people), 10)
        first, last = median(table, reported(table, values / 10, rng), BAND_CONFIDENCE, 0)
        again = np.clip((values - 10 * first) / (10 * (last - first)), 0, 1)
        counts = reported(table, again, rng)
        alone = median(table, counts, final, 0)
        widened = median(table, counts, halved(final), sampling)
        widths += 10 * (last - first) * np.ptp([alone, widened], axis=1) / FOLLOW_UPS
        low, high = (10 * (first + (last - first) * end) for end in widened)
        covered += low <= math.log(2) <= high
    return float(widths[0]), float(widths[1]), covered


def reported(table: NumberTable, positions: Array, rng: np.random.Generator) -> Array:
    """Return the counts of the symbols that people at these positions report."""
    rows = np.array([[units / ONE for units in row] for row in table.rows])
    point, part = np.divmod(positions * table.steps, 1)
    held = np.bincount((point + (rng.random(len(part)) < part)).astype(int), minlength=len(rows))
    drawn = [rng.multinomial(n, row / row.sum()) for n, row in zip(held, rows, strict=True)]
    return np.asarray(np.sum(drawn, axis=0), np.float64)


def median(
    table: NumberTable, counts: Array, confidence: float, sampling: float
) -> tuple[float, float]:
    """Return the interval of the median, after widening the band by the bound on sampling."""
    parts = informative_parts(table, counts.sum(), confidence)
    assert parts, "there are too few reports"
    low, high = (ends[0] for ends in band(table, counts[None], parts, confidence))
    low, high = np.where(low < 1, low - sampling, 1), np.where(high < 1, high + sampling, 1)
    return quantile_interval(0.5, low, high)


def least_values(rows: Array, wanted: Array, shares: Array) -> Array:
    """Return the values of the reports whose means are `wanted`, with the least variance."""
    root = np.sqrt(shares @ rows)
    return np.asarray(np.linalg.lstsq(rows / root, wanted.T, rcond=None)[0].T / root)


def deviation(values: Array, rows: Array, shares: Array) -> float:
    """Return the root mean square deviation of the means of these values, for one report."""
    rates = shares @ rows
    return float(np.sqrt((values**2 @ rates - (values @ rates) ** 2).mean()))


def rates(shares: Array) -> Array:
    return np.asarray((DESIGN.lie + shares * (DESIGN.keep - DESIGN.lie)) / ONE)


def by_likelihood_ratio(counts: npt.NDArray[np.int64]) -> Array:
    """Return the width of the interval of each count."""
    nearest = rates(np.clip(unbiased_share(counts / REPORTS, DESIGN), 0, 1))
    best, held = binom.logpmf(counts, REPORTS, nearest), np.linspace(0, 1, 2_001)
    low, high = np.ones(len(counts)), np.zeros(len(counts))
    for share, rate in zip(held.tolist(), rates(held).tolist(), strict=True):
        logarithm = binom.logpmf(counts, REPORTS, rate)
        order = np.argsort(best - logarithm, kind="stable")
        taken = order[: int(np.searchsorted(np.cumsum(np.exp(logarithm[order])), 0.95)) + 1]
        low[taken], high[taken] = np.minimum(low[taken], share), np.maximum(high[taken], share)
    return np.asarray(high - low)


def narrowest(law: Array) -> float:
    """Return the least mean width of a valid set, if counts have this law."""
    held, counts = np.linspace(0, 1, 801), np.arange(len(law))
    accepted = 0.0
    for rate in rates(held).tolist():
        under = binom.pmf(counts, REPORTS, rate)
        order = np.argsort(-under / np.maximum(law, 1e-300), kind="stable")
        number = int(np.searchsorted(np.cumsum(under[order]), 0.95))
        accepted += float(law[order[:number]].sum())
    return accepted * float(held[1])


def shrunk(values: int) -> tuple[float, float, float]:
    """Return the average coverage, that of the value that differs, and the mean width."""
    rng, truth = np.random.default_rng(20261120), np.zeros(values)
    truth[0] = np.sqrt(2 * values)  # twice the variance of the noise, on average
    seen = truth + rng.normal(size=(RUNS, values))
    middle = seen.mean(1, keepdims=True)
    spread = np.maximum(seen.var(1, keepdims=True, ddof=1) - 1, 2 / values)
    weight = spread / (1 + spread)
    biases = np.geomspace(1e-3, 400, 60)
    reach = weight * np.interp(1 / spread, biases, [critical(bias) for bias in biases.tolist()])
    inside = np.abs(middle + weight * (seen - middle) - truth) <= reach
    return float(inside.mean()), float(inside[:, 0].mean()), float(reach.mean() / 1.96)


def critical(bias: float) -> float:
    """Return the reach for the worst distribution of biases with this mean square."""
    far = SQUARES[bias <= SQUARES]
    low, high = 1.9, 40.0
    for _ in range(40):
        reach = (low + high) / 2
        beyond = ndtr(np.sqrt(far) - reach) + ndtr(-np.sqrt(far) - reach)
        part = bias / np.maximum(far, 1e-12)
        worst = float((part * beyond + (1 - part) * 2 * ndtr(-reach)).max())
        low, high = (reach, high) if worst > 0.05 else (low, reach)
    return high
