"""A bounded mean: every local mechanism for numbers against a trusted curator.

    local      stochastic rounding to a grid, then each mechanism's table    variance V(x) / n
    central    discrete Laplace noise on the sum, on a grid of 1,000 steps   about 2 / (n ε)^2

as shares of the range, about the people who are asked; V depends on where in it people are, which
is what the populations are for. About the population that they are drawn from the error has the
spread of a sample too, σ^2 / n. Both models keep ε for one person who answers otherwise; the number
of people is public. The limit is the least that the variance at the worst place can be in any local
mechanism (`server/planning/least_variance.py`); a curator's, for many people, that of a share [1].

The JSON form: `options` and `cells` (`model`, `mechanism`, `population`, `epsilon`, `people`,
`exact`, `measured`, `measured_error`, `repetitions`; `exact_drawn`, `measured_drawn`, `error_drawn`
about the population; `worst`, the variance where all people stand at the worst place, and
`limit_worst`, the least that it can be, null where that is not known; mean squared errors as shares
of the range, squared).

[1] Gupte, Sundararajan 2010, "Universally optimal privacy mechanisms for minimax agents", PODS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from deniable.server.planning.least_variance import RANGE, least_of_a_number
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.shapes.number_table import NumberTable
from deniable.simulations.central import BoundedMean, DiscreteLaplace
from deniable.simulations.frame import comparison, option, own
from deniable.simulations.frame.comparison import DRAWN, THESE, Series, look, number
from deniable.simulations.frame.figures import FAINT, new_figure
from deniable.simulations.frame.study import Cell, Figure, Options, Report, Row, Study
from deniable.simulations.population import (
    discrete_laplace,
    drawn,
    fixed,
    grid_distribution,
    on_grid,
)
from deniable.simulations.studies import populations

if TYPE_CHECKING:
    import matplotlib.figure

Array = NDArray[np.float64]
CENTRAL_STEPS = 1_000
CENTRAL = Series("central", "laplace", "trusted server", look(5))
LOOKS = tuple(look(place) for place in range(5))
TICKS = (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
BELOW = 1 - 1e-12  # a limit stays one in doubles


def series_of(mechanisms: Sequence[str]) -> tuple[Series, ...]:
    """Those that were asked for, and the trusted server."""
    local = (
        Series("local", name, own.label("number", name), appearance)
        for name, appearance in zip(mechanisms, cycle(LOOKS), strict=False)
    )
    return (*local, CENTRAL)


OPTIONS = (
    option.epsilons("0.5,1,2,4,8"),
    option.people("1e2,1e3,1e4,1e5,1e6,1e7,1e8,1e9", 100),
    option.repetitions(1_000),
    own.option_for("number"),
    option.Option(
        "population",
        "low",
        populations.read,
        f"{', '.join(populations.NAMED)}; in Python also numbers of your own",
        "NAME",
    ),
)


def cells(options: Options) -> Sequence[Cell]:
    shared = {key: options[key] for key in ("population", "repetitions")}
    return [
        {"mechanism": mechanism, "epsilon": epsilon, "people": people, **shared}
        for mechanism in (*options["mechanisms"], CENTRAL.mechanism)
        for epsilon in options["epsilon"]
        for people in options["people"]
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    epsilon, times = Epsilon(str(cell["epsilon"])), int(cell["repetitions"])
    people, mechanism = int(cell["people"]), str(cell["mechanism"])
    places, held = populations.people_at(cell["population"], people)
    crowd = Crowd(np.asarray(places, dtype=float), np.asarray(held))
    trusted = BoundedMean(epsilon, CENTRAL_STEPS)
    if mechanism == CENTRAL.mechanism:
        rows = [_central(trusted, crowd, times, generator)]
    else:
        (series,) = series_of([mechanism])[:1]
        row = _local(series, own.number_mechanism(mechanism, epsilon), crowd, times, generator)
        # A curator may run it, too: with few people and a large ε it errs less than Laplace noise.
        better = comparison.number(row, "exact") < trusted.variance(people)
        by_the_curator = {**row, "model": "central", "limit_worst": least_trusted(epsilon, people)}
        rows = [row, *([by_the_curator] if better else [])]
    return [{"population": cell["population"], **row} for row in rows]


@dataclass(frozen=True)
class Crowd:
    """How many stand at each place; the population has as large a share of them there."""

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


def _local(
    series: Series, table: NumberTable, crowd: Crowd, times: int, generator: np.random.Generator
) -> Row:
    people, steps = crowd.people, len(table.rows) - 1
    values = np.array([float(value / table.steps) for value in table.values])
    points = on_grid(crowd.places.tolist(), crowd.held.tolist(), steps, times, generator)
    these = fixed(table, points, times, generator).counts @ values / people - crowd.mean
    shares = grid_distribution(crowd.places.tolist(), (crowd.held / people).tolist(), steps)
    anew = drawn(table, shares, people, times, generator).counts @ values / people - crowd.mean
    at_each = np.array([table.variance(people, x) for x in crowd.places.tolist()])
    exact, least = float(at_each @ crowd.held / people), least_of_a_number(table.epsilon)
    return {
        **comparison.row(series, str(table.epsilon), people, exact, these),
        **comparison.drawn_columns(exact + crowd.sampling, anew),
        "worst": table.worst_variance(people),
        "limit_worst": None if least is None else BELOW * least / RANGE**2 / people,
    }


def _central(trusted: BoundedMean, crowd: Crowd, times: int, generator: np.random.Generator) -> Row:
    people, variance = crowd.people, trusted.variance(crowd.people)
    errors = discrete_laplace(trusted.noise, times, generator) / (people * CENTRAL_STEPS)
    drawn_anew = generator.multinomial(people, crowd.held / people, times)
    sampled = drawn_anew @ crowd.places / people - crowd.mean
    return {
        **comparison.row(CENTRAL, str(trusted.epsilon), people, variance, errors),
        **comparison.drawn_columns(variance + crowd.sampling, errors + sampled),
        "worst": variance,
        "limit_worst": least_trusted(trusted.epsilon, people),
    }


def least_trusted(epsilon: Epsilon, people: int) -> float:
    """No curator's worst variance is below that of a share, for many people: people at the ends are
    a question of yes or no, of which nobody releases a count with less than geometric noise."""
    return DiscreteLaplace(epsilon).variance / people**2


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon = comparison.middle(options["epsilon"])
    people = comparison.middle(options["people"])
    shown = comparison.pick(rows, epsilon=epsilon)
    series = series_of(options["mechanisms"])
    return Report(
        findings=_findings(rows, epsilon, people),
        figures=[
            Figure(
                "variance",
                "The variance of each local mechanism by the least that any can have where it is "
                "worst, against ε: left, where all people stand at its own worst place, and right, "
                "for this population. It does not depend on the people asked.",
                lambda: _variance_figure(comparison.pick(rows, people=people), series[:-1]),
            ),
            Figure(
                "error",
                f"How far off an estimated mean is, as a share of the range, against the people "
                f"asked, at ε {epsilon}, by the best local mechanism and by a trusted server: of "
                "the people who are asked, and of the population that they are drawn from. Lines "
                "are formulas, points are simulations.",
                lambda: comparison.error_figure(
                    shown,
                    [
                        s
                        for s in series
                        if s.mechanism in (_best_row(shown)["mechanism"], "laplace")
                    ],
                    f"Error of a mean, ε {epsilon}",
                    "± % of the range (1.96 standard errors)",
                    100,
                    (THESE, DRAWN),
                ),
            ),
        ],
        tables=[
            comparison.error_table(
                f"Error of the mean of {side.label}, in % of the range: 1.96 standard errors",
                rows,
                series,
                100,
                "",
                side,
            )
            for side in (THESE, DRAWN)
        ],
        method=[
            (
                f"{populations.said(options['population'])} 'These people' are fixed, and only "
                "rounding and noise are drawn; for 'the population' people are drawn too."
            ),
            comparison.check_words(rows),
            (
                "Each number goes on the mechanism's grid by stochastic rounding, one binomial "
                "for all people who stand at the same place, and then through the mechanism's "
                "table, one multinomial for each row: exactly the distribution of what devices "
                "would send."
            ),
            (
                f"The trusted server has the sum on a grid of {CENTRAL_STEPS:,} steps, with "
                "discrete Laplace noise for one person who moves through the whole range."
            ),
        ],
        document=comparison.cells_document(options, rows),
    )


def _findings(rows: Sequence[Row], epsilon: str, people: int) -> list[str]:
    found = comparison.pick(rows, epsilon=epsilon, people=people)
    central = comparison.one(found, mechanism=CENTRAL.mechanism)
    best = _best_row(found)
    label = own.label("number", str(best["mechanism"]))
    drawn_price = number(best, "exact_drawn") / number(central, "exact_drawn")
    first, last = (_best(rows, e, people) for e in (rows[0]["epsilon"], rows[-1]["epsilon"]))
    ratio = number(best, "exact") / number(central, "exact")
    return [
        (
            f"With {people:,} people at ε {epsilon}, the best local mechanism ({label}) gives a "
            f"mean to ± {comparison.figure(100 * comparison.half_width(best))} % of the range, "
            f"and a trusted server to ± {comparison.figure(100 * comparison.half_width(central))} "
            f"%: {comparison.figure(ratio)} times the variance. About the population that they are "
            f"drawn from it is {comparison.figure(drawn_price)} times."
        ),
        (
            f"Of the local mechanisms, {first} errs least at ε {rows[0]['epsilon']}, and "
            f"{'again' if last == first else last} at ε {rows[-1]['epsilon']}; in every case the "
            "price grows with the people asked."
        ),
    ]


def _best(rows: Sequence[Row], epsilon: object, people: int) -> str:
    found = comparison.pick(rows, epsilon=epsilon, people=people)
    return own.label("number", str(_best_row(found)["mechanism"]))


def _best_row(rows: Sequence[Row]) -> Row:
    """Of those at one ε: which errs least does not depend on the people."""
    return min(comparison.pick(rows, model="local"), key=lambda r: number(r, "exact"))


def _variance_figure(rows: Sequence[Row], local: Sequence[Series]) -> matplotlib.figure.Figure:
    figure = new_figure(width=9.2, height=4.4)
    panels = figure.subplots(1, 2, sharey=True)
    ticks = sorted({float(str(r["epsilon"])) for r in rows})
    known = [r for r in rows if r["limit_worst"] is not None]
    for axes, key, title in zip(
        panels, ("worst", "exact"), ("At its worst place", "This population"), strict=True
    ):
        for series in local:
            points = sorted(
                (float(str(r["epsilon"])), number(r, key) / number(r, "limit_worst"))
                for r in comparison.pick(known, model=series.model, mechanism=series.mechanism)
            )
            if points:
                axes.plot(*zip(*points, strict=True), label=series.label, **series.look.style)
        axes.axhline(1, color=FAINT, linewidth=1.2, linestyle=(0, (1, 1.5)))
        axes.set(xscale="log", yscale="log", xlabel="ε", title=title)
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
        axes.minorticks_off()
        axes.grid(visible=True)
    panels[0].annotate("no local one below", (ticks[0], 0.93), va="top", fontsize=9)
    panels[0].set_ylabel("variance, by the least at the worst place")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=9
    )
    return figure


STUDY = Study(
    name="mean",
    question="What does it cost to learn a mean without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        ("devices, V(x) being that of the mechanism's table for a person at x", "V(x) / n"),
        ("a trusted server, as a share of the range", "2 / (n ε)^2"),
        ("and of their population", 'σ^2 / n "more"'),
    ),
)
