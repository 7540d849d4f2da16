"""One round alone, of what is estimated for many."""

from __future__ import annotations

import numpy as np

from deniable.server.estimation.possible import Cells, Fit, fits
from deniable.shared.privacy.shapes import Shape


def fit(mechanism: Shape, cells: Cells, reports: int) -> Fit:
    (found,) = fits(mechanism, cells[None], np.array([reports]))
    return found
