"""A yes-or-no question: randomized response against a trusted count, and the price of locality.

                                               these people     the population they are drawn from
    local      randomized response             V / n            (V + s (1 - s)) / n
    central    geometric noise on the count    2 V / n^2        s (1 - s) / n + 2 V / n^2
    central    Laplace noise on the count      2 / (ε n)^2      s (1 - s) / n + 2 / (ε n)^2
    shuffled   randomized response at ε₀       V(ε₀) / n        (V(ε₀) + s (1 - s)) / n

are the variances, with V = e^ε / (e^ε - 1)^2 and s the share of yes. Both models keep ε for one
person who answers otherwise; shuffled reports keep (ε, δ) if the shuffler and n people are honest
(`frame/shuffler.py`), and no limit of theirs is known here.

For these people the first ratio is n / 2 for every ε, exactly: with a = p / q, randomized response
has p q / (p - q)^2 = a / (a - 1)^2, and geometric noise twice that. Against Laplace noise it is
less, (n / 2) (ε / 2)^2 / sinh(ε / 2)^2, as Laplace wastes what it could save by being whole. For
the population the price is 1 + V / (s (1 - s)) however many are asked: 1 / tanh(ε / 2)^2 at one
half.

Limits, for many people: randomized response, since every report about two points is a function of
one [1], and geometric noise among releases of a count [2].

[1] Kairouz, Oh, Viswanath 2015, "The composition theorem for differential privacy", ICML.
[2] Ghosh, Roughgarden, Sundararajan 2009, "Universally utility-maximizing privacy mechanisms",
    STOC; Gupte, Sundararajan 2010, "Universally optimal privacy mechanisms for minimax agents".

The JSON form: `options`, `cells` (`model`, `mechanism`, `epsilon`, `people`, `exact`, `measured`,
`measured_error`, `repetitions`, mean squared errors of these people's share; `exact_drawn`,
`measured_drawn`, `error_drawn` of the population's; `limit`, `limit_drawn`, null for shuffled
reports; `report_epsilon` of one report, null where there are none) and `prices`
(`epsilon`, `people`, `geometric`, `laplace`, `drawn`: the local error by the central one, the last
by geometric noise for the population).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from deniable.server.planning.shuffled import report_epsilon
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central import GeometricCounts
from deniable.simulations.frame import comparison, option, shuffler
from deniable.simulations.frame.comparison import DRAWN, THESE, Series, Side, look, number
from deniable.simulations.frame.figures import new_figure
from deniable.simulations.frame.shuffler import SHUFFLED
from deniable.simulations.frame.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.population import discrete_laplace, drawn, fixed

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


LOCAL = Series("local", "randomized-response", "randomized response", look(0))
GEOMETRIC = Series("central", "geometric", "trusted, geometric", look(1))
LAPLACE = Series("central", "laplace", "trusted, Laplace", look(2))
SERIES = (LOCAL, SHUFFLED, GEOMETRIC, LAPLACE)
NOISES = ("geometric", "laplace")
Array = NDArray[np.float64]


OPTIONS = (
    option.epsilons("0.1,0.5,1,2,4"),
    option.people("1e2,1e3,1e4,1e5,1e6,1e7,1e8,1e9"),
    option.repetitions(20_000),
    option.Option("share", 0.3, option.share, "share of people who say yes", "SHARE"),
    shuffler.option_for(),
)


def cells(options: Options) -> Sequence[Cell]:
    return [
        {
            "epsilon": e,
            "people": n,
            "share": options["share"],
            "delta": options["delta"],
            "repetitions": options["repetitions"],
        }
        for e in options["epsilon"]
        for n in options["people"]
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    epsilon, people, times = str(cell["epsilon"]), int(cell["people"]), int(cell["repetitions"])
    share = float(cell["share"])
    yes = round(people * share)
    mechanism, trusted = RandomizedResponse(Epsilon(epsilon)), GeometricCounts(Epsilon(epsilon))
    mixed = report_epsilon(Epsilon(epsilon), people, float(cell["delta"]))
    reported = {LOCAL: mechanism, SHUFFLED: RandomizedResponse(mixed)}
    scale = 1 / (float(Epsilon(epsilon)) * people)
    noise = {
        LOCAL: _noise(mechanism, people, yes, times, generator),
        GEOMETRIC: discrete_laplace(trusted.noise, times, generator) / people,
        LAPLACE: generator.laplace(0, scale, times),
    }
    exact = {
        LOCAL: mechanism.variance(people, yes / people),
        GEOMETRIC: trusted.variance(people),
        LAPLACE: 2 * scale**2,
        SHUFFLED: reported[SHUFFLED].variance(people, yes / people),
    }
    least = {LOCAL: exact[LOCAL], GEOMETRIC: exact[GEOMETRIC], LAPLACE: exact[GEOMETRIC]}
    sampling = share * (1 - share) / people
    errors = {LOCAL: _drawn_errors(mechanism, people, share, times, generator)}
    sampled = generator.binomial(people, share, times) / people - share
    errors |= {series: sampled + noise[series] for series in (GEOMETRIC, LAPLACE)}
    noise[SHUFFLED] = _noise(reported[SHUFFLED], people, yes, times, generator)
    errors[SHUFFLED] = _drawn_errors(reported[SHUFFLED], people, share, times, generator)
    return [
        comparison.row(series, epsilon, people, exact[series], noise[series])
        | comparison.drawn_columns(exact[series] + sampling, errors[series])
        | {
            "limit": least.get(series),
            "limit_drawn": least[series] + sampling if series in least else None,
            "report_epsilon": str(reported[series].epsilon) if series in reported else None,
        }
        for series in SERIES
    ]


def _noise(
    mechanism: RandomizedResponse, people: int, yes: int, times: int, generator: np.random.Generator
) -> Array:
    """What reports of these people are off by."""
    ones = fixed(mechanism, [people - yes, yes], times, generator).counts[:, 1]
    return _share_of(mechanism, ones, people) - yes / people


def _drawn_errors(
    mechanism: RandomizedResponse,
    people: int,
    share: float,
    times: int,
    generator: np.random.Generator,
) -> Array:
    """The same of people who are drawn with this share."""
    ones = drawn(mechanism, [1 - share, share], people, times, generator).counts[:, 1]
    return _share_of(mechanism, ones, people) - share


def _share_of(mechanism: RandomizedResponse, ones: NDArray[np.int64], people: int) -> Array:
    keep, lie = mechanism.keep / ONE, mechanism.lie / ONE
    return np.asarray((ones - people * lie) / (people * (keep - lie)))


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


def drawn_price(epsilon: float, share: float) -> float:
    """For the population that people are drawn from, as they grow without end; at shares where
    people do not differ there is no sampling, and the price grows as for these people."""
    if share in (0.0, 1.0):
        return math.inf
    return 1 + 1 / (4 * math.sinh(epsilon / 2) ** 2 * share * (1 - share))


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
                f"{shuffler.TRUST}.",
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
        f"{comparison.figure(people / 2)}; it {shuffler.TRUST}."
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


STUDY = Study(
    name="bit",
    question="What does it cost to ask a yes-or-no question without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        ("devices, these people", "V / n, V = e^ε / (e^ε - 1)^2"),
        ("a trusted server, these people", "2 V / n^2"),
        ("devices, their population with a share s of yes", "(V + s (1 - s)) / n"),
        ("a trusted server, their population", "s (1 - s) / n + 2 V / n^2"),
    ),
)
