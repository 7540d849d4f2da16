"""Vectors: time and bytes on a device, time on the server, and errors against PrivUnit's formula.

Squared errors are those of whole reports, drawn by the device's code for a vector of length 1; the
limit is printed with three standard errors. The bias is the mean report along the vector divided by
the gain, minus one. It is measured for a dense vector and for a single coordinate; the random pick
is averaged exactly.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import numpy as np

from deniable.server.intake.tally_kernels import codeword_sums
from deniable.shared.privacy.codewords import along, codeword
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.vector_design import AXIS
from deniable.shared.privacy.mechanism import kernel_draw
from deniable.shared.privacy.mechanisms import KClosest
from deniable.shared.survey.kinds.vector import Vector
from tests.bench.measure import Measurement

DIMENSIONS, EPSILONS = (10, 100, 1_000), ("0.5", "1", "2", "4")
COUNTED = 100_000
COORDINATES = 2**22  # maximum number of coordinates expanded for one error


def measurements() -> Iterator[Measurement]:
    for dimension in DIMENSIONS:
        for epsilon in EPSILONS:
            made = KClosest(Epsilon(epsilon), dimension)
            yield error(made)
            if epsilon == "1":
                yield bias(made, "dense", np.linspace(1, 2, dimension))
                yield bias(made, "one coordinate", np.eye(dimension)[0])
    for epsilon in ("1", "2", "4", "6"):
        yield device(KClosest(Epsilon(epsilon), 1_024))
    for dimension in (100, 1_024):
        yield counting(KClosest(Epsilon("1"), dimension))


def error(made: KClosest) -> Measurement:
    """Return the squared error relative to PrivUnit's formula, from a few seconds of reports."""
    question, vector = Vector("v", made), np.linspace(1, 2, made.dimension)
    vector /= np.linalg.norm(vector)
    answer, squares = vector.tolist(), []
    for _ in range(max(200, COORDINATES // (made.codewords * made.dimension))):
        symbol, _ = question.report(answer, kernel_draw)
        squares.append(float(((reported(made, symbol) - vector) ** 2).sum()))
    limit = made.least_error**2 - 1
    measured, uncertain = np.mean(squares), 3 * np.std(squares) / np.sqrt(len(squares))
    note = (
        f"± {uncertain / limit:.4f}; {measured:,.2f} over {limit:,.2f}, stated "
        f"{(made.whole_error(1) ** 2 - 1) / limit:.4f}; {len(squares):,} reports, "
        f"{made.closest} of {made.codewords}"
    )
    name = f"squared error of a vector of {made.dimension:,} at ε {made.epsilon}, over the limit"
    return Measurement(name, float(measured / limit), None, "", 1.05, note=note)


def reported(made: KClosest, symbol: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    number = symbol >> 64
    word = np.array(codeword(symbol & ONE - 1, number >> 1, made.dimension))
    estimate = (-1) ** (number & 1) * word / (np.linalg.norm(word) * made.gain)
    return np.asarray(estimate)


def bias(
    made: KClosest, name: str, vector: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> Measurement:
    """Measure the bias of the mean report along the vector, averaged over seeds."""
    pairs, means = made.codewords // 2, []
    direction = np.rint(AXIS * vector / np.linalg.norm(vector)).tolist()
    for seed in range(max(2_000, 8 * COORDINATES // (made.codewords * made.dimension))):
        reach = np.abs(along(seed, pairs, direction)) / AXIS
        means.append(np.sort(reach)[-made.closest :].sum() * (made.near - made.far) / ONE)
    off, uncertain = np.mean(means) / made.gain - 1, 3 * np.std(means) / np.sqrt(len(means))
    note = f"± {uncertain / made.gain:.5f} (three errors), {len(means):,} seeds"
    title = f"bias of a vector of {made.dimension:,}, {name}, a share of its length"
    return Measurement(title, abs(float(off)), None, "", 7 / 3 * uncertain / made.gain, note=note)


def device(made: KClosest) -> Measurement:
    question = Vector("v", made)
    answer = np.random.default_rng(1).normal(size=made.dimension).tolist()
    question.report(answer, kernel_draw)
    best = min(busy(lambda: question.report(answer, kernel_draw)) for _ in range(9))
    name = f"processor time of a report of a vector of {made.dimension:,} at ε {made.epsilon}"
    note = f"{made.payload_size} bytes; {made.closest} of {made.codewords} codewords"
    return Measurement(name, best * 1e3, None, "ms", 100, note=note)


def counting(made: KClosest) -> Measurement:
    rows = np.frombuffer(os.urandom(COUNTED * made.payload_size), np.uint8)
    columns = rows.reshape(COUNTED, -1).copy()
    columns[:, -1] %= made.codewords
    best = min(busy(lambda: codeword_sums(made.encoding, columns)) for _ in range(3))
    name = f"processor time to count {COUNTED:,} vectors of {made.dimension:,}"
    return Measurement(name, best, None, "s", 5)


def busy(call: Callable[[], object]) -> float:
    """Return processor seconds, which other processes on the machine do not affect."""
    start = time.process_time()
    call()
    return time.process_time() - start
