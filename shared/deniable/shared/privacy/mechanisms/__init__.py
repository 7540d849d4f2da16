"""Every mechanism by its name, and the one of least predicted error where a survey names none."""

from __future__ import annotations

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms.k_randomized_response import KRandomizedResponse
from deniable.shared.privacy.mechanisms.local_laplace import (
    MOST_STEPS,
    LocalLaplace,
    least_variance_steps,
)
from deniable.shared.privacy.mechanisms.one_bit_mean import OneBitMean
from deniable.shared.privacy.mechanisms.randomized_response import RandomizedResponse
from deniable.shared.privacy.mechanisms.split_sign import SplitSign
from deniable.shared.privacy.mechanisms.ternary import Ternary
from deniable.shared.privacy.mechanisms.unary import Unary
from deniable.shared.privacy.shapes.number_table import NumberTable
from deniable.shared.privacy.shapes.support import SupportDesign

__all__ = [
    "MECHANISMS",
    "MOST_STEPS",
    "KRandomizedResponse",
    "LocalLaplace",
    "OneBitMean",
    "RandomizedResponse",
    "SplitSign",
    "Ternary",
    "Unary",
    "choice_mechanism",
    "number_mechanism",
]

MECHANISMS: dict[str, type[Mechanism]] = {
    mechanism.name: mechanism
    for mechanism in (
        RandomizedResponse,
        KRandomizedResponse,
        Unary,
        LocalLaplace,
        OneBitMean,
        Ternary,
        SplitSign,
    )
}


def choice_mechanism(epsilon: Epsilon, options: int, name: str | None = None) -> SupportDesign:
    """The named mechanism, or the one whose squared errors, summed over the options, are least."""
    designs = [
        design(epsilon, options)
        for design in (KRandomizedResponse, Unary)
        if name in (None, design.name)
    ]
    return min(designs, key=lambda design: design.predicted_error(1))


def number_mechanism(
    epsilon: Epsilon, steps: int | None = None, name: str | None = None
) -> NumberTable:
    """The named mechanism, on the named grid; what is left out is chosen for the least variance
    of the worst answer. A grid is one of local Laplace's; with one step it is one-bit-mean.

    Split-sign is there for who names it: its worst answer has just the variance of one bit.
    """
    if name in _OF_ONE_GRID:
        return _OF_ONE_GRID[name](epsilon)
    laplace_steps = steps or least_variance_steps(epsilon)
    if name is None and laplace_steps == 1:
        laplace: NumberTable = OneBitMean(epsilon)
    else:
        laplace = LocalLaplace(epsilon, laplace_steps)
    if name is None and steps is None:
        return min(laplace, Ternary(epsilon), key=lambda table: table.worst_variance(1))
    return laplace


_OF_ONE_GRID: dict[str | None, type[OneBitMean | Ternary | SplitSign]] = {
    OneBitMean.name: OneBitMean,
    Ternary.name: Ternary,
    SplitSign.name: SplitSign,
}
