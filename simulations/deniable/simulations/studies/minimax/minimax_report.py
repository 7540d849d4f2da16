"""The report of the minimax study: slopes, sentences, figures, tables and the JSON document.

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

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.simulations.engine import custom_mechanisms
from deniable.simulations.engine.estimators import Estimator, Rows, Value, number
from deniable.simulations.engine.figures import Panel, curve, distinct_looks, draw
from deniable.simulations.engine.sentences import figure, paragraphs, table
from deniable.simulations.engine.study import Figure, Options, Report, Row
from deniable.simulations.studies.minimax.clipped_estimators import MANY_LEVELS, MODELS, model_of

SLOPE_TOLERANCE = 0.02
MIN_SIZES = 3
MIN_RELATIVE_ERROR = 1e-3  # smaller relative errors have the same weight
LABELS = {
    "one-bit": "local, one bit",
    "ternary": "local, ternary",
    "split-sign": "local, split sign",
    MANY_LEVELS: "local, many levels",
    "laplace": "trusted curator",
    "mean": "no privacy",
}
SHOWN_AGAINST_PEOPLE = ("one-bit", "ternary", "laplace", "mean")
POWERS = {2.0: "square", 3.0: "cube", 4.0: "fourth power"}
KEYS = {"k": "moments", "ε": "epsilon"}


def estimators_of(rows: Sequence[Row]) -> list[Estimator]:
    """Return the estimators of these rows, ours first."""
    names = dict.fromkeys(str(row["estimator"]) for row in rows)
    others = [name for name in names if name not in LABELS]
    labels = LABELS | {n: f"local, {custom_mechanisms.label('number', n)}" for n in others}
    return [
        Estimator(model_of(name), name, label, look)
        for (name, label), look in zip(labels.items(), distinct_looks(len(labels)), strict=True)
        if name in names
    ]


def report(_options: Options, found: Sequence[Row]) -> Report:
    rows, fitted = Rows(found), slopes(found)
    epsilon = min({number(row, "epsilon") for row in rows}, key=lambda e: abs(math.log(e)))
    largest = rows.at(people=max(number(row, "people") for row in rows))
    agree = sum(abs(slope.fitted - slope.theory) <= 3 * slope.error for slope in fitted)
    slope_rows = Rows(asdict(slope) for slope in fitted)
    return Report(
        _findings(rows, largest.at(epsilon=epsilon)),
        [
            Figure(
                "risk",
                f"Mean squared error of a mean against the number of people, at ε = {epsilon:g}: "
                "points are measured under the hardest distribution, lines are bounds, dotted "
                "lines are limits. Powers are fitted. Lower is better.",
                lambda: draw(
                    _risk_panels(rows.at(epsilon=epsilon), slope_rows.at(epsilon=epsilon)),
                    f"The error of an estimated mean, at ε = {epsilon:g}",
                ),
            ),
            Figure(
                "worth",
                "The number of people that would be as informative without privacy as the largest "
                "crowd is here, against ε. Higher is better.",
                lambda: draw(
                    _worth_panels(largest),
                    f"Worth of {largest[0]['people']:,} people, in people without privacy",
                ),
            ),
        ],
        [
            table(
                f"Mean squared error with {largest[0]['people']:,} people, measured",
                largest,
                KEYS,
                {one.label: _text(one, "risk_measured", ".3g") for one in estimators_of(rows)}
                | {
                    "local limit": lambda cell: (
                        f"{number(cell.at(model='local')[0], 'lower_bound'):.3g}"
                    ),
                    "best local / limit": lambda cell: f"{_over_limit(cell):.2f}",
                },
            ),
            table(
                "Slopes of ln(risk) against ln(people)",
                slope_rows,
                KEYS,
                {one.label: _slope_text(one) for one in estimators_of(slope_rows)}
                | {"local in theory": lambda cell: f"{number(cell[0], 'theory'):.3f}"},
            ),
        ],
        paragraphs(
            f"""Each person's number X has E|X|^k <= 1 and is otherwise unknown; the question is its
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
            remaining distance of the exact risk from the limit. {agree} of {len(fitted)} slopes are
            within three errors of theory."""
        ),
        {"slopes": [_document(slope) for slope in fitted]},
    )


def _document(slope: Slope) -> dict[str, str | float]:
    found = asdict(slope)
    return {{"first": "from", "last": "to"}.get(key, key): value for key, value in found.items()}


def _over_limit(cell: Rows) -> float:
    """Return the exact risk of the best local estimator, divided by the local limit."""
    best = cell.best("local", "risk_exact")
    return number(best, "risk_exact") / number(best, "lower_bound")


def _text(estimator: Estimator, key: Value, form: str) -> Callable[[Rows], str]:
    return lambda cell: "".join(f"{number(r, key):{form}}" for r in cell.of(estimator)) or "-"


def _slope_text(estimator: Estimator) -> Callable[[Rows], str]:
    fitted, error = (_text(estimator, key, ".4f") for key in ("fitted", "error"))
    return lambda cell: f"{fitted(cell)} ± {error(cell)}" if cell.of(estimator) else "-"


def _findings(rows: Rows, largest: Rows) -> list[str]:
    """Return the sentences, with those about the heaviest tails and the largest crowd first."""
    cell = next(iter(largest.groups("moments").values()))
    moments, best = number(cell[0], "moments"), cell.best("local", "risk_measured")
    trusted = next(row for row in cell if row["estimator"] == "laplace")
    gain, most = _largest_gain(rows)
    known = (
        f"numbers of any size, whose mean {POWERS.get(moments, f'power {moments:g}')} is at most 1,"
    )
    return paragraphs(
        f"""At ε = {number(best, "epsilon"):g}, {best["people"]:,} people who randomize their own
        answers estimate the mean of
        {"numbers from -1 to 1" if math.isinf(moments) else known} as well as {_worth(best)} would
        without privacy; with a trusted curator they are worth {_worth(trusted)}.

        The risk on devices is at most {figure(_over_limit(cell))} times the least of any local
        protocol. The largest gain over one bit is a factor of {gain:.1f}, by {most["estimator"]}
        reports (k = {most["moments"]}, ε = {number(most, "epsilon"):g}, {most["people"]:,}
        people)."""
    )


def _worth(row: Row) -> str:
    people = f"{1 / number(row, 'risk_measured'):.2g}"
    return f"{float(people):,.0f}"


def _largest_gain(rows: Rows) -> tuple[float, Row]:
    """Return the largest ratio of one bit's risk to the risk of a local estimator, and its row."""
    gains = [
        (number(bits[0], "risk_measured") / number(best, "risk_measured"), best)
        for cell in rows.groups("moments", "epsilon", "people").values()
        for best in [cell.best("local", "risk_measured")]
        if (bits := cell.at(estimator="one-bit"))
    ]
    return max(gains, key=lambda gain: gain[0])


# Figures


def _risk_panels(rows: Rows, fitted: Rows) -> list[Panel]:
    shown = [
        one
        for one in estimators_of(rows)
        if one.name in SHOWN_AGAINST_PEOPLE or one.name not in MODELS
    ]

    def panel(moments: float, part: Rows) -> Panel:
        curves = [
            c
            for one in shown
            for c in (
                curve(part.of(one), one.look, "people", "risk_bound", one.label, "line"),
                curve(part.of(one), one.look, "people", "risk_measured", one.label, "points",
                      "risk_error"),
            )
        ] + [
            curve(part.of(one), one.look, "people", "lower_bound", words, "limit")
            for one in shown
            for words in [{"one-bit": "limit of local estimators",
                           "laplace": "limit of trusted curators"}.get(one.name)]
            if words
        ]  # fmt: skip
        notes = [
            (f"$n^{{{number(row, 'fitted'):.3f}}}$  in theory $n^{{{_theory(row)}}}$", one.look)
            for one in shown
            for row in fitted.at(moments=part[0]["moments"]).of(one)
        ]
        return Panel(_family(moments), curves, "people", "mean squared error", notes=notes)

    return [panel(float(str(k)), part) for (k,), part in _by_family(rows)]


def _worth_panels(rows: Rows) -> list[Panel]:
    """Return panels of 1 / risk: the people who would give the same accuracy without privacy."""

    def worth(row: Row) -> float:
        return 1 / number(row, "risk_measured")

    return [
        Panel(
            _family(float(str(k))),
            [curve(part.of(o), o.look, "epsilon", worth, o.label) for o in estimators_of(rows)],
            "ε: larger is less private",
            "worth in people",
        )
        for (k,), part in _by_family(rows)
    ]


def _by_family(rows: Rows) -> list[tuple[tuple[object, ...], Rows]]:
    return sorted(rows.groups("moments").items(), key=lambda group: float(str(group[0][0])))


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


@dataclass(frozen=True)
class Slope:
    """The fitted slope of ln(risk) against ln(people), its error, and the theoretical slope."""

    model: str
    moments: int | float | str
    epsilon: float
    estimator: str
    first: int
    last: int
    fitted: float
    error: float
    theory: float


def slopes(rows: Sequence[Row]) -> list[Slope]:
    """Return a slope for each estimator, k and ε with at least two sizes whose bound is below 1."""
    fitted = map(_fit, Rows(rows).groups("estimator", "moments", "epsilon").values())
    return [slope for slope in fitted if slope]


def limit_slope(estimator: str, moments: float) -> float:
    """Return the asymptotic slope of the risk; -1 wherever sampling has the largest error."""
    if model_of(estimator) == "local" and not math.isinf(moments):
        return -(moments - 1) / moments
    return -1.0


def _fit(cell: Rows) -> Slope | None:
    rows = sorted((row for row in cell if row["clip"] != 0), key=lambda row: number(row, "people"))
    if len(rows) < 2:
        return None
    theory = limit_slope(str(rows[0]["estimator"]), number(rows[0], "moments"))
    rows = rows[_first_asymptotic(rows, theory) :]
    users = [int(number(row, "people")) for row in rows]
    relative = _column(rows, "risk_error") / _column(rows, "risk_measured")
    pull = _pull(np.log(users), 1 / np.maximum(relative, MIN_RELATIVE_ERROR) ** 2)
    fitted = float(pull @ np.log(_column(rows, "risk_measured")))
    exact = float(pull @ np.log(_column(rows, "risk_exact")))
    error = float(abs(pull) @ relative) + abs(exact - theory)
    names: dict[str, Any] = {
        key: rows[0][key] for key in ("model", "moments", "epsilon", "estimator")
    }
    return Slope(**names, first=users[0], last=users[-1], fitted=fitted, error=error, theory=theory)


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
