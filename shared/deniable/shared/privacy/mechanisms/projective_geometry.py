"""Projective geometry: report the number of a set of options, out of few sets.

Options are points of a finite geometry. A report is one of its hyperplanes and supports the points
on it: a share 1 / q of them, where the field has q elements, and any two equally often. A
hyperplane through the answer is e^ε times as probable as any other. There are hardly more symbols
than options, so a report takes two or three bytes, where a set would take thousands; the tally
counts symbols. `families/support.py` draws them.

Privacy: a symbol has two probabilities, w / N and w / N + (1 - w) / r, which depend on the sets
only by their size r. w is rounded up, and a factor (1 + 2^-100) on the second compensates for the
die of 128 bits.
Fit: more options than a report can name. If a report supports a share of options near
1 / (e^ε + 1), the variance is close to the least possible, which subset selection attains. Of the
geometries with enough points and at most 300,000 symbols, this uses the one whose variance, summed
over options with equal shares, is least:

    (r (N - r) e + (k - 1) (λ e + r - λ) ((r - λ) e + N - 2 r + λ)) / (r - λ)^2      e = e^ε

Up to ε = 4 and 65,536 options it is within 2.3 % of the least. It equals local hashing with the
family of linear functions, whose collisions are the same for any two options; with q = 2 it is
Hadamard response.

The sets of a finite geometry are written as sets on a circle. Let ω generate the field of q^t
elements over the field F of q = p^s, and L be a linear function of it with values in F. Options are
ω^x, x = 0 .. K - 1 with K = (q^t - 1) / (q - 1): no two of them differ by a factor in F only.
Symbol y supports option x if L(ω^(x + y)) lies in S, that is if x + y, modulo N, is in the set
D = {d: L(ω^d) in S}. Counting pairs (L(a), L(b)) of two such elements, which are uniform except
for the pair of zeros,

    N = (q^t - 1) / h                    symbols, where h factors of F leave S unchanged
    r = (|S| q^(t - 1) - z) / h          of them support an option, z = 1 if 0 is in S, else 0
    λ = (|S|^2 q^(t - 2) - z) / h        support both of any two options

With S = {0} these are the hyperplanes of a projective space (h = q - 1), and those of F = {0, 1}
are Hadamard's matrices. S = {1, -1} in the field of 5 (h = 2) gives a share of 2/5.

The values of L(ω^d) obey a linear recurrence over the field of p, of degree m = s t, whose
polynomial is primitive. Of these recurrences we use the one whose coefficients, read as a number in
base p, give the smallest number. With s > 1, L(ω^d) = 0 if the recurrence is 0
at d, d + K, ... d + (s - 1) K.

Sources: Feldman, Nelson, Nguyen, Talwar 2022, "Private frequency estimation via projective
geometry", ICML; for the sets Singer 1938, "A theorem in finite projective geometry and some
applications to number theory", Transactions of the American Mathematical Society 43(3).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import cache, cached_property, lru_cache
from itertools import count
from operator import mul
from typing import NamedTuple

from deniable.shared.privacy.epsilon import Epsilon, exp_interval
from deniable.shared.privacy.families.support import CyclicDesign

MAX_SYMBOLS = 300_000
LARGEST_PRIME = 257
PRECISION = 192


class Geometry(NamedTuple):
    p: int
    s: int
    t: int
    hits: tuple[int, ...] = (0,)  # S

    @property
    def q(self) -> int:
        return int(self.p**self.s)

    @property
    def points(self) -> int:
        """K: the largest number of options."""
        return sum(self.q**i for i in range(self.t))

    @property
    def sizes(self) -> tuple[int, int, int]:
        """N, r and λ."""
        zero, hits = int(0 in self.hits), len(self.hits)
        kept = self.q - 1 if zero else hits
        counts = self.q**self.t - 1, hits * self.q ** (self.t - 1) - zero
        both = hits**2 * self.q ** (self.t - 2) - zero
        return counts[0] // kept, counts[1] // kept, both // kept


def geometries(options: int) -> Iterator[Geometry]:
    """Yield the smallest geometry of each field that has enough points and few enough symbols."""
    for p, s, hits in FIELDS:
        t = 2
        while (made := Geometry(p, s, t, hits)).points < options:
            t += 1
        if made.sizes[0] <= MAX_SYMBOLS:
            yield made


@lru_cache(maxsize=8)
def difference_set(geometry: Geometry) -> array[int]:
    """Return D, ascending."""
    p, s, apart, hits = geometry.p, geometry.s, geometry.points, set(geometry.hits)
    symbols = geometry.sizes[0]
    values = _sequence(_primitive(p, s * geometry.t), p, s * symbols)
    members = [d for d in range(symbols) if values[d] in hits]
    for more in range(1, s):
        members = [d for d in members if values[d + more * apart] in hits]
    return array("I", members)


def _sequence(taps: Sequence[int], p: int, length: int) -> list[int]:
    """Return 0, ..., 0, 1 and the values after it: v(n + m) is the sum of taps[i] v(n + i).

    Raising to the power p is linear, so the same holds with every distance p^j times as long, and
    long stretches are computed together.
    """
    m = len(taps)
    places = [i for i in range(m) if taps[i]]
    factors = [taps[i] for i in places]
    values, stride = [0] * (m - 1) + [1], 1
    while len(values) < length:
        while m * stride * p <= len(values):
            stride *= p
        first, size = len(values) - m * stride, stride * (m - places[-1])
        parts = [values[first + i * stride :][:size] for i in places]
        values += [sum(map(mul, factors, terms)) % p for terms in zip(*parts, strict=True)]
    return values


@cache
def _primitive(p: int, m: int) -> tuple[int, ...]:
    """Return the taps of the first recurrence whose period is p^m - 1."""
    order = p**m - 1
    parts = [order // prime for prime in _prime_factors(order)]
    for number in count(1):
        taps = tuple(number // p**i % p for i in range(m))
        one = [1] + [0] * (m - 1)
        if _power(order, taps, p) == one and all(_power(n, taps, p) != one for n in parts):
            return taps
    raise AssertionError("a primitive polynomial exists for every prime and every degree")


def _power(exponent: int, taps: Sequence[int], p: int) -> list[int]:
    """Return x^exponent modulo the recurrence's polynomial, x^m minus the sum of taps[i] x^i."""
    m = len(taps)
    result = [1] + [0] * (m - 1)
    for digit in f"{exponent:b}":
        product = [0] * (2 * m)
        shift = int(digit)  # multiply by x
        for i, a in enumerate(result):
            for j, b in enumerate(result):
                product[i + j + shift] += a * b
        for top in range(2 * m - 1, m - 1, -1):
            for i, tap in enumerate(taps):
                product[top - m + i] += product[top] % p * tap
        result = [coefficient % p for coefficient in product[:m]]
    return result


def _prime_factors(number: int) -> list[int]:
    factors, prime = [], 2
    while prime * prime <= number:
        if number % prime == 0:
            factors.append(prime)
            while number % prime == 0:
                number //= prime
        prime += 1
    return [*factors, number] if number > 1 else factors


_PRIMES = [p for p in range(2, LARGEST_PRIME + 1) if all(p % d for d in range(2, p))]
# p, s and S. Shares 1/4 and 2/5 close the gaps between 1/2, 1/3 and 1/5.
FIELDS = [(2, 2, (0,)), (5, 1, (1, 4)), *((p, 1, (0,)) for p in _PRIMES)]


class ProjectiveGeometry(CyclicDesign):
    name, label, kind = "projective-geometry", "projective geometry", "choice"
    sizes = range(2, 65_537)
    proved_sizes = (2, 3, 4, 5, 8, 16, 33, 100, 256, 1_024, 4_096, 8_192, 20_000, 65_536)

    def __init__(self, epsilon: Epsilon, options: int) -> None:
        self.geometry = best_geometry(epsilon, options)
        super().__init__(epsilon, options, self.geometry.sizes)

    @property
    def integers(self) -> tuple[int, ...]:
        return self.geometry.q, self.modulus, self.blind

    @cached_property
    def difference_set(self) -> array[int]:
        return difference_set(self.geometry)


def best_geometry(epsilon: Epsilon, options: int) -> Geometry:
    e = exp_interval(*epsilon.ratio, PRECISION).low
    one = 1 << PRECISION

    def spread(geometry: Geometry) -> int:
        symbols, r, both = geometry.sizes
        apart = r - both
        lies = (both * e + apart * one) * (apart * e + (symbols - r - apart) * one)
        return (r * (symbols - r) * e * one + (options - 1) * lies) // apart**2

    return min(geometries(options), key=spread)
