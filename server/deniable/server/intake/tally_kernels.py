"""Exact counts of two special kinds: sums of vectors, and pairs of answers.

Vectors: each report's codeword is expanded from its seed, scaled to length one and added in whole
numbers, as `Codeword.amounts` does for one report. Floats represent all these whole numbers, so
every step is exact or rounded in the same way on every machine: the sums do not depend on how many
reports are counted together.

Pairs: the number of reports that have a given cell of one question and a given cell of another. Two
symbols select one cell of a table. A bit set gives a row of zeros and ones; the counts are then the
product of the two questions' matrices, which is exact in floats for a few hundred reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np
import numpy.typing as npt

from deniable.server.store import Cells
from deniable.shared.privacy.codewords import SEED_BITS, coordinates, expanded
from deniable.shared.privacy.encodings import ROOT, UNIT, BitSet, Codeword, Encoding, WholeNumber
from deniable.shared.survey.document import Survey

COORDINATES_AT_ONCE = 2**16  # they fit in a processor's cache
REPORTS_AT_ONCE = 512  # multiplied together; their rows fit there too
SEED_BYTES = SEED_BITS // 8
Bytes = npt.NDArray[np.uint8]


def codeword_sums(encoding: Codeword, columns: Bytes) -> npt.NDArray[np.int64]:
    """Return the sums of valid reports: their coordinates, then the coordinates' squares."""
    numbers = np.zeros((len(columns), 2), np.uint8)
    numbers[:, : columns.shape[1] - SEED_BYTES] = columns[:, SEED_BYTES:]
    whole = numbers.view("<u2")[:, 0].astype(np.int64)
    seeds = np.ascontiguousarray(columns[:, :SEED_BYTES]).view("<u8")[:, 0]
    total = np.zeros((2, encoding.dimension), np.int64)
    step = max(1, COORDINATES_AT_ONCE // encoding.dimension)
    for first in range(0, len(columns), step):
        part = slice(first, first + step)
        total += _sums(encoding.dimension, seeds[part], whole[part])
    return total.reshape(-1)


def pair_counts(survey: Survey, columns: Mapping[str, Bytes]) -> Iterator[Cells]:
    """Yield the table of each pair that the survey crosses, from valid reports' columns."""
    for pair in survey.crossed:
        first, second = (question.mechanism.encoding for question in pair)
        ours, theirs = (columns[question.name] for question in pair)
        yield _counts(first, second, ours, theirs)


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


def _counts(first: Encoding, second: Encoding, ours: Bytes, theirs: Bytes) -> Cells:
    if type(first) is type(second) is WholeNumber:  # not a subclass, whose symbols may not be cells
        places = _numbers(ours) * second.cells + _numbers(theirs)
        return np.bincount(places, minlength=first.cells * second.cells)
    total = np.zeros((first.cells, second.cells), np.int64)
    for at in range(0, len(ours), REPORTS_AT_ONCE):
        rows, others = (
            _rows(first, ours[at : at + REPORTS_AT_ONCE]),
            _rows(second, theirs[at : at + REPORTS_AT_ONCE]),
        )
        total += (rows.T @ others).astype(np.int64)
    return total.ravel()


def _rows(encoding: Encoding, columns: Bytes) -> npt.NDArray[np.float32]:
    """Return a row for each report, with a 1 in each cell that it adds to."""
    if type(encoding) is BitSet:
        bits = np.unpackbits(columns, axis=1, bitorder="little")
        return bits[:, : encoding.cells].astype(np.float32)
    rows = np.zeros((len(columns), encoding.cells), np.float32)
    if type(encoding) is WholeNumber:
        rows[np.arange(len(columns)), _numbers(columns)] = 1
    else:
        for row, symbol in zip(rows, _numbers(columns).tolist(), strict=True):
            row[list(encoding.cells_of(symbol))] = 1
    return rows


def _numbers(columns: Bytes) -> npt.NDArray[np.int64]:
    """Decode little-endian symbols of a few bytes."""
    powers = 256 ** np.arange(columns.shape[1], dtype=np.int64)
    return columns.astype(np.int64) @ powers
