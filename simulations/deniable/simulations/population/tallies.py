"""Tallies of a population's reports, for every mechanism, in time that does not depend on people.

`fixed`: these people, these answers; only the noise is drawn (design).
`drawn`: each person's answer is drawn from a law as well (iid); one multinomial, whatever the
table.

    randomized response      Bin(n_yes, p) + Bin(n_no, q)                             joint
    k-RR                     n_v keep, each with chance p - q; all others uniform     joint
    unary                    Bin(n_v, p) + Bin(n - n_v, q), options independent       joint
    any table of rows        one multinomial for each input                           joint
    other support designs    Bin(n_v, p) + Bin(n - n_v, q)                            marginals
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import KRandomizedResponse, RandomizedResponse, Unary
from deniable.shared.privacy.shapes.number_table import NumberTable
from deniable.shared.privacy.shapes.support import SupportDesign
from deniable.shared.privacy.thresholds import ONE

JOINT: Literal["joint"] = "joint"
MARGINALS: Literal["marginals"] = "marginals"


@dataclass(frozen=True)
class Tallies:
    """`counts[repetition, cell]`, the cells being those that the server counts; and how exact."""

    counts: NDArray[np.int64]
    reports: int
    law: Literal["joint", "marginals"]


def fixed(
    mechanism: Mechanism,
    people: Sequence[int] | NDArray[np.int64],
    repetitions: int,
    generator: np.random.Generator,
) -> Tallies:
    """`people[answer]` hold each answer: no and yes, the options, or the points of the grid. Two
    dimensions where each repetition has its own people, as `on_grid` gives them."""
    held = np.atleast_2d(np.asarray(people, dtype=np.int64))
    reports = int(held[0].sum())
    if isinstance(mechanism, RandomizedResponse):
        return Tallies(_bits(mechanism, held[0], repetitions, generator), reports, JOINT)
    if isinstance(mechanism, KRandomizedResponse):
        return Tallies(_k_ary(mechanism, held[0], repetitions, generator), reports, JOINT)
    if isinstance(mechanism, SupportDesign):
        law = JOINT if isinstance(mechanism, Unary) else MARGINALS
        return Tallies(_supports(mechanism, held[0], repetitions, generator), reports, law)
    assert isinstance(mechanism, NumberTable)
    return Tallies(_table(_rows(mechanism), held, repetitions, generator), reports, JOINT)


def drawn(
    mechanism: Mechanism,
    law: Sequence[float],
    people: int,
    repetitions: int,
    generator: np.random.Generator,
) -> Tallies:
    """`law[answer]` is the chance that a person, drawn anew in each repetition, holds an answer."""
    shares = np.asarray(law, dtype=float)
    one_symbol = isinstance(mechanism, (RandomizedResponse, KRandomizedResponse))
    if isinstance(mechanism, SupportDesign) and not one_symbol:
        held = generator.multinomial(people, shares, repetitions)
        exact = JOINT if isinstance(mechanism, Unary) else MARGINALS
        return Tallies(_supports_each(mechanism, held, generator), people, exact)
    return Tallies(generator.multinomial(people, rates(mechanism, law), repetitions), people, JOINT)


def rates(mechanism: Mechanism, law: Sequence[float]) -> NDArray[np.float64]:
    """How many reports of each are expected to count in each cell, when answers have this law."""
    shares = np.asarray(law, dtype=float)
    if isinstance(mechanism, SupportDesign):
        p, q = mechanism.keep / ONE, mechanism.lie / ONE
        return np.asarray(q + (p - q) * shares)
    assert isinstance(mechanism, NumberTable)
    return np.asarray(shares @ _rows(mechanism))


def _bits(
    mechanism: SupportDesign,
    held: NDArray[np.int64],
    repetitions: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    no, yes = (int(count) for count in held)
    ones = generator.binomial(yes, mechanism.keep / ONE, repetitions)
    ones += generator.binomial(no, mechanism.lie / ONE, repetitions)
    return np.stack([no + yes - ones, ones], axis=1)


def _k_ary(
    mechanism: SupportDesign,
    held: NDArray[np.int64],
    repetitions: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """A report is the answer with chance p - q, and otherwise any option, the answer among them."""
    options = len(held)
    stay = (mechanism.keep - mechanism.lie) / ONE
    counts = generator.binomial(held, stay, (repetitions, options))
    counts += generator.multinomial(
        int(held.sum()) - counts.sum(axis=1), np.full(options, 1 / options)
    )
    return counts


def _supports(
    mechanism: SupportDesign,
    held: NDArray[np.int64],
    repetitions: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    size = (repetitions, len(held))
    counts = generator.binomial(held, mechanism.keep / ONE, size)
    counts += generator.binomial(int(held.sum()) - held, mechanism.lie / ONE, size)
    return counts


def _supports_each(
    mechanism: SupportDesign, held: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.int64]:
    others = held.sum(axis=1, keepdims=True) - held
    counts = generator.binomial(held, mechanism.keep / ONE)
    return np.asarray(counts + generator.binomial(others, mechanism.lie / ONE))


def _table(
    rows: NDArray[np.float64],
    held: NDArray[np.int64],
    repetitions: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    counts = np.zeros((repetitions, rows.shape[1]), dtype=np.int64)
    for answer, row in enumerate(rows):
        if held[:, answer].any():
            counts += generator.multinomial(held[:, answer], row, repetitions)
    return counts


def _rows(mechanism: NumberTable) -> NDArray[np.float64]:
    """The table as doubles; every row adds up to 1 but for rounding."""
    return np.array([[weight / ONE for weight in row] for row in mechanism.rows])
