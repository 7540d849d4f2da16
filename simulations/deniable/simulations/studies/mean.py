"""A bounded mean: every local mechanism for numbers against a trusted curator.

    local      stochastic rounding to a grid, then each mechanism's table    variance V(x) / n
    central    discrete Laplace noise on the sum, on a grid of 1,000 steps   about 2 / (n ε)^2

as shares of the range, about the people who are asked. V depends on where in the range people are,
so the study has several populations. About the population they are drawn from there is the sampling
error too, σ^2 / n. Both models protect one person's answer with ε; the number of people is public.
The limit is the least worst-case variance of any local mechanism
(`server/planning/variances.py`); a curator's, for many people, is that of a share [1].

Numbers of the caller's own are shares of the range, 0 to 1, and are redacted: only their digest is
written.

[1] Gupte, Sundararajan 2010, "Universally optimal privacy mechanisms for minimax agents", PODS.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from deniable.server.planning.variances import least_of_a_number
from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import RANGE, NumberTable
from deniable.simulations.central import BoundedMean, DiscreteLaplace, discrete_laplace
from deniable.simulations.engine import comparison, custom_mechanisms, option
from deniable.simulations.engine.comparison import (
    DRAWN,
    THESE,
    Series,
    figure,
    half_width,
    look,
    number,
    one,
    pick,
)
from deniable.simulations.engine.figures import new_figure, plain_ticks
from deniable.simulations.engine.redaction import Redacted, content, digest
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study
from deniable.simulations.population import (
    drawn,
    fixed,
    grid_distribution,
    on_grid,
    whole_people,
)
from deniable.simulations.studies.building_blocks import (
    marked_line,
    paragraphs,
    reference_line,
    sweep,
)

if TYPE_CHECKING:
    import matplotlib.figure

Array = NDArray[np.float64]
BELOW = 1 - 1e-12  # a limit stays one in doubles
CENTRAL_STEPS = 1_000
CENTRAL = Series("central", "laplace", "trusted server", look(5))
TENTHS = tuple(tenth / 10 for tenth in range(11))
POPULATIONS = {  # how many people in each hundred are at 0, 0.1, ..., 1 of the range
    "low": (30, 25, 16, 11, 7, 4, 3, 2, 1, 1, 0),
    "uniform": (9, 9, 9, 9, 9, 10, 9, 9, 9, 9, 9),
    "middle": (0, 0, 2, 8, 20, 40, 20, 8, 2, 0, 0),
    "ends": (50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 50),
}
GRID = 1_000  # steps of the range to which the caller's own numbers are rounded
VARIANCE_TICKS = (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def _population(name: str, given: Any) -> str:  # Any: a name, or numbers
    if isinstance(given, str):
        return str(option.one_of(POPULATIONS)(name, given))
    numbers = np.asarray(given, dtype=float).ravel()
    if not len(numbers) or not np.isfinite(numbers).all() or numbers.min() < 0 or numbers.max() > 1:
        raise WrongUse(
            f"{name}: numbers from 0 to 1, as shares of the range: (x - low) / (high - low)"
        )
    held = Counter(np.rint(numbers * GRID).astype(int).tolist())
    text = json.dumps([[step / GRID, count] for step, count in sorted(held.items())])
    return Redacted(digest(text.encode()), text)


OPTIONS = (
    option.epsilons("0.5,1,2,4,8"),
    option.people("1e2,1e3,1e4,1e5,1e6,1e7,1e8,1e9", 100),
    option.repetitions(1_000),
    custom_mechanisms.mechanisms_option("number"),
    option.Option(
        "population",
        "low",
        _population,
        f"{', '.join(POPULATIONS)}; in Python also numbers of your own",
        "NAME",
    ),
)


@dataclass(frozen=True)
class Crowd:
    """`held` people at each of `places`; the population has the same shares of people there."""

    places: Array
    held: NDArray[np.int64]

    @property
    def people(self) -> int:
        return int(self.held.sum())

    @property
    def mean(self) -> float:
        return float(self.places @ self.held / self.people)

    @property
    def sampling(self) -> float:
        """The variance that drawing the people adds."""
        return float((self.places - self.mean) ** 2 @ self.held / self.people**2)


def crowd_of(population: object, people: int) -> Crowd:
    """Return this many people of a named population, or of the caller's own numbers."""
    if named := POPULATIONS.get(str(population)):
        places: Sequence[float] = TENTHS
        weights: Sequence[float] = named
    else:
        places, weights = zip(*json.loads(content(population)), strict=True)
    return Crowd(np.asarray(places, dtype=float), np.asarray(whole_people(weights, people)))


def cells(options: Options) -> Sequence[Cell]:
    mechanisms = (*options["mechanisms"], CENTRAL.mechanism)
    lists = {key: options[key] for key in ("epsilon", "people")}
    return sweep(options, mechanism=mechanisms, **lists)


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    epsilon, times = Epsilon(str(cell["epsilon"])), int(cell["repetitions"])
    people, mechanism = int(cell["people"]), str(cell["mechanism"])
    crowd, trusted = crowd_of(cell["population"], people), BoundedMean(epsilon, CENTRAL_STEPS)
    if mechanism == CENTRAL.mechanism:
        rows = [_central(trusted, crowd, times, generator)]
    else:
        (series,) = series_of([mechanism])[:1]
        table = custom_mechanisms.number_mechanism(mechanism, epsilon)
        row = _local(series, table, crowd, times, generator)
        # A curator can run it too: with few people and a large ε it has less error than noise.
        better = number(row, "exact") < trusted.variance(people)
        by_the_curator = {**row, "model": "central", "limit_worst": least_trusted(epsilon, people)}
        rows = [row, *([by_the_curator] if better else [])]
    return [{"population": cell["population"], **row} for row in rows]


def series_of(mechanisms: Sequence[str]) -> tuple[Series, ...]:
    """Return the series of these local mechanisms, and of the trusted server."""
    local = (
        Series("local", name, custom_mechanisms.label("number", name), appearance)
        for name, appearance in zip(mechanisms, cycle(map(look, range(5))), strict=False)
    )
    return (*local, CENTRAL)


def _local(
    series: Series, table: NumberTable, crowd: Crowd, times: int, generator: Generator
) -> Row:
    people, steps = crowd.people, len(table.rows) - 1
    values = np.array([float(value / table.steps) for value in table.values])
    points = on_grid(crowd.places.tolist(), crowd.held.tolist(), steps, times, generator)
    these = fixed(table, points, times, generator).counts @ values / people - crowd.mean
    shares = grid_distribution(crowd.places.tolist(), (crowd.held / people).tolist(), steps)
    again = drawn(table, shares, people, times, generator).counts @ values / people - crowd.mean
    variances = np.array([table.variance(people, x) for x in crowd.places.tolist()])
    exact, least = float(variances @ crowd.held / people), least_of_a_number(table.epsilon)
    return {
        **comparison.row(series, str(table.epsilon), people, exact, these),
        **comparison.drawn_columns(exact + crowd.sampling, again),
        "worst": table.worst_variance(people),
        "limit_worst": None if least is None else BELOW * least / RANGE**2 / people,
    }


def _central(trusted: BoundedMean, crowd: Crowd, times: int, generator: Generator) -> Row:
    people, variance = crowd.people, trusted.variance(crowd.people)
    errors = discrete_laplace(trusted.noise, times, generator) / (people * CENTRAL_STEPS)
    sample = generator.multinomial(people, crowd.held / people, times)
    sampled = sample @ crowd.places / people - crowd.mean
    return {
        **comparison.row(CENTRAL, str(trusted.epsilon), people, variance, errors),
        **comparison.drawn_columns(variance + crowd.sampling, errors + sampled),
        "worst": variance,
        "limit_worst": least_trusted(trusted.epsilon, people),
    }


def least_trusted(epsilon: Epsilon, people: int) -> float:
    """Return the least worst-case variance of a curator, for many people.

    People at the ends of the range answer a yes-or-no question, and no release of its count has
    less error than geometric noise.
    """
    return DiscreteLaplace(epsilon).variance / people**2


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, people = (comparison.middle(options[key]) for key in ("epsilon", "people"))
    shown, series = pick(rows, epsilon=epsilon), series_of(options["mechanisms"])
    best = (_best_row(shown)["mechanism"], CENTRAL.mechanism)
    unit = "± % of the range (1.96 standard errors)"
    variance_caption, error_caption = paragraphs(
        f"""The variance of each local mechanism divided by the least worst-case variance of any
        local mechanism, against ε: on the left with all people at the mechanism's own worst point,
        on the right for this population. It does not depend on the number of people.

        The error of an estimated mean, as a share of the range, against the number of people, at ε
        {epsilon}, by the best local mechanism and by a trusted server: for the people who are
        asked, and for the population they are drawn from. Lines are formulas, points are
        simulations."""
    )
    return Report(
        findings=_findings(rows, epsilon, people),
        figures=[
            Figure(
                "variance",
                variance_caption,
                lambda: _variance_figure(pick(rows, people=people), series[:-1]),
            ),
            Figure(
                "error",
                error_caption,
                lambda: comparison.error_figure(
                    shown,
                    [curve for curve in series if curve.mechanism in best],
                    f"Error of a mean, ε {epsilon}",
                    *(unit, 100, (THESE, DRAWN)),
                ),
            ),
        ],
        tables=[
            comparison.error_table(
                f"Error of the mean of {side.label}, in % of the range: 1.96 standard errors",
                *(rows, series, 100, "", side),
            )
            for side in (THESE, DRAWN)
        ],
        method=paragraphs(
            f"""{_sentence_about(options["population"])} 'These people' are fixed, and only rounding
            and noise are drawn; for 'the population' people are drawn too.

            {comparison.check_words(rows)}

            Numbers are rounded to the mechanism's grid at random, by one binomial for all people at
            the same point, and then pass through the mechanism's table, by one multinomial for each
            row: exactly the distribution of what devices would send.

            The trusted server has the sum on a grid of {CENTRAL_STEPS:,} steps, with discrete
            Laplace noise for one person who moves through the whole range."""
        ),
        document=comparison.cells_document(options, rows),
    )


def _sentence_about(population: str) -> str:
    if population in POPULATIONS:
        return (
            f"The population is {population!r}: of each hundred people, {POPULATIONS[population]} "
            "are at 0, 0.1, ..., 1 of the range."
        )
    return "The population consists of your own numbers, of which only a digest is written."


def _findings(rows: Sequence[Row], epsilon: str, people: int) -> list[str]:
    cell = pick(rows, epsilon=epsilon, people=people)
    central, best = one(cell, mechanism=CENTRAL.mechanism), _best_row(cell)
    price, drawn_price = (
        figure(number(best, key) / number(central, key)) for key in ("exact", "exact_drawn")
    )
    first, last = (
        _label(_best_row(pick(rows, epsilon=end["epsilon"], people=people)))
        for end in (rows[0], rows[-1])
    )
    return paragraphs(
        f"""With {people:,} people at ε {epsilon}, the best local mechanism ({_label(best)})
        estimates a mean to ± {figure(100 * half_width(best))} % of the range, and a trusted server
        to ± {figure(100 * half_width(central))} %: {price} times the variance. About the population
        they are drawn from it is {drawn_price} times.

        Of the local mechanisms, {first} has the least error at ε {rows[0]["epsilon"]}, and
        {"again" if last == first else last} at ε {rows[-1]["epsilon"]}. About the people who are
        asked, the price grows with their number in every case."""
    )


def _label(row: Row) -> str:
    return custom_mechanisms.label("number", str(row["mechanism"]))


def _best_row(rows: Sequence[Row]) -> Row:
    """Return the local row with the least error, of rows with one ε: the people do not matter."""
    return min(pick(rows, model="local"), key=lambda row: number(row, "exact"))


def _variance_figure(rows: Sequence[Row], local: Sequence[Series]) -> matplotlib.figure.Figure:
    picture = new_figure(width=9.2, height=4.4)
    panels = picture.subplots(1, 2, sharey=True)
    ticks = sorted({float(str(row["epsilon"])) for row in rows})
    known = [row for row in rows if row["limit_worst"] is not None]
    titles = {"worst": "At its worst point", "exact": "This population"}
    for axes, (key, title) in zip(panels, titles.items(), strict=True):
        for series in local:
            points = [
                (float(str(row["epsilon"])), number(row, key) / number(row, "limit_worst"))
                for row in pick(known, model=series.model, mechanism=series.mechanism)
            ]
            marked_line(axes, points, series.look, series.label)
        reference_line(axes, 1)
        axes.set(xscale="log", yscale="log", xlabel="ε", title=title)
        axes.set_yticks(VARIANCE_TICKS, [f"{tick:g}" for tick in VARIANCE_TICKS])
        plain_ticks(axes, ticks)
    panels[0].annotate("no local one below", (ticks[0], 0.93), va="top", fontsize=9)
    panels[0].set_ylabel("variance / least at the worst point")
    picture.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=9
    )
    return picture


STUDY = Study(
    name="mean",
    question="What does it cost to learn a mean without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        ("devices, V(x) being that of the mechanism's table for a person at x", r"\dfrac{V(x)}{n}"),
        ("a trusted server, as a share of the range", r"\dfrac{2}{(n ε)^2}"),
        ("and of their population", r"\dfrac{σ^2}{n}\ \mathrm{more}"),
    ),
)
