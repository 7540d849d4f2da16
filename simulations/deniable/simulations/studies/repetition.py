"""Ways to answer the same yes-or-no question in many rounds, and what they give away, exactly.

    fresh        new noise in every round
    kept         memoized: the report of each answer is drawn once, and sent again whenever that is
                 the answer
    two-stage    such a report is kept, and randomized again in every round
    latched      the report of the first answer in a public period is sent in all its rounds

Only sums over binomials here, no sampling. An observer sees every report of one install; that takes
someone who links them, which envelope ids do not allow but a network address may.

Two-stage is calibrated so that a single report spends ε: with e^a for the kept report, the second
coin has e^r = (e^(a + ε) - 1) / (e^a - e^ε).

Source: Erlingsson, Pihur, Korolova 2014, "RAPPOR", CCS (memoized reports, randomized again: its
permanent and instantaneous randomized response).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE

SCHEMES = ("fresh", "kept", "two-stage", "latched")
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Scheme:
    """A way to repeat: `epsilon` of one report, `lasting` that of a two-stage kept report, which no
    device sends: it may be above what one report may have."""

    name: str
    epsilon: Epsilon
    lasting: Epsilon | float

    @cached_property
    def kept(self) -> float:
        """The probability that what lasts over rounds is true; one half where nothing lasts."""
        if self.name == "fresh":
            return 0.5
        if self.name == "two-stage":
            return math.exp(self._log_kept[0])
        return truth(self.epsilon)

    @cached_property
    def _log_kept(self) -> tuple[float, float]:
        """Of what lasts: that it is true, and that it is not, however little that is."""
        if self.name != "two-stage":
            return math.log(self.kept), math.log(1 - self.kept)
        lasting = float(self.lasting)
        true = -math.log1p(math.exp(-lasting))
        return true, true - lasting

    @cached_property
    def each(self) -> float:
        """The probability that a round's report is what lasts; for fresh noise, that it is true."""
        if self.name == "fresh":
            return truth(self.epsilon)
        if self.name == "two-stage":
            a, b = math.exp(float(self.lasting)), math.exp(float(self.epsilon))
            second = (a * b - 1) / (a - b)
            return second / (second + 1)
        return 1.0

    def guarantee(self, rounds: int) -> float:
        """ε about an answer that stays the same for so many rounds."""
        if self.name == "fresh":
            return float(self.epsilon) * rounds
        return float(self.lasting if self.name == "two-stage" else self.epsilon)

    def guess_right(self, rounds: int) -> float:
        """The probability that an observer guesses an answer that never changes: by majority, which
        is the best guess; a tie is decided by a coin."""
        ones = np.arange(rounds + 1)
        probabilities = self._sequences(ones, rounds, True) + _log_choose(rounds, ones)
        worth = np.where(2 * ones > rounds, 1.0, np.where(2 * ones == rounds, 0.5, 0.0))
        return float(np.exp(probabilities) @ worth)

    def flip_right(self, rounds: int) -> float:
        """The probability of telling an answer that never changes from one that changes halfway,
        both being equally likely: (1 + total variation) / 2."""
        half = rounds // 2
        if self.name == "latched" or half == 0:
            return 0.5
        never, flip, ways = self._histories(half, rounds)
        apart = np.abs(np.exp(never + ways) - np.exp(flip + ways)).sum() / 2
        return float((1 + apart) / 2) if self.name != "kept" else (1 + self.flip_shown) / 2

    @property
    def flip_shown(self) -> float:
        """Kept: the probability that reports change when the answer does, and so show it."""
        return self.kept**2 + (1 - self.kept) ** 2

    def flip_epsilon(self, rounds: int) -> float:
        """The largest logarithm of a ratio of probabilities, over all reports and all times of a
        change, between an answer that never changes and one that changes once."""
        if self.name == "latched":
            return 0.0
        if self.name == "kept" and rounds > 1:
            return math.inf
        worst = 0.0
        for change in range(1, rounds):
            never, flip, _ = self._histories(change, rounds)
            worst = max(worst, float(np.abs(never - flip).max()))
        return worst

    def _histories(self, change: int, rounds: int) -> tuple[Array, Array, Array]:
        """For every number of ones before and after: log probability of one such sequence if the
        answer stays yes, the same if it becomes no, and the log of how many such sequences there
        are."""
        before, after = np.arange(change + 1)[:, None], np.arange(rounds - change + 1)[None, :]
        never = self._sequences(before + after, rounds, True)
        flip = self._sequences(before, change, True) + self._sequences(
            after, rounds - change, False
        )
        ways = _log_choose(change, before) + _log_choose(rounds - change, after)
        return never, flip, ways

    def _sequences(self, ones: NDArray[np.int64], rounds: int, answer: bool) -> Array:
        """Log probability of one sequence with so many ones, given the answer in all its rounds."""
        with np.errstate(divide="ignore", invalid="ignore"):
            hit, miss = np.log(self.each), np.log1p(-self.each)
            as_one = _times(ones, hit) + _times(rounds - ones, miss)
            as_zero = _times(ones, miss) + _times(rounds - ones, hit)
        if self.name == "fresh":
            return as_one if answer else as_zero
        one, zero = self._log_kept if answer else self._log_kept[::-1]
        return np.logaddexp(one + as_one, zero + as_zero)


def truth(epsilon: Epsilon) -> float:
    return RandomizedResponse(epsilon).keep / ONE


def _times(count: NDArray[np.int64], logarithm: float) -> Array:
    """count · logarithm, and nothing where there is none to count, also at -infinity."""
    return np.where(count == 0, 0.0, count * logarithm)


def _log_choose(total: int, some: NDArray[np.int64]) -> Array:
    from scipy.special import gammaln

    return np.asarray(gammaln(total + 1) - gammaln(some + 1) - gammaln(total - some + 1))
