"""Accountant: the (ε, δ) of one shuffled report, from the integers of the survey's own tables.

A part of each report does not depend on the answer: the privacy blanket ω, with ω ≤ R(x) for all
answers x, and γ = ω(all). With u = R(x) / (ω / γ), v = R(x') / (ω / γ) and n honest reports, an
observer who knows all answers but one, which is x or x', distinguishes the two by at most [1]

    δ(ε) = E[(Σ_i B_i (u_i - e^ε v_i))₊] / (γ n)      i = 1 .. n,  B_i ~ Bernoulli(γ),  (u_i, v_i)
                                                     those of a report drawn from ω / γ

Designs with two levels: relative to one base distribution, R(x) is hi where a report supports x and
lo elsewhere. Then γ = lo, and a report supports x but not x' with probability π₁₀, both with π₁₁:

    one option of k, keep p, lie q      hi = k p               lo = k q
    d options of k, miss m              hi = (1 - m) k / d     lo = m k / (k - d)
    cyclic, N, r, λ, blind w            hi = w + (1 - w) N / r lo = w
    unary, lie q                        hi = 1 / (2 q)         lo = 1 / (2 (1 - q))
    k closest of M codewords            hi = M near            lo = M far

In a table of a number, ω is the least of each column, and all pairs of rows are compared. Numbers
between two grid points mix two rows, and the divergence is convex, so rows are the worst answers.
A group that ignores the answer changes nothing.

Several questions: reports are independent, so γ, u and v are products. If two answers agree on a
question with two levels, (hi, lo) and (lo, hi), each with π₁₀, become (hi, hi) and (lo, lo). Each
u - e^ε v is then closer to their common mean, so the divergence is smaller: answers that differ in
every question are the worst. With `ask`, a report is about one of d questions, with 1 / d each, so
the blanket is the union of theirs, each with γ_q / d. For all other mechanisms, and if there are
too many pairs, the bound for any randomizer holds (`amplification`).

Every step rounds to the private side. Integers and e^ε are rounded so that each u - e^ε v is too
large. Each value is split between two neighbours on a lattice so that the mean stays the same; the
result is larger in convex order. The fast Fourier transform gives the distribution of the sum in a
window. The part above the window is less than a millionth of δ (Bernstein). That bound is added,
and so is one on the transform's rounding error; a part that wraps around only increases the result.
Chernoff's bound excludes pairs that cannot be the worst.

[1] Balle, Bell, Gascón, Nissim 2019, "The privacy blanket of the shuffle model", CRYPTO.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from deniable.server.shuffling.amplification import (
    STEP,
    report_epsilon,
    shuffled_delta,
    shuffled_epsilon,
)
from deniable.shared.privacy.epsilon import BILLION, MAX_EPSILON, ONE, Epsilon, decimal_text
from deniable.shared.privacy.families.group_design import GroupedDesign
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import CyclicDesign, OneOption
from deniable.shared.privacy.mechanism import FamilyTable, Mechanism
from deniable.shared.privacy.mechanisms import KClosest, SubsetSelection, Unary
from deniable.shared.survey.document import Survey

Array = npt.NDArray[np.float64]

# Step of the lattice, in standard deviations of one report's part: ε is at most 1e-4 of it larger.
RESOLUTION, COARSE_RESOLUTION = 0.01, 0.02
COARSER = 4  # factor of the step where speed counts more: ε₀ is about 1e-4 of it smaller
FIRST_STEPS = (16, COARSER, 1)  # factors of the step: the first excludes most pairs
MANY = 20_000  # people for whom the coarse step is used
TAIL = 1e-6  # relative to δ: part of the sum's distribution outside the window, and added to δ
ROUNDING = 1e-15  # several times the error of a float
LOG_ERROR = 4e-15  # of the logarithm of a tilted law's mean, whose terms add up to at most 2
MARGIN = 1e-14  # relative: several times the error of a product of floats
MIN_RATIO = 1e-300  # of δ to its target: avoids the logarithm of 0
LEAST = -1 + 2.0**-53  # the smallest float above -1: avoids the logarithm of 0
LARGEST_EXPONENT = 700.0
MAX_LENGTH = 2**21  # of the lattice: 64 MB for its transform
PRECISION = 1e-6  # relative error of ε, which is rounded up
MAX_PAIRS = 5_000  # pairs of answers that are compared
MAX_PROFILE_PAIRS = 8  # with more, the profile is the bound for any randomizer
MAX_ATOMS = 4_096  # values of (u, v) that are kept
LEAST_EXCESS = 1e-9  # avoids a division by 0
TILTS = 2.0 ** np.arange(-20, 8, 0.5)  # relative to the largest change of one report


class Blanket(NamedTuple):
    """Blanket of a pair of answers: the values of (u, v) and their probabilities."""

    gamma: float
    u: Array
    v: Array
    weight: Array


def survey_epsilon(survey: Survey, people: int, delta: float) -> float:
    """Return an ε, rounded up, for which one of these people's reports is (ε, δ)-private."""
    mechanisms = tuple(question.mechanism for question in survey.questions)
    return report_epsilon_among(
        mechanisms, survey.round_billionths / BILLION, people, delta, asks_one=survey.asks_one
    )


def survey_profile(survey: Survey, people: int, target: float) -> Callable[[float], float]:
    """Return an upper bound on δ as a function of ε, which is close unless far below `target`."""
    mechanisms = [question.mechanism for question in survey.questions]
    listed = _blankets(mechanisms, asks_one=survey.asks_one)
    local_epsilon = survey.round_billionths / BILLION
    if listed is None or len(listed) > MAX_PROFILE_PAIRS:
        return lambda epsilon: shuffled_delta(local_epsilon, people, epsilon)
    return lambda epsilon: max(
        blanket_delta(blanket, people, epsilon, target, COARSER) for blanket in listed
    )


@lru_cache(maxsize=256)
def report_epsilon_among(
    mechanisms: tuple[Mechanism, ...],
    local_epsilon: float,
    people: int,
    delta: float,
    *,
    asks_one: bool = False,
) -> float:
    """Return the ε of a report of these questions, whose ε without a shuffle is `local_epsilon`."""
    listed = _blankets(mechanisms, asks_one=asks_one)
    if listed is None or people < 2:
        return shuffled_epsilon(local_epsilon, people, delta)
    epsilon, remaining = 0.0, listed
    while remaining:
        worst = max(remaining, key=_spread)
        epsilon = max(epsilon, _epsilon_of(worst, people, delta, local_epsilon))
        remaining = [
            other for other in remaining if other is not worst
            and chernoff_delta(other, people, epsilon) > delta
            and all(blanket_delta(other, people, epsilon, delta, s) > delta for s in FIRST_STEPS)
        ]  # fmt: skip
    return min(epsilon, local_epsilon)


def largest_report_epsilon(
    design: Callable[[Epsilon], Mechanism],
    epsilon: Epsilon,
    people: int,
    delta: float,
    *,
    coarse: bool = False,
) -> Epsilon:
    """Return the largest ε₀ found at which n shuffled reports of a design are (ε, δ)-private.

    `design` returns the mechanism for an ε₀. The result is rounded down to four decimals, and is at
    least what holds for any randomizer. Log δ is nearly linear in ε₀, so the search interpolates,
    and halves an end that has not moved twice (the Illinois method).
    """
    general = report_epsilon(epsilon, people, delta)
    low, high = general.billionths // STEP, MAX_EPSILON * BILLION // STEP + 1
    below, above = 0.0, -math.log(delta)  # log of δ, relative to its target; first try low + 1
    private: bool | None = None
    while high - low > 1:
        middle = low + int((high - low) * below / (below - above))
        middle = min(max(middle, low + 1), high - 1)
        listed = _blankets([design(Epsilon(decimal_text(middle * STEP)))], asks_one=False)
        if listed is None:
            return general
        bounds = [chernoff_delta(blanket, people, float(epsilon)) for blanket in listed]
        largest = max(
            bound if bound <= delta
            else blanket_delta(blanket, people, float(epsilon), delta, COARSER if coarse else 1)
            for blanket, bound in zip(listed, bounds, strict=True)
        )  # fmt: skip
        excess = math.log(max(largest / delta, MIN_RATIO))
        again, private = private == (excess <= 0), excess <= 0
        if private:
            low, below, above = middle, min(excess, -LEAST_EXCESS), above / (1 + again)
        else:
            high, above, below = middle, excess, below / (1 + again)
    return Epsilon(decimal_text(low * STEP)) if low else general


def blanket_delta(
    blanket: Blanket, people: int, epsilon: float, target: float, coarser: int = 1
) -> float:
    """Return an upper bound on δ(ε), which is close to δ(ε) unless that is far below `target`.

    It is slightly larger, and faster, on a lattice whose step is `coarser` times as large.
    """
    gains = _gains(blanket, epsilon)
    if gains.max() <= 0:
        return TAIL * target
    step, length = _lattice(blanket, gains, people, target, coarser)
    lower = np.floor(gains / step)
    upper_share = gains / step - lower
    places = np.concatenate([lower, lower + 1])
    shares = np.concatenate([blanket.weight * (1 - upper_share), blanket.weight * upper_share])
    lattice = _Lattice(step, length, places, blanket.gamma * shares)
    return (
        lattice.positive_part(people, _tilt(blanket, gains)) / (blanket.gamma * people)
        + TAIL * target
    )


def _lattice(
    blanket: Blanket, gains: Array, people: int, target: float, coarser: int
) -> tuple[float, int]:
    """Return the lattice's step, and a length that the sum's positive part hardly ever exceeds."""
    from scipy.fft import next_fast_len

    largest, mean = float(np.abs(gains).max()), blanket.gamma * float(blanket.weight @ gains)
    squares = blanket.gamma * float(blanket.weight @ gains**2)
    resolution = COARSE_RESOLUTION if people > MANY else RESOLUTION
    step = coarser * resolution * math.sqrt(squares)
    while True:
        reach = largest + step
        rarely = TAIL * target * blanket.gamma / reach
        width = _window(people * (squares + step**2 / 4), reach + abs(mean), rarely)
        length = int(2 * min(width, people * reach) / step) + 4
        if length <= MAX_LENGTH:
            return step, next_fast_len(length, real=True)
        step *= 2


@dataclass(frozen=True)
class _Lattice:
    """Law of one report's part, without its probability of 0, on a circle of lattice points."""

    step: float
    length: int
    places: Array
    shares: Array

    def positive_part(self, people: int, tilt: float) -> float:
        """Return an upper bound on the mean of the sum's positive part.

        The law is tilted by e^(tilt · sum), so that the sums that matter are probable, and the
        transform's error is relative to the result. That error is bounded and added.
        """
        from scipy.fft import irfft, rfft

        raised = self.shares * np.exp(tilt * self.step * self.places)
        log_mean = math.log1p(float((self.shares * np.expm1(tilt * self.step * self.places)).sum()))
        moved = raised / math.exp(log_mean)
        law = np.zeros(self.length)  # minus the law that is surely 0
        np.add.at(law, self.places.astype(np.int64) % self.length, moved)
        law[0] -= moved.sum()
        change = rfft(law)
        squared = 2 * change.real + change.real**2 + change.imag**2
        exponent = np.log1p(np.maximum(squared, LEAST)) / 2 + 1j * np.angle(1 + change)
        spectrum = np.exp(people * exponent)
        sums = np.arange(1, self.length // 2)
        worth = sums * self.step * np.exp(-tilt * self.step * sums)
        error = ROUNDING * math.log2(self.length) * (1 + 2 * people * float(moved.sum()))
        error *= 2 * float(np.abs(spectrum).sum()) / self.length * float(worth.sum())
        total = max(0.0, float(irfft(spectrum, self.length)[1 : self.length // 2] @ worth))
        return math.exp(people * (log_mean + LOG_ERROR)) * (total + error)


def _tilt(blanket: Blanket, gains: Array) -> float:
    """Return nearly the t with the smallest mean of e^(t · sum)."""
    tilts = TILTS / np.abs(gains).max()
    means = np.expm1(tilts[:, None] * gains) @ blanket.weight
    best = int(means.argmin())
    return float(tilts[best]) if means[best] < 0 else 0.0


def chernoff_delta(blanket: Blanket, people: int, epsilon: float) -> float:
    """Return a cheap upper bound on δ(ε): s₊ ≤ e^(t s - 1) / t for every t."""
    gains = _gains(blanket, epsilon)
    tilts = TILTS / np.abs(gains).max()
    grown = blanket.gamma * (np.expm1(tilts[:, None] * gains) @ blanket.weight)
    logarithms = people * np.log1p(grown) - 1 - np.log(tilts)
    return math.exp(min(LARGEST_EXPONENT, float(logarithms.min()))) / (blanket.gamma * people)


def _gains(blanket: Blanket, epsilon: float) -> Array:
    """Return u - e^ε v, rounded up."""
    factor = math.exp(epsilon) * (1 - MARGIN)
    return blanket.u * (1 + MARGIN) - factor * blanket.v * (1 - MARGIN)


def _window(variance: float, reach: float, probability: float) -> float:
    """Return a distance from the mean that a sum exceeds with at most this probability."""
    bound = math.log(2 / probability)
    return bound * reach / 3 + math.sqrt((bound * reach / 3) ** 2 + 2 * variance * bound)


def _epsilon_of(blanket: Blanket, people: int, delta: float, local_epsilon: float) -> float:
    """Return the least ε of this pair of answers, rounded up."""
    from scipy.optimize import brentq

    def excess(epsilon: float) -> float:
        return math.log(blanket_delta(blanket, people, epsilon, delta) / delta)

    general = shuffled_epsilon(local_epsilon, people, delta)  # close to the result, and fast
    if general == 0 or excess(general) > 0:
        return general
    low = general / 2
    while excess(low) <= 0:
        if low < general * PRECISION:
            return low
        low /= 2
    epsilon = float(brentq(excess, low, general, xtol=PRECISION * low))
    while excess(epsilon) > 0:
        epsilon *= 1 + PRECISION
    return epsilon


def _spread(blanket: Blanket) -> float:
    return blanket.gamma * float(blanket.weight @ (blanket.u - blanket.v) ** 2)


# Blankets of surveys


def _blankets(mechanisms: Sequence[Mechanism], *, asks_one: bool) -> list[Blanket] | None:
    """Return the blanket of each pair of answers that may be the worst, or None if unknown."""
    each = [BLANKETS.of(mechanism)(mechanism) for mechanism in mechanisms]
    known = [listed for listed in each if listed is not None]
    if len(known) < len(each) or math.prod(map(len, known)) > MAX_PAIRS:
        return None
    atoms = [max(len(blanket.weight) for blanket in listed) for listed in known]
    if (sum(atoms) if asks_one else math.prod(atoms)) > MAX_ATOMS:
        return None
    return [_union(pair) if asks_one else _product(pair) for pair in product(*known)]


def _product(blankets: Sequence[Blanket]) -> Blanket:
    def joined(one: Blanket, other: Blanket) -> Blanket:
        u, v, weight = (
            np.multiply.outer(a, b).ravel() for a, b in zip(one[1:], other[1:], strict=True)
        )
        kept = weight > 0
        return Blanket(one.gamma * other.gamma, u[kept], v[kept], weight[kept])

    return reduce(joined, blankets)


def _union(blankets: Sequence[Blanket]) -> Blanket:
    gamma = sum(blanket.gamma for blanket in blankets) / len(blankets)
    parts = [
        (
            blanket.u * (gamma / blanket.gamma),
            blanket.v * (gamma / blanket.gamma),
            blanket.weight * (blanket.gamma / (len(blankets) * gamma)),
        )
        for blanket in blankets
    ]
    return Blanket(gamma, *(np.concatenate(column) for column in zip(*parts, strict=True)))


def _two_levels(high: Fraction, low: Fraction, only: Fraction, both: Fraction) -> list[Blanket]:
    """Return the blanket of two answers; a report supports `only` one of them, or `both`."""
    u, v = [high, low, high, low], [low, high, high, low]
    weight = [only, only, both, 1 - 2 * only - both]
    kept = [index for index, share in enumerate(weight) if share]
    arrays = (np.array([float(column[index]) for index in kept]) for column in (u, v, weight))
    return [Blanket(float(low) * (1 - MARGIN), *arrays)]


def _one_option(design: OneOption) -> list[Blanket]:
    k = design.options
    high, low = (Fraction(k * units, ONE) for units in (design.keep, design.lie))
    return _two_levels(high, low, Fraction(1, k), Fraction(0))


def _subsets(design: SubsetSelection) -> list[Blanket]:
    k, d, miss = design.options, design.chosen, Fraction(design.miss, ONE)
    pairs = k * (k - 1)
    only, both = Fraction(d * (k - d), pairs), Fraction(d * (d - 1), pairs)
    return _two_levels((1 - miss) * k / d, miss * k / (k - d), only, both)


def _cyclic(design: CyclicDesign) -> list[Blanket]:
    blind, r, modulus = Fraction(design.blind, ONE), design.speaking, design.modulus
    only, both = Fraction(r - design.shared, modulus), Fraction(design.shared, modulus)
    return _two_levels(blind + (1 - blind) * modulus / r, blind, only, both)


def _unary(design: Unary) -> list[Blanket]:
    q = Fraction(design.lie, ONE)
    return _two_levels(1 / (2 * q), 1 / (2 * (1 - q)), q * (1 - q), q * q)


def _closest(design: KClosest) -> list[Blanket]:
    """Two vectors that share no close codeword are the worst, as with questions that agree."""
    m = design.codewords
    high, low = Fraction(m * design.near, ONE), Fraction(m * design.far, ONE)
    return _two_levels(high, low, Fraction(design.closest, m), Fraction(0))


def _table(table: NumberTable) -> list[Blanket] | None:
    """Return the blankets of all pairs of rows, without repetitions."""
    if table.answers**2 > MAX_PAIRS:
        return None
    least = [min(column) for column in zip(*table.rows, strict=True)]
    gamma = Fraction(sum(least), ONE)
    weight = np.array([float(Fraction(units, sum(least))) for units in least])
    relative = [
        np.array([float(gamma * units / under) for units, under in zip(row, least, strict=True)])
        for row in table.rows
    ]
    made: dict[tuple[tuple[int, int, int], ...], Blanket] = {}
    for (i, one), (j, other) in product(enumerate(table.rows), repeat=2):
        key = tuple(sorted(zip(one, other, least, strict=True)))
        if key not in made:
            made[key] = Blanket(float(gamma) * (1 - MARGIN), relative[i], relative[j], weight)
    return list(made.values())


# Any: each function takes the family of its key
BLANKETS: FamilyTable[Callable[[Any], list[Blanket] | None]] = FamilyTable(
    {
        Mechanism: lambda _: None,
        OneOption: _one_option,
        SubsetSelection: _subsets,
        CyclicDesign: _cyclic,
        Unary: _unary,
        KClosest: _closest,
        NumberTable: _table,
        GroupedDesign: lambda design: BLANKETS.of(design.each)(design.each),
    }
)
