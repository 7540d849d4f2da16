"""A median, a quantile, the centre of a distribution: the value of interaction, and its price.

    local      sequential: "is yours above t?" by randomized response, t moved by each group's
               reports                      n variance -> (V + α (1 - α)) / f^2
    local      in two groups, and in one round (`quantile_search.py`)
    central    exponential mechanism        variance -> α (1 - α) / (n f^2) + 8 / (ε n f)^2
    none       the people's own quantile    variance -> α (1 - α) / (n f^2)

for the α-quantile, f being the density there and V = e^ε / (e^ε - 1)^2. People are drawn again in
each repetition, since devices estimate a quantile of the distribution that people are drawn from;
so the price of a median against no privacy is 1 / tanh(ε / 2)^2, whatever n. All are limits for
many people, and no local protocol beats the first for a quantile: change the density by a factor
1 + v sign(x - q); a report then has one bit of information about v, and is a function of randomized
response. For the centre, `quantile_search.centre_limit` is lower from ε = 1.04 on.

The centre of a normal distribution is its median: locally π σ^2 / (2 n tanh(ε / 2)^2), where one
bit of numbers clipped at 3 σ has 9 σ^2 / (n tanh(ε / 2)^2).

The search is Polyak's averaging of a Robbins-Monro walk: group number i is asked about t_i, then
t_(i+1) = t_i + step (share above - (1 - α)), step = 0.5 i^-0.6 of the range, and the quantile is
the mean of the t_i after the first fiftieth. Each person answers once.

Sources: variance of the averaged walk: Polyak, Juditsky 1992, "Acceleration of stochastic
approximation by averaging", SIAM J. Control Optim. 30(4). The centre, optimal for ε up to 1.04:
Kalinin, Steinberger 2025, AISTATS.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse, Unary
from deniable.simulations.engine import estimators, figures, option, sentences
from deniable.simulations.engine.estimators import THESE, Estimator, Risk, Rows, middle, number
from deniable.simulations.engine.sentences import figure
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.studies.bit_reports import BURN_IN, Array
from deniable.simulations.studies.median import quantile_search as quantiles
from deniable.simulations.studies.median.quantile_search import (
    CENTRE,
    CLIP,
    CLIPPED,
    GROUPS,
    NONE,
    ONCE,
    SEARCH,
    SIGMA,
    TRUSTED,
    TWO_GROUPS,
    Target,
)

MANY = 10_000  # people: from here on the search is near its limit
ESTIMATORS = (SEARCH, TRUSTED, NONE)
DEVICES = (SEARCH, TWO_GROUPS, ONCE, CLIP)
OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e3,1e4,1e5,1e6,1e7,1e8,1e9", 100),
    option.repetitions(1_000),
    option.Option(
        "quantile",
        "0.5",
        option.several(option.inside(0.01, 0.99)),
        "shares of people who are below it",
    ),
)


def cells(options: Options) -> Sequence[Cell]:
    targets = [("quantile", share) for share in options["quantile"]] + [("location", 0.5)]
    return [
        {"question": question, "share": share, **cell}
        for question, share in targets
        for cell in estimators.sweep(options, "epsilon", "people")
    ]


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    epsilon, people = Epsilon(str(cell["epsilon"])), int(cell["people"])
    target = Target(str(cell["question"]), float(cell["share"]))
    estimates = _estimates(epsilon, people, int(cell["repetitions"]), target, generator)
    return [
        estimators.row_of(
            one,
            {key: cell[key] for key in ("question", "share", "epsilon", "people")},
            {"limit": target.limit(one.model, epsilon, people)},
            Risk(
                None if one in (TWO_GROUPS, ONCE) else target.variance(one, epsilon, people),
                drawn - target.truth,
            ),
        )
        for one, drawn in estimates.items()
    ]


def _estimates(
    epsilon: Epsilon, people: int, times: int, target: Target, generator: Generator
) -> dict[Estimator, Array]:
    mechanism, unary, share = RandomizedResponse(epsilon), Unary(epsilon, 2), target.share
    ask = quantiles.crowd(mechanism, generator, target)
    local = {
        SEARCH: quantiles.search(mechanism, people, times, ask, share),
        TWO_GROUPS: quantiles.two_groups(mechanism, unary, people, times, target, generator),
        ONCE: quantiles.one_round(unary, people, times, target, generator),
    }
    if target.is_centre:  # clipped around it, as if known: as many numbers above as below
        ones = mechanism.unbiased_share(generator.binomial(people, 0.5, times) / people)
        mean = generator.normal(target.truth, SIGMA / np.sqrt(people), times)
        return {**local, CLIP: CENTRE + CLIPPED * SIGMA * (2 * ones - 1), NONE: mean}
    e = float(epsilon)
    first, points = quantiles.near_points(people, e, times, generator, share, target.quantile)
    own = quantiles.own_quantile(points, first, people, share)
    return {
        **local,
        TRUSTED: quantiles.choose(points, first, people, e, generator, share),
        NONE: own,
    }


def report(options: Options, found: Sequence[Row]) -> Report:
    every, epsilon = Rows(found), middle(options["epsilon"])
    targets = [Target("quantile", share) for share in options["quantile"]]
    target, centre = targets[0], Target("location", 0.5)
    rows, name = _about(every, target), _name(target)
    prices = [
        figures.Panel(f"The {_name(one)}", _price_curves(_about(every, one)), "ε",
                      "times the people, or the variance", reference=1.0)
        for one in (target, centre)
    ]  # fmt: skip
    return Report(
        _findings(every, options, target),
        [
            figures.ratio_figure(
                "limit",
                "Squared errors divided by the least of any local protocol, against the number of "
                f"people, at ε {epsilon}: the sequential search attains it for quantiles; two "
                "rounds, or one, cost more people. Points, with three standard errors, are "
                "simulations.",
                [
                    (
                        f"The {_name(one)}, ε {epsilon}",
                        _about(every, one).at(epsilon=epsilon),
                        _ratio,
                    )
                    for one in (*targets, centre)
                ],
                *(DEVICES, "people", "squared error / least possible"),
                bar=(_ratio, lambda row: 3 * number(row, "error") / number(row, "limit")),
            ),
            figures.error_figure(
                "error",
                f"The error of an estimated {name}, as a share of the range, against the number of "
                f"people, at ε {epsilon}. Lines are formulas for many people.",
                *(rows.at(epsilon=epsilon), ESTIMATORS, f"Error of a {name}, ε {epsilon}"),
                unit=estimators.RANGE_PERCENT,
                targets=[THESE],
            ),
            Figure(
                "price",
                "The variance on devices divided by that of the people's own quantile, or mean: it "
                "depends on ε, not on the number of people. Lines are formulas for many people.",
                lambda: figures.draw(prices),
            ),
        ],
        [
            *sentences.error_tables(
                f"Error of the {name}, in % of the range: 1.96 standard errors for many people",
                *(rows, ESTIMATORS, estimators.RANGE_PERCENT),
                targets=[THESE],
            ),
            *(_limit_table(_about(every, one), _name(one)) for one in (*targets, centre)),
        ],
        sentences.paragraphs(
            f"""People are drawn again in each repetition from the distribution
            F(x) = 1 - (1 - x^2)^5 on the range, which has its {name} at {target.truth:.4f} and
            density {target.density:.4f} there; for the centre, from a normal distribution with
            deviation {SIGMA:g} of the range.

            Sequential search: each person is asked once whether they are above a threshold, in up
            to {GROUPS:,} groups, by randomized response; each group's threshold depends on the
            groups before it. The search knows nothing about the distribution. The first 1/{BURN_IN}
            of the groups only approach the quantile, and are left out of the average.

            One round: a group for each level of a binary tree over the range, by unary encoding.
            Two groups: a tenth of the people in one round, then half of the others at one point
            below the resulting estimate and half above it, with a straight line between.

            The trusted server has the exponential mechanism on ranks, with e^(-ε/2) for each person
            off the quantile. With e^-ε, as it is often printed, it would spend 2 ε.

            Measured by {options["repetitions"]:,} repetitions. Lines are limits for many people,
            not exact errors."""
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


def _findings(every: Rows, options: Options, target: Target) -> list[str]:
    epsilon, people = middle(options["epsilon"]), middle(options["people"])
    rows = _about(every, target)
    cell = rows.at(epsilon=epsilon, people=people)
    measured = estimators.root("measured", estimators.RANGE_PERCENT.factor)
    errors = {one: f"± {figure(number(cell.one(one), measured))}" for one in ESTIMATORS}
    many = [row for row in rows.of(SEARCH) if number(row, "people") >= MANY]
    ratios = [_ratio(row) for row in many or rows.of(SEARCH)]
    centre = Target("location", 0.5)
    times = {
        one: centre.variance(one, Epsilon(epsilon), 1) / centre.variance(NONE, Epsilon(epsilon), 1)
        for one in (SEARCH, CLIP)
    }
    return sentences.paragraphs(
        f"""With {people:,} people at ε {epsilon}, a search on devices finds the {_name(target)} to
        {errors[SEARCH]} % of the range, a trusted server to {errors[TRUSTED]} %, and an estimate
        without privacy to {errors[NONE]} %.

        The price of locality is {cell.price(SEARCH, NONE):.2f} times the people at ε {epsilon},
        whatever their number, and no local protocol has a lower price; the search measured
        {min(ratios):.2f} to {max(ratios):.2f} times that limit. In two groups it needs
        {_ratio(cell.one(TWO_GROUPS)):.3g} times as many people, and
        {_ratio(cell.one(ONCE)):.3g} times in one round.

        The centre of a normal distribution takes {times[SEARCH]:.3g} times the people by the same
        search, and {times[CLIP]:.3g} times by one bit of numbers clipped at three deviations."""
    )


def _limit_table(rows: Rows, name: str) -> Table:
    def text(row: Row) -> str:
        return f"{_ratio(row):,.3f} ± {number(row, 'error') / number(row, 'limit'):,.3f}"

    return sentences.table(
        f"Squared error of the {name}, measured, divided by the limit of all local protocols",
        rows,
        {"ε": "epsilon", "people": "people"},
        {one.label: sentences.column(one, text) for one in DEVICES if rows.of(one)},
    )


def _price_curves(rows: Rows) -> list[figures.Curve]:
    """Return the prices of the largest crowd against ε, by formula and as measured."""
    largest = rows.at(people=max(number(row, "people") for row in rows))
    base = number(largest.of(NONE)[0], "exact")
    return [
        curve
        for one in (CLIP, SEARCH)
        for curve in figures.formula_and_points(
            *(largest.of(one), one.look, one.label, "epsilon"),
            lambda row: number(row, "exact") / base,
            lambda row: number(row, "measured") / base,
            lambda row: 3 * number(row, "error") / base,
        )
    ]


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
