"""What the reports of vectors add up to, without the people.

Exact are the first two moments of the sums of coordinates, of which estimates are made: a codeword
has the mean gain v, and with u the direction of v the mean square across I + (along - across) u u'.
They are drawn from a normal distribution, which the sum of many reports is close to. The sums of
squares are their expectations, and do not vary.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.encoding import UNIT
from deniable.shared.privacy.families.vector_design import VectorDesign

Array = NDArray[np.float64]
Sums = NDArray[np.int64]


def of_vectors(
    design: VectorDesign, vectors: Array, repetitions: int, generator: np.random.Generator
) -> Sums:
    """One person for each row, of length at most one: `counts[repetition, cell]`."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    directions = vectors / np.where(length > 0, length, 1)
    spread = (design.along - design.across) * directions.T @ directions
    spread += len(vectors) * design.across * np.eye(design.dimension)
    squares = np.diag(spread)
    spread = spread - design.gain**2 * vectors.T @ vectors
    noise = generator.normal(size=(repetitions, design.dimension)) @ np.linalg.cholesky(spread).T
    return _whole(design.gain * vectors.sum(axis=0) + noise, np.tile(squares, (repetitions, 1)))


def along_axes(
    design: VectorDesign, held: Sums, repetitions: int, generator: np.random.Generator
) -> Sums:
    """People who hold the numbered answers, which point along the axes: one row for all, or one for
    each repetition. Then coordinates do not hang together."""
    to, fro = held[:, ::2], held[:, 1::2]
    squares = held.sum(axis=1, keepdims=True) * design.across
    squares = squares + (design.along - design.across) * (to + fro)
    spread = np.sqrt(squares - design.gain**2 * (to + fro))
    noise = generator.normal(size=(repetitions, design.dimension)) * spread
    return _whole(design.gain * (to - fro) + noise, np.broadcast_to(squares, noise.shape))


def expected(design: VectorDesign, shares: Array) -> Array:
    """What one report adds to each cell, when the numbered answers have this distribution."""
    to, fro = shares[::2], shares[1::2]
    squares = design.across + (design.along - design.across) * (to + fro)
    return UNIT * np.concatenate([design.gain * (to - fro), squares])


def _whole(sums: Array, squares: Array) -> Sums:
    cells: Sums = np.rint(UNIT * np.concatenate([sums, squares], axis=1)).astype(np.int64)
    return cells
