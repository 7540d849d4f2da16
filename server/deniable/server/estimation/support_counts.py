"""Number of reports that support each option, from the cells that a tally keeps.

By default the counts of the cells are added up for each option that a cell speaks for, as
`supported_by` states it: exact for any design. Where cells are options there is nothing to add. A
cyclic design has too many symbols and options for that: its sums for all options at once are the
correlation of the counts with the difference set, around the circle, by the fast Fourier transform.
They are whole numbers, to which its rounding errors, about 1e-15 of all reports, are rounded away.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from deniable.shared.privacy.families.cyclic import CyclicDesign
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanism import FamilyTable, Mechanism

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]


def support_counts(design: SupportDesign, cells: Cells) -> Cells:
    """Return the number of reports that support each option, for one tally or for each row."""
    return COUNTERS.of(design)(design, cells)


def circular_correlation(design: CyclicDesign, values: npt.ArrayLike) -> Array:
    """Return, for each shift of the difference set around the circle, the sum of the values that
    it covers. The values stand on the circle from 0 on."""
    from scipy.fft import irfft, rfft

    given = np.asarray(values, dtype=np.float64)
    padded = np.zeros((*given.shape[:-1], design.modulus))
    padded[..., : given.shape[-1]] = given
    sums: Array = irfft(_transformed_set(design) * np.conj(rfft(padded)), design.modulus)
    return sums


def _added(design: SupportDesign, cells: Cells) -> Cells:
    if design.cells_are_options:
        return cells
    sums: Cells = cells @ _support_matrix(design)
    return sums


def _correlated(design: CyclicDesign, cells: Cells) -> Cells:
    sums = circular_correlation(design, cells)[..., : design.options]
    return np.rint(sums).astype(np.int64)


@lru_cache(maxsize=8)
def _support_matrix(design: SupportDesign) -> Cells:
    """1 where the cell, down, speaks for the option, across."""
    matrix = np.zeros((design.cells, design.options), np.int64)
    for cell in range(design.cells):
        matrix[cell, list(design.supported_by(cell))] = 1
    return matrix


@lru_cache(maxsize=8)
def _transformed_set(design: CyclicDesign) -> npt.NDArray[np.complex128]:
    from scipy.fft import rfft

    block = np.zeros(design.modulus)
    block[np.asarray(design.difference_set, np.int64)] = 1
    transformed: npt.NDArray[np.complex128] = rfft(block)
    return transformed


# Any: each function takes the family of its key
COUNTERS: FamilyTable[Callable[[Any, Cells], Cells]] = FamilyTable(
    {Mechanism: _added, CyclicDesign: _correlated}
)
