"""The report on quantiles: findings, figures and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.engine import comparison
from deniable.simulations.engine.comparison import Z95, Series, figure, number, one, pick
from deniable.simulations.engine.figures import new_figure, plain_ticks
from deniable.simulations.engine.study import Figure, Options, Report, Row, Table
from deniable.simulations.studies.building_blocks import (
    bars,
    by_series,
    paragraphs,
    reference_line,
    table,
)
from deniable.simulations.studies.median.quantile_search import (
    ALL,
    BURN_IN,
    CLIP,
    GROUPS,
    LOCAL,
    NONE,
    ONCE,
    SERIES,
    SIGMA,
    TWO_GROUPS,
    Target,
)

if TYPE_CHECKING:
    import matplotlib.figure

MANY = 10_000  # people: from here on the search is near its limit


def report(options: Options, every: Sequence[Row]) -> Report:
    epsilon, people = (comparison.middle(options[key]) for key in ("epsilon", "people"))
    share = options["quantile"][0]
    rows, target = pick(every, question="quantile", share=share), Target("quantile", share)
    name, findings = _name(target), _findings(every, rows, epsilon, people, target)
    limit_caption, error_caption, price_caption = paragraphs(
        f"""Squared errors divided by the least of any local protocol, against the number of people,
        at ε {epsilon}: the sequential search attains it; two rounds, or one, cost more people.
        Points, with three standard errors, are simulations.

        The error of an estimated {name}, as a share of the range, against the number of people, at
        ε {epsilon}. Lines are the limits for many people, points are simulations.

        The variance on devices divided by that of the people's own quantile, or mean: it depends on
        ε, not on the number of people. Lines are limits."""
    )
    return Report(
        findings=findings,
        figures=[
            Figure("limit", limit_caption, lambda: _limit_figure(every, options, epsilon)),
            Figure(
                "error",
                error_caption,
                lambda: comparison.error_figure(
                    pick(rows, epsilon=epsilon),
                    SERIES,
                    f"Error of a {name}, ε {epsilon}",
                    *("± % of the range (1.96 standard errors)", 100),
                ),
            ),
            Figure("price", price_caption, lambda: _price_figure(every, options)),
        ],
        tables=[
            comparison.error_table(
                f"Error of the {name}, in % of the range: 1.96 standard errors of the limit",
                *(rows, SERIES, 100, ""),
            ),
            *(_limit_table(every, target) for target in _targets(options)),
        ],
        method=paragraphs(
            f"""People are drawn again in each repetition from the distribution
            F(x) = 1 - (1 - x^2)^5 on the range, which has its {name} at {target.truth:.4f} and
            density {target.density:.4f} there; for the centre, from a normal distribution with
            deviation {SIGMA:g} of the range.

            Sequential search: each person is asked once whether they are above a threshold, in up
            to {GROUPS:,} groups, by randomized response; each group's threshold depends on the
            groups before it. The search knows nothing about the distribution. The first groups, one
            in {BURN_IN}, only approach the quantile.

            One round: a group for each level of a binary tree over the range, by unary encoding.
            Two groups: a tenth of the people in one round, then half of the others at one point
            below the resulting estimate and half above it, with a straight line between.

            The trusted server has the exponential mechanism on ranks, with e^(-ε/2) for each person
            off the quantile. With e^-ε, as it is often printed, it would spend 2 ε.

            Measured by {rows[0]["repetitions"]:,} repetitions. Lines are limits, not exact
            errors."""
        ),
        document={
            **comparison.cells_document(
                options,
                [row for row in rows if row["mechanism"] in {s.mechanism for s in SERIES}],
            ),
            "rows": [dict(row) for row in every],
            "findings": findings,
        },
    )


def _name(target: Target) -> str:
    if target.question == "location":
        return "centre"
    return "median" if target.share == 0.5 else f"{target.share:g} quantile"


def _targets(options: Options) -> list[Target]:
    quantiles = [Target("quantile", share) for share in options["quantile"]]
    return [*quantiles, Target("location", 0.5)]


def _ratio(row: Row, key: str = "measured") -> float:
    return number(row, key) / number(row, "limit")


def _findings(
    every: Sequence[Row], rows: Sequence[Row], epsilon: str, people: int, target: Target
) -> list[str]:
    cell = {row["mechanism"]: row for row in pick(rows, epsilon=epsilon, people=people)}
    local, central, none = (cell[series.mechanism] for series in SERIES)
    errors = [
        figure(100 * Z95 * math.sqrt(number(row, "measured"))) for row in (local, central, none)
    ]
    searches = pick(rows, mechanism=LOCAL.mechanism)
    many = [row for row in searches if number(row, "people") >= MANY]
    ratios = [_ratio(row) for row in many or searches]
    centre = pick(every, question="location", epsilon=epsilon)
    centre = pick(centre, people=centre[0]["people"])
    search, clip = (
        number(one(centre, mechanism=series.mechanism), "exact")
        / number(one(centre, model="none"), "exact")
        for series in (LOCAL, CLIP)
    )
    return paragraphs(
        f"""With {people:,} people at ε {epsilon}, a search on devices finds the {_name(target)} to
        ± {errors[0]} % of the range, a trusted server to ± {errors[1]} %, and an estimate without
        privacy to ± {errors[2]} %.

        The price of locality is {number(local, "exact") / number(none, "exact"):.2f} times the
        people at ε {epsilon}, whatever their number, and no local protocol has a lower price; the
        search measured {min(ratios):.2f} to {max(ratios):.2f} times that limit. In two groups it
        takes {_ratio(cell[TWO_GROUPS.mechanism]):.3g} times as many people, and
        {_ratio(cell[ONCE.mechanism]):.3g} times in one round.

        The centre of a normal distribution takes {search:.3g} times the people by the same search,
        and {clip:.3g} times by one bit of numbers clipped at three deviations."""
    )


def _limit_table(every: Sequence[Row], target: Target) -> Table:
    rows = pick(every, question=target.question, share=target.share)
    local = {row["mechanism"] for row in pick(rows, model="local")}
    return table(
        f"Squared error of the {_name(target)}, measured, divided by the limit of all local "
        "protocols",
        rows,
        {"ε": "epsilon", "people": "people"},
        {series.label: _ratio_of(series) for series in ALL if series.mechanism in local},
    )


def _ratio_of(series: Series) -> Callable[[Sequence[Row]], str]:
    def text(cell: Sequence[Row]) -> str:
        row = by_series(cell, [series])[series]
        return f"{_ratio(row):,.3f} ± {_ratio(row, 'measured_error'):,.3f}"

    return text


def _limit_figure(every: Sequence[Row], options: Options, epsilon: str) -> matplotlib.figure.Figure:
    targets = _targets(options)
    picture = new_figure(width=4.4 * min(len(targets), 3) + 0.6, height=4.4)
    panels = picture.subplots(1, len(targets), sharey=True, squeeze=False)[0]
    for target, axes in zip(targets, panels, strict=True):
        rows = pick(every, question=target.question, share=target.share, epsilon=epsilon)
        for series in ALL:
            mine = pick(rows, mechanism=series.mechanism)
            if series.model == "local" and mine:
                axes.errorbar(
                    [number(row, "people") for row in mine],
                    [_ratio(row) for row in mine],
                    yerr=[3 * _ratio(row, "measured_error") for row in mine],
                    label=series.label,
                    **series.look.style,
                    capsize=2,
                )
        reference_line(axes, 1)
        words = "centre of a normal distribution" if _name(target) == "centre" else _name(target)
        axes.set(xscale="log", yscale="log", xlabel="people", title=f"The {words}, ε {epsilon}")
        axes.grid(visible=True)
    panels[0].set_ylabel("squared error / least possible")
    handles, labels = panels[-1].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
    return picture


def _price_figure(every: Sequence[Row], options: Options) -> matplotlib.figure.Figure:
    targets = [_targets(options)[0], Target("location", 0.5)]
    picture = new_figure(width=9.0, height=4.0)
    grid = np.geomspace(0.3, 8, 100)
    for target, axes in zip(targets, picture.subplots(1, 2, sharey=True), strict=True):
        rows = pick(every, question=target.question, share=target.share)
        most = max(number(row, "people") for row in rows)
        base = target.limit(NONE, Epsilon("1"), 1)
        for series in (CLIP, LOCAL) if target.question == "location" else (LOCAL,):
            curve = [target.limit(series, Epsilon(f"{e:.6f}"), 1) / base for e in grid]
            axes.plot(grid, curve, color=series.look.color, ls=series.look.dash)
            points = [
                (
                    float(str(row["epsilon"])),
                    number(row, "measured") * most / base,
                    3 * number(row, "measured_error") * most / base,
                )
                for row in pick(rows, people=most, mechanism=series.mechanism)
            ]
            bars(axes, points, series.look, series.label)
        reference_line(axes, 1, dotted=False)
        axes.set(xscale="log", yscale="log", xlabel="ε", title=f"The {_name(target)}")
        axes.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
        plain_ticks(axes, [0.5, 1, 2, 4, 8])
        axes.legend(loc="upper right")
    picture.axes[0].set_ylabel("times the people, or the variance")
    return picture
