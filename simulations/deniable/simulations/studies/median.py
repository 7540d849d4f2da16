"""A median: a search by yes-or-no questions on devices against the exponential mechanism.

    local      "is yours above t?" by randomized response, t moved by each group's answers
                                        n variance -> C^2 / (4 f^2)           C = 1 / tanh(ε / 2)
    central    exponential mechanism        variance -> 1 / (4 n f^2) + 8 / (ε n f)^2
    none       the people's own median      variance -> 1 / (4 n f^2)

f is the density at the median. People are drawn anew in each repetition, since a median of devices
is about where people are drawn from; so the price against no privacy at all is C^2, whatever n. All
three are limits for many people.

The search is Polyak's averaging of a Robbins-Monro walk: group number i is asked at t_i, then
t_(i+1) = t_i + step (share above - 1/2), step = 0.5 i^-0.6 of the range, and the median is the mean
of the t_i after the first tenth. Everybody answers once. A group's answers are one binomial,
exactly.

The central mechanism is simulated exactly, by the order statistics around the middle: those beyond
a weight of e^-40 are left out. What a server would release is `central.PrivateQuantile`.

Source: variance of the averaged walk: Polyak, Juditsky 1992, "Acceleration of stochastic
approximation by averaging", SIAM J. Control Optim. 30(4).

The JSON form: `options` and `cells` (`model` local, central or none, `mechanism`, `epsilon`,
`people`, `exact` the limit, `measured`, `measured_error`, `repetitions`; squared shares of the
range).
"""

from __future__ import annotations

import math
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence

import matplotlib.figure
import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.frame import comparison
from deniable.simulations.frame.comparison import Series, look, number
from deniable.simulations.frame.figures import FAINT, new_figure
from deniable.simulations.frame.study import Cell, Figure, Options, Report, Row, Study, Table

LOCAL = Series("local", "search", "local search", look(0))
CENTRAL = Series("central", "exponential", "trusted server", look(1))
NONE = Series("none", "median", "no privacy", look(2))
SERIES = (LOCAL, CENTRAL, NONE)

Array = NDArray[np.float64]
Ask = Callable[[int, Array], Array]  # so many people and thresholds: reports that say "above"
SHAPE = 5.0  # F(x) = 1 - (1 - x^2)^5 on [0, 1]: a hump left of the middle, and a formula
GROUPS = 1_000
LEAST_LOG_WEIGHT = 40.0


def below(x: Array | float) -> Array:
    """The share of people below x."""
    return np.asarray(1 - (1 - np.square(x)) ** SHAPE)


def quantile(share: Array | float) -> Array:
    return np.asarray(np.sqrt(1 - (1 - np.asarray(share)) ** (1 / SHAPE)))


MEDIAN = float(quantile(0.5))
DENSITY: float = 2 * SHAPE * MEDIAN * (1 - MEDIAN**2) ** (SHAPE - 1)


def limit(series: Series, epsilon: Epsilon, people: int) -> float:
    """The variance as people grow without end."""
    none: float = 1 / (4 * people * DENSITY**2)
    if series is LOCAL:
        price: float = math.tanh(float(epsilon) / 2) ** -2
        return none * price
    if series is CENTRAL:
        noise: float = 8 / (float(epsilon) * people * DENSITY) ** 2
        return none + noise
    return none


def arguments(parser: ArgumentParser) -> None:
    comparison.add_arguments(parser, "0.5,1,2,4", "1e3,1e4,1e5,1e6,1e7,1e8,1e9", 500)


def options(chosen: Namespace) -> Options:
    return comparison.read_options(chosen, 100)


def cells(options: Options) -> Sequence[Cell]:
    return [
        {"epsilon": epsilon, "people": people, "repetitions": options["repetitions"]}
        for epsilon in options["epsilon"]
        for people in options["people"]
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    epsilon, people, times = (
        Epsilon(str(cell["epsilon"])),
        int(cell["people"]),
        int(cell["repetitions"]),
    )
    first, points = middle_points(people, float(epsilon), times, generator)
    mechanism = RandomizedResponse(epsilon)
    found = {
        LOCAL: search(mechanism, people, times, crowd(mechanism, generator)),
        CENTRAL: choose(points, first, people, float(epsilon), generator),
        NONE: own_median(points, first, people),
    }
    return [
        comparison.row(
            series, str(epsilon), people, limit(series, epsilon, people), estimates - MEDIAN
        )
        for series, estimates in found.items()
    ]


def crowd(mechanism: RandomizedResponse, generator: np.random.Generator) -> Ask:
    """How many of a group report that they are above the threshold: one binomial for all."""
    keep, lie = mechanism.keep / ONE, mechanism.lie / ONE

    def ask(size: int, threshold: Array) -> Array:
        above = generator.binomial(size, lie + (keep - lie) * (1 - below(threshold)))
        return np.asarray(above, dtype=float)

    return ask


def search(mechanism: RandomizedResponse, people: int, times: int, ask: Ask) -> Array:
    """The local search, by groups of people who are asked at the same threshold."""
    keep, lie = mechanism.keep / ONE, mechanism.lie / ONE
    ends = np.rint(np.linspace(0, people, min(people, GROUPS) + 1)).astype(np.int64)
    threshold, total, weight = np.full(times, 0.5), np.zeros(times), 0
    for place, size in enumerate(np.diff(ends).tolist()):
        if place >= len(ends) // 10:
            total += size * threshold
            weight += size
        above = (ask(size, threshold) / size - lie) / (keep - lie)
        threshold = np.clip(threshold + 0.5 * (place + 1) ** -0.6 * (above - 0.5), 0, 1)
    return total / weight


def middle_points(
    people: int, epsilon: float, times: int, generator: np.random.Generator
) -> tuple[int, Array]:
    """The order statistics around the middle, and the rank of the first; ranks 0 and people + 1
    are the ends of the range.

    Uniform ones: rank r is Beta(r, n - r + 1), and of what is above rank i the next takes the part
    that the least of n - i uniform numbers takes."""
    reach = math.ceil(2 * LEAST_LOG_WEIGHT / epsilon) + 1
    first, last = max(0, people // 2 - reach), min(people + 1, people // 2 + reach)
    start = generator.beta(first, people - first + 1, (times, 1)) if first else np.zeros((times, 1))
    steps = generator.exponential(size=(times, last - first)) / (
        people - np.arange(first, last) + (np.arange(first, last) == people)
    )
    above = np.cumsum(np.hstack([np.log1p(-start), -steps]), axis=1)
    uniform = -np.expm1(above)
    if last == people + 1:
        uniform[:, -1] = 1.0
    return first, quantile(uniform)


def choose(
    points: Array, first: int, people: int, epsilon: float, generator: np.random.Generator
) -> Array:
    """The exponential mechanism: an interval with probability proportional to its
    length · e^(-(ε/2) |rank - n/2|), and a uniform point of it. The largest of log weights plus
    Gumbel noise is such a choice."""
    lengths = np.diff(points, axis=1)
    ranks = first + np.arange(lengths.shape[1])
    with np.errstate(divide="ignore"):
        weights = np.log(lengths) - epsilon / 2 * np.abs(ranks - people / 2)
    chosen = np.argmax(weights + generator.gumbel(size=weights.shape), axis=1)[:, None]
    start, length = (np.take_along_axis(a, chosen, 1)[:, 0] for a in (points, lengths))
    return np.asarray(start + generator.random(len(points)) * length)


def own_median(points: Array, first: int, people: int) -> Array:
    low, high = (people + 1) // 2 - first, people // 2 + 1 - first
    return np.asarray((points[:, low] + points[:, high]) / 2)


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon = comparison.middle(options["epsilon"])
    people = comparison.middle(options["people"])
    shown = comparison.pick(rows, epsilon=epsilon)
    ratios = [number(r, "measured") / number(r, "exact") for r in rows if r["model"] == "local"]
    return Report(
        findings=_findings(rows, epsilon, people, ratios),
        figures=[
            Figure(
                "error",
                f"How far off an estimated median is, as a share of the range, against the people "
                f"asked, at ε {epsilon}. Lines are the limits for many people, points simulations.",
                lambda: comparison.error_figure(
                    shown,
                    SERIES,
                    f"Error of a median, ε {epsilon}",
                    "± % of the range (1.96 standard errors)",
                    100,
                ),
            ),
            Figure(
                "price",
                "How many times the variance of the people's own median the local search has: it "
                "depends on ε and not on the people asked. The line is the limit.",
                lambda: _price_figure(rows),
            ),
        ],
        tables=[
            comparison.error_table(
                "Error of the median, in % of the range: 1.96 standard errors of the limit",
                rows,
                SERIES,
                100,
                "",
            ),
            _price_table(rows),
        ],
        method=[
            (
                "People are drawn anew in each repetition from the distribution "
                "F(x) = 1 - (1 - x^2)^5 on the range, which has its median at "
                f"{MEDIAN:.4f} and density {DENSITY:.4f} there."
            ),
            (
                f"Locally everybody is asked once whether they are above a threshold, in up to "
                f"{GROUPS:,} groups, by randomized response; each group's threshold follows from "
                "those before. The search knows nothing of the distribution. One tenth of the "
                "people are spent on getting near."
            ),
            (
                "The trusted server has the exponential mechanism on ranks, with e^(-ε/2) for each "
                "person off the middle. The printed e^-ε would spend 2 ε."
            ),
            (
                f"Measured by {rows[0]['repetitions']:,} repetitions. Lines are limits and not "
                f"exact "
                f"errors: the measured error of the search is {min(ratios):.2f} to "
                f"{max(ratios):.2f} "
                "times its limit."
            ),
        ],
        document=comparison.cells_document(options, rows),
    )


def _findings(rows: Sequence[Row], epsilon: str, people: int, ratios: Sequence[float]) -> list[str]:
    local, central, none = (
        comparison.one(rows, epsilon=epsilon, people=people, model=s.model) for s in SERIES
    )
    errors = [
        comparison.figure(100 * comparison.Z95 * math.sqrt(number(r, "measured")))
        for r in (local, central, none)
    ]
    price = number(local, "exact") / number(none, "exact")
    return [
        (
            f"With {people:,} people at ε {epsilon}, a search on devices finds the median to ± "
            f"{errors[0]} "
            f"% of the range, a trusted server to ± {errors[1]} %, and without any privacy to ± "
            f"{errors[2]} %."
        ),
        (
            f"The price of locality for a median is {price:.2f} times the people at ε "
            f"{epsilon}, however "
            f"many are asked; the search came to {min(ratios):.2f} to {max(ratios):.2f} times "
            f"that limit."
        ),
    ]


def _prices(rows: Sequence[Row]) -> list[tuple[str, float, float, float]]:
    """ε, the limit, and what was measured with the most people, with its Monte-Carlo error."""
    most, result = max(number(r, "people") for r in rows), []
    for local in comparison.pick(rows, model="local", people=most):
        none = comparison.one(rows, model="none", people=most, epsilon=local["epsilon"])
        limits = number(local, "exact") / number(none, "exact")
        measured = number(local, "measured") / number(none, "exact")
        error = number(local, "measured_error") / number(none, "exact")
        result.append((str(local["epsilon"]), limits, measured, error))
    return result


def _price_table(rows: Sequence[Row]) -> Table:
    return Table(
        "Price of a local median: its variance by that of the people's own",
        ["ε", "limit", "measured, most people", "Monte-Carlo error"],
        [[e, f"{a:.3f}", f"{b:.3f}", f"{c:.3f}"] for e, a, b, c in _prices(rows)],
    )


def _price_figure(rows: Sequence[Row]) -> matplotlib.figure.Figure:
    figure = new_figure(height=3.8)
    axes = figure.subplots()
    grid = np.geomspace(0.3, 8, 100)
    axes.plot(
        grid, 1 / np.tanh(grid / 2) ** 2, color=LOCAL.look.color, label="limit, 1 / tanh(ε / 2)^2"
    )
    epsilons, _, measured, errors = zip(*_prices(rows), strict=True)
    axes.errorbar(
        [float(e) for e in epsilons],
        measured,
        yerr=[3 * error for error in errors],
        fmt=LOCAL.look.marker,
        color=LOCAL.look.color,
        capsize=2,
        label="measured, with three standard errors",
    )
    axes.axhline(1, color=FAINT, linewidth=0.8)
    axes.annotate("the people's own median", (0.31, 1.04), color=FAINT, fontsize=9)
    axes.set(xscale="log", yscale="log", xlabel="ε", ylabel="times the variance")
    axes.set_title("Price of a local median")
    axes.set_xticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
    axes.set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    axes.minorticks_off()
    axes.grid(visible=True)
    axes.legend(loc="upper right")
    return figure


STUDY = Study(
    name="median",
    question="What does it cost to learn a median without trusting the server?",
    arguments=arguments,
    options=options,
    cells=cells,
    run=run,
    report=report,
)
