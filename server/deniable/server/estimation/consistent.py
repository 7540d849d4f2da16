"""The nearest possible shares: none below 0, all adding up to 1.

The Euclidean projection on the simplex: one number is taken from every share, and what falls below
0 becomes 0. Fewer errors in all than the raw estimates, but each share is biased: it stands beside
them, never instead.

Source: Duchi, Shalev-Shwartz, Singer, Chandra 2008, "Efficient projections onto the l1-ball for
learning in high dimensions", ICML.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def nearest_shares(shares: Array) -> Array:
    """Of one list of shares, or of each row."""
    descending = np.sort(shares, axis=-1)[..., ::-1]
    excess = (np.cumsum(descending, axis=-1) - 1) / np.arange(1, shares.shape[-1] + 1)
    positive = np.count_nonzero(descending > excess, axis=-1, keepdims=True)
    nearest: Array = np.maximum(shares - np.take_along_axis(excess, positive - 1, axis=-1), 0.0)
    return nearest
