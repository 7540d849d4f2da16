"""What the minimax study found: sentences, tables and the JSON document."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from deniable.simulations.engine.study import Figure, Options, Report, Row, Table
from deniable.simulations.studies.minimax.estimators import model_of
from deniable.simulations.studies.minimax.labels import LABELS, label, middle_epsilon, shown
from deniable.simulations.studies.minimax.slopes import Slope, number, slopes

CELL_KEYS = (
    *("model", "moments", "epsilon", "people", "estimator"),
    *("risk_bound", "risk_exact", "risk_measured", "risk_error", "lower_bound", "clip"),
)
METHOD = (
    """Each person's number X has E|X|^k <= 1 and is otherwise unknown; the mean is asked for. Every
    estimator cuts numbers off at a clip, chosen so that its exact risk under the hardest
    distribution is least. Locally each person then reports one or two bits through an exact table
    of integers;
    centrally a trusted curator adds discrete Laplace noise to the clipped sum.""",
    """For each cell the two-point distribution with the largest exact risk is searched for, and
    whole populations are drawn from it: report counts are multinomial, noise is discrete Laplace,
    nothing is approximated. Counts are drawn in strata, which makes the Monte-Carlo error far
    smaller than the repetitions suggest; the error comes from the spread of 100 independent groups
    of strata.""",
    """The bound is a formula that the risk under no distribution exceeds. The lower bound is one
    that no estimator at this ε beats: two priors behind erased randomized response or behind a
    chain of replacements, and van Trees' inequality. Where the bound would exceed 1, answering 0
    risks less: the clip is 0 and the risk 1.""",
    """A slope is fitted from where the bound falls within 0.02 of its limit, or else over the three
    largest sizes. Its error adds up all Monte-Carlo errors, not in squares, and what the exact risk
    is still away from the limit there.""",
)


def make_report(_options: Options, rows: Sequence[Row]) -> Report:
    from deniable.simulations.studies.minimax.pictures import (  # cells need none
        draw_risks,
        draw_worth,
    )

    fitted = slopes(rows)
    epsilon = middle_epsilon(rows)
    return Report(
        findings=[_worth_sentence(rows), _slope_sentence(rows, fitted)],
        figures=[
            Figure(
                "risk",
                f"Mean squared error of a mean against the number of people, at ε = {epsilon:g}: "
                "points are measured under the hardest distribution, lines are bounds, powers are "
                "fitted. The lower, the better.",
                lambda: draw_risks(rows, fitted),
            ),
            Figure(
                "worth",
                "How many people, asked without privacy, would tell as much as the largest crowd "
                "does here, against ε. The higher, the better.",
                lambda: draw_worth(rows),
            ),
        ],
        tables=[_risk_table(rows), _slope_table(fitted)],
        method=[" ".join(paragraph.split()) for paragraph in METHOD],
        document=_document(rows, fitted),
    )


def _document(rows: Sequence[Row], fitted: Sequence[Slope]) -> Mapping[str, Any]:  # Any: JSON
    return {
        "cells": [{key: row[key] for key in CELL_KEYS} | {"users": row["people"]} for row in rows],
        "slopes": [
            {
                "model": model_of(slope.estimator),
                "moments": _named(slope.moments),
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


def _worth_sentence(rows: Sequence[Row]) -> str:
    """For the heaviest tails, the ε nearest to 1 and the largest crowd."""
    users, moments = max(number(r, "people") for r in rows), min(number(r, "moments") for r in rows)
    here = _at(rows, middle_epsilon(rows), moments, users)
    local = min(
        (r for r in here if r["model"] == "local"), key=lambda r: number(r, "risk_measured")
    )
    central = next(r for r in here if r["estimator"] == "laplace")
    return (
        f"At ε = {number(local, 'epsilon'):g}, {users:,.0f} people who randomize their own "
        f"answers tell the mean of {_known(moments)} as well as {_people(local)} would without "
        f"privacy; with a trusted curator they are worth {_people(central)}."
    )


def _known(moments: float) -> str:
    if math.isinf(moments):
        return "numbers from -1 to 1"
    power = {2: "square", 3: "cube", 4: "fourth power"}.get(int(moments), f"power {moments:g}")
    return f"numbers of any size, whose mean {power} is at most 1,"


def _slope_sentence(rows: Sequence[Row], fitted: Sequence[Slope]) -> str:
    return f"{_nearest_sentence(rows)} {_checks(rows, fitted)}"


def _nearest_sentence(rows: Sequence[Row]) -> str:
    """How near the best local estimator comes to the limit, as _worth_sentence has it."""
    users, moments = max(number(r, "people") for r in rows), min(number(r, "moments") for r in rows)
    here = _at(rows, middle_epsilon(rows), moments, users)
    above = min(
        number(r, "risk_exact") / number(r, "lower_bound") - 1
        for r in here
        if r["model"] == "local"
    )
    return f"That is within {100 * above:.0f} % of the best that any local protocol can do."


def _checks(rows: Sequence[Row], fitted: Sequence[Slope]) -> str:
    agree = sum(abs(s.fitted - s.theory) <= 3 * s.error for s in fitted)
    above = sum(number(row, "lower_bound") <= number(row, "risk_measured") for row in rows)
    gain, best = _largest_gain(rows)
    return (
        f"{agree} of {len(fitted)} fitted slopes are within three errors of theory and {above} of "
        f"{len(rows)} measured risks are above the lower bound; {best['estimator']} reports lower "
        f"the risk of one bit by a factor of up to {gain:.1f} (k = {best['moments']}, ε = "
        f"{number(best, 'epsilon'):g}, {number(best, 'people'):,.0f} people)."
    )


def _largest_gain(rows: Sequence[Row]) -> tuple[float, Row]:
    """How many times less a local estimator risks than one bit, and where."""

    def place(row: Row) -> tuple[object, ...]:
        return row["moments"], row["epsilon"], row["people"]

    one_bit = {place(r): number(r, "risk_measured") for r in rows if r["estimator"] == "one-bit"}
    local = [row for row in rows if row["model"] == "local" and place(row) in one_bit]
    gains = [one_bit[place(row)] / number(row, "risk_measured") for row in local]
    gain = max(gains)
    return gain, local[gains.index(gain)]


def _risk_table(rows: Sequence[Row]) -> Table:
    users = max(number(row, "people") for row in rows)
    pairs = dict.fromkeys((number(r, "moments"), number(r, "epsilon")) for r in rows)
    lines, names = [], shown(rows)
    for moments, epsilon in pairs:
        risks = {r["estimator"]: r for r in _at(rows, epsilon, moments, users)}
        texts = [
            f"{number(risks[name], 'risk_measured'):.3g}" if name in risks else "-"
            for name in names
        ]
        local = [r for r in risks.values() if r["model"] == "local"]
        limit = number(local[0], "lower_bound")
        nearest = min(number(r, "risk_exact") for r in local) / limit
        lines.append(
            [str(_named(moments)), f"{epsilon:g}", *texts, f"{limit:.3g}", f"{nearest:.2f}"]
        )
    columns = ["k", "ε", *map(label, names), "local limit", "best local by it"]
    return Table(f"Mean squared error with {users:,.0f} people, measured", columns, lines)


def _slope_table(fitted: Sequence[Slope]) -> Table:
    found = {(s.moments, s.epsilon, s.estimator): s for s in fitted}
    lines = []
    there = dict.fromkeys(s.estimator for s in fitted)
    names = [*(n for n in LABELS if n in there), *(n for n in there if n not in LABELS)]
    for moments, epsilon in dict.fromkeys((s.moments, s.epsilon) for s in fitted):
        slopes_here = [found.get((moments, epsilon, name)) for name in names]
        texts = [f"{s.fitted:.4f} ± {s.error:.4f}" if s else "-" for s in slopes_here]
        limit = next((f"{s.theory:.3f}" for s in slopes_here if s), "-")
        lines.append([str(_named(moments)), f"{epsilon:g}", *texts, limit])
    columns = ["k", "ε", *map(label, names), "local in theory"]
    return Table("Slopes of ln(risk) against ln(people)", columns, lines)


def _at(rows: Sequence[Row], epsilon: float, moments: float, users: float) -> list[Row]:
    return [
        row
        for row in rows
        if (row["epsilon"], number(row, "moments"), row["people"]) == (epsilon, moments, users)
    ]


def _people(row: Row) -> str:
    worth = f"{1 / number(row, 'risk_measured'):.2g}"
    return f"{float(worth):,.0f}"


def _named(moments: float) -> int | float | str:
    if math.isinf(moments):
        return "inf"
    return int(moments) if moments.is_integer() else moments
