"""Shares of people who hold each option, or say yes, from how many reports support it.

A report supports an option with rate  r = f p + (1 - f) q,  f being the share of people who hold
it, p and q the probabilities `keep` and `lie` that the mechanism realises. Hence

    f = (r - q) / (p - q)            unbiased with r = count / reports

The interval is Clopper-Pearson's for r, sent through the same line. The standard error is that of
people drawn at random, at the possible share nearest to the estimate, so that it is never 0.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.consistent import nearest_shares
from deniable.server.estimation.estimate import Points
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.thresholds import ONE

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]
Rate = TypeVar("Rate", Fraction, Array)

METHOD = "Clopper-Pearson through the randomization"


def unbiased_share(rate: Rate, design: SupportDesign) -> Rate:
    """The design's own line, for what has a type."""
    share: Rate = design.unbiased_share(rate)
    return share


def shares(counts: Cells, reports: int | Cells, design: SupportDesign) -> Points:
    """From the integer counts of every option; all its arrays at once, whatever their number."""
    with np.errstate(invalid="ignore"):  # without a report
        raw = unbiased_share(counts / reports, design)
    return Points(raw, _standard_error(raw, reports, design), _possible(raw))


def _standard_error(raw: Array, reports: int | Cells, design: SupportDesign) -> Array:
    p, q = design.keep / ONE, design.lie / ONE
    rate = q + np.clip(raw, 0, 1) * (p - q)
    result: Array = np.sqrt(rate * (1 - rate) / np.maximum(reports, 1)) / (p - q)
    return result


def _possible(raw: Array) -> Array:
    return nearest_shares(raw) if raw.shape[-1] > 1 else np.clip(raw, 0, 1)
