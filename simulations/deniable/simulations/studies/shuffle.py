"""A shuffler: the line between devices and a trusted server, for the count of those who say yes.

    local       randomized response at ε                       n V(ε)
    shuffled    randomized response at ε₀ > ε, shuffled        n V(ε₀)
    central     geometric noise on the count                   2 V(ε)

are mean squared errors in people, with V = e^ε / (e^ε - 1)^2. ε₀ is the largest with which n
shuffled reports are (ε, δ)-private. As e^ε₀ grows like n, the second tends to
a number, as the third is: a price of n / 2 becomes one that does not grow. It needs n honest people
and trusts the shuffler; alone, a report keeps its ε₀ only.

The JSON form: `options`, `rows` (`model` local, shuffled or central, `estimator`, `epsilon`,
`delta`, `report_epsilon`, `people`, `exact`, `measured` with its Monte-Carlo error `error`,
`limit`, what no estimator of the model is below for many people, null for shuffled ones) and
`findings`.

Sources: those of `deniable.server.estimation.shuffled`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deniable.server.planning.shuffled import report_epsilon
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central import GeometricCounts
from deniable.simulations.engine import comparison, estimator_rows, option
from deniable.simulations.engine import estimator_rows as forms
from deniable.simulations.engine.comparison import SHUFFLED, Series, look, number
from deniable.simulations.engine.figures import new_figure
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.population import discrete_laplace, fixed

if TYPE_CHECKING:
    import matplotlib.figure

LOCAL = Series("local", "randomized-response", "devices", look(0))
MIXED = Series("shuffled", "randomized-response", "shuffled", SHUFFLED.look)
CENTRAL = Series("central", "geometric", "trusted server", look(1))
SERIES = (LOCAL, MIXED, CENTRAL)


OPTIONS = (
    option.epsilons("0.1,0.5,1,2"),
    option.people("1e2,1e3,1e4,1e5,1e6,1e7,1e8,1e9"),
    option.Option("share", 0.3, option.share, "share of people who say yes", "SHARE"),
    comparison.delta_option(),
    option.repetitions(4_000),
)


def cells(options: Options) -> Sequence[Cell]:
    shared = {key: options[key] for key in ("share", "delta", "repetitions")}
    return [
        {"epsilon": epsilon, "people": people, **shared}
        for epsilon in options["epsilon"]
        for people in options["people"]
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    epsilon, people, times = Epsilon(str(cell["epsilon"])), int(cell["people"]), cell["repetitions"]
    delta, yes = float(cell["delta"]), round(people * float(cell["share"]))
    mixed = report_epsilon(epsilon, people, delta)
    rows: list[Row] = []
    for series, reported in ((LOCAL, epsilon), (MIXED, mixed)):
        design = RandomizedResponse(reported)
        ones = fixed(design, [people - yes, yes], int(times), generator).counts[:, 1]
        keep, lie = design.keep / ONE, design.lie / ONE
        exact = people**2 * design.variance(people, yes / people)
        errors = (ones - people * lie) / (keep - lie) - yes
        limit = exact if series is LOCAL else None
        rows.append(_row(cell, series, exact, errors**2, limit, str(reported)))
    trusted = GeometricCounts(epsilon).noise
    noise = discrete_laplace(trusted, int(times), generator).astype(float)
    rows.append(_row(cell, CENTRAL, trusted.variance, noise**2, trusted.variance, None))
    return rows


def _row(
    cell: Cell,
    series: Series,
    exact: float,
    squares: forms.Array,
    limit: float | None,
    reported: str | None,
) -> Row:
    return {
        "model": series.model,
        "estimator": series.mechanism,
        "epsilon": cell["epsilon"],
        "delta": cell["delta"] if series is MIXED else 0.0,
        "report_epsilon": reported,
        "people": cell["people"],
        "exact": exact,
        **forms.measured(squares),
        "limit": limit,
    }


def report(options: Options, rows: Sequence[Row]) -> Report:
    shown = [options["epsilon"][0], comparison.middle(options["epsilon"][1:] or ["1"])]
    shown = list(dict.fromkeys(e for e in shown if e in options["epsilon"]))
    findings = _findings(options, rows, shown[0])
    return Report(
        findings=findings,
        figures=[
            Figure(
                "error",
                "How many people a count is off by, against the people who are counted. On devices "
                "it grows like their root; with a shuffler, and with a trusted server, it does "
                f"not. A shuffler {comparison.TRUST}. Lines are formulas, points are simulations.",
                lambda: _error_figure(rows, shown),
            ),
            Figure(
                "reports",
                "What each report may give away on its own, so that all of them, shuffled, keep ε "
                "for one person. This is what is left where the shuffler is not honest.",
                lambda: _reports_figure(rows, options["epsilon"]),
            ),
        ],
        tables=[_table(rows)],
        method=[
            (
                "ε₀ is the largest at which the divergence of n shuffled reports is at most "
                f"δ = {options['delta']:g}: a sum over binomials, whose tails are added to δ. "
                "Devices and the trusted server keep ε with δ = 0."
            ),
            (
                f"Counts are drawn {options['repetitions']:,} times for each line, in time that "
                "does not depend on the people: the largest distance of a measured mean squared "
                f"error from its formula is {forms.worst_deviation(rows):.1f} Monte-Carlo errors."
            ),
            (
                "People who send something else, or tell what they sent, hide nobody: n counts "
                "honest people. A sealed survey and its relay state what theirs add; a survey's "
                "own promise never counts on it."
            ),
        ],
        document=forms.document(options, rows, findings),
    )


def _findings(options: Options, rows: Sequence[Row], epsilon: str) -> list[str]:
    people = options["people"][-1]
    error = {
        each: math.sqrt(forms.value(rows, each, epsilon=epsilon, people=people)) for each in SERIES
    }
    price = {each: (error[each] / error[CENTRAL]) ** 2 for each in SERIES}
    (mixed,) = forms.of(rows, MIXED, epsilon=epsilon, people=people)
    prices = [
        (forms.value(rows, MIXED, epsilon=e, people=people))
        / forms.value(rows, CENTRAL, epsilon=e, people=people)
        for e in options["epsilon"]
    ]
    return [
        (
            f"A shuffler turns a price of n / 2, here {comparison.figure(price[LOCAL])}, into "
            f"{comparison.figure(price[MIXED])}: at ε {epsilon} a count of {people:,} people is "
            f"off by {comparison.figure(error[LOCAL])} people on devices, "
            f"{comparison.figure(error[MIXED])} shuffled, {comparison.figure(error[CENTRAL])} "
            "with a trusted server (standard errors)."
        ),
        (
            f"It {comparison.TRUST}: without either, such a report keeps ε "
            f"{float(str(mixed['report_epsilon'])):.2f} only. From ε {options['epsilon'][0]} to "
            f"{options['epsilon'][-1]} its price is from {comparison.figure(min(prices))} to "
            f"{comparison.figure(max(prices))}, with δ {options['delta']:g}."
        ),
    ]


def _table(rows: Sequence[Row]) -> Table:
    lines = []
    for mixed in comparison.pick(rows, model="shuffled"):
        epsilon, people = mixed["epsilon"], mixed["people"]
        errors = [
            comparison.figure(math.sqrt(forms.value(rows, each, epsilon=epsilon, people=people)))
            for each in SERIES
        ]
        reported = f"{float(str(mixed['report_epsilon'])):.2f}"
        lines.append([str(epsilon), f"{people:,}", *errors, reported])
    labels = [each.label for each in SERIES]
    return Table(
        "Standard error of a count, in people", ["ε", "people", *labels, "ε₀ of a report"], lines
    )


def _error_figure(rows: Sequence[Row], shown: Sequence[str]) -> matplotlib.figure.Figure:
    titles = [f"ε {epsilon}" for epsilon in shown]
    unit, width = "standard error of a count, people", 4.7 * max(1.4, len(shown))
    figure, panels = estimator_rows.panels(titles, "people", unit, width)
    for axes, epsilon in zip(panels, shown, strict=True):
        for each in SERIES:
            estimator_rows.draw(axes, comparison.pick(rows, epsilon=epsilon), each, "people")
    panels[0].legend(loc="upper left")
    return figure


def _reports_figure(rows: Sequence[Row], epsilons: Sequence[str]) -> matplotlib.figure.Figure:
    figure = new_figure(height=4.0)
    axes = figure.subplots()
    for place, epsilon in enumerate(epsilons):
        found = comparison.pick(rows, model="shuffled", epsilon=epsilon)
        points = [(number(r, "people"), float(str(r["report_epsilon"]))) for r in found]
        style = look(place % 6).style
        axes.plot(*zip(*sorted(points), strict=True), label=f"ε {epsilon}", **style)
    axes.set(xscale="log", xlabel="people", ylabel="ε₀ of one report", ylim=(0, None))
    axes.set_title("What a report alone gives away")
    axes.grid(visible=True)
    axes.legend(loc="upper left")
    return figure


STUDY = Study(
    name="shuffle",
    question="What would shuffling the reports buy, between devices and a trusted server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        ("devices", "n V(ε), V(ε) = e^ε / (e^ε - 1)^2"),
        ("shuffled, at the ε₀ of a report that n of them can have", "n V(ε₀)"),
        ("a trusted server", "2 V(ε)"),
    ),
)
