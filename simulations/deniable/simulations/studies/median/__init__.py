"""A median, a quantile, or the centre of a distribution, with and without sequential questions.

`quantile_search` has the estimators, their variances for many people, and the limits;
`block_centres` has trusted servers that subsample and aggregate. People are drawn again in each
repetition, since devices estimate a quantile of the distribution that people are drawn from. So the
price of a median against no privacy is 1 / tanh(ε / 2)^2, whatever n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from numpy.random import Generator

from deniable.shared.privacy.mechanisms import RandomizedResponse, Unary
from deniable.simulations.engine import estimators, figures, option
from deniable.simulations.engine.estimators import Case, Estimator, Risk, Rows, number
from deniable.simulations.engine.figures import Panel
from deniable.simulations.engine.presentation import (
    View,
    error_tables,
    estimator_table,
    figure,
    margin,
    study,
    with_error,
)
from deniable.simulations.engine.study import Cell, Options, Report, Row, Table
from deniable.simulations.studies.bit_reports import BURN_IN, Array
from deniable.simulations.studies.median import block_centres as blocks
from deniable.simulations.studies.median import quantile_search as quantiles
from deniable.simulations.studies.median.block_centres import PRINTED, WINSORIZED
from deniable.simulations.studies.median.quantile_search import (
    CENTRE_TARGET,
    CLIP,
    DEVICES,
    ESTIMATORS,
    NONE,
    ONCE,
    SEARCH,
    TRUSTED,
    TWO_GROUPS,
    Target,
)

MANY = 10_000  # people from which on the search is near its limit
NEAR = 0.005  # standard error, in ranges, below which the search has a control variate
FEWER, ENOUGH = 4, 100  # times fewer repetitions of the search are enough then; least number of all
CENTRES = (NONE, *blocks.ESTIMATORS, SEARCH, CLIP)
CENTRE_NAME = "centre of a normal distribution"
RANGE = estimators.RANGE_PERCENT
OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e3,1e4,1e5,1e6,1e7,1e8,1e9", least=100),
    option.repetitions(1_000),
    option.Option(
        "quantile",
        "0.5",
        option.several(option.inside(0.01, 0.99)),
        "share of people below the quantile, with commas",
    ),
)


def cells(options: Options) -> Sequence[Cell]:
    targets = [Target("quantile", share) for share in options["quantile"]]
    return [
        {"question": target.question, "share": target.share, **cell}
        for target in (*targets, CENTRE_TARGET)
        for cell in estimators.sweep(options, "epsilon", "people")
    ]


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    case = Case(cell, generator)
    target = Target(case.question, case.share)
    crowd = quantiles.Crowd(RandomizedResponse(case.epsilon), generator, target)
    near = target.variance(SEARCH, case.epsilon, case.people) < NEAR**2
    controlled = near and case.repetitions >= ENOUGH
    risks = {
        one: Risk(
            None if one in (TWO_GROUPS, ONCE) else target.variance(one, case.epsilon, case.people),
            drawn - target.truth,
            columns={"blocks": None},
            control=crowd.control if controlled and one is SEARCH else 0.0,
        )
        for one, drawn in _estimates(case, crowd, FEWER if controlled else 1).items()
    }
    risks |= blocks.risks(case) if target.is_centre else {}
    limits = {
        model: {"limit": target.limit(model, case.epsilon, case.people)}
        for model in ("none", "central", "local")
    }
    return case.rows(("question", "share", "epsilon", "people"), risks, limits)


def _estimates(case: Case, crowd: quantiles.Crowd, fewer: int) -> dict[Estimator, Array]:
    mechanism, generator, target = crowd.mechanism, crowd.generator, crowd.target
    people, times, share, e = case.people, case.repetitions, target.share, float(case.epsilon)
    unary = Unary(case.epsilon, 2)
    local = {
        SEARCH: quantiles.search(mechanism, people, times // fewer, crowd, share),
        TWO_GROUPS: quantiles.two_groups(mechanism, unary, people, times, target, generator),
        ONCE: quantiles.one_round(unary, people, times, target, generator),
    }
    if target.is_centre:
        clipped = quantiles.clipped_mean(mechanism, people, times, generator)
        mean = generator.normal(target.truth, quantiles.SIGMA / math.sqrt(people), times)
        return {**local, CLIP: clipped, NONE: mean}
    first, points = quantiles.near_points(people, e, times, generator, target)
    return {
        **local,
        TRUSTED: quantiles.choose(points, first, people, e, generator, share),
        NONE: quantiles.own_quantile(points, first, people, share),
    }


def report(view: View) -> Report:
    epsilon, most = view.epsilon, max(view.options["people"])
    targets = [*(Target("quantile", share) for share in view.options["quantile"]), CENTRE_TARGET]
    target, name = targets[0], _name(targets[0])
    rows, centres = _about(view.rows, target), _about(view.rows, CENTRE_TARGET)
    cell, centre = (part.at(epsilon=epsilon, people=view.people) for part in (rows, centres))
    largest = centres.at(epsilon=epsilon, people=most)
    searched = rows.of(SEARCH)
    ratios = [_ratio(row) for row in searched if number(row, "people") >= MANY or most < MANY]
    errors = estimators.root("measured", RANGE.factor)
    values = {
        "name": name,
        "errors": {one.name: margin(figure(number(cell.one(one), errors))) for one in ESTIMATORS},
        "price": cell.price(SEARCH, NONE),
        "least": min(ratios),
        "largest": max(ratios),
        "two_groups": _ratio(cell.one(TWO_GROUPS)),
        "once": _ratio(cell.one(ONCE)),
        "centre_search": centre.price(SEARCH, NONE),
        "centre_clip": centre.price(CLIP, NONE),
        "winsorized": _measured_n(centre.one(WINSORIZED)),
        "printed": _measured_n(centre.one(PRINTED)),
        "many": _measured_n(largest.one(WINSORIZED)),
        "printed_many": _measured_n(largest.one(PRINTED)),
        "truth": target.truth,
        "density": target.density,
        "sigma": quantiles.SIGMA,
        "groups": quantiles.GROUPS,
        "fewer": FEWER,
        "near": 100 * NEAR,
        "burn_in": BURN_IN,
        "block_repetitions": blocks.MAX_REPETITIONS,
    }
    parts = [
        (f"The {_name(one)}, ε {epsilon}", _about(view.rows, one).at(epsilon=epsilon), _ratio)
        for one in targets
    ]
    unit = "squared error / least possible"
    return view.report(
        values,
        {
            "limit": figures.ratios(parts, DEVICES, "people", unit, bar=_ratio_error),
            "error": figures.errors(
                *(rows.at(epsilon=epsilon), ESTIMATORS, f"Error of a {name}, ε {epsilon}", RANGE),
                targets=[estimators.THESE],
            ),
            "price": figures.drawing(_price_panel(rows, name), _price_panel(centres, CENTRE_NAME)),
            "blocks": figures.drawing(_block_panel(centres.at(epsilon=epsilon), epsilon)),
        },
        [
            *error_tables(
                f"Error of the {name}, in % of the range: 1.96 standard errors for many people",
                *(rows, ESTIMATORS, RANGE),
                targets=[estimators.THESE],
            ),
            *(_limit_table(_about(view.rows, one), _name(one)) for one in targets),
            estimator_table(
                "n times the squared error of a centre, in squared deviations, measured",
                *(centres, CENTRES, _measured_n),
            ),
        ],
    )


def _name(target: Target) -> str:
    if target.is_centre:
        return CENTRE_NAME
    return "median" if target.share == 0.5 else f"{target.share:g} quantile"


def _about(rows: Rows, target: Target) -> Rows:
    return rows.at(question=target.question, share=target.share)


def _ratio(row: Row) -> float:
    return number(row, "measured") / number(row, "limit")


def _ratio_error(row: Row) -> float:
    return 3 * number(row, "error") / number(row, "limit")


def _limit_table(rows: Rows, name: str) -> Table:
    def text(row: Row) -> str:
        error = number(row, "error") / number(row, "limit")
        return with_error(f"{_ratio(row):,.3f}", f"{error:,.3f}")

    title = f"Measured squared error of the {name}, divided by the lower bound for local protocols"
    return estimator_table(title, rows, [one for one in DEVICES if rows.of(one)], text)


def _price_panel(rows: Rows, name: str) -> Panel:
    largest = rows.at(people=max(number(row, "people") for row in rows))
    base = number(largest.of(NONE)[0], "exact")
    curves = figures.scaled(lambda _: 1 / base).curves_of((CLIP, SEARCH), largest, "epsilon")
    return Panel(f"The {name}", curves, "ε", "times the people, or the variance", reference=1.0)


def _block_panel(rows: Rows, epsilon: str) -> Panel:
    limit = figures.curve(
        *(rows.of(SEARCH), SEARCH.look, "people", lambda r: _times_n(r) * number(r, "limit")),
        *("local limit", "limit"),
    )
    title, y = f"The {CENTRE_NAME}, ε {epsilon}", "n × mean squared error, squared deviations"
    curves = figures.scaled(_times_n).curves_of(CENTRES, rows, "people")
    return Panel(title, [*curves, limit], "people", y)


def _times_n(row: Row) -> float:
    """Return the factor from a squared error to n times it, in squared deviations."""
    return number(row, "people") / quantiles.SIGMA**2


def _measured_n(row: Row) -> str:
    measured, error = (_times_n(row) * number(row, key) for key in ("measured", "error"))
    return with_error(figure(measured), figure(error))


STUDY = study("median", OPTIONS, cells, run, report)
