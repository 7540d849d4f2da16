"""What is said and drawn of a yes-or-no question."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.engine import comparison
from deniable.simulations.engine.comparison import DRAWN, SHUFFLED, THESE, Series, Side, number
from deniable.simulations.engine.figures import new_figure
from deniable.simulations.engine.study import Figure, Options, Report, Row, Table
from deniable.simulations.studies.bit.prices import drawn_price, exact_price, laplace_price
from deniable.simulations.studies.bit.series import GEOMETRIC, LAPLACE, LOCAL, NOISES, SERIES

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon = comparison.middle(options["epsilon"])
    people = comparison.middle(options["people"])
    prices = [_price(rows, e, n) for e in options["epsilon"] for n in options["people"]]
    shown = comparison.pick(rows, epsilon=epsilon)
    return Report(
        findings=_findings(options, rows, epsilon, people),
        figures=[
            Figure(
                "error",
                f"How far off an estimated share is, against the number of people, at ε {epsilon}: "
                "of the people who are asked, and of the population that they are drawn from. "
                "Lines are formulas, points are simulations; lower is better. 'Shuffled' "
                f"{comparison.TRUST}.",
                lambda: comparison.error_figure(
                    shown,
                    SERIES,
                    f"Error of a share, ε {epsilon}",
                    "± points (1.96 standard errors)",
                    100,
                    (THESE, DRAWN),
                ),
            ),
            Figure(
                "price",
                "The variance on devices divided by that of a trusted count. For these people it "
                "grows with them: one half for each person asked, at every ε, where the trusted "
                "count has geometric noise. For the population it depends on ε alone. Lines are "
                "formulas; points, with three standard errors, are simulations.",
                lambda: _price_figure(rows, options["share"]),
            ),
        ],
        tables=[
            *(
                comparison.error_table(
                    f"Error of the share of {side.label}, in points: 1.96 standard errors",
                    rows,
                    SERIES,
                    100,
                    "",
                    side,
                )
                for side in (THESE, DRAWN)
            ),
            Table(
                "Price of locality: local variance by central variance",
                [
                    "ε",
                    "these people, each, geometric",
                    "these people, each, Laplace",
                    "the population",
                ],
                [
                    [
                        str(p["epsilon"]),
                        *(f"{number(p, k) / number(p, 'people'):.6f}" for k in NOISES),
                        comparison.figure(number(p, "drawn")),
                    ]
                    for p in prices
                    if p["people"] == people
                ],
            ),
        ],
        method=[
            (
                "'These people' are fixed, and only noise is drawn; for 'the population' each "
                "person is drawn too, and the error has the spread of a sample. The mechanisms "
                "are the same. Both models keep ε for one person who gives the other answer."
            ),
            (
                "'Shuffled' are reports of randomized response at a larger ε₀, which together keep "
                f"(ε, {options['delta']:g}) for each person as long as the shuffler is honest and "
                "n people are: alone, a report keeps its ε₀."
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
    both = (number(comparison.one(found, mechanism=s.mechanism), "exact_drawn")
            for s in (LOCAL, GEOMETRIC))  # fmt: skip
    return {"epsilon": epsilon, "people": people, **prices, "drawn": next(both) / next(both)}


def _findings(options: Options, rows: Sequence[Row], epsilon: str, people: int) -> list[str]:
    found = comparison.pick(rows, epsilon=epsilon, people=people)
    local, central, local_drawn, central_drawn = (
        comparison.figure(
            100 * comparison.half_width(comparison.one(found, mechanism=s.mechanism), side)
        )
        for side in (THESE, DRAWN)
        for s in (LOCAL, GEOMETRIC)
    )
    price = exact_price(Epsilon(epsilon), people)
    drawn = comparison.figure(drawn_price(float(epsilon), options["share"]))
    return [
        (
            f"With {people:,} people at ε {epsilon}, devices that randomize give the share of "
            f"these people to ± {local} points, and that of the population they are drawn from to "
            f"± {local_drawn}; a trusted server to ± {central} and ± {central_drawn} points."
        ),
        (
            f"For these people the price of holding nobody's answer is n / 2 at every ε, here "
            f"{comparison.figure(float(price))} times the variance: what a trusted server "
            f"learns from 1,000 people takes "
            f"{comparison.figure(float(exact_price(Epsilon(epsilon), 1000)) * 1000)} devices. "
            f"For the population it tends to {drawn} times the people at this ε, however many are "
            "asked."
        ),
        _shuffled_words(found, options["delta"], people),
    ]


def _shuffled_words(found: Sequence[Row], delta: float, people: int) -> str:
    shuffled, central = (
        comparison.one(found, mechanism=s.mechanism) for s in (SHUFFLED, GEOMETRIC)
    )
    price = number(shuffled, "exact") / number(central, "exact")
    half = comparison.figure(100 * comparison.half_width(shuffled))
    return (
        "A shuffler of randomized responses at ε "
        f"{float(str(shuffled['report_epsilon'])):.2f} would give these people's share to ± {half} "
        f"points with δ {delta:g}, a price of {comparison.figure(price)} in place of "
        f"{comparison.figure(people / 2)}; it {comparison.TRUST}."
    )


def _price_figure(rows: Sequence[Row], share: float) -> matplotlib.figure.Figure:
    figure = new_figure(width=9.0, height=3.8)
    these, population = figure.subplots(1, 2)
    grid = np.geomspace(0.05, 8, 100)
    for series, curve, words in (
        (GEOMETRIC, np.full_like(grid, 0.5), "against a trusted count with geometric noise"),
        (LAPLACE, [laplace_price(float(e), 1) for e in grid], "against one with Laplace noise"),
    ):
        _draw_prices(these, rows, series, THESE)
        these.plot(grid, curve, color=series.look.color, ls=series.look.dash, label=words)
    these.set(ylim=(0, 0.6), ylabel="price / people", title="These people, for each person asked")
    _draw_prices(population, rows, GEOMETRIC, DRAWN)
    curve = [drawn_price(float(e), share) for e in grid]
    population.plot(grid, curve, color=GEOMETRIC.look.color, label="for many people")
    population.set(yscale="log", ylabel="price", title="The population they are drawn from")
    for axes in (these, population):
        axes.set(xscale="log", xlabel="ε")
        axes.set_xticks([0.1, 0.5, 1, 2, 4, 8], ["0.1", "0.5", "1", "2", "4", "8"])
        axes.minorticks_off()
        axes.legend(loc="best", fontsize=9)
        axes.grid(visible=True)
    return figure


def _draw_prices(
    axes: matplotlib.axes.Axes, rows: Sequence[Row], series: Series, side: Side
) -> None:
    measured, look = _measured_prices(rows, series, side), series.look
    if measured:
        epsilons, prices, bars = zip(*measured, strict=True)
        axes.errorbar(epsilons, prices, yerr=bars, fmt=look.marker, color=look.color, capsize=2)


def _measured_prices(
    rows: Sequence[Row], series: Series, side: Side
) -> list[tuple[float, float, float]]:
    """ε, the ratio of measured errors, for these people by people, and three of its standard
    errors, for the most people."""
    most, result = max(number(r, "people") for r in rows), []
    for central in comparison.pick(rows, mechanism=series.mechanism, people=most):
        if not number(central, side.measured):
            continue  # at a large ε, noise may be 0 in every repetition
        local = comparison.one(rows, model="local", people=most, epsilon=central["epsilon"])
        price = number(local, side.measured) / number(central, side.measured)
        price /= most if side is THESE else 1
        spread = math.hypot(
            *(number(r, side.error) / number(r, side.measured) for r in (local, central))
        )
        result.append((float(str(central["epsilon"])), price, 3 * spread * price))
    return result
