"""Exact counts of two special kinds: sums of vectors, and pairs of answers.

Vectors: each report's codeword is expanded from its seed, scaled to length one, rounded to whole
numbers and added, as `Codeword.amounts` does for one report. Floats represent all these whole
numbers exactly, so the sums are the same on every machine, however many reports are counted
together.

Pairs: the number of reports that add to a given cell of one question and a given cell of another.
Two symbols select one cell of a table. A bit set gives a row of zeros and ones; the counts are then
the product of the two questions' matrices, which is exact in floats for a few hundred reports.
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

COORDINATES_PER_STEP = 2**16  # coordinates that fit into a processor's cache
REPORTS_PER_STEP = 512  # reports whose rows fit too
SEED_BYTES = SEED_BITS // 8
Bytes = npt.NDArray[np.uint8]


def codeword_sums(encoding: Codeword, columns: Bytes) -> npt.NDArray[np.int64]:
    """Return the sums of valid reports' coordinates, followed by the sums of their squares."""
    numbers = np.zeros((len(columns), 2), np.uint8)
    numbers[:, : columns.shape[1] - SEED_BYTES] = columns[:, SEED_BYTES:]
    whole = numbers.view("<u2")[:, 0].astype(np.int64)
    seeds = np.ascontiguousarray(columns[:, :SEED_BYTES]).view("<u8")[:, 0]
    total = np.zeros((2, encoding.dimension), np.int64)
    step = max(1, COORDINATES_PER_STEP // encoding.dimension)
    for start in range(0, len(columns), step):
        part = slice(start, start + step)
        total += _sums(encoding.dimension, seeds[part], whole[part])
    return total.reshape(-1)


def pair_counts(survey: Survey, columns: Mapping[str, Bytes]) -> Iterator[Cells]:
    """Yield the table of each pair that the survey crosses, from valid reports' columns."""
    for one, other in survey.crossed:
        encodings = one.mechanism.encoding, other.mechanism.encoding
        yield _counts(*encodings, columns[one.name], columns[other.name])


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


def _counts(first: Encoding, second: Encoding, symbols: Bytes, seconds: Bytes) -> Cells:
    if type(first) is type(second) is WholeNumber:  # a subclass may use other symbols
        cells = _numbers(symbols) * second.cells + _numbers(seconds)
        return np.bincount(cells, minlength=first.cells * second.cells)
    total = np.zeros((first.cells, second.cells), np.int64)
    for start in range(0, len(symbols), REPORTS_PER_STEP):
        part = slice(start, start + REPORTS_PER_STEP)
        rows = _rows(first, symbols[part])
        total += (rows.T @ _rows(second, seconds[part])).astype(np.int64)
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
