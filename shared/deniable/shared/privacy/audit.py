"""Audit: a lower bound of the ε that reports give away, from observed reports of two answers.

Of n reports of each answer, an event that was chosen beforehand happened k and j times. Then
e^ε >= P[event | one] / P[event | other], so with Clopper-Pearson's limits of both probabilities

    ε >= ln(lower(k) / upper(j))

holds but for the probability `error`, half of it for either limit. The exact table proves that a
mechanism gives away at most ε; this sees whether what is sent follows the table. It never shows
that less than ε is given away: few reports give a low bound.

Source: Ding, Wang, Wang, Zhang, Kifer 2018, "Detecting violations of differential privacy", ACM
CCS; Clopper, Pearson 1934, "The use of confidence or fiducial limits illustrated in the case
of the binomial", Biometrika 26(4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.randomness import Draw, kernel_draw

ERROR = 1e-9  # the probability that a bound is above the truth, at most
HALVINGS = 60
FEWER = 50  # times, where a report and its probability take long to compute


@dataclass(frozen=True)
class Audited:
    """Result of an audit: the stated ε, and the ε that is given away at least."""

    mechanism: str  # or what else reports come from
    epsilon: str
    at_least: float
    trials: int  # reports of either answer

    @property
    def holds(self) -> bool:
        return self.at_least <= float(self.epsilon)


def audit(
    mechanism: Mechanism, trials: int, error: float = ERROR, draw: Draw = kernel_draw
) -> Audited:
    """Audit the payloads that a mechanism's randomizer makes of its first and its last answer."""
    if mechanism.encoding.public_bits:
        trials = max(1, trials // FEWER)
    tells, size = _event(mechanism, trials), mechanism.payload_size

    def times(number: int) -> int:
        answer = mechanism.answer_at(number)
        payloads = (
            mechanism.randomize(answer, draw).to_bytes(size, "little") for _ in range(trials)
        )
        return sum(map(tells, payloads))

    bound = least_epsilon(times(0), times(mechanism.answers - 1), trials, error)
    return Audited(mechanism.name, str(mechanism.epsilon), bound, trials)


def _event(mechanism: Mechanism, trials: int) -> Callable[[bytes], bool]:
    """Return the test of a payload for the event.

    Where a report has random bits of its own, which do not depend on the answer, the event is:
    likelier with answer 0.
    """
    if not mechanism.encoding.public_bits:
        size, telling = mechanism.payload_size, telling_symbols(mechanism, trials)
        return {symbol.to_bytes(size, "little") for symbol in telling}.__contains__

    def likelier(payload: bytes) -> bool:
        symbol = int.from_bytes(payload, "little")
        return mechanism.weight(symbol, 0) > mechanism.weight(symbol, mechanism.answers - 1)

    return likelier


def least_epsilon(one: int, other: int, trials: int, error: float = ERROR) -> float:
    """Return the bound from how often the event happened with one answer and with the other.

    0 means nothing was seen.

    >>> round(least_epsilon(7311, 2689, 10_000, 0.05), 6)
    0.955866
    """
    lower, upper = lower_limit(one, trials, error / 2), upper_limit(other, trials, error / 2)
    return max(0.0, math.log(lower / upper)) if lower > 0 else 0.0


def lower_limit(count: int, trials: int, error: float) -> float:
    """Return the rate at which so many successes, or more, have the probability `error`."""
    if count == 0:
        return 0.0
    low, high = 0.0, count / trials
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _tail(count, trials, middle) < error else (low, middle)
    return low


def upper_limit(count: int, trials: int, error: float) -> float:
    return 1 - lower_limit(trials - count, trials, error)


def telling_symbols(mechanism: Mechanism, trials: int) -> frozenset[int]:
    """Return the symbols that best distinguish answer 0 from the last one.

    By the exact table, before any report is seen. They are taken by their likelihood ratio, as many
    as make the bound highest.
    """
    last = mechanism.answers - 1
    pairs = [
        (float(mechanism.weight(symbol, 0)), float(mechanism.weight(symbol, last)), symbol)
        for symbol in mechanism.encoding.symbols()
    ]
    pairs.sort(key=lambda pair: pair[1] / pair[0])
    taken, best, p, q = frozenset[int](), 0.0, 0.0, 0.0
    for number, (one, other, _) in enumerate(pairs[:-1], 1):
        p, q = p + one, q + other
        expected = _expected(p, q, trials)
        if expected > best or not taken:
            best, taken = expected, frozenset(symbol for *_, symbol in pairs[:number])
    return taken


def _expected(p: float, q: float, trials: int) -> float:
    """Return roughly the bound to expect, by normal limits of six standard errors."""
    lower = p - 6 * math.sqrt(p * (1 - p) / trials)
    upper = q + 6 * math.sqrt(q * (1 - q) / trials) + 36 / trials
    return math.log(lower / upper) if lower > 0 else -math.inf


def _tail(count: int, trials: int, rate: float) -> float:
    """Return P[at least `count` successes in `trials`].

    The rate is below count / trials, where the terms only fall.
    """
    if not 0 < rate < 1:
        return rate
    ways = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
    term = math.exp(ways + count * math.log(rate) + (trials - count) * math.log1p(-rate))
    total, odds = term, rate / (1 - rate)
    for successes in range(count, trials):
        term *= (trials - successes) / (successes + 1) * odds
        total += term
        if term <= total * 1e-17:
            break
    return total
