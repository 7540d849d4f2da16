"""Reports of vectors: sums of the designs that devices use, and cosines of PrivUnit.

Estimates are made from sums of coordinates. The simulated sums are normal, as sums of many reports
nearly are; means and covariances are exact: for a person's vector v with direction u, a codeword
has the mean gain v and the mean square across I + (along - across) u u'. Sums of squares are set to
their expectations.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.codewords import best_cap
from deniable.shared.privacy.encodings import UNIT
from deniable.shared.privacy.families.vector_design import VectorDesign

Array = NDArray[np.float64]
Sums = NDArray[np.int64]


def vector_sums(
    design: VectorDesign, vectors: Array, repetitions: int, generator: np.random.Generator
) -> Sums:
    """Draw `counts[repetition, cell]` for one person per row of `vectors`, whose length is <= 1."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    directions = vectors / np.where(length > 0, length, 1)
    spread = (design.along - design.across) * directions.T @ directions
    spread += len(vectors) * design.across * np.eye(design.dimension)
    squares = np.diag(spread)
    spread = spread - design.gain**2 * vectors.T @ vectors
    noise = generator.normal(size=(repetitions, design.dimension)) @ np.linalg.cholesky(spread).T
    return _whole(design.gain * vectors.sum(axis=0) + noise, np.tile(squares, (repetitions, 1)))


def axis_sums(
    design: VectorDesign, held: Sums, repetitions: int, generator: np.random.Generator
) -> Sums:
    """Draw the counts for vectors that point along the axes, whose coordinates are independent.

    `held` has one row for all repetitions, or one row per repetition.
    """
    to, fro = held[:, ::2], held[:, 1::2]
    squares = held.sum(axis=1, keepdims=True) * design.across
    squares = squares + (design.along - design.across) * (to + fro)
    spread = np.sqrt(squares - design.gain**2 * (to + fro))
    noise = generator.normal(size=(repetitions, design.dimension)) * spread
    return _whole(design.gain * (to - fro) + noise, np.broadcast_to(squares, noise.shape))


def expected_sums(design: VectorDesign, shares: Array) -> Array:
    """Return the expected contribution of one report to each cell."""
    to, fro = shares[::2], shares[1::2]
    squares = design.across + (design.along - design.across) * (to + fro)
    return UNIT * np.concatenate([design.gain * (to - fro), squares])


def _whole(sums: Array, squares: Array) -> Sums:
    cells: Sums = np.rint(UNIT * np.concatenate([sums, squares], axis=1)).astype(np.int64)
    return cells


def cap_probability(epsilon: float, part: float) -> float:
    """Return the probability of a report in a cap that is this part of the sphere."""
    e = math.exp(epsilon)
    return e * part / (1 + (e - 1) * part)


def cosines(epsilon: float, dimension: int, times: int, generator: np.random.Generator) -> Array:
    """Draw <u, v> for PrivUnit reports u of a person's vector v of length one.

    Let q be the part of the sphere in the cap where <u, v> exceeds a threshold, and e = e^ε. With
    probability e q / (1 + (e - 1) q), a report is uniform in the cap, otherwise uniform outside it.
    For every v, the density then has only two values, whose ratio is e^ε. The threshold maximizes
    the mean m = E<u, v>, and u / m is unbiased.

    For a uniform u, (1 + <u, v>) / 2 has a beta distribution, drawn here in doubles. Devices report
    one of finitely many codewords, `KClosest`.

    Source: Bhowmick, Duchi, Freudiger, Kapoor, Rogers 2018, arXiv:1812.00984.
    """
    from scipy.special import betaincinv

    _, both = best_cap(dimension, epsilon)  # the cap and the opposite cap
    part = both / 2
    inside = generator.random(times) < cap_probability(epsilon, part)
    above = generator.random(times)  # the part of the sphere that is closer to v than the report
    above = np.where(inside, part * above, part + (1 - part) * above)
    shape = (dimension - 1) / 2
    return np.asarray(1 - 2 * betaincinv(shape, shape, above))
