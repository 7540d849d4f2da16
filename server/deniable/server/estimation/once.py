"""Equal counts of equally many reports are computed once: a choice may have 65,536 options."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]
Interval = tuple[Array, Array]
P = ParamSpec("P")


def each_once(
    limits: Callable[Concatenate[Array, Array, P], Interval],
) -> Callable[Concatenate[Cells, int | Cells, P], Interval]:
    """Limits of counts of any shape. The numbers of reports are one, or of a shape that fits."""

    @wraps(limits)
    def of_all(
        counts: Cells, reports: int | Cells, /, *rest: P.args, **named: P.kwargs
    ) -> Interval:
        totals, which = np.unique(reports, return_inverse=True)
        span = int(counts.max(initial=0)) + 1
        distinct, where = np.unique(which * span + counts, return_inverse=True)
        which, some = np.divmod(distinct, span)
        low, high = limits(
            some.astype(np.float64), totals[which].astype(np.float64), *rest, **named
        )
        return low[where], high[where]

    return of_all
