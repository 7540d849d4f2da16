"""A yes-or-no question: randomized response against a trusted count, and the price of locality.

                                               these people     the population they are drawn from
    local      randomized response             V / n            (V + s (1 - s)) / n
    central    geometric noise on the count    2 V / n^2        s (1 - s) / n + 2 V / n^2
    central    Laplace noise on the count      2 / (ε n)^2      s (1 - s) / n + 2 / (ε n)^2
    shuffled   randomized response at ε₀       V(ε₀) / n        (V(ε₀) + s (1 - s)) / n

are the variances, with V = e^ε / (e^ε - 1)^2 and s the share of yes. Local and central mechanisms
protect one person's answer with ε. Shuffled reports have (ε, δ) if the shuffler and n people are
honest (`engine/comparison.py`); no limit is known for them here.

For these people the price against geometric noise is n / 2 for every ε, exactly: with a = p / q,
randomized response has p q / (p - q)^2 = a / (a - 1)^2, and geometric noise twice that. Laplace
noise ignores that counts are whole numbers, so the price against it is smaller:
(n / 2) (ε / 2)^2 / sinh(ε / 2)^2. For the population the price is 1 + V / (s (1 - s)), whatever the
number of people: 1 / tanh(ε / 2)^2 at s = 1/2.

Limits, for many people: randomized response, since every report about two points is a function of
one [1], and geometric noise among releases of a count [2].

[1] Kairouz, Oh, Viswanath 2015, "The composition theorem for differential privacy", ICML.
[2] Ghosh, Roughgarden, Sundararajan 2009, "Universally utility-maximizing privacy mechanisms",
    STOC; Gupte, Sundararajan 2010, "Universally optimal privacy mechanisms for minimax agents".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from deniable.server.estimation.amplification import report_epsilon
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central import GeometricCounts, discrete_laplace
from deniable.simulations.engine import comparison, option
from deniable.simulations.engine.comparison import (
    DRAWN,
    SHUFFLED,
    THESE,
    TRUST,
    Series,
    Side,
    delta_option,
    figure,
    half_width,
    look,
    number,
    one,
    pick,
)
from deniable.simulations.engine.figures import new_figure, plain_ticks
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.population import drawn, fixed
from deniable.simulations.studies.building_blocks import bars, grid, paragraphs

if TYPE_CHECKING:
    import matplotlib.figure

Array = NDArray[np.float64]
LOCAL = Series("local", "randomized-response", "randomized response", look(0))
GEOMETRIC = Series("central", "geometric", "trusted, geometric", look(1))
LAPLACE = Series("central", "laplace", "trusted, Laplace", look(2))
SERIES = (LOCAL, SHUFFLED, GEOMETRIC, LAPLACE)
NOISES = ("geometric", "laplace")
OPTIONS = (
    option.epsilons("0.1,0.5,1,2,4"),
    option.people("1e2,1e3,1e4,1e5,1e6,1e7,1e8,1e9"),
    option.repetitions(20_000),
    option.Option("share", 0.3, option.share, "share of people who say yes", "SHARE"),
    delta_option(),
)


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    epsilon, people, times = str(cell["epsilon"]), int(cell["people"]), int(cell["repetitions"])
    share = float(cell["share"])
    yes = round(people * share)
    mechanism, trusted = RandomizedResponse(Epsilon(epsilon)), GeometricCounts(Epsilon(epsilon))
    mixed = RandomizedResponse(report_epsilon(Epsilon(epsilon), people, float(cell["delta"])))
    reported = {LOCAL: mechanism, SHUFFLED: mixed}
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
        SHUFFLED: mixed.variance(people, yes / people),
    }
    least = {LOCAL: exact[LOCAL], GEOMETRIC: exact[GEOMETRIC], LAPLACE: exact[GEOMETRIC]}
    sampling = share * (1 - share) / people
    errors = {LOCAL: _drawn_errors(mechanism, people, share, times, generator)}
    sampled = generator.binomial(people, share, times) / people - share
    errors |= {series: sampled + noise[series] for series in (GEOMETRIC, LAPLACE)}
    noise[SHUFFLED] = _noise(mixed, people, yes, times, generator)
    errors[SHUFFLED] = _drawn_errors(mixed, people, share, times, generator)
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
    mechanism: RandomizedResponse, people: int, yes: int, times: int, generator: Generator
) -> Array:
    """Return the errors of the estimated share, where the people are fixed."""
    ones = fixed(mechanism, [people - yes, yes], times, generator).counts[:, 1]
    return _share_of(mechanism, ones, people) - yes / people


def _drawn_errors(
    mechanism: RandomizedResponse, people: int, share: float, times: int, generator: Generator
) -> Array:
    """Return the errors where the people are drawn from a population with this share."""
    ones = drawn(mechanism, [1 - share, share], people, times, generator).counts[:, 1]
    return _share_of(mechanism, ones, people) - share


def _share_of(mechanism: RandomizedResponse, ones: NDArray[np.int64], people: int) -> Array:
    keep, lie = mechanism.keep / ONE, mechanism.lie / ONE
    return np.asarray((ones - people * lie) / (people * (keep - lie)))


# Prices: the variance on devices divided by that of a trusted count


def exact_price(epsilon: Epsilon, people: int) -> Fraction:
    """Return n / 2: the price against geometric noise, as a fraction of the integers in use."""
    mechanism = RandomizedResponse(epsilon)
    keep, lie = Fraction(mechanism.keep, ONE), Fraction(mechanism.lie, ONE)
    a = keep / lie
    local = keep * lie / (keep - lie) ** 2 / people
    return local / (2 * a / (a - 1) ** 2 / people**2)


def laplace_price(epsilon: float, people: int) -> float:
    return people / 2 * (epsilon / 2 / math.sinh(epsilon / 2)) ** 2


def drawn_price(epsilon: float, share: float) -> float:
    """Return the limit of the price for the population, as the people increase.

    At a share of 0 or 1 people do not differ: there is no sampling error, and no finite limit.
    """
    if share in (0.0, 1.0):
        return math.inf
    return 1 + 1 / (4 * math.sinh(epsilon / 2) ** 2 * share * (1 - share))


def _price(rows: Sequence[Row], epsilon: str, people: int) -> dict[str, str | int | float]:
    cell = {row["mechanism"]: row for row in pick(rows, epsilon=epsilon, people=people)}
    local, geometric = cell[LOCAL.mechanism], cell[GEOMETRIC.mechanism]
    prices = {name: number(local, "exact") / number(cell[name], "exact") for name in NOISES}
    drawn = number(local, "exact_drawn") / number(geometric, "exact_drawn")
    return {"epsilon": epsilon, "people": people, **prices, "drawn": drawn}


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, people = (comparison.middle(options[key]) for key in ("epsilon", "people"))
    prices = [_price(rows, e, n) for e in options["epsilon"] for n in options["people"]]
    shown = pick(rows, epsilon=epsilon)
    unit = "± points (1.96 standard errors)"
    error_caption, price_caption = paragraphs(
        f"""The error of an estimated share against the number of people, at ε {epsilon}: for the
        people who are asked, and for the population they are drawn from. Lines are formulas,
        points are simulations; lower is better. The shuffled share {TRUST}.

        The variance on devices divided by that of a trusted count. For these people it grows in
        proportion to their number: against geometric noise it is half of it, at every ε. For the
        population it depends on ε only. Lines are formulas; points, with three standard errors,
        are simulations."""
    )
    return Report(
        findings=_findings(options, rows, epsilon, people),
        figures=[
            Figure(
                "error",
                error_caption,
                lambda: comparison.error_figure(
                    shown, SERIES, f"Error of a share, ε {epsilon}", unit, 100, (THESE, DRAWN)
                ),
            ),
            Figure("price", price_caption, lambda: _price_figure(rows, options["share"])),
        ],
        tables=[
            *(
                comparison.error_table(
                    f"Error of the share of {side.label}, in points: 1.96 standard errors",
                    *(rows, SERIES, 100, "", side),
                )
                for side in (THESE, DRAWN)
            ),
            Table(
                "Price of locality: local variance divided by central variance",
                ["ε", "per person asked, geometric", "per person asked, Laplace", "population"],
                [
                    [
                        str(price["epsilon"]),
                        *(f"{number(price, key) / people:.6f}" for key in NOISES),
                        figure(number(price, "drawn")),
                    ]
                    for price in prices
                    if price["people"] == people
                ],
            ),
        ],
        method=paragraphs(
            f"""'These people' are fixed, and only the noise is drawn. For 'the population' each
            person is drawn too, and the error includes the sampling error. The mechanisms are the
            same. Both models protect one person's answer with ε.

            Shuffled reports are randomized responses at a larger ε₀. Together they have
            (ε, {options["delta"]:g}) for each person as long as the shuffler and n people are
            honest; alone, a report has ε₀.

            {comparison.check_words(rows)}

            A count of randomized responses is drawn as the sum of two binomials, and geometric
            noise as the difference of two geometric numbers: exactly the distribution that devices,
            or a trusted server, would produce."""
        ),
        document={**comparison.cells_document(options, rows), "prices": prices},
    )


def _findings(options: Options, rows: Sequence[Row], epsilon: str, people: int) -> list[str]:
    cell = {row["mechanism"]: row for row in pick(rows, epsilon=epsilon, people=people)}
    local, central, shuffled = (cell[s.mechanism] for s in (LOCAL, GEOMETRIC, SHUFFLED))

    def points(row: Row, side: Side = THESE) -> str:
        return f"± {figure(100 * half_width(row, side))}"

    thousand = 1000 * float(exact_price(Epsilon(epsilon), 1000))
    mixed_price = number(shuffled, "exact") / number(central, "exact")
    return paragraphs(
        f"""With {people:,} people at ε {epsilon}, randomizing devices estimate the share of these
        people to {points(local)} points, and the share of their population to
        {points(local, DRAWN)}; a trusted server to {points(central)} and
        {points(central, DRAWN)} points.

        For these people the price of not collecting answers is n / 2 at every ε, here
        {figure(float(exact_price(Epsilon(epsilon), people)))} times the variance: a trusted server
        learns from 1,000 people what takes {figure(thousand)} devices. For the population the price
        tends to {figure(drawn_price(float(epsilon), options["share"]))} times the people at this ε,
        for any number of people.

        A shuffler of randomized responses at ε {float(str(shuffled["report_epsilon"])):.2f} would
        estimate these people's share to {points(shuffled)} points with δ {options["delta"]:g}, a
        price of {figure(mixed_price)} instead of {figure(people / 2)}; it {TRUST}."""
    )


def _price_figure(rows: Sequence[Row], share: float) -> matplotlib.figure.Figure:
    picture = new_figure(width=9.0, height=3.8)
    these, population = picture.subplots(1, 2)
    epsilons = np.geomspace(0.05, 8, 100)
    for series, curve, words in (
        (GEOMETRIC, np.full_like(epsilons, 0.5), "against a trusted count with geometric noise"),
        (LAPLACE, [laplace_price(float(e), 1) for e in epsilons], "against one with Laplace noise"),
    ):
        bars(these, _measured_prices(rows, series, THESE), series.look)
        these.plot(epsilons, curve, color=series.look.color, ls=series.look.dash, label=words)
    these.set(ylim=(0, 0.6), ylabel="price / people", title="These people, for each person asked")
    bars(population, _measured_prices(rows, GEOMETRIC, DRAWN), GEOMETRIC.look)
    curve = [drawn_price(float(e), share) for e in epsilons]
    population.plot(epsilons, curve, color=GEOMETRIC.look.color, label="for many people")
    population.set(yscale="log", ylabel="price", title="The population they are drawn from")
    for axes in (these, population):
        axes.set(xscale="log", xlabel="ε")
        plain_ticks(axes, [0.1, 0.5, 1, 2, 4, 8])
        axes.legend(loc="best", fontsize=9)
    return picture


def _measured_prices(
    rows: Sequence[Row], series: Series, side: Side
) -> list[tuple[float, float, float]]:
    """Return ε, the ratio of measured errors, and three of its standard errors.

    The ratios are those of the largest crowd; for these people they are per person.
    """
    most, prices = max(number(row, "people") for row in rows), []
    for central in pick(rows, mechanism=series.mechanism, people=most):
        if not number(central, side.measured):
            continue  # at a large ε, noise may be 0 in every repetition
        local = one(rows, model="local", people=most, epsilon=central["epsilon"])
        price = number(local, side.measured) / number(central, side.measured)
        price /= most if side is THESE else 1
        spread = math.hypot(
            *(number(row, side.error) / number(row, side.measured) for row in (local, central))
        )
        prices.append((float(str(central["epsilon"])), price, 3 * spread * price))
    return prices


STUDY = Study(
    name="bit",
    question="What does it cost to ask a yes-or-no question without trusting the server?",
    options=OPTIONS,
    cells=grid("epsilon", "people"),
    run=run,
    report=report,
    formulas=(
        ("devices, these people", r"\dfrac{V}{n}, \quad V = \dfrac{e^ε}{(e^ε - 1)^2}"),
        ("a trusted server, these people", r"\dfrac{2V}{n^2}"),
        ("devices, their population with a share s of yes", r"\dfrac{V + s(1 - s)}{n}"),
        ("a trusted server, their population", r"\dfrac{s(1 - s)}{n} + \dfrac{2V}{n^2}"),
    ),
)
