"""What is said and drawn of a bounded mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deniable.simulations.engine import comparison, custom_mechanisms
from deniable.simulations.engine.comparison import DRAWN, THESE, Series, number
from deniable.simulations.engine.figures import FAINT, new_figure
from deniable.simulations.engine.study import Figure, Options, Report, Row
from deniable.simulations.studies import populations
from deniable.simulations.studies.mean.series import CENTRAL, CENTRAL_STEPS, series_of

if TYPE_CHECKING:
    import matplotlib.figure

TICKS = (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


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
    label = custom_mechanisms.label("number", str(best["mechanism"]))
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
    return custom_mechanisms.label("number", str(_best_row(found)["mechanism"]))


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
