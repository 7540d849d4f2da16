"""Tallies of a population's reports, for every mechanism, in time that does not depend on people.

`fixed`: these people, these answers; only the noise is drawn (design).
`drawn`: each person's answer is drawn from a distribution as well (iid).

A mechanism says how the cells of a report hang together (`joint`), and that decides how:

    one cell for each report    fixed   designs: n_v keep, each with probability p - q; all others
                                        are uniform. Where several symbols speak for an option,
                                        those who keep it have any of them. Tables: one
                                        multinomial for each answer, or fewer draws where the
                                        table is a walk (`walk.py`)
                                drawn   one multinomial, whatever the mechanism            joint
    independent cells           Bin(n_v, p) + Bin(n - n_v, q) for each                     joint
    groups                      multinomial how many of each answer are in each; in a group as above
    dependent cells             the same, and what ties them together is left out      marginals
    sums                        normal, with their mean and covariance                 moments
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from deniable.server.estimation.supports import around
from deniable.shared.privacy.mechanism import DEPENDENT, MULTINOMIAL, SUMS
from deniable.shared.privacy.shapes import Shape
from deniable.shared.privacy.shapes.cyclic import CyclicDesign
from deniable.shared.privacy.shapes.grouped import GroupedDesign
from deniable.shared.privacy.shapes.number_table import NumberTable
from deniable.shared.privacy.shapes.support import SupportDesign
from deniable.shared.privacy.shapes.vector_design import VectorDesign
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.population import vectors
from deniable.simulations.population.walk import walk_rate, walked

JOINT: Literal["joint"] = "joint"
MARGINALS: Literal["marginals"] = "marginals"
MOMENTS: Literal["moments"] = "moments"
Exactness = Literal["joint", "marginals", "moments"]
MOST_SINGLY = 2**22  # people who are drawn one by one, at most


@dataclass(frozen=True)
class Tallies:
    """`counts[repetition, cell]`, the cells being those that the server counts; and how exact."""

    counts: NDArray[np.int64]
    reports: int
    exactness: Exactness


def fixed(
    mechanism: Shape,
    people: Sequence[int] | NDArray[np.int64],
    repetitions: int,
    generator: np.random.Generator,
) -> Tallies:
    """`people[answer]` hold each answer: no and yes, the options, or the points of the grid. Two
    dimensions where each repetition has its own people, as `on_grid` gives them."""
    held = np.atleast_2d(np.asarray(people, dtype=np.int64))
    reports = int(held[0].sum())
    match mechanism:
        case NumberTable():
            counts = _table(mechanism, held, repetitions, generator)
        case CyclicDesign():
            counts = _symbols(mechanism, held, repetitions, generator)
        case SupportDesign() if mechanism.joint == MULTINOMIAL:
            counts = _one_option(mechanism, held, repetitions, generator)
        case SupportDesign():
            counts = _supports(mechanism, held, (repetitions, held.shape[1]), generator)
        case VectorDesign():
            counts = vectors.along_axes(mechanism, held, repetitions, generator)
        case GroupedDesign():
            counts = in_groups(
                mechanism, _parted(mechanism, held, repetitions, generator), generator
            )
        case _:
            assert_never(mechanism)
    return Tallies(counts, reports, _exactness(mechanism))


def drawn(
    mechanism: Shape,
    distribution: Sequence[float],
    people: int,
    repetitions: int,
    generator: np.random.Generator,
) -> Tallies:
    """`distribution[answer]` is the probability that a person holds it; each repetition draws its
    people anew."""
    if mechanism.joint == MULTINOMIAL:
        counts = generator.multinomial(people, rates(mechanism, distribution), repetitions)
        return Tallies(counts, people, JOINT)
    held = generator.multinomial(people, np.asarray(distribution, dtype=float), repetitions)
    if isinstance(mechanism, VectorDesign):
        counts = vectors.along_axes(mechanism, held, repetitions, generator)
    else:
        if isinstance(mechanism, GroupedDesign):
            return fixed(mechanism, held, repetitions, generator)
        assert isinstance(mechanism, SupportDesign), "each report of a table counts in one cell"
        counts = _supports(mechanism, held, None, generator)
    return Tallies(counts, people, _exactness(mechanism))


def rates(mechanism: Shape, distribution: Sequence[float]) -> NDArray[np.float64]:
    """How many reports of each are expected to count in each cell, when answers have this
    distribution."""
    shares = np.asarray(distribution, dtype=float)
    match mechanism:
        case NumberTable():
            return np.asarray(shares @ _rows(mechanism))
        case CyclicDesign():
            blind, speaking = mechanism.rates
            return np.asarray(blind * shares.sum() + (speaking - blind) * around(mechanism, shares))
        case SupportDesign():
            p, q = mechanism.keep / ONE, mechanism.lie / ONE
            return np.asarray(q + (p - q) * shares)
        case VectorDesign():
            return vectors.expected(mechanism, shares)
        case GroupedDesign():
            parts = np.array([share / ONE for share in mechanism.shares])
            return np.append(np.outer(parts, rates(mechanism.each, distribution)), parts)
        case _:
            assert_never(mechanism)


def _exactness(mechanism: Shape) -> Exactness:
    each = mechanism.each if isinstance(mechanism, GroupedDesign) else mechanism
    if each.joint == SUMS:
        return MOMENTS
    return MARGINALS if each.joint == DEPENDENT else JOINT


def in_groups(
    mechanism: GroupedDesign, held: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.int64]:
    """`held[repetition, group, option]` people report an option for a group."""
    counts = [
        fixed(mechanism.each, held[:, group], len(held), generator).counts
        for group in range(mechanism.groups)
    ]
    return np.concatenate([*counts, held.sum(axis=2)], axis=1)


def _parted(
    mechanism: GroupedDesign,
    held: NDArray[np.int64],
    repetitions: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Those with one option for all groups, once it is drawn for which they report."""
    shares = [share / ONE for share in mechanism.shares]
    every = np.broadcast_to(held, (repetitions, held.shape[1]))
    return np.asarray(np.moveaxis(generator.multinomial(every, shares), 2, 1))


def _one_option(
    mechanism: SupportDesign,
    held: NDArray[np.int64],
    repetitions: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """A report is the answer with probability p - q, and otherwise any option, the answer among
    them."""
    options = held.shape[1]
    stay = (mechanism.keep - mechanism.lie) / ONE
    counts = generator.binomial(held, stay, (repetitions, options))
    counts += generator.multinomial(
        held.sum(axis=1) - counts.sum(axis=1), np.full(options, 1 / options)
    )
    return counts


def _symbols(
    mechanism: CyclicDesign,
    held: NDArray[np.int64],
    repetitions: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Those who see their answer have any symbol that speaks for it, all others any at all."""
    seeing = generator.binomial(held, 1 - mechanism.blind / ONE, (repetitions, held.shape[1]))
    every = np.full(mechanism.modulus, 1 / mechanism.modulus)
    counts = generator.multinomial(held.sum(axis=1) - seeing.sum(axis=1), every)
    places = np.asarray(mechanism.difference_set, np.int64)
    own = np.full(mechanism.speaking, 1 / mechanism.speaking)
    answers = np.arange(held.shape[1])
    for repetition, times in enumerate(seeing):
        row = counts[repetition]
        many = times > min(mechanism.speaking, MOST_SINGLY // len(times))
        singly = np.repeat(answers[~many], times[~many])
        symbols = places[generator.integers(mechanism.speaking, size=len(singly))] - singly
        row += np.bincount(symbols % mechanism.modulus, minlength=mechanism.modulus)
        for answer in answers[many]:
            row[places - answer] += generator.multinomial(times[answer], own)
    return counts


def _supports(
    mechanism: SupportDesign,
    held: NDArray[np.int64],
    size: tuple[int, int] | None,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Each option by itself; `size` where the same people stand in every repetition."""
    others = held.sum(axis=-1, keepdims=True) - held
    counts = generator.binomial(held, mechanism.keep / ONE, size)
    return np.asarray(counts + generator.binomial(others, mechanism.lie / ONE, size))


def _table(
    mechanism: NumberTable,
    held: NDArray[np.int64],
    repetitions: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    rows = _rows(mechanism)
    if (rate := walk_rate(mechanism, rows)) is not None:
        return walked(rate, held, repetitions, generator)
    counts = np.zeros((repetitions, rows.shape[1]), dtype=np.int64)
    for answer, row in enumerate(rows):
        if held[:, answer].any():
            counts += generator.multinomial(held[:, answer], row, repetitions)
    return counts


def _rows(mechanism: NumberTable) -> NDArray[np.float64]:
    """The table as doubles; every row adds up to 1 but for rounding."""
    return np.array([[weight / ONE for weight in row] for row in mechanism.rows])
