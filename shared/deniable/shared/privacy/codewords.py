"""Codewords: directions that a public seed stands for, and how far they reach along a vector.

Codewords come in pairs: number 2 i is a direction u, number 2 i + 1 its opposite. The d coordinates
of u are odd whole numbers. Each takes two bytes, little-endian, of

    SHAKE-256("deniable codeword 1" 00 ‖ seed, 8 bytes ‖ i, 2 bytes)

A coordinate is normally distributed with standard deviation 512, rounded to the nearest odd number:
of the 2^15 values of the upper fifteen bits, round(2^15 erf(x / (256 √2))) have a size below 2 x;
it is negative if the lowest bit is set. So u, divided by its length, is uniform on the sphere,
except for the rounding. Along one coordinate alone, where it matters most, an estimate becomes too
long by at most one part in 10^5 up to ε 4, and too short by one in 8,000 at ε 8. No coordinate is
zero, so no length is.

All products and sums below are exact in floats, and square roots and quotients are rounded the same
everywhere: the order of codewords along a vector is the same on every machine.

The mean reach in d dimensions is computed exactly, except for quadrature. For u uniform on the
sphere and any v of length one, t = |<u, v>| = sin θ has the density 2 cos^(d - 2) θ / B(1/2, (d -
1)/2) in θ. It gives the means of t and t^2 over those of n directions that reach farthest, and the
gain of the best randomizer of vectors, which reports a direction in a cap, <u, v> >= x, e^ε times
as often [1, 2]. Simpson's rule takes smaller steps towards the end; its error is below one part in
10^7 (tests compare it with scipy, and with draws). Nothing private depends on it: a device reads
the integers of its survey.

[1] Bhowmick, Duchi, Freudiger, Kapoor, Rogers 2018, "Protection against reconstruction and its
applications in private federated learning", arXiv:1812.00984: the cap.
[2] Asi, Feldman, Talwar 2022, "Optimal algorithms for mean estimation under local differential
privacy", ICML: the cap is optimal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from hashlib import shake_256
from operator import itemgetter, mul
from struct import unpack
from typing import NamedTuple

PREFIX = b"deniable codeword 1\0"
SEED_BITS = 64
HALF = 2**15  # number of values of two bytes
SPREAD = 256 * math.sqrt(2)
STEPS = 1_000  # even
REACH = 10  # standard deviations; the probability beyond them is negligible

Direction = list[float]  # whole numbers, in units of 2^-32 of the vector's length


def codeword(seed: int, pair: int, dimension: int) -> tuple[float, ...]:
    words = unpack(f"<{dimension}H", expanded(seed, pair, dimension))
    looked_up: tuple[float, ...] = itemgetter(*words)(coordinates())  # takes half as long as a loop
    return looked_up


def expanded(seed: int, pair: int, dimension: int) -> bytes:
    """Return the bytes that hold the coordinates of a pair's first codeword."""
    message = PREFIX + seed.to_bytes(8, "little") + pair.to_bytes(2, "little")
    return shake_256(message).digest(2 * dimension)


def along(seed: int, pairs: int, direction: Direction) -> Direction:
    """Return the reach of each pair's first codeword, at length one, along a direction."""
    return [_reach(codeword(seed, pair, len(direction)), direction) for pair in range(pairs)]


def _reach(word: tuple[float, ...], direction: Direction) -> float:
    reach: float = sum(map(mul, word, direction)) / math.sqrt(sum(map(mul, word, word)))
    return reach


@cache
def coordinates() -> tuple[float, ...]:
    """Return the coordinate for each value of two bytes."""
    table: list[float] = []
    size, below = 0, 0
    while below < HALF:
        size, above = size + 1, round(HALF * math.erf((size + 1) / SPREAD))
        table += [2.0 * size - 1, 1 - 2.0 * size] * (above - below)
        below = above
    return tuple(table)


class Caps(NamedTuple):
    """P[t > x], E[t; t > x] and E[t^2; t > x] for each x from 0, and their weights in the rule."""

    weights: Sequence[float]
    mass: Sequence[float]
    first: Sequence[float]
    second: Sequence[float]


@lru_cache(maxsize=16)
def caps(dimension: int) -> Caps:
    top = min(math.pi / 2, REACH / math.sqrt(dimension))
    half = 1 / STEPS / 2
    left = [1 - half * n for n in range(2 * STEPS + 1)]
    angles = [top * (1 - share**2) for share in left]
    scale = 2 * math.exp(
        math.lgamma(dimension / 2) - math.lgamma((dimension - 1) / 2) - math.lgamma(1 / 2)
    )
    density = [
        2 * top * share * scale * max(0.0, math.cos(angle)) ** (dimension - 2)
        for share, angle in zip(left, angles, strict=True)
    ]
    sines = [math.sin(angle) for angle in angles]
    moments = [
        _beyond([f * s**n for f, s in zip(density, sines, strict=True)], half) for n in range(3)
    ]
    simpson = [1, *([4, 2] * (STEPS // 2))[:-1], 1]
    weights = [w * f * 2 * half / 3 for w, f in zip(simpson, density[::2], strict=True)]
    return Caps(weights, *moments)


def farthest(dimension: int, directions: int, chosen: int) -> tuple[float, float]:
    """Return the sums of t and t^2 over the chosen directions, divided by `directions`.

    The smallest reach of a chosen direction, as p = P[t <= x], has distribution Beta(n - k, k).
    """
    moments = caps(dimension)
    if chosen == directions:
        return moments.first[0], moments.second[0]
    n, k = directions, chosen
    scale = math.lgamma(n) - math.lgamma(n - k) - math.lgamma(k)
    parts = [
        weight * math.exp(scale + (n - k - 1) * _log(1 - mass) + (k - 1) * _log(mass))
        for weight, mass in zip(moments.weights, moments.mass, strict=True)
    ]
    whole = math.fsum(parts)
    first, second = (
        math.fsum(part * beyond for part, beyond in zip(parts, moment, strict=True)) / whole
        for moment in (moments.first, moments.second)
    )
    return first, second


def best_cap(dimension: int, epsilon: float) -> tuple[float, float]:
    """Return the largest gain of a report with this ε (PrivUnit's), and P[t > x] of its cap."""
    moments, more = caps(dimension), math.expm1(epsilon)
    pairs = zip(moments.first, moments.mass, strict=True)
    return max((more * first / (2 + more * mass), mass) for first, mass in pairs)


def _beyond(values: Sequence[float], half: float) -> list[float]:
    """Return the integrals from each step to the end; `values` are at steps and halfway between."""
    total, sums = 0.0, [0.0]
    for n in range(len(values) - 1, 0, -2):
        total += half / 3 * (values[n] + 4 * values[n - 1] + values[n - 2])
        sums.append(total)
    return sums[::-1]


def _log(share: float) -> float:
    return math.log(max(share, 1e-300))
