"""Probabilities as whole multiples of 2^-64, rounded toward more noise, without a float.

Every probability that we need is a rational function of e^x with x rational, so it is irrational
for x != 0 and lies strictly between two neighbouring multiples of 2^-64. Interval arithmetic on
integers, made finer until both ends agree, finds the upper one, and thereby proves it.

Rounding a lie up, and giving truth the remainder, makes every ratio of two probabilities smaller.
To nearest, or down, it would break ε in many cells.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deniable.shared.privacy.epsilon import Epsilon

ONE = 2**64  # the unit of every probability is 1 / ONE
FIRST_PRECISION = 192
PROOF_PRECISION = 384


@dataclass(frozen=True, slots=True)
class Interval:
    """A positive real known to lie in [low, high] / 2^bits; every operation rounds outward."""

    low: int
    high: int
    bits: int

    @staticmethod
    def whole(number: int, bits: int) -> "Interval":
        return Interval(number << bits, number << bits, bits)

    def __add__(self, other: "Interval | int") -> "Interval":
        o = self._coerce(other)
        return Interval(self.low + o.low, self.high + o.high, self.bits)

    def __sub__(self, other: "Interval | int") -> "Interval":
        o = self._coerce(other)
        return Interval(self.low - o.high, self.high - o.low, self.bits)

    def __mul__(self, other: "Interval | int") -> "Interval":
        o = self._coerce(other)
        return Interval(
            self.low * o.low >> self.bits, -(-self.high * o.high >> self.bits), self.bits
        )

    def __truediv__(self, other: "Interval | int") -> "Interval":
        o = self._coerce(other)
        low, high = (self.low << self.bits) // o.high, -(-(self.high << self.bits) // o.low)
        return Interval(low, high, self.bits)

    def __rtruediv__(self, other: int) -> "Interval":
        return self._coerce(other) / self

    def _coerce(self, other: "Interval | int") -> "Interval":
        return Interval.whole(other, self.bits) if isinstance(other, int) else other


def exp_interval(numerator: int, denominator: int, bits: int) -> Interval:
    """e^(numerator / denominator) for a ratio >= 0, by its power series with both ends kept.

    Once n >= 2 x, each term is at most half the one before, so what is left out is less than the
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
        below = [_ceil_shift(value.low, bits - 64) for value in values]
        above = [_ceil_shift(value.high, bits - 64) for value in values]
        if below == above:
            return tuple(above)
        bits *= 2


def lie_units(epsilon: Epsilon, symbols: int) -> int:
    """1 / (e^ε + symbols - 1) in units of 2^-64, rounded up: the probability of each single lie."""
    (lie,) = ceil_units(*epsilon.ratio, lambda e: [1 / (e + (symbols - 1))])
    return lie


def nearest(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)


def within(epsilon: Epsilon, larger: int, smaller: int) -> bool:
    """Proof that larger / smaller <= e^ε: by a lower bound of e^ε, so True is never wrong."""
    return larger << PROOF_PRECISION <= exp_interval(*epsilon.ratio, PROOF_PRECISION).low * smaller


def _ceil_shift(number: int, bits: int) -> int:
    return -(-number >> bits)
