"""The report of the minimax study: slopes, sentences, tables and the JSON document.

A slope is how fast the measured risk falls with the people, to be compared with theory: a straight
line through ln(risk) against ln(people), weighted by the Monte-Carlo errors, over the asymptotic
range. That range begins at the first number of people from which the risk bound falls, at every
step, within 0.02 of the limit, or has the last three sizes where that is never reached. Where the
bound is capped at 1 there is no slope.

The error of a slope adds up linearly what each Monte-Carlo error can do to it: three of them are
more than four standard errors of a line through three points, and more with more points. It
includes the distance of the exact risk's own slope over this range from the limit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.simulations.engine.study import Figure, Options, Report, Row, Table
from deniable.simulations.studies.building_blocks import paragraphs
from deniable.simulations.studies.minimax.clipped_estimators import model_of, moments_value
from deniable.simulations.studies.minimax.minimax_figures import (
    draw_risks,
    draw_worth,
    in_order,
    label,
    middle_epsilon,
    number,
    shown,
)

SLOPE_TOLERANCE = 0.02
MIN_SIZES = 3
MIN_RELATIVE_ERROR = 1e-3  # smaller relative errors have the same weight
CELL_KEYS = (
    *("model", "moments", "epsilon", "people", "estimator"),
    *("risk_bound", "risk_exact", "risk_measured", "risk_error", "lower_bound", "clip"),
)


def report(_options: Options, rows: Sequence[Row]) -> Report:
    fitted = slopes(rows)
    epsilon = middle_epsilon(rows)
    return Report(
        findings=[_worth_sentence(rows), f"{_nearest_sentence(rows)} {_checks(rows, fitted)}"],
        figures=[
            Figure(
                "risk",
                f"Mean squared error of a mean against the number of people, at ε = {epsilon:g}: "
                "points are measured under the hardest distribution, lines are bounds, powers are "
                "fitted. Lower is better.",
                lambda: draw_risks(rows, fitted),
            ),
            Figure(
                "worth",
                "The number of people that would be as informative without privacy as the largest "
                "crowd is here, against ε. Higher is better.",
                lambda: draw_worth(rows),
            ),
        ],
        tables=[_risk_table(rows), _slope_table(fitted)],
        method=paragraphs(
            """Each person's number X has E|X|^k <= 1 and is otherwise unknown; the question is its
            mean. Every estimator clips numbers, with the least exact risk under the hardest
            distribution. Locally each person then reports one or two bits through an exact table of
            integers; centrally a trusted curator adds discrete Laplace noise to the clipped sum.

            For each cell the two-point distribution with the largest exact risk is searched for,
            and whole populations are drawn from it: report counts are multinomial, noise is
            discrete Laplace, nothing is approximated. Counts are drawn in strata, which makes the
            Monte-Carlo error far smaller than the repetitions suggest; the error comes from the
            spread of 100 independent groups of strata.

            The bound is a formula that is not exceeded by the risk under any distribution. The
            lower bound is not beaten by any estimator at this ε: two priors behind erased
            randomized response or behind a chain of replacements, and van Trees' inequality. Where
            the bound would exceed 1, estimating 0 risks less: the clip is 0 and the risk 1.

            A slope is fitted from where the bound falls within 0.02 of its limit, or else over the
            three largest sizes. Its error adds up all Monte-Carlo errors linearly, and the
            remaining distance of the exact risk from the limit."""
        ),
        document=_document(rows, fitted),
    )


def _document(rows: Sequence[Row], fitted: Sequence[Slope]) -> Mapping[str, Any]:  # Any: JSON
    return {
        "cells": [{key: row[key] for key in CELL_KEYS} | {"users": row["people"]} for row in rows],
        "slopes": [
            {
                "model": model_of(slope.estimator),
                "moments": moments_value(slope.moments),
                "epsilon": slope.epsilon,
                "estimator": slope.estimator,
                "from": slope.first,
                "to": slope.last,
                "fitted": slope.fitted,
                "error": slope.error,
                "theory": slope.theory,
            }
            for slope in fitted
        ],
    }


def _largest_crowd(rows: Sequence[Row]) -> tuple[list[Row], float, float]:
    """Return the rows of the heaviest tails, the ε nearest to 1 and the largest crowd; k and n."""
    people = max(number(row, "people") for row in rows)
    moments = min(number(row, "moments") for row in rows)
    return _cell(rows, middle_epsilon(rows), moments, people), moments, people


def _worth_sentence(rows: Sequence[Row]) -> str:
    cell, moments, people = _largest_crowd(rows)
    local = min(
        (row for row in cell if row["model"] == "local"),
        key=lambda row: number(row, "risk_measured"),
    )
    central = next(row for row in cell if row["estimator"] == "laplace")
    return (
        f"At ε = {number(local, 'epsilon'):g}, {people:,.0f} people who randomize their own "
        f"answers estimate the mean of {_known(moments)} as well as {_people(local)} would without "
        f"privacy; with a trusted curator they are worth {_people(central)}."
    )


def _known(moments: float) -> str:
    if math.isinf(moments):
        return "numbers from -1 to 1"
    power = {2: "square", 3: "cube", 4: "fourth power"}.get(int(moments), f"power {moments:g}")
    return f"numbers of any size, whose mean {power} is at most 1,"


def _nearest_sentence(rows: Sequence[Row]) -> str:
    local = [row for row in _largest_crowd(rows)[0] if row["model"] == "local"]
    above = min(number(row, "risk_exact") / number(row, "lower_bound") - 1 for row in local)
    return f"That is within {100 * above:.0f} % of the best that any local protocol can do."


def _checks(rows: Sequence[Row], fitted: Sequence[Slope]) -> str:
    agree = sum(abs(s.fitted - s.theory) <= 3 * s.error for s in fitted)
    above = sum(number(row, "lower_bound") <= number(row, "risk_measured") for row in rows)
    gain, best = _largest_gain(rows)
    return (
        f"{agree} of {len(fitted)} fitted slopes are within three errors of theory and {above} of "
        f"{len(rows)} measured risks are above the lower bound; {best['estimator']} reports reduce "
        f"the risk of one bit by a factor of up to {gain:.1f} (k = {best['moments']}, ε = "
        f"{number(best, 'epsilon'):g}, {number(best, 'people'):,.0f} people)."
    )


def _largest_gain(rows: Sequence[Row]) -> tuple[float, Row]:
    """Return the largest ratio of the risk of one bit to that of a local estimator, and its row."""

    def cell(row: Row) -> tuple[object, ...]:
        return row["moments"], row["epsilon"], row["people"]

    one_bit = {cell(r): number(r, "risk_measured") for r in rows if r["estimator"] == "one-bit"}
    local = [row for row in rows if row["model"] == "local" and cell(row) in one_bit]
    gains = [one_bit[cell(row)] / number(row, "risk_measured") for row in local]
    gain = max(gains)
    return gain, local[gains.index(gain)]


def _risk_table(rows: Sequence[Row]) -> Table:
    users = max(number(row, "people") for row in rows)
    pairs = dict.fromkeys((number(r, "moments"), number(r, "epsilon")) for r in rows)
    lines, names = [], shown(rows)
    for moments, epsilon in pairs:
        risks = {r["estimator"]: r for r in _cell(rows, epsilon, moments, users)}
        texts = [
            f"{number(risks[name], 'risk_measured'):.3g}" if name in risks else "-"
            for name in names
        ]
        local = [r for r in risks.values() if r["model"] == "local"]
        limit = number(local[0], "lower_bound")
        nearest = min(number(r, "risk_exact") for r in local) / limit
        lines.append(
            [str(moments_value(moments)), f"{epsilon:g}", *texts, f"{limit:.3g}", f"{nearest:.2f}"]
        )
    columns = ["k", "ε", *map(label, names), "local limit", "best local / limit"]
    return Table(f"Mean squared error with {users:,.0f} people, measured", columns, lines)


def _slope_table(fitted: Sequence[Slope]) -> Table:
    by_cell = {(s.moments, s.epsilon, s.estimator): s for s in fitted}
    lines = []
    names = in_order(s.estimator for s in fitted)
    for moments, epsilon in dict.fromkeys((s.moments, s.epsilon) for s in fitted):
        cells = [by_cell.get((moments, epsilon, name)) for name in names]
        texts = [f"{s.fitted:.4f} ± {s.error:.4f}" if s else "-" for s in cells]
        limit = next((f"{s.theory:.3f}" for s in cells if s), "-")
        lines.append([str(moments_value(moments)), f"{epsilon:g}", *texts, limit])
    columns = ["k", "ε", *map(label, names), "local in theory"]
    return Table("Slopes of ln(risk) against ln(people)", columns, lines)


def _cell(rows: Sequence[Row], epsilon: float, moments: float, users: float) -> list[Row]:
    return [
        row
        for row in rows
        if (row["epsilon"], number(row, "moments"), row["people"]) == (epsilon, moments, users)
    ]


def _people(row: Row) -> str:
    worth = f"{1 / number(row, 'risk_measured'):.2g}"
    return f"{float(worth):,.0f}"


# Slopes


@dataclass(frozen=True)
class Slope:
    """The fitted slope of ln(risk) against ln(people), its error, and the theoretical slope."""

    estimator: str
    moments: float
    epsilon: float
    first: int
    last: int
    fitted: float
    error: float
    theory: float


def slopes(rows: Sequence[Row]) -> list[Slope]:
    """Return a slope for each estimator, k and ε with at least two sizes whose bound is below 1."""

    def series(row: Row) -> tuple[str, float, float]:
        return str(row["estimator"]), number(row, "moments"), number(row, "epsilon")

    groups = {key: list(part) for key, part in itertools.groupby(sorted(rows, key=series), series)}
    fitted = {key: _fit(*key, part) for key, part in groups.items()}
    in_order = (fitted[key] for key in dict.fromkeys(map(series, rows)))
    return [slope for slope in in_order if slope]


def limit_slope(estimator: str, moments: float) -> float:
    """Return the asymptotic slope of the risk; -1 wherever sampling has the largest error."""
    if model_of(estimator) == "local" and not math.isinf(moments):
        return -(moments - 1) / moments
    return -1.0


def _fit(estimator: str, moments: float, epsilon: float, rows: Sequence[Row]) -> Slope | None:
    rows = sorted((row for row in rows if row["clip"] != 0), key=lambda row: number(row, "people"))
    if len(rows) < 2:
        return None
    theory = limit_slope(estimator, moments)
    rows = rows[_first_asymptotic(rows, theory) :]
    users = [int(number(row, "people")) for row in rows]
    relative = _column(rows, "risk_error") / _column(rows, "risk_measured")
    pull = _pull(np.log(users), 1 / np.maximum(relative, MIN_RELATIVE_ERROR) ** 2)
    fitted = float(pull @ np.log(_column(rows, "risk_measured")))
    exact = float(pull @ np.log(_column(rows, "risk_exact")))
    error = float(abs(pull) @ relative) + abs(exact - theory)
    return Slope(estimator, moments, epsilon, users[0], users[-1], fitted, error, theory)


def _first_asymptotic(rows: Sequence[Row], theory: float) -> int:
    users, bounds = (np.log(_column(rows, key)) for key in ("people", "risk_bound"))
    steep = np.flatnonzero(abs(np.diff(bounds) / np.diff(users) - theory) > SLOPE_TOLERANCE)
    first = int(steep[-1]) + 1 if len(steep) else 0
    return max(0, min(first, len(rows) - MIN_SIZES))


def _pull(x: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weight of each value in the slope of the weighted least-squares line."""
    centred = x - weights @ x / weights.sum()
    return np.asarray(weights * centred / (weights @ centred**2))


def _column(rows: Sequence[Row], key: str) -> NDArray[np.float64]:
    return np.array([number(row, key) for row in rows])
