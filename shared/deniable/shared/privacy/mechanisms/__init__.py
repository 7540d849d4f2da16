"""All mechanisms, and the choice of the usual one.

To add a mechanism, write its file and add a line to DESIGNS, TABLES or VECTORS. `certify`, the
defaults, the contract tests, the simulator and the checks of the documents find it here. Texts use
the designs for choices, in groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.group_design import GroupedDesign, grouped
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.families.vector_design import VectorDesign
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms.k_closest import KClosest
from deniable.shared.privacy.mechanisms.local_laplace import LocalLaplace
from deniable.shared.privacy.mechanisms.optimal_table import OptimalTable
from deniable.shared.privacy.mechanisms.projective_geometry import ProjectiveGeometry
from deniable.shared.privacy.mechanisms.randomized_response import (
    KRandomizedResponse,
    RandomizedResponse,
)
from deniable.shared.privacy.mechanisms.rounded_response import OneBitMean, SplitSign, Ternary
from deniable.shared.privacy.mechanisms.square_wave import SquareWave
from deniable.shared.privacy.mechanisms.subset_selection import SubsetSelection
from deniable.shared.privacy.mechanisms.unary import Unary

__all__ = [
    "KClosest", "KRandomizedResponse", "LocalLaplace", "OneBitMean", "OptimalTable",
    "ProjectiveGeometry", "RandomizedResponse", "SplitSign", "SquareWave", "SubsetSelection",
    "Ternary", "Unary",
]  # fmt: skip

MORE_VARIANCE, MORE_LEVERAGE, MORE_CELLS = 1.02, 1.1, 10
DESIGNS: list[type[SupportDesign]] = [
    RandomizedResponse, KRandomizedResponse, SubsetSelection, Unary, ProjectiveGeometry,
]  # fmt: skip
TABLES: list[type[NumberTable]] = [
    OneBitMean, LocalLaplace, Ternary, SplitSign, OptimalTable, SquareWave,
]  # fmt: skip
VECTORS: list[type[VectorDesign]] = [KClosest]

GROUPED: list[type[GroupedDesign]] = [grouped(made) for made in DESIGNS if made.kind == "choice"]

Kept = TypeVar("Kept", bound=Mechanism)


def mechanisms(kind: str | None = None) -> dict[str, type[Mechanism]]:
    """Return the mechanisms for a kind of question, or all mechanisms, by name."""
    listed: list[type[Mechanism]] = [*DESIGNS, *TABLES, *GROUPED, *VECTORS]
    return {made.name: made for made in listed if kind in (None, made.kind)}


def support_design(
    kind: str, epsilon: Epsilon, options: int | None = None, name: str | None = None
) -> SupportDesign:
    """Return the named design, or the usual one for this many options."""
    return usual_mechanism([made for made in DESIGNS if made.kind == kind], epsilon, options, name)


def number_table(
    epsilon: Epsilon, steps: int | None = None, name: str | None = None
) -> NumberTable:
    """Return the named table on this grid, or the usual one."""
    return usual_mechanism(TABLES, epsilon, steps, name)


def mechanism(
    kind: str, epsilon: Epsilon, size: int | None = None, name: str | None = None
) -> Mechanism:
    """Return the mechanism that a question of this kind would have."""
    return usual_mechanism(list(mechanisms(kind).values()), epsilon, size, name)


def sizes(kind: str, name: str | None = None) -> tuple[int, int]:
    """Return the smallest and largest size of a kind's mechanisms, or of the named mechanism."""
    named = mechanisms(kind).values() if name is None else [mechanisms(kind)[name]]
    return min(made.sizes[0] for made in named), max(made.sizes[-1] for made in named)


def usual_mechanism(
    listed: Sequence[type[Kept]], epsilon: Epsilon, size: int | None, name: str | None
) -> Kept:
    """Return the named mechanism, or the usual one; callers check name and size.

    The usual mechanism has the shortest report of all whose variance is within 2 % of the least,
    whose leverage is within 10 % of that mechanism's, and whose tally is at most ten times as long.
    """
    fitting = [
        made(epsilon, made.best_size(epsilon) if size is None else size)
        for made in listed
        if (made.is_default if name is None else made.name == name)
        and (size is None or size in made.sizes)
    ]
    if not fitting:
        raise ValueError(f"no mechanism {name or 'without a name'} takes size {size}")
    best = min(fitting, key=_error)
    close = [
        one
        for one in fitting
        if _error(one) ** 2 <= MORE_VARIANCE * _error(best) ** 2
        and one.leverage <= MORE_LEVERAGE * best.leverage
        and one.cells <= MORE_CELLS * best.cells
    ]
    shortest = min(one.payload_size for one in close)
    short = [one for one in close if one.payload_size == shortest]
    equal = min(map(_error, short)) * (1 + 1e-9)  # where errors are equal, the first one
    return next(one for one in short if _error(one) <= equal)


def _error(mechanism: Mechanism) -> float:
    return mechanism.predicted_error(1)
