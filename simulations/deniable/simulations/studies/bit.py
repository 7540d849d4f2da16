"""A yes-or-no question: randomized response against a trusted count, and the price of locality.

    local      randomized response            variance  V / n        V = e^ε / (e^ε - 1)^2
    central    geometric noise on the count             2 V / n^2
    central    Laplace noise on the count               2 / (ε n)^2

Both keep ε for one person who answers otherwise, and the first ratio is n / 2 for every ε, exactly:
with a = p / q, randomized response has p q / (p - q)^2 = a / (a - 1)^2, and geometric noise twice
that. Against Laplace noise it is less, (n / 2) (ε / 2)^2 / sinh(ε / 2)^2, as Laplace wastes what
it could save by being whole.

The JSON form: `options`, `cells` (`model`, `mechanism`, `epsilon`, `people`, `exact`, `measured`,
`measured_error`, `repetitions`; mean squared errors of the share) and `prices` (`epsilon`,
`people`, `geometric`, `laplace`: the local error by the central one).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central import GeometricCounts
from deniable.simulations.frame import comparison, option
from deniable.simulations.frame.comparison import Series, look, number
from deniable.simulations.frame.figures import new_figure
from deniable.simulations.frame.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.population import discrete_laplace, fixed

if TYPE_CHECKING:
    import matplotlib.figure


LOCAL = Series("local", "randomized-response", "randomized response", look(0))
GEOMETRIC = Series("central", "geometric", "trusted, geometric", look(1))
LAPLACE = Series("central", "laplace", "trusted, Laplace", look(2))
SERIES = (LOCAL, GEOMETRIC, LAPLACE)
NOISES = ("geometric", "laplace")


OPTIONS = (
    option.epsilons("0.1,0.5,1,2,4"),
    option.people("1e2,1e3,1e4,1e5,1e6,1e7,1e8,1e9"),
    option.repetitions(20_000),
    option.Option("share", 0.3, option.share, "share of people who say yes", "SHARE"),
)


def cells(options: Options) -> Sequence[Cell]:
    return [
        {
            "epsilon": e,
            "people": n,
            "share": options["share"],
            "repetitions": options["repetitions"],
        }
        for e in options["epsilon"]
        for n in options["people"]
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    epsilon, people, times = str(cell["epsilon"]), int(cell["people"]), int(cell["repetitions"])
    yes = round(people * float(cell["share"]))
    mechanism, trusted = RandomizedResponse(Epsilon(epsilon)), GeometricCounts(Epsilon(epsilon))
    ones = fixed(mechanism, [people - yes, yes], times, generator).counts[:, 1]
    keep, lie = mechanism.keep / ONE, mechanism.lie / ONE
    scale = 1 / (float(Epsilon(epsilon)) * people)
    local = (ones - people * lie) / (people * (keep - lie)) - yes / people
    geometric = discrete_laplace(trusted.noise, times, generator) / people
    laplace = generator.laplace(0, scale, times)
    exact = mechanism.variance(people, yes / people)
    return [
        comparison.row(LOCAL, epsilon, people, exact, local),
        comparison.row(GEOMETRIC, epsilon, people, trusted.variance(people), geometric),
        comparison.row(LAPLACE, epsilon, people, 2 * scale**2, laplace),
    ]


def exact_price(epsilon: Epsilon, people: int) -> Fraction:
    """The variance of randomized response divided by geometric noise's, in whole numbers, from the
    realised ratio a: n / 2."""
    mechanism = RandomizedResponse(epsilon)
    keep, lie = Fraction(mechanism.keep, ONE), Fraction(mechanism.lie, ONE)
    a = keep / lie
    local = keep * lie / (keep - lie) ** 2 / people
    return local / (2 * a / (a - 1) ** 2 / people**2)


def laplace_price(epsilon: float, people: int) -> float:
    return people / 2 * (epsilon / 2 / math.sinh(epsilon / 2)) ** 2


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon = comparison.middle(options["epsilon"])
    people = comparison.middle(options["people"])
    prices = [_price(rows, e, n) for e in options["epsilon"] for n in options["people"]]
    shown = comparison.pick(rows, epsilon=epsilon)
    return Report(
        findings=_findings(rows, epsilon, people),
        figures=[
            Figure(
                "error",
                f"How far off an estimated share is, against the number of people, at ε {epsilon}. "
                "Lines are formulas, points are simulations; lower is better.",
                lambda: comparison.error_figure(
                    shown,
                    SERIES,
                    f"Error of a share, ε {epsilon}",
                    "± points (1.96 standard errors)",
                    100,
                ),
            ),
            Figure(
                "price",
                "The variance on devices divided by that of a trusted count, for each person "
                "asked: one half at every ε where the trusted count has geometric noise. "
                "Lines are formulas; points, with three standard errors, are simulations.",
                lambda: _price_figure(rows),
            ),
        ],
        tables=[
            comparison.error_table(
                "Error of the estimated share, in points: 1.96 standard errors",
                rows,
                SERIES,
                100,
                "",
            ),
            Table(
                "Price of locality: local variance by central variance, for each person asked",
                ["ε", "against geometric", "against Laplace"],
                [
                    [
                        str(p["epsilon"]),
                        *(f"{number(p, k) / number(p, 'people'):.6f}" for k in NOISES),
                    ]
                    for p in prices
                    if p["people"] == people
                ],
            ),
        ],
        method=[
            (
                "The people are fixed, and only noise is drawn: errors are about the people who "
                "were asked. Both models keep ε for one person who gives the other answer."
            ),
            comparison.check_words(rows),
            (
                "A count of randomized responses is drawn as the sum of two binomials, and "
                "geometric noise as a difference of two geometric numbers: exactly the "
                "distribution that devices, or a trusted server, would give."
            ),
        ],
        document={**comparison.cells_document(options, rows), "prices": prices},
    )


def _price(rows: Sequence[Row], epsilon: str, people: int) -> dict[str, str | int | float]:
    found = comparison.pick(rows, epsilon=epsilon, people=people)
    local = number(comparison.one(found, model="local"), "exact")
    prices = {k: local / number(comparison.one(found, mechanism=k), "exact") for k in NOISES}
    return {"epsilon": epsilon, "people": people, **prices}


def _findings(rows: Sequence[Row], epsilon: str, people: int) -> list[str]:
    found = comparison.pick(rows, epsilon=epsilon, people=people)
    local, central = (
        comparison.figure(100 * comparison.half_width(comparison.one(found, mechanism=m)))
        for m in ("randomized-response", "geometric")
    )
    price = exact_price(Epsilon(epsilon), people)
    return [
        (
            f"With {people:,} people at ε {epsilon}, devices that randomize give a share to "
            f"± {local} points; a trusted server would give it to ± {central} points."
        ),
        (
            f"The price of holding nobody's answer is n / 2 at every ε, here "
            f"{comparison.figure(float(price))} times the variance: what a trusted server "
            f"learns from 1,000 people takes "
            f"{comparison.figure(float(exact_price(Epsilon(epsilon), 1000)) * 1000)} devices."
        ),
    ]


def _price_figure(rows: Sequence[Row]) -> matplotlib.figure.Figure:
    figure = new_figure(height=3.8)
    axes = figure.subplots()
    grid = np.geomspace(0.05, 8, 100)
    for series, curve, words in (
        (GEOMETRIC, np.full_like(grid, 0.5), "against a trusted count with geometric noise"),
        (LAPLACE, [laplace_price(float(e), 1) for e in grid], "against one with Laplace noise"),
    ):
        look = series.look
        axes.plot(grid, curve, color=look.color, linestyle=look.dash, label=words)
        epsilons, prices, bars = zip(*_measured_prices(rows, series), strict=True)
        axes.errorbar(epsilons, prices, yerr=bars, fmt=look.marker, color=look.color, capsize=2)
    axes.set(xscale="log", ylim=(0, 0.6), xlabel="ε", ylabel="price / people")
    axes.set_title("Price of locality, for each person asked")
    axes.set_xticks([0.1, 0.5, 1, 2, 4, 8], ["0.1", "0.5", "1", "2", "4", "8"])
    axes.minorticks_off()
    axes.legend(loc="lower left")
    axes.grid(visible=True)
    return figure


def _measured_prices(rows: Sequence[Row], series: Series) -> list[tuple[float, float, float]]:
    """ε, the ratio of measured errors by people, and three of its standard errors, for the most
    people."""
    most, result = max(number(r, "people") for r in rows), []
    for central in comparison.pick(rows, mechanism=series.mechanism, people=most):
        local = comparison.one(rows, model="local", people=most, epsilon=central["epsilon"])
        price = number(local, "measured") / number(central, "measured") / most
        spread = math.hypot(
            *(number(r, "measured_error") / number(r, "measured") for r in (local, central))
        )
        result.append((float(str(central["epsilon"])), price, 3 * spread * price))
    return result


STUDY = Study(
    name="bit",
    question="What does it cost to ask a yes-or-no question without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
)
