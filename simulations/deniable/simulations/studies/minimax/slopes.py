"""Slopes: how fast the measured risk falls with the people, against what theory says.

A straight line through ln(risk) against ln(people), weighted by the Monte-Carlo errors, over the
asymptotic range: from the first number of people on from which the risk bound falls, at every
step, within 0.02 of the limit - or the last three where that is never reached. Where the bound is
capped at 1 there is no slope.

The error adds up, not in squares, what each Monte-Carlo error can do to the slope: three of them
are more than four standard errors of a line through three points, and more with more points. It
also has what the exact risk's own slope over this range is still away from the limit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.simulations.engine.study import Row
from deniable.simulations.studies.minimax.estimators import model_of

CLOSE = 0.02
FEWEST = 3
FLOOR = 1e-3  # weights: relative errors below it are alike


@dataclass(frozen=True)
class Slope:
    estimator: str
    moments: float
    epsilon: float
    first: int
    last: int
    fitted: float
    error: float
    theory: float


def slopes(rows: Sequence[Row]) -> list[Slope]:
    """One for each estimator, k and ε that has at least two sizes with a bound below 1."""

    def series(row: Row) -> tuple[str, float, float]:
        return str(row["estimator"]), number(row, "moments"), number(row, "epsilon")

    groups = {key: list(part) for key, part in itertools.groupby(sorted(rows, key=series), series)}
    fitted = {key: _fit(*key, part) for key, part in groups.items()}
    found = (fitted[key] for key in dict.fromkeys(map(series, rows)))
    return [slope for slope in found if slope]


def limit_slope(estimator: str, moments: float) -> float:
    """Of the risk as the people grow without end; -1 wherever sampling itself costs the most."""
    if model_of(estimator) == "local" and not math.isinf(moments):
        return -(moments - 1) / moments
    return -1.0


def number(row: Row, key: str) -> float:
    """A row's number; infinity is written "inf" there, as in JSON."""
    value = row[key]
    assert value is not None, key
    return float(value)


def _fit(estimator: str, moments: float, epsilon: float, rows: Sequence[Row]) -> Slope | None:
    rows = sorted((row for row in rows if row["clip"] != 0), key=lambda row: number(row, "people"))
    if len(rows) < 2:
        return None
    theory = limit_slope(estimator, moments)
    rows = rows[_first_asymptotic(rows, theory) :]
    users = [int(number(row, "people")) for row in rows]
    relative = _column(rows, "risk_error") / _column(rows, "risk_measured")
    pull = _pull(np.log(users), 1 / np.maximum(relative, FLOOR) ** 2)
    fitted = float(pull @ np.log(_column(rows, "risk_measured")))
    exact = float(pull @ np.log(_column(rows, "risk_exact")))
    error = float(abs(pull) @ relative) + abs(exact - theory)
    return Slope(estimator, moments, epsilon, users[0], users[-1], fitted, error, theory)


def _first_asymptotic(rows: Sequence[Row], theory: float) -> int:
    users, bounds = (np.log(_column(rows, key)) for key in ("people", "risk_bound"))
    away = np.flatnonzero(abs(np.diff(bounds) / np.diff(users) - theory) > CLOSE)
    first = int(away[-1]) + 1 if len(away) else 0
    return max(0, min(first, len(rows) - FEWEST))


def _pull(x: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """What each value weighs in the slope of the weighted least-squares line."""
    centred = x - weights @ x / weights.sum()
    return np.asarray(weights * centred / (weights @ centred**2))


def _column(rows: Sequence[Row], key: str) -> NDArray[np.float64]:
    return np.array([number(row, key) for row in rows])
