"""Every mechanism, and the one of least predicted error where a survey names none.

A mechanism is added by its own file and its line in DESIGNS, TABLES or VECTORS: from here
`certify`, the defaults, the contract tests, the simulator and the documents' checks know it. Texts
are reported by the designs for choices, in groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.grouped import GroupedDesign, grouped
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.families.vector_design import VectorDesign
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms.k_closest import KClosest
from deniable.shared.privacy.mechanisms.k_randomized_response import KRandomizedResponse
from deniable.shared.privacy.mechanisms.local_laplace import LocalLaplace
from deniable.shared.privacy.mechanisms.one_bit_mean import OneBitMean
from deniable.shared.privacy.mechanisms.optimal_table import OptimalTable
from deniable.shared.privacy.mechanisms.projective_geometry import ProjectiveGeometry
from deniable.shared.privacy.mechanisms.randomized_response import RandomizedResponse
from deniable.shared.privacy.mechanisms.split_sign import SplitSign
from deniable.shared.privacy.mechanisms.square_wave import SquareWave
from deniable.shared.privacy.mechanisms.subset_selection import SubsetSelection
from deniable.shared.privacy.mechanisms.ternary import Ternary
from deniable.shared.privacy.mechanisms.unary import Unary

__all__ = [
    "DESIGNS",
    "TABLES",
    "VECTORS",
    "KClosest",
    "KRandomizedResponse",
    "LocalLaplace",
    "OneBitMean",
    "OptimalTable",
    "ProjectiveGeometry",
    "RandomizedResponse",
    "SplitSign",
    "SquareWave",
    "SubsetSelection",
    "Ternary",
    "Unary",
    "mechanism",
    "mechanisms",
    "number_table",
    "sizes",
    "support_design",
    "text_design",
    "vector_design",
]

# Of two that err alike the first is taken: the one with the shorter report.
DESIGNS: list[type[SupportDesign]] = [
    RandomizedResponse,
    KRandomizedResponse,
    SubsetSelection,
    Unary,
    ProjectiveGeometry,
]
TABLES: list[type[NumberTable]] = [
    OneBitMean,
    LocalLaplace,
    Ternary,
    SplitSign,
    OptimalTable,
    SquareWave,
]
VECTORS: list[type[VectorDesign]] = [KClosest]

GROUPED: list[type[GroupedDesign]] = [grouped(each) for each in DESIGNS if each.kind == "choice"]

Kept = TypeVar("Kept", bound=Mechanism)


def mechanisms(kind: str | None = None) -> dict[str, type[Mechanism]]:
    """Return the mechanisms that answer this kind of question, or all, by name."""
    listed: list[type[Mechanism]] = [*DESIGNS, *TABLES, *GROUPED, *VECTORS]
    return {each.name: each for each in listed if kind in (None, each.kind)}


def support_design(
    kind: str, epsilon: Epsilon, options: int | None = None, name: str | None = None
) -> SupportDesign:
    """Return the named design, or the one with the least sum of squared errors."""
    return _least_error([each for each in DESIGNS if each.kind == kind], epsilon, options, name)


def number_table(
    epsilon: Epsilon, steps: int | None = None, name: str | None = None
) -> NumberTable:
    """Return the named table on the named grid.

    What is left out is chosen for the least variance of the worst answer.
    """
    return _least_error(TABLES, epsilon, steps, name)


def vector_design(epsilon: Epsilon, dimension: int, name: str | None = None) -> VectorDesign:
    """Return the named design, or the one of least error."""
    return _least_error(VECTORS, epsilon, dimension, name)


def text_design(
    epsilon: Epsilon, buckets: int, groups: int, final: int, name: str | None = None
) -> GroupedDesign:
    """Return the named design in so many groups, or the one whose errors are least."""
    chosen = _least_error(GROUPED, epsilon, buckets, name)
    return type(chosen)(epsilon, buckets, groups, final)


def mechanism(
    kind: str, epsilon: Epsilon, size: int | None = None, name: str | None = None
) -> Mechanism:
    """Return the mechanism that a question of this kind would have."""
    return _least_error(list(mechanisms(kind).values()), epsilon, size, name)


def sizes(kind: str, name: str | None = None) -> tuple[int, int]:
    """Return the least and largest size that a mechanism of this kind, or the named one, takes."""
    named = mechanisms(kind).values() if name is None else [mechanisms(kind)[name]]
    return min(each.sizes[0] for each in named), max(each.sizes[-1] for each in named)


def _least_error(
    listed: Sequence[type[Kept]], epsilon: Epsilon, size: int | None, name: str | None
) -> Kept:
    """Return the fitting mechanism of least error; callers check name and size first."""
    fitting = [
        each(epsilon, each.best_size(epsilon) if size is None else size)
        for each in listed
        if (each.chosen_by_itself if name is None else each.name == name)
        and (size is None or size in each.sizes)
    ]
    if not fitting:
        raise ValueError(f"no mechanism {name or 'chosen by itself'} takes size {size}")
    errors = [each.predicted_error(1) for each in fitting]
    alike = min(errors) * (1 + 1e-9)
    return next(each for each, error in zip(fitting, errors, strict=True) if error <= alike)
