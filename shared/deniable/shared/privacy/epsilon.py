"""ε: its exact decimal, exact bounds of e^ε, and its meaning as odds.

No sum, probability or bound is a float. ε is stored, summed and compared in whole billionths, so a
cap of 0.3 holds three charges of 0.1.

Probabilities are whole multiples of 2^-64, rounded toward more noise. Each probability that we need
is a rational function of e^x with x rational, so for x != 0 it is irrational and lies strictly
between two neighbouring multiples of 2^-64. Interval arithmetic on integers, refined until both
ends agree, finds the upper multiple, and thereby proves it. A lie is rounded up and the truth gets
the remainder, which makes every ratio of two probabilities smaller. Rounding to nearest, or down,
would break ε in many cells.

Odds in sentences are rounded up, so they never understate what a report reveals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deniable.shared.errors import InvalidEpsilon

BILLION = 10**9
MAX_EPSILON = 20
ONE = 2**64  # the unit of every probability is 1 / ONE
FIRST_PRECISION = 192
PROOF_PRECISION = 384
ODDS_PRECISION_BITS = 128
MAX_SHOWN_BILLIONTHS = 30 * BILLION  # beyond this, e^ε has no practical meaning
_DECIMAL = re.compile(r"(\d{1,9})(?:\.(\d{1,9}))?", re.ASCII)


@dataclass(frozen=True, order=True, slots=True, init=False)
class Epsilon:
    """Privacy cost of one answer, or of one round of answers.

    >>> Epsilon("0.5"), Epsilon("0.50") == Epsilon("0.5")
    (Epsilon('0.5'), True)
    """

    billionths: int

    def __init__(self, text: str) -> None:
        billionths = parse_billionths(text)
        if not 0 < billionths <= MAX_EPSILON * BILLION:
            raise InvalidEpsilon(f"ε must be above 0 and at most {MAX_EPSILON}, got {text}")
        object.__setattr__(self, "billionths", billionths)

    @property
    def ratio(self) -> tuple[int, int]:
        """ε as numerator and denominator."""
        return self.billionths, BILLION

    def __str__(self) -> str:
        return decimal_text(self.billionths)

    def __repr__(self) -> str:
        return f"Epsilon({str(self)!r})"

    def __float__(self) -> float:
        return self.billionths / BILLION


def parse_billionths(text: object) -> int:
    """Read decimal text as whole billionths; up to nine digits on either side of the point."""
    match = _DECIMAL.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidEpsilon(
            f'ε is written as decimal text with at most nine decimals, like "0.5"; got {text!r}'
        )
    whole, decimals = match.groups(default="")
    return int(whole) * BILLION + int(decimals.ljust(9, "0"))


def decimal_text(billionths: int) -> str:
    """Return the shortest decimal text of a number of billionths.

    >>> decimal_text(500_000_000), decimal_text(2_000_000_000)
    ('0.5', '2')
    """
    whole, rest = divmod(billionths, BILLION)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")


# Bounds of e^ε


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds [low, high] / 2^bits of a positive real; every operation rounds outward."""

    low: int
    high: int
    bits: int

    def __add__(self, other: Interval | int) -> Interval:
        o = self._coerce(other)
        return Interval(self.low + o.low, self.high + o.high, self.bits)

    def __sub__(self, other: Interval | int) -> Interval:
        o = self._coerce(other)
        return Interval(self.low - o.high, self.high - o.low, self.bits)

    def __mul__(self, other: Interval | int) -> Interval:
        o = self._coerce(other)
        return Interval(
            self.low * o.low >> self.bits, -(-self.high * o.high >> self.bits), self.bits
        )

    def __truediv__(self, other: Interval | int) -> Interval:
        o = self._coerce(other)
        low, high = (self.low << self.bits) // o.high, -(-(self.high << self.bits) // o.low)
        return Interval(low, high, self.bits)

    def __rtruediv__(self, other: int) -> Interval:
        return self._coerce(other) / self

    def _coerce(self, other: Interval | int) -> Interval:
        if not isinstance(other, int):
            return other
        return Interval(other << self.bits, other << self.bits, self.bits)


def exp_interval(numerator: int, denominator: int, bits: int) -> Interval:
    """Return bounds of e^(numerator / denominator), for a ratio >= 0, from the power series.

    Once n >= 2 x, each term is at most half of the previous one, so the remainder is less than the
    last term, and that is less than one unit of 2^-bits when the loop ends.
    """
    low = high = low_term = high_term = 1 << bits
    n = 0
    while high_term > 1 or n * denominator < 2 * numerator:
        n += 1
        low_term = low_term * numerator // (denominator * n)
        high_term = -(-high_term * numerator // (denominator * n))
        low, high = low + low_term, high + high_term
    return Interval(low, high + 1, bits)


def ceil_units(
    numerator: int, denominator: int, formulas: Callable[[Interval], Sequence[Interval]]
) -> tuple[int, ...]:
    """Round each formula of e^(numerator / denominator) up to a whole multiple of 2^-64."""
    bits = FIRST_PRECISION
    while True:
        values = formulas(exp_interval(numerator, denominator, bits))
        below = [-(-value.low >> bits - 64) for value in values]
        above = [-(-value.high >> bits - 64) for value in values]
        if below == above:
            return tuple(above)
        bits *= 2


def lie_units(epsilon: Epsilon, symbols: int) -> int:
    """Return the probability of each single lie, 1 / (e^ε + symbols - 1), rounded up."""
    (lie,) = ceil_units(*epsilon.ratio, lambda e: [1 / (e + (symbols - 1))])
    return lie


def nearest(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)


def within(epsilon: Epsilon, larger: int, smaller: int) -> bool:
    """Prove that larger / smaller <= e^ε. It uses a lower bound of e^ε, so True is never wrong."""
    bits = PROOF_PRECISION
    return larger << bits <= exp_interval(*epsilon.ratio, bits).low * smaller


# The meaning of ε, as odds


def odds_factor(billionths: int) -> str:
    """Return e^ε with two digits, rounded up.

    >>> odds_factor(2_000_000_000), odds_factor(500_000_000), odds_factor(6_000_000_000)
    ('7.4', '1.7', '410')
    """
    if billionths > MAX_SHOWN_BILLIONTHS:
        return "more than a trillion"
    bits = ODDS_PRECISION_BITS
    upper = exp_interval(billionths, BILLION, bits).high
    tenths = -(-10 * upper >> bits)
    if tenths < 100:
        return f"{tenths // 10}.{tenths % 10}".removesuffix(".0")
    whole = -(-upper >> bits)
    unit = 10 ** (len(str(whole)) - 2)
    return f"{-(-whole // unit) * unit:,}"


def largest_belief(billionths: int, belief: int, parts: int) -> int:
    """Return the largest value that a belief in percent can reach, in `parts` of 1, rounded up.

    By Bayes, a belief b becomes at most b e^ε / (b e^ε + 1 - b).
    """
    bits = ODDS_PRECISION_BITS
    grown = belief * exp_interval(billionths, BILLION, bits).high
    return -(-parts * grown // (grown + (100 - belief << bits)))


def percent(units: int) -> str:
    """Return a probability in units of 2^-64 as a percentage that is never 0 % or 100 %.

    >>> percent(2**63), percent(2**64 - 1), percent(0)
    ('50 %', 'over 99.9 %', 'under 0.001 %')
    """
    share = 100 * units / ONE
    if share > 99.9:
        return "over 99.9 %"
    return f"{share:.3g} %" if share >= 0.001 else "under 0.001 %"


def odds_change(billionths: int) -> str:
    """Return how much reports of this ε can change anyone's odds about a person.

    >>> odds_change(2_000_000_000)
    'by a factor of at most 7.4 (ε 2)'
    """
    return f"by a factor of at most {odds_factor(billionths)} (ε {decimal_text(billionths)})"


def round_promise(billionths: int, repeat_rounds: int = 1) -> str:
    """Return the promise for one round, or for several that share one report."""
    change = odds_change(billionths)
    rounds = f"{repeat_rounds} rounds that share a report" if repeat_rounds > 1 else "one round"
    return f"everything sent in {rounds} changes the odds about any respondent {change}"


def lifetime_promise(billionths: int, rounds: int, repeat_rounds: int = 1) -> str:
    """Return the promise for all rounds of a survey together."""
    count = f"its {rounds} rounds" if rounds > 1 else "its one round"
    draws = -(-rounds // repeat_rounds)
    return f"everything sent in {count} changes them {odds_change(billionths * draws)}"
