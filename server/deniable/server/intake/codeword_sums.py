"""Reports of vectors to sums: each report's codeword is expanded from its seed, scaled to length
one and added up in whole numbers, as `Codeword.amounts` says of one of them.

Every step is exact, or rounded alike on every machine: floats hold all these whole numbers. So the
sums do not depend on how many reports are counted at once.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from deniable.shared.privacy.codewords import SEED_BITS, coordinates, expanded
from deniable.shared.privacy.encoding import ROOT, UNIT, Codeword

AT_ONCE = 2**16  # coordinates: what they take stays in a processor's cache, in place
SEED_BYTES = SEED_BITS // 8
Bytes = npt.NDArray[np.uint8]


def sums(encoding: Codeword, columns: Bytes) -> npt.NDArray[np.int64]:
    """Of reports that are symbols, all of them."""
    numbers = np.zeros((len(columns), 2), np.uint8)
    numbers[:, : columns.shape[1] - SEED_BYTES] = columns[:, SEED_BYTES:]
    whole = numbers.view("<u2")[:, 0].astype(np.int64)
    seeds = np.ascontiguousarray(columns[:, :SEED_BYTES]).view("<u8")[:, 0]
    total = np.zeros((2, encoding.dimension), np.int64)
    step = max(1, AT_ONCE // encoding.dimension)
    for first in range(0, len(columns), step):
        part = slice(first, first + step)
        total += _sums(encoding.dimension, seeds[part], whole[part])
    return total.reshape(-1)


def _sums(
    dimension: int, seeds: npt.NDArray[np.uint64], numbers: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    pairs = zip(seeds.tolist(), (numbers >> 1).tolist(), strict=True)
    text = b"".join(expanded(seed, pair, dimension) for seed, pair in pairs)
    words = _coordinates().take(np.frombuffer(text, "<u2")).astype(np.float64)
    words = words.reshape(len(seeds), dimension)
    signs = 1 - 2 * (numbers & 1)
    words *= (signs * UNIT / np.sqrt(np.einsum("ij,ij->i", words, words)))[:, None]
    np.rint(words, out=words)
    coordinate = words.sum(axis=0)
    np.rint(np.divide(words, ROOT, out=words), out=words)
    square = np.square(words, out=words).sum(axis=0)
    return np.stack([coordinate, square]).astype(np.int64)


@cache
def _coordinates() -> npt.NDArray[np.int16]:
    return np.array(coordinates(), np.int16)
