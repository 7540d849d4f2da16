"""How many reports support each option, from the cells that a tally keeps.

Most designs count just that. A cyclic design counts symbols, and an option's supporters are the sum
over the symbols that speak for it: for all options at once the correlation of the counts with the
difference set, around the circle, by the fast Fourier transform. The sums are whole numbers, to
which its rounding errors, about 1e-15 of all reports, are rounded away.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from deniable.shared.privacy.shapes.cyclic import CyclicDesign
from deniable.shared.privacy.shapes.support import SupportDesign

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]


def supports(design: SupportDesign, cells: Cells) -> Cells:
    """Of one tally, or of each row."""
    if not isinstance(design, CyclicDesign):
        return cells
    return np.rint(around(design, cells)[..., : design.options]).astype(np.int64)


def around(design: CyclicDesign, values: npt.ArrayLike) -> Array:
    """At each place of the circle the sum of those values, which stand on it from 0 on, whose
    places, moved on by as much, are in the difference set."""
    from scipy.fft import irfft, rfft

    given = np.asarray(values, dtype=np.float64)
    padded = np.zeros((*given.shape[:-1], design.modulus))
    padded[..., : given.shape[-1]] = given
    found: Array = irfft(_transformed(design) * np.conj(rfft(padded)), design.modulus)
    return found


@lru_cache(maxsize=8)
def _transformed(design: CyclicDesign) -> npt.NDArray[np.complex128]:
    from scipy.fft import rfft

    block = np.zeros(design.modulus)
    block[np.asarray(design.difference_set, np.int64)] = 1
    found: npt.NDArray[np.complex128] = rfft(block)
    return found
