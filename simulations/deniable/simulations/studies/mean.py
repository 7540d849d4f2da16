"""A bounded mean: every local mechanism for numbers against a trusted curator.

    local      stochastic rounding to a grid, then each mechanism's table    variance V(x) / n
    central    discrete Laplace noise on the sum, on a grid of 1,000 steps   about 2 / (n ε)^2

as shares of the range; V depends on where in it people are, which is what the populations are for.
Both keep ε for one person who answers otherwise; the number of people is public.

The JSON form: `options` and `cells` (`model`, `mechanism`, `population`, `epsilon`, `people`,
`exact`, `measured`, `measured_error`, `repetitions`; mean squared errors as shares of the range,
squared).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.central import BoundedMean
from deniable.simulations.frame import comparison, option, own
from deniable.simulations.frame.comparison import Series, look, number
from deniable.simulations.frame.figures import new_figure
from deniable.simulations.frame.study import Cell, Figure, Options, Report, Row, Study
from deniable.simulations.population import discrete_laplace, fixed, on_grid
from deniable.simulations.studies import populations

if TYPE_CHECKING:
    import matplotlib.figure


CENTRAL_STEPS = 1_000
CENTRAL = Series("central", "laplace", "trusted server", look(5))
LOOKS = tuple(look(place) for place in range(5))


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
    if mechanism == CENTRAL.mechanism:
        trusted = BoundedMean(epsilon, CENTRAL_STEPS)
        errors = discrete_laplace(trusted.noise, times, generator) / (people * CENTRAL_STEPS)
        row = comparison.row(CENTRAL, str(epsilon), people, trusted.variance(people), errors)
    else:
        table = own.number_mechanism(mechanism, epsilon)
        truth = sum(x * count for x, count in zip(places, held, strict=True)) / people
        points = on_grid(places, held, len(table.rows) - 1, times, generator)
        counts = fixed(table, points, times, generator).counts
        values = np.array([float(value / table.steps) for value in table.values])
        errors = counts @ values / people - truth
        exact = (
            sum(table.variance(people, x) * c for x, c in zip(places, held, strict=True)) / people
        )
        (series,) = series_of([mechanism])[:1]
        row = comparison.row(series, str(epsilon), people, exact, errors)
    return [{"population": cell["population"], **row}]


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon = comparison.middle(options["epsilon"])
    people = comparison.middle(options["people"])
    shown = comparison.pick(rows, epsilon=epsilon)
    series = series_of(options["mechanisms"])
    return Report(
        findings=_findings(rows, epsilon, people),
        figures=[
            Figure(
                "error",
                f"How far off an estimated mean is, as a share of the range, against the people "
                f"asked, at ε {epsilon}. Lines are formulas, points are simulations.",
                lambda: comparison.error_figure(
                    shown,
                    series,
                    f"Error of a mean, ε {epsilon}",
                    "± % of the range (1.96 standard errors)",
                    100,
                ),
            ),
            Figure(
                "mechanisms",
                "The same error against ε, for the local mechanisms: which one is best depends "
                "on ε, and on where in the range people are.",
                lambda: _mechanisms_figure(
                    comparison.pick(rows, people=people), people, series[:-1]
                ),
            ),
        ],
        tables=[
            comparison.error_table(
                "Error of the estimated mean, in % of the range: 1.96 standard errors",
                rows,
                series,
                100,
                "",
            )
        ],
        method=[
            (
                f"{populations.said(options['population'])} They are fixed, and only rounding and "
                "noise are drawn."
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
    central = comparison.one(found, model="central")
    best = min(comparison.pick(found, model="local"), key=lambda r: number(r, "exact"))
    label = own.label("number", str(best["mechanism"]))
    first, last = (_best(rows, e, people) for e in (rows[0]["epsilon"], rows[-1]["epsilon"]))
    ratio = number(best, "exact") / number(central, "exact")
    return [
        (
            f"With {people:,} people at ε {epsilon}, the best local mechanism ({label}) gives a "
            f"mean to ± {comparison.figure(100 * comparison.half_width(best))} % of the range, "
            f"and a trusted server to ± {comparison.figure(100 * comparison.half_width(central))} "
            f"%: {comparison.figure(ratio)} times the variance."
        ),
        (
            f"Of the local mechanisms, {first} errs least at ε {rows[0]['epsilon']}, and "
            f"{'again' if last == first else last} at ε {rows[-1]['epsilon']}; in every case the "
            "price grows with the people asked."
        ),
    ]


def _best(rows: Sequence[Row], epsilon: object, people: int) -> str:
    found = comparison.pick(rows, epsilon=epsilon, people=people, model="local")
    best = min(found, key=lambda r: number(r, "exact"))
    return own.label("number", str(best["mechanism"]))


def _mechanisms_figure(
    rows: Sequence[Row], people: int, local: Sequence[Series]
) -> matplotlib.figure.Figure:
    figure = new_figure()
    axes = figure.subplots()
    for series in local:
        found = comparison.pick(rows, mechanism=series.mechanism, model=series.model)
        epsilons = [float(str(r["epsilon"])) for r in found]
        axes.plot(
            epsilons,
            [100 * comparison.half_width(r) for r in found],
            color=series.look.color,
            linestyle=series.look.dash,
            marker=series.look.marker,
            label=series.label,
        )
    axes.set(xscale="log", yscale="log", xlabel="ε")
    axes.set(ylabel="± % of the range (1.96 standard errors)")
    axes.set_title(f"Error of a mean by local mechanism, {people:,} people")
    ticks = sorted({float(str(r["epsilon"])) for r in rows})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(visible=True)
    axes.legend(loc="best")
    return figure


STUDY = Study(
    name="mean",
    question="What does it cost to learn a mean without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
)
