"""Tulap noise: discrete Laplace plus a uniform number, as the most powerful private test has it.

With b = e^-ε and [x] the nearest whole number, the distribution function is

    F(x) = b^-[x] / (1 + b) (b + (x - [x] + 1/2) (1 - b))      x <= 0,    1 - F(-x) above

A test that rejects with probability F(s - m), for s people who say yes, is ε-private; of all
private tests of one share against a larger one at this level none has more power. It is the test
that rejects where s plus Tulap noise exceeds m.

A distribution on the line: what is drawn from it in doubles (`population/noise.py`) is a
simulation, and nothing is ever released by it.

Source: Awan, Slavkovic 2018, "Differentially private uniformly most powerful tests for binomial
data", NeurIPS.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def tulap_below(x: Array, epsilon: float) -> Array:
    """F(x)."""
    b, low = math.exp(-epsilon), -np.abs(x)
    whole = np.rint(low)
    tail = np.exp(epsilon * whole) / (1 + b) * (b + (low - whole + 0.5) * (1 - b))
    return np.where(x <= 0, tail, 1 - tail)
