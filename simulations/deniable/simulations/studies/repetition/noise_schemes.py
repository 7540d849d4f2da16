"""Noise schemes for the same yes-or-no question in many rounds, and their exact leakage.

    fresh        new noise in every round
    kept         memoized: the report of each answer is drawn once, and sent again whenever that is
                 the answer
    two-stage    a kept report, randomized again in every round
    latched      the report of the first answer in a public period is sent in all its rounds

These are sums over binomials, without sampling. The observer sees every report of one install, and
so must link them: envelope ids do not allow that, but a network address may.

Two-stage is calibrated so that a single report has ε: with e^a for the kept report, the second coin
has e^r = (e^(a + ε) - 1) / (e^a - e^ε).

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
    """A scheme with `epsilon` for one report, and `lasting` for the kept report of two stages.

    No device sends the kept report, so its ε may be larger than one report may have.
    """

    name: str
    epsilon: Epsilon
    lasting: Epsilon | float

    @cached_property
    def kept(self) -> float:
        """The probability that the kept report is true; one half where none is kept."""
        if self.name == "fresh":
            return 0.5
        if self.name == "two-stage":
            return math.exp(self._log_kept[0])
        return truth(self.epsilon)

    @cached_property
    def _log_kept(self) -> tuple[float, float]:
        """The log probabilities that the kept report is true and that it is false."""
        if self.name != "two-stage":
            return math.log(self.kept), math.log(1 - self.kept)
        lasting = float(self.lasting)
        true = -math.log1p(math.exp(-lasting))
        return true, true - lasting

    @cached_property
    def sent(self) -> float:
        """The probability that a round sends the kept report; for fresh noise, the true answer."""
        if self.name == "fresh":
            return truth(self.epsilon)
        if self.name == "two-stage":
            a, b = math.exp(float(self.lasting)), math.exp(float(self.epsilon))
            second = (a * b - 1) / (a - b)
            return second / (second + 1)
        return 1.0

    def guarantee(self, rounds: int) -> float:
        """Return the ε of an answer that stays the same for this number of rounds."""
        if self.name == "fresh":
            return float(self.epsilon) * rounds
        return float(self.lasting if self.name == "two-stage" else self.epsilon)

    def guess_right(self, rounds: int) -> float:
        """Return the probability that an observer guesses an answer that never changes.

        The majority is the best guess; a coin decides a tie.
        """
        ones = np.arange(rounds + 1)
        probabilities = self._sequences(ones, rounds, True) + _log_choose(rounds, ones)
        worth = np.where(2 * ones > rounds, 1.0, np.where(2 * ones == rounds, 0.5, 0.0))
        return float(np.exp(probabilities) @ worth)

    def flip_right(self, rounds: int) -> float:
        """Return the probability of deciding correctly whether an answer changed halfway or never.

        Both are equally likely, so it is (1 + total variation) / 2.
        """
        half = rounds // 2
        if self.name == "latched" or half == 0:
            return 0.5
        never, flip, ways = self._histories(half, rounds)
        apart = np.abs(np.exp(never + ways) - np.exp(flip + ways)).sum() / 2
        return float((1 + apart) / 2) if self.name != "kept" else (1 + self.flip_shown) / 2

    @property
    def flip_shown(self) -> float:
        """The probability that kept reports change when the answer does, and so reveal it."""
        return self.kept**2 + (1 - self.kept) ** 2

    def flip_epsilon(self, rounds: int) -> float:
        """Return the ε between an answer that never changes and one that changes once.

        It is the largest log ratio of probabilities, over all reports and all times of a change.
        """
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
        """Return three arrays, for every number of ones before and after the change.

        They are the log probability of one such sequence if the answer stays yes, the same if it
        becomes no, and the log number of such sequences.
        """
        before, after = np.arange(change + 1)[:, None], np.arange(rounds - change + 1)[None, :]
        never = self._sequences(before + after, rounds, True)
        flip = self._sequences(before, change, True) + self._sequences(
            after, rounds - change, False
        )
        ways = _log_choose(change, before) + _log_choose(rounds - change, after)
        return never, flip, ways

    def _sequences(self, ones: NDArray[np.int64], rounds: int, answer: bool) -> Array:
        """Return the log probability of one sequence with these ones, for a constant answer."""
        with np.errstate(divide="ignore", invalid="ignore"):
            hit, miss = np.log(self.sent), np.log1p(-self.sent)
            as_one = _times(ones, hit) + _times(rounds - ones, miss)
            as_zero = _times(ones, miss) + _times(rounds - ones, hit)
        if self.name == "fresh":
            return as_one if answer else as_zero
        one, zero = self._log_kept if answer else self._log_kept[::-1]
        return np.logaddexp(one + as_one, zero + as_zero)


def truth(epsilon: Epsilon) -> float:
    return RandomizedResponse(epsilon).keep / ONE


def _times(count: NDArray[np.int64], logarithm: float) -> Array:
    """Return count · logarithm, and 0 where the count is 0, even if the logarithm is infinite."""
    return np.where(count == 0, 0.0, count * logarithm)


def _log_choose(total: int, chosen: NDArray[np.int64]) -> Array:
    from scipy.special import gammaln

    return np.asarray(gammaln(total + 1) - gammaln(chosen + 1) - gammaln(total - chosen + 1))
