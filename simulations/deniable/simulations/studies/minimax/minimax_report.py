"""Report of the minimax study: slopes, sentences, figures and tables.

`pages/minimax.txt` explains it under "theory".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from deniable.simulations.engine import custom_mechanisms
from deniable.simulations.engine.estimators import Estimator, Rows, number
from deniable.simulations.engine.figures import Panel, curve, distinct_looks, drawing
from deniable.simulations.engine.presentation import View, estimator_table, with_error
from deniable.simulations.engine.study import Report, Row, Table
from deniable.simulations.studies.minimax.clipped_estimators import MANY_LEVELS, model_of

Array = NDArray[np.float64]
SLOPE_TOLERANCE = 0.02
MIN_SIZES = 3
MIN_RELATIVE_ERROR = 1e-3  # smaller relative errors have the same weight
LABELS = {
    "one-bit": "devices, one bit",
    "ternary": "devices, ternary",
    "split-sign": "devices, split sign",
    MANY_LEVELS: "devices, many levels",
    "laplace": "trusted server",
    "mean": "no privacy",
}
NOT_SHOWN_AGAINST_PEOPLE = ("split-sign", MANY_LEVELS)
LIMITS = {"one-bit": "limit on devices", "laplace": "limit of trusted servers"}
POWERS = {2.0: "square", 3.0: "cube", 4.0: "fourth power"}
KEYS = {"k": "moments", "ε": "epsilon"}


def report(view: View) -> Report:
    rows, fitted = view.rows, slopes(view.rows)
    epsilon = min({number(row, "epsilon") for row in rows}, key=lambda e: abs(math.log(e)))
    largest = rows.at(people=max(number(row, "people") for row in rows))
    people = f"{largest[0]['people']:,} people"
    agree = sum(abs(_off_theory(row)) <= 3 * number(row, "error") for row in fitted)
    values = {"shown": epsilon, "agree": agree, "fitted": len(fitted)}
    return view.report(
        values | _finding_values(rows, largest.at(epsilon=epsilon)),
        {
            "risk": drawing(
                *_risk_panels(rows.at(epsilon=epsilon), fitted),
                title=f"The error of an estimated mean, ε {epsilon:g}",
            ),
            "worth": drawing(
                *_worth_panels(largest), title=f"Worth of {people}, in people without privacy"
            ),
        },
        [_risk_table(largest, people), _slope_table(fitted)],
        {"slopes": fitted},
    )


def estimators_of(rows: Sequence[Row]) -> list[Estimator]:
    names = dict.fromkeys(str(row["estimator"]) for row in rows)
    others = [name for name in names if name not in LABELS]
    labels = LABELS | {n: f"devices, {custom_mechanisms.find('number', n).label}" for n in others}
    return [
        Estimator(model_of(name), name, label, look)
        for (name, label), look in zip(labels.items(), distinct_looks(len(labels)), strict=True)
        if name in names
    ]


# Values and tables


def _finding_values(rows: Rows, largest: Rows) -> dict[str, object]:
    """Return the values of the findings, about the heaviest tails and the largest crowd."""
    cell = next(iter(largest.groups("moments").values()))
    moments, best = number(cell[0], "moments"), cell.best("local", "risk_measured")
    (trusted,) = cell.at(estimator="laplace")
    gain, gained = max(_gains(rows), key=lambda pair: pair[0])
    power = POWERS.get(moments, f"power {moments:g}")
    bounded, heavy = "numbers from -1 to 1", f"numbers of any size whose mean {power} is at most 1"
    return {
        "best": best,
        "best_worth": _worth(best),
        "numbers": bounded if math.isinf(moments) else heavy,
        "trusted_worth": _worth(trusted),
        "over": _over_limit(cell),
        "gain": gain,
        "gained": gained,
    }


def _worth(row: Row) -> str:
    people = f"{1 / number(row, 'risk_measured'):.2g}"
    return f"{float(people):,.0f}"


def _over_limit(cell: Rows) -> float:
    """Return the exact risk of the best local estimator, divided by the local limit."""
    best = cell.best("local", "risk_exact")
    return number(best, "risk_exact") / number(best, "lower_bound")


def _gains(rows: Rows) -> list[tuple[float, Row]]:
    """Return, for each cell, one bit's risk divided by the best local estimator's, and its row."""
    return [
        (number(bits[0], "risk_measured") / number(best, "risk_measured"), best)
        for cell in rows.groups("moments", "epsilon", "people").values()
        for best in [cell.best("local", "risk_measured")]
        if (bits := cell.at(estimator="one-bit"))
    ]


def _risk_table(largest: Rows, people: str) -> Table:
    more = {
        "limit on devices": lambda cell: f"{number(cell.at(model='local')[0], 'lower_bound'):.3g}",
        "best on devices / limit": lambda cell: f"{_over_limit(cell):.2f}",
    }
    return estimator_table(
        *(f"Mean squared error with {people}, measured", largest, estimators_of(largest)),
        *(lambda row: f"{number(row, 'risk_measured'):.3g}", KEYS, more),
    )


def _slope_table(fitted: Rows) -> Table:
    return estimator_table(
        *("Slopes of ln(risk) against ln(people)", fitted, estimators_of(fitted)),
        *(lambda r: with_error(f"{r['fitted']:.4f}", f"{r['error']:.4f}"), KEYS),
        {"theory on devices": lambda cell: f"{number(cell[0], 'theory'):.3f}"},
    )


# Figures


def _risk_panels(rows: Rows, fitted: Rows) -> list[Panel]:
    shown = [one for one in estimators_of(rows) if one.name not in NOT_SHOWN_AGAINST_PEOPLE]

    def panel(moments: float, part: Rows) -> Panel:
        curves, notes = [], []
        for one in shown:
            own = part.of(one)
            curves += [
                curve(own, one.look, "people", "risk_bound", one.label, "line"),
                curve(own, one.look, "people", "risk_measured", one.label, "points", "risk_error"),
            ]
            if words := LIMITS.get(one.name):
                curves.append(curve(own, one.look, "people", "lower_bound", words, "limit"))
            for row in fitted.at(moments=part[0]["moments"], epsilon=part[0]["epsilon"]).of(one):
                powers = f"$n^{{{row['fitted']:.3f}}}$  in theory $n^{{{_theory(row)}}}$"
                notes.append((powers, one.look))
        return Panel(_family(moments), curves, "people", "mean squared error", notes=notes)

    return [panel(moments, part) for moments, part in _by_family(rows)]


def _worth_panels(rows: Rows) -> list[Panel]:
    """Return panels of 1 / risk: the people who would give the same accuracy without privacy."""

    def worth(row: Row) -> float:
        return 1 / number(row, "risk_measured")

    shown = estimators_of(rows)
    return [
        Panel(
            _family(moments),
            [curve(part.of(one), one.look, "epsilon", worth, one.label) for one in shown],
            "ε: larger is less private",
            "worth in people",
        )
        for moments, part in _by_family(rows)
    ]


def _by_family(rows: Rows) -> list[tuple[float, Rows]]:
    parts = [(number(part[0], "moments"), part) for part in rows.groups("moments").values()]
    return sorted(parts, key=lambda pair: pair[0])


def _theory(slope: Row) -> str:
    k = number(slope, "moments")
    if slope["model"] == "local" and k in POWERS:
        return f"-{k - 1:g}/{k:g}"
    return f"{number(slope, 'theory'):.3g}"


def _family(moments: float) -> str:
    if math.isinf(moments):
        return "All numbers within 1 of 0 (k = ∞)"
    power = POWERS.get(moments)
    words = f"Mean {power}" if power else f"Mean of |X|$^{{{moments:g}}}$"
    return f"{words} at most 1 (k = {moments:g})"


# Slopes


def slopes(rows: Sequence[Row]) -> Rows:
    """Return a slope for each estimator, k and ε with at least two sizes whose bound is below 1.

    Each has the range of people, `from` and `to`, the slope `fitted` of ln(risk) against
    ln(people), its `error`, and the slope in `theory`.
    """
    cells = Rows(row for row in rows if row["clip"] != 0).groups("estimator", "moments", "epsilon")
    return Rows(_fit(cell) for cell in cells.values() if len(cell) >= 2)


def _fit(cell: Rows) -> Mapping[str, str | int | float | None]:
    rows = sorted(cell, key=lambda row: number(row, "people"))
    first, k = rows[0], number(rows[0], "moments")
    # -1 wherever sampling has the largest error
    theory = -(k - 1) / k if first["model"] == "local" and not math.isinf(k) else -1.0
    rows = rows[_first_asymptotic(rows, theory) :]
    people, measured = _values(rows, "people"), _values(rows, "risk_measured")
    relative = _values(rows, "risk_error") / measured
    pull = _pull(np.log(people), 1 / np.maximum(relative, MIN_RELATIVE_ERROR) ** 2)
    exact = float(pull @ np.log(_values(rows, "risk_exact")))
    return {
        **{key: first[key] for key in ("model", "moments", "epsilon", "estimator")},
        "from": int(people[0]),
        "to": int(people[-1]),
        "fitted": float(pull @ np.log(measured)),
        "error": float(abs(pull) @ relative) + abs(exact - theory),
        "theory": theory,
    }


def _off_theory(slope: Row) -> float:
    return number(slope, "fitted") - number(slope, "theory")


def _first_asymptotic(rows: Sequence[Row], theory: float) -> int:
    people, bounds = (np.log(_values(rows, key)) for key in ("people", "risk_bound"))
    steep = np.flatnonzero(abs(np.diff(bounds) / np.diff(people) - theory) > SLOPE_TOLERANCE)
    first = int(steep[-1]) + 1 if len(steep) else 0
    return max(0, min(first, len(rows) - MIN_SIZES))


def _pull(x: Array, weights: Array) -> Array:
    """Return the weight of each value in the slope of the weighted least-squares line."""
    centred = x - weights @ x / weights.sum()
    return np.asarray(weights * centred / (weights @ centred**2))


def _values(rows: Sequence[Row], key: str) -> Array:
    return np.array([number(row, key) for row in rows])
