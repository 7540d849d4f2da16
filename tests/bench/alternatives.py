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
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr
from scipy.stats import binom

from deniable.server.estimation.distribution import EVEN, weighed_values
from deniable.server.estimation.shares import clopper_pearson, unbiased_share
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import KRandomizedResponse, SubsetSelection
from tests.bench.distribution import PARTS, optimal
from tests.bench.measure import Measurement

Array = npt.NDArray[np.float64]

DESIGN, REPORTS = SubsetSelection(Epsilon("1"), 16), 1_000
SHARES = (0.0, 0.01, 0.02, 0.05)
SQUARES = np.linspace(0, 400, 8_001)  # squared biases, in variances
RUNS = 4_000


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
