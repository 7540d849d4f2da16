"""Verification of a mechanism's ε: a proof from its integers, and an audit of real reports.

The proof covers each mechanism of the table, over a grid of ε and the sizes that it names: every
row sums to one, no probability is zero, and the largest ratio of any column is at most e^ε, by a
lower bound of e^ε from interval arithmetic. Where a full table would be too large, the mechanism
uses its structure: the two probabilities in a column of k-ary randomized response, the two bits
that differ in unary encoding, sets with and without an option in subset selection, and the near and
far codewords of k-closest, for every seed and every order of the codewords.

The audit measures a lower bound of the ε that reports reveal. It makes n reports of each of two
answers, and counts how often an event that was chosen beforehand happens: k times and j times. Then
e^ε >= P[event | one] / P[event | other], so with Clopper-Pearson's limits of both probabilities

    ε >= ln(lower(k) / upper(j))

holds except with probability `error`, half of it for each limit. The audit shows whether what is
sent follows the table. It cannot show that less than ε is revealed: the bound may be low only
because there were few reports.

Source: Ding, Wang, Wang, Zhang, Kifer 2018, "Detecting violations of differential privacy", ACM
CCS; Clopper, Pearson 1934, "The use of confidence or fiducial limits illustrated in the case
of the binomial", Biometrika 26(4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from deniable.shared.privacy.epsilon import Epsilon, within
from deniable.shared.privacy.mechanism import Draw, Mechanism, kernel_draw, log_ratio
from deniable.shared.privacy.mechanisms import mechanisms

MAX_COMPARED = 10_000  # largest number of probabilities of a table whose rows are compared
EPSILONS = ["0.01", "0.05", "0.1", "0.3", "0.5", "0.7", "1", "1.386"]
EPSILONS += ["2", "3", "4", "5", "8", "12", "16", "20"]
ERROR = 1e-9  # largest probability that a bound exceeds the truth
HALVINGS = 60
SLOW_TRIALS_DIVISOR = 50  # for mechanisms whose reports and probabilities are slow to compute


class Certificate(NamedTuple):
    mechanism: str
    size: int
    epsilon: Epsilon
    realised: Decimal
    holds: bool

    @property
    def loss(self) -> Decimal:
        """The ε that is left unused; a negative number would be an excess."""
        return Decimal(str(self.epsilon)) - self.realised


def certify(mechanism: Mechanism) -> Certificate:
    """Prove one mechanism by integers. The decimal is only for display."""
    holds = mechanism.is_private() and mechanism.is_whole()
    realised = mechanism.realised_epsilon()
    return Certificate(mechanism.name, mechanism.size, mechanism.epsilon, realised, holds)


def refusal(mechanism: Mechanism) -> str | None:
    """Return why this mechanism must not be used; None if its ε is proved."""
    larger, smaller = max(
        _ratios(mechanism), key=lambda ratio: Fraction(*ratio) if ratio[1] else math.inf
    )
    if not smaller:
        return f"{mechanism.name} is private at no ε: some report rules out one of the answers"
    if not within(mechanism.epsilon, larger, smaller):
        spent = log_ratio(larger, smaller)
        times = spent / Decimal(str(mechanism.epsilon))
        return (
            f"{mechanism.name} spends {_excess(times)} times its ε of {mechanism.epsilon}: two "
            f"answers' probabilities of one report differ by a factor of e^{spent:.4g}"
        )
    if not mechanism.is_whole():
        return f"{mechanism.name} is not a mechanism: a row of its table does not sum to one"
    return None


def _ratios(mechanism: Mechanism) -> Iterator[tuple[int, int]]:
    yield mechanism.worst_ratio()
    symbols = mechanism.symbols >> mechanism.encoding.public_bits
    if symbols * mechanism.answers > MAX_COMPARED:
        return
    for symbol in mechanism.encoding.symbols():
        column = [mechanism.weight(symbol, answer) for answer in range(mechanism.answers)]
        larger, smaller = max(column), min(column)
        yield larger.numerator * smaller.denominator, smaller.numerator * larger.denominator


def _excess(times: Decimal) -> str:
    """Format with two decimals, or as many as show that it is more than 1."""
    return f"{times:.2f}" if times >= Decimal("1.01") else f"1 + {times - 1:.1e}"


def grid() -> Iterator[Mechanism]:
    """Yield every mechanism at each of EPSILONS and each of its `proved_sizes`."""
    for text in EPSILONS:
        for mechanism in mechanisms().values():
            for size in mechanism.proved_sizes:
                yield mechanism(Epsilon(text), size)


def table(mechanism: Mechanism) -> dict[str, Any]:
    """Return the probabilities as JSON, in units of 2^-64: row = answer, column = symbol."""
    return {
        "mechanism": mechanism.name,
        "epsilon": str(mechanism.epsilon),
        "realised_epsilon": str(mechanism.realised_epsilon()),
        "holds": certify(mechanism).holds,
        "unit": "2**-64",
        **mechanism.written_out(),
    }


# The audit


class Audited(NamedTuple):
    """Result of an audit: the stated ε, and the least ε that reports reveal."""

    mechanism: str  # a mechanism's name, or another source of reports
    epsilon: str
    at_least: float
    trials: int  # number of reports of each answer

    @property
    def holds(self) -> bool:
        return self.at_least <= float(self.epsilon)


def audit(
    mechanism: Mechanism, trials: int, error: float = ERROR, draw: Draw = kernel_draw
) -> Audited:
    """Audit the payloads that a mechanism's randomizer makes of its first and its last answer."""
    if mechanism.encoding.public_bits:
        trials = max(1, trials // SLOW_TRIALS_DIVISOR)
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
    """Return the function that tests whether a payload belongs to the event.

    If reports contain public random bits, the event is a payload that is likelier with answer 0.
    """
    if not mechanism.encoding.public_bits:
        size, telling = mechanism.payload_size, telling_symbols(mechanism, trials)
        return {symbol.to_bytes(size, "little") for symbol in telling}.__contains__

    def likelier(payload: bytes) -> bool:
        symbol = int.from_bytes(payload, "little")
        return mechanism.weight(symbol, 0) > mechanism.weight(symbol, mechanism.answers - 1)

    return likelier


def least_epsilon(one: int, other: int, trials: int, error: float = ERROR) -> float:
    """Return the bound from the counts of the event with each answer; 0 if they give no bound.

    >>> round(least_epsilon(7311, 2689, 10_000, 0.05), 6)
    0.955866
    """
    lower, upper = lower_limit(one, trials, error / 2), upper_limit(other, trials, error / 2)
    return max(0.0, math.log(lower / upper)) if lower > 0 else 0.0


def lower_limit(count: int, trials: int, error: float) -> float:
    """Return the rate at which at least `count` successes have the probability `error`."""
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
    """Return the symbols that best distinguish answer 0 from the last one, by the exact table.

    They are those with the highest likelihood ratios, as many as maximize the expected bound.
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
    """Return an approximation of the bound to expect, from limits of six standard errors."""
    lower = p - 6 * math.sqrt(p * (1 - p) / trials)
    upper = q + 6 * math.sqrt(q * (1 - q) / trials) + 36 / trials
    return math.log(lower / upper) if lower > 0 else -math.inf


def _tail(count: int, trials: int, rate: float) -> float:
    """Return P[at least `count` successes]; below the rate count / trials, the terms decrease."""
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
