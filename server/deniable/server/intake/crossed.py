"""Two questions at once: in how many reports each cell of the one meets each of the other.

Of reports that have been found good. Two symbols in one report are two places in a table; a set of
bits has a row of zeros and ones, and the counts are the product of the two questions' rows, which
is exact in floats for so few reports at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from deniable.server.store import Cells
from deniable.shared.privacy.encoding import BitSet, Encoding, WholeNumber
from deniable.shared.survey.document import Survey

Bytes = npt.NDArray[np.uint8]
SOME = 512  # reports whose rows are multiplied at once: they stay in caches


def crossed(survey: Survey, columns: Mapping[str, Bytes]) -> Iterator[Cells]:
    """Of each pair that the survey names, from the payload's columns by question."""
    for pair in survey.crossed:
        first, second = (question.mechanism.encoding for question in pair)
        ours, theirs = (columns[question.name] for question in pair)
        yield _counts(first, second, ours, theirs)


def _counts(first: Encoding, second: Encoding, ours: Bytes, theirs: Bytes) -> Cells:
    if isinstance(first, WholeNumber) and isinstance(second, WholeNumber):
        places = _numbers(ours) * second.cells + _numbers(theirs)
        return np.bincount(places, minlength=first.cells * second.cells)
    total = np.zeros((first.cells, second.cells), np.int64)
    for at in range(0, len(ours), SOME):
        rows, others = _rows(first, ours[at : at + SOME]), _rows(second, theirs[at : at + SOME])
        total += (rows.T @ others).astype(np.int64)
    return total.ravel()


def _rows(encoding: Encoding, columns: Bytes) -> npt.NDArray[np.float32]:
    """For each report a 1 in the cells that it counts in."""
    if isinstance(encoding, BitSet):
        bits = np.unpackbits(columns, axis=1, bitorder="little")
        return bits[:, : encoding.cells].astype(np.float32)
    rows = np.zeros((len(columns), encoding.cells), np.float32)
    if isinstance(encoding, WholeNumber):
        rows[np.arange(len(columns)), _numbers(columns)] = 1
    else:
        for row, symbol in zip(rows, _numbers(columns).tolist(), strict=True):
            row[list(encoding.cells_of(symbol))] = 1
    return rows


def _numbers(columns: Bytes) -> npt.NDArray[np.int64]:
    """Symbols of a few bytes, lowest first."""
    powers = 256 ** np.arange(columns.shape[1], dtype=np.int64)
    return columns.astype(np.int64) @ powers
