"""Codewords: directions that a public seed stands for, the same on every machine.

Codewords come in pairs: number 2 i is a direction u, number 2 i + 1 its opposite. The d coordinates
of u are odd whole numbers, which take two bytes each, little-endian, of

    SHAKE-256("deniable codeword 1" 00 ‖ seed, 8 bytes ‖ i, 2 bytes)

A coordinate is normally distributed with standard deviation 512, rounded to the nearest odd number:
of the 2^15 values that the upper fifteen bits have, round(2^15 erf(x / (256 √2))) are of a size
below 2 x, and where the lowest bit is set it is negative. So u, divided by its length, points in
every direction alike, but for that rounding: along one coordinate alone, where it shows most, it
makes an estimate too long by at most a part in 10^5 to ε 4, and too short by one in 8,000 at ε 8.
No coordinate is zero, hence no length is.

No product or sum below leaves what a float holds exactly, and a square root and a quotient are
rounded alike everywhere: the order of codewords along a vector is the same on every machine.
"""

from __future__ import annotations

import math
from functools import cache
from hashlib import shake_256
from operator import itemgetter, mul
from struct import unpack

PREFIX = b"deniable codeword 1\0"
SEED_BITS = 64
HALF = 2**15  # of the values of two bytes
SPREAD = 256 * math.sqrt(2)

Direction = list[float]  # whole numbers, in units of 2^-32 of its length


def codeword(seed: int, pair: int, dimension: int) -> tuple[float, ...]:
    """The first of a pair. An itemgetter looks all of them up in half the time of a loop."""
    words = unpack(f"<{dimension}H", expanded(seed, pair, dimension))
    looked_up: tuple[float, ...] = itemgetter(*words)(coordinates())
    return looked_up


def expanded(seed: int, pair: int, dimension: int) -> bytes:
    """What the coordinates of a pair's first codeword are read from."""
    asked = PREFIX + seed.to_bytes(8, "little") + pair.to_bytes(2, "little")
    return shake_256(asked).digest(2 * dimension)


def along(seed: int, pairs: int, direction: Direction) -> Direction:
    """How far the first codeword of each pair, at length one, reaches in this direction."""
    return [_reach(codeword(seed, pair, len(direction)), direction) for pair in range(pairs)]


def _reach(word: tuple[float, ...], direction: Direction) -> float:
    reach: float = sum(map(mul, word, direction)) / math.sqrt(sum(map(mul, word, word)))
    return reach


@cache
def coordinates() -> tuple[float, ...]:
    """The coordinate that each value of two bytes stands for."""
    table: list[float] = []
    size, below = 0, 0
    while below < HALF:
        size, above = size + 1, round(HALF * math.erf((size + 1) / SPREAD))
        table += [2.0 * size - 1, 1 - 2.0 * size] * (above - below)
        below = above
    return tuple(table)
