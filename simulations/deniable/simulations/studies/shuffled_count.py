"""A shuffler between devices and a trusted server, for the count of people who say yes.

    local       randomized response at ε                       n V(ε)
    shuffled    randomized response at ε₀ > ε, shuffled        n V(ε₀)
    central     geometric noise on the count                   2 V(ε)

are mean squared errors in people, with V = e^ε / (e^ε - 1)^2. ε₀ is the largest with which n
shuffled reports are (ε, δ)-private (`engine/comparison.py`). As e^ε₀ grows in proportion to n, the
second error tends to a constant, like the third: a price of n / 2 becomes a constant price. The
guarantee needs n honest people and an honest shuffler; alone, a report has ε₀ only.

Sources: those of `deniable.server.estimation.amplification`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numpy.random import Generator

from deniable.server.estimation.amplification import report_epsilon
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central import GeometricCounts, discrete_laplace
from deniable.simulations.engine import comparison, estimator_rows, option
from deniable.simulations.engine.comparison import (
    SHUFFLED,
    TRUST,
    Series,
    delta_option,
    figure,
    look,
    number,
    pick,
)
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study
from deniable.simulations.population import fixed
from deniable.simulations.studies.building_blocks import (
    by_series,
    chart,
    column,
    grid,
    marked_line,
    paragraphs,
    table,
)

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
    delta_option(),
    option.repetitions(4_000),
)


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    epsilon, people, times = Epsilon(str(cell["epsilon"])), int(cell["people"]), cell["repetitions"]
    yes = round(people * float(cell["share"]))
    mixed = report_epsilon(epsilon, people, float(cell["delta"]))
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
    squares: estimator_rows.Array,
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
        **estimator_rows.measured(squares),
        "limit": limit,
    }


def report(options: Options, rows: Sequence[Row]) -> Report:
    shown = [options["epsilon"][0], comparison.middle(options["epsilon"][1:] or ["1"])]
    shown = list(dict.fromkeys(epsilon for epsilon in shown if epsilon in options["epsilon"]))
    findings = _findings(options, rows, shown[0])
    error_caption, reports_caption = paragraphs(
        f"""The error of a count against the number of people who are counted. On devices it grows
        as the square root of that number; with a shuffler, and with a trusted server, it does not
        grow. The shuffled count {TRUST}. Lines are formulas, points are simulations.

        The ε₀ that each report may have alone, so that all reports, shuffled, have ε for one
        person. It is the guarantee that remains if the shuffler is not honest."""
    )
    return Report(
        findings=findings,
        figures=[
            Figure("error", error_caption, lambda: _error_figure(rows, shown)),
            Figure("reports", reports_caption, lambda: _reports_figure(rows, options["epsilon"])),
        ],
        tables=[
            table(
                "Standard error of a count, in people",
                rows,
                {"ε": "epsilon", "people": "people"},
                {series.label: column(series, root=True) for series in SERIES}
                | {"ε₀ of a report": lambda cell: _reported(by_series(cell, SERIES)[MIXED])},
            )
        ],
        method=paragraphs(
            f"""ε₀ is the largest at which the divergence of n shuffled reports is at most
            δ = {options["delta"]:g}: a sum over binomials, whose tails are added to δ. Devices and
            the trusted server keep ε with δ = 0.

            Counts are drawn {options["repetitions"]:,} times for each line, in time that does not
            depend on the people: the largest distance of a measured mean squared error from its
            formula is {estimator_rows.worst_deviation(rows):.1f} Monte-Carlo errors.

            People who send something else, or publish what they sent, do not hide others: n counts
            honest people only. A sealed survey and its relay state what theirs add; a survey's own
            promise never relies on it."""
        ),
        document=estimator_rows.document(options, rows, findings),
    )


def _reported(row: Row) -> str:
    return f"{float(str(row['report_epsilon'])):.2f}"


def _findings(options: Options, rows: Sequence[Row], epsilon: str) -> list[str]:
    people = options["people"][-1]
    largest = pick(rows, people=people)
    cell = pick(largest, epsilon=epsilon)
    error = {series: column(series, root=True)(cell) for series in SERIES}
    local, mixed = (
        figure(estimator_rows.price(cell, series, CENTRAL)) for series in (LOCAL, MIXED)
    )
    prices = [
        estimator_rows.price(pick(largest, epsilon=one_epsilon), MIXED, CENTRAL)
        for one_epsilon in options["epsilon"]
    ]
    return paragraphs(
        f"""A shuffler reduces a price of n / 2, here {local}, to {mixed}. At ε {epsilon} the
        standard error of a count of {people:,} people is {error[LOCAL]} people on devices,
        {error[MIXED]} with a shuffler, and {error[CENTRAL]} with a trusted server.

        This {TRUST}: without either, such a report has only ε
        {_reported(by_series(cell, SERIES)[MIXED])}. From ε {options["epsilon"][0]} to
        {options["epsilon"][-1]} its price is between {figure(min(prices))} and
        {figure(max(prices))}, with δ {options["delta"]:g}."""
    )


def _error_figure(rows: Sequence[Row], shown: Sequence[str]) -> matplotlib.figure.Figure:
    titles = [f"ε {epsilon}" for epsilon in shown]
    unit, width = "standard error of a count, people", 4.7 * max(1.4, len(shown))
    picture, panels = estimator_rows.panels(titles, "people", unit, width)
    for axes, epsilon in zip(panels, shown, strict=True):
        for series in SERIES:
            estimator_rows.draw(axes, pick(rows, epsilon=epsilon), series, "people")
    panels[0].legend(loc="upper left")
    return picture


def _reports_figure(rows: Sequence[Row], epsilons: Sequence[str]) -> matplotlib.figure.Figure:
    title = "What a report alone gives away"
    picture, axes = chart(title, "people", "ε₀ of one report", height=4.0)
    for index, epsilon in enumerate(epsilons):
        mixed = pick(rows, model="shuffled", epsilon=epsilon)
        points = [(number(row, "people"), float(str(row["report_epsilon"]))) for row in mixed]
        marked_line(axes, points, look(index % 6), f"ε {epsilon}")
    axes.set(yscale="linear", ylim=(0, None))
    axes.legend(loc="upper left")
    return picture


STUDY = Study(
    name="shuffle",
    question="What would shuffling gain, between devices and a trusted server?",
    options=OPTIONS,
    cells=grid("epsilon", "people"),
    run=run,
    report=report,
    formulas=(
        ("devices", r"n V(ε), \quad V(ε) = \dfrac{e^ε}{(e^ε - 1)^2}"),
        ("shuffled, at the ε₀ of a report that n of them can have", r"n V(ε_0)"),
        ("a trusted server", r"2 V(ε)"),
    ),
)
