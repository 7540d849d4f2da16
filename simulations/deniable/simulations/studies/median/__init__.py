"""A median, a quantile, or the centre of a distribution, with and without sequential questions.

`quantile_search` has the estimators, their variances for many people, and the limits. People are
drawn again in each repetition, since devices estimate a quantile of the distribution that people
are drawn from. So the price of a median against no privacy is 1 / tanh(ε / 2)^2, whatever n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from numpy.random import Generator

from deniable.shared.privacy.mechanisms import RandomizedResponse, Unary
from deniable.simulations.engine import estimators, figures, option, sentences
from deniable.simulations.engine.estimators import (
    THESE,
    Case,
    Estimator,
    Risk,
    Rows,
    middle,
    number,
)
from deniable.simulations.engine.sentences import figure
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.studies.bit_reports import BURN_IN, Array
from deniable.simulations.studies.median import quantile_search as quantiles
from deniable.simulations.studies.median.quantile_search import (
    CENTRE_TARGET,
    CLIP,
    NONE,
    ONCE,
    SEARCH,
    TRUSTED,
    TWO_GROUPS,
    Target,
)

MANY = 10_000  # people from which on the search is near its limit
ESTIMATORS = (SEARCH, TRUSTED, NONE)
DEVICES = (SEARCH, TWO_GROUPS, ONCE, CLIP)
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
    risks = {
        one: Risk(
            None if one in (TWO_GROUPS, ONCE) else target.variance(one, case.epsilon, case.people),
            drawn - target.truth,
        )
        for one, drawn in _estimates(case, target, generator).items()
    }
    limits = {
        model: {"limit": target.limit(model, case.epsilon, case.people)}
        for model in ("none", "central", "local")
    }
    return case.rows(("question", "share", "epsilon", "people"), risks, limits)


def _estimates(case: Case, target: Target, generator: Generator) -> dict[Estimator, Array]:
    people, times, share, e = case.people, case.repetitions, target.share, float(case.epsilon)
    mechanism, unary = RandomizedResponse(case.epsilon), Unary(case.epsilon, 2)
    ask = quantiles.crowd(mechanism, generator, target)
    local = {
        SEARCH: quantiles.search(mechanism, people, times, ask, share),
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


def report(options: Options, found: Sequence[Row]) -> Report:
    every, epsilon = Rows(found), middle(options["epsilon"])
    targets = [*(Target("quantile", share) for share in options["quantile"]), CENTRE_TARGET]
    target = targets[0]
    rows, name = _about(every, target), _name(target)
    ratios = [
        (f"The {_name(one)}, ε {epsilon}", _about(every, one).at(epsilon=epsilon), _ratio)
        for one in targets
    ]
    prices = [_price_panel(every, one) for one in (target, CENTRE_TARGET)]
    return Report(
        _findings(every, options, target),
        [
            figures.ratio_figure(
                "limit",
                "Squared errors divided by the least possible for any local protocol, against the "
                f"number of people, at ε {epsilon}: the sequential search reaches that limit for "
                "quantiles; one or two rounds need more people. Points, with three standard "
                "errors, are simulations.",
                *(ratios, DEVICES, "people", "squared error / least possible"),
                bar=(_ratio, _ratio_error),
            ),
            figures.error_figure(
                "error",
                f"The error of an estimated {name}, as a share of the range, against the number of "
                f"people, at ε {epsilon}. Lines are formulas for many people.",
                *(rows.at(epsilon=epsilon), ESTIMATORS, f"Error of a {name}, ε {epsilon}"),
                unit=RANGE,
                targets=[THESE],
            ),
            Figure(
                "price",
                "The variance on devices divided by that of the people's own quantile or mean: it "
                "depends on ε, not on the number of people. Lines are formulas for many people.",
                lambda: figures.draw(prices),
            ),
        ],
        [
            *sentences.error_tables(
                f"Error of the {name}, in % of the range: 1.96 standard errors for many people",
                *(rows, ESTIMATORS, RANGE),
                targets=[THESE],
            ),
            *(_limit_table(_about(every, one), _name(one)) for one in targets),
        ],
        sentences.paragraphs(
            f"""In each repetition people are drawn again from the distribution
            F(x) = 1 - (1 - x^2)^5 on the range, whose {name} is {target.truth:.4f}, with density
            {target.density:.4f}; for the centre, from a normal distribution whose deviation is
            {quantiles.SIGMA:g} of the range.

            Sequential search: each person is asked once whether their number is above a threshold,
            by randomized response, in up to {quantiles.GROUPS:,} groups. Each group's threshold
            depends on the groups before it. The search knows nothing about the distribution. The
            first 1/{BURN_IN} of the groups only approach the quantile, and are not averaged.

            One round: there is a group for each level of a binary tree over the range, which
            reports by unary encoding. Two groups: a tenth of the people are asked in one round,
            then half of the others at a point below the resulting estimate and half at a point
            above it, with a straight line between.

            The trusted server uses the exponential mechanism on ranks, with e^(-ε/2) for each
            person off the quantile. With e^-ε, as it is often printed, it would spend 2 ε.

            Measured errors come from {options["repetitions"]:,} repetitions. Lines are limits for
            many people, not exact errors."""
        ),
    )


def _name(target: Target) -> str:
    if target.is_centre:
        return "centre of a normal distribution"
    return "median" if target.share == 0.5 else f"{target.share:g} quantile"


def _about(rows: Rows, target: Target) -> Rows:
    return rows.at(question=target.question, share=target.share)


def _ratio(row: Row) -> float:
    return number(row, "measured") / number(row, "limit")


def _ratio_error(row: Row) -> float:
    return 3 * number(row, "error") / number(row, "limit")


def _findings(every: Rows, options: Options, target: Target) -> list[str]:
    epsilon, people = middle(options["epsilon"]), middle(options["people"])
    rows = _about(every, target)
    cell = rows.at(epsilon=epsilon, people=people)
    centre = _about(every, CENTRE_TARGET).at(epsilon=epsilon, people=people)
    measured = estimators.root("measured", RANGE.factor)
    errors = {one: f"± {figure(number(cell.one(one), measured))}" for one in ESTIMATORS}
    many = [row for row in rows.of(SEARCH) if number(row, "people") >= MANY]
    ratios = [_ratio(row) for row in many or rows.of(SEARCH)]
    return sentences.paragraphs(
        f"""With {people:,} people at ε {epsilon}, a search on devices finds the {_name(target)} to
        {errors[SEARCH]} % of the range, a trusted server to {errors[TRUSTED]} %, and an estimate
        without privacy to {errors[NONE]} %.

        The price of locality at ε {epsilon} is {cell.price(SEARCH, NONE):.2f} times as many people,
        however many there are; no local protocol has a lower price. The measured squared errors of
        the search are {min(ratios):.2f} to {max(ratios):.2f} times the limit, those of two groups
        {_ratio(cell.one(TWO_GROUPS)):.3g} times, and those of one round
        {_ratio(cell.one(ONCE)):.3g} times.

        For the centre of a normal distribution, the same search takes
        {centre.price(SEARCH, NONE):.3g} times as many people as no privacy, and one bit of numbers
        clipped at three deviations takes {centre.price(CLIP, NONE):.3g} times as many."""
    )


def _limit_table(rows: Rows, name: str) -> Table:
    def text(row: Row) -> str:
        return f"{_ratio(row):,.3f} ± {number(row, 'error') / number(row, 'limit'):,.3f}"

    return sentences.table(
        f"Measured squared error of the {name}, divided by the lower bound for local protocols",
        rows,
        {"ε": "epsilon", "people": "people"},
        {one.label: sentences.column(one, text) for one in DEVICES if rows.of(one)},
    )


def _price_panel(every: Rows, target: Target) -> figures.Panel:
    """Return the prices of the largest crowd against ε, by formula and as measured."""
    rows = _about(every, target)
    largest = rows.at(people=max(number(row, "people") for row in rows))
    base = number(largest.of(NONE)[0], "exact")
    curves = [
        curve
        for one in (CLIP, SEARCH)
        for curve in figures.formula_and_points(
            *(largest.of(one), one.look, one.label, "epsilon"),
            lambda row: number(row, "exact") / base,
            lambda row: number(row, "measured") / base,
            lambda row: 3 * number(row, "error") / base,
        )
    ]
    words = "times the people, or the variance"
    return figures.Panel(f"The {_name(target)}", curves, "ε", words, reference=1.0)


STUDY = Study(
    name="median",
    question="What does it cost to learn a median without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    where="pool",
    formulas=(
        (
            "devices that are asked in sequence",
            r"\dfrac{V + α(1 - α)}{n f^2}, \quad V = \dfrac{e^ε}{(e^ε - 1)^2}",
        ),
        ("a trusted server", r"\dfrac{α(1 - α)}{n f^2} + \dfrac{8}{(ε n f)^2}"),
        ("without privacy", r"\dfrac{α(1 - α)}{n f^2}"),
    ),
)
