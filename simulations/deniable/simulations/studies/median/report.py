"""What the median study found: sentences, figures and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.engine import comparison
from deniable.simulations.engine.comparison import number
from deniable.simulations.engine.figures import FAINT, new_figure
from deniable.simulations.engine.study import Figure, Options, Report, Row, Table
from deniable.simulations.studies.median.local_search import GROUPS, LEFT_OUT
from deniable.simulations.studies.median.people import (
    ALL,
    CLIP,
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


def make_report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon = comparison.middle(options["epsilon"])
    people = comparison.middle(options["people"])
    share = options["quantile"][0]
    every, rows = rows, comparison.pick(rows, question="quantile", share=share)
    shown = comparison.pick(rows, epsilon=epsilon)
    target = Target("quantile", share)
    cells = [row for row in rows if row["mechanism"] in {s.mechanism for s in SERIES}]
    findings = _findings(rows, every, epsilon, people, share)
    return Report(
        findings=findings,
        figures=[
            Figure(
                "limit",
                "Squared errors by the least that any local protocol can have, against the people "
                f"asked, at ε {epsilon}: asked in turn they reach it; whoever may ask twice, or "
                "once, pays for it. Points, with three standard errors, are simulations.",
                lambda: _limit_figure(every, options, epsilon),
            ),
            Figure(
                "error",
                f"How far off an estimated {_named(share)} is, as a share of the range, against "
                f"the people asked, at ε {epsilon}. Lines are the limits for many people, points "
                "simulations.",
                lambda: comparison.error_figure(
                    shown,
                    SERIES,
                    f"Error of a {_named(share)}, ε {epsilon}",
                    "± % of the range (1.96 standard errors)",
                    100,
                ),
            ),
            Figure(
                "price",
                "How many times the variance of the people's own quantile, or mean, devices have: "
                "it depends on ε and not on the people asked. Lines are limits.",
                lambda: _price_figure(every, options),
            ),
        ],
        tables=[
            comparison.error_table(
                f"Error of the {_named(share)}, in % of the range: 1.96 standard errors of the "
                "limit",
                rows,
                SERIES,
                100,
                "",
            ),
            *(_limit_table(every, question, each) for question, each in _targets(options)),
        ],
        method=[
            (
                "People are drawn anew in each repetition from the distribution "
                f"F(x) = 1 - (1 - x^2)^5 on the range, which has its {_named(share)} at "
                f"{target.truth:.4f} and density {target.density:.4f} there; for the centre, from "
                f"a normal distribution with deviation {SIGMA:g} of the range."
            ),
            (
                f"In turn, everybody is asked once whether they are above a threshold, in up to "
                f"{GROUPS:,} groups, by randomized response; each group's threshold follows from "
                "those before. The search knows nothing of the distribution. The first groups, "
                f"one in {LEFT_OUT}, are spent on getting near."
            ),
            (
                "Once: a group for each level of a binary tree over the range, by unary encoding. "
                "In two groups: a tenth of the people once, half of the others at one place below "
                "what was found and half above, with a straight line between."
            ),
            (
                "The trusted server has the exponential mechanism on ranks, with e^(-ε/2) for each "
                "person off the quantile. The printed e^-ε would spend 2 ε."
            ),
            (
                f"Measured by {rows[0]['repetitions']:,} repetitions. Lines are limits and not "
                "exact errors."
            ),
        ],
        document={
            **comparison.cells_document(options, cells),
            "rows": [dict(row) for row in every],
            "findings": findings,
        },
    )


def _named(share: float) -> str:
    return "median" if share == 0.5 else f"{share:g} quantile"


def _targets(options: Options) -> list[tuple[str, float]]:
    return [*(("quantile", share) for share in options["quantile"]), ("location", 0.5)]


def _ratios(rows: Sequence[Row]) -> list[float]:
    return [number(r, "measured") / number(r, "limit") for r in rows]


def _findings(
    rows: Sequence[Row], every: Sequence[Row], epsilon: str, people: int, share: float
) -> list[str]:
    local, central, none = (
        comparison.one(rows, epsilon=epsilon, people=people, mechanism=s.mechanism) for s in SERIES
    )
    errors = [
        comparison.figure(100 * comparison.Z95 * math.sqrt(number(r, "measured")))
        for r in (local, central, none)
    ]
    price = number(local, "exact") / number(none, "exact")
    here = comparison.pick(rows, mechanism=LOCAL.mechanism)
    ratios = _ratios([r for r in here if number(r, "people") >= MANY] or here)
    twice, once = (
        _ratios([comparison.one(rows, epsilon=epsilon, people=people, mechanism=s.mechanism)])[0]
        for s in (TWO_GROUPS, ONCE)
    )
    search, clip = (
        number(r, "exact") / number(none_, "exact")
        for none_ in [comparison.pick(every, question="location", epsilon=epsilon, model="none")[0]]
        for s in (LOCAL, CLIP)
        for r in [comparison.one(every, question="location", epsilon=epsilon,
                                 people=none_["people"], mechanism=s.mechanism)]
    )  # fmt: skip
    return [
        (
            f"With {people:,} people at ε {epsilon}, a search on devices finds the "
            f"{_named(share)} to ± {errors[0]} % of the range, a trusted server to ± {errors[1]} "
            f"%, and without any privacy to ± {errors[2]} %."
        ),
        (
            f"The price of locality is {price:.2f} times the people at ε {epsilon}, however many "
            f"are asked, and no local protocol has a lower one; the search came to "
            f"{min(ratios):.2f} to {max(ratios):.2f} times that limit. In two groups it takes "
            f"{twice:.3g} times as many people, and {once:.3g} times if all are asked at once."
        ),
        (
            f"The centre of a normal distribution costs {search:.3g} times the people by the same "
            f"search, where one bit of numbers clipped at three deviations costs {clip:.3g} times."
        ),
    ]


def _limit_table(every: Sequence[Row], question: str, share: float) -> Table:
    rows = comparison.pick(every, question=question, share=share)
    shown = [s for s in ALL if s.model == "local" and comparison.pick(rows, mechanism=s.mechanism)]
    lines = []
    for epsilon, people in dict.fromkeys((str(r["epsilon"]), r["people"]) for r in rows):
        found = [
            comparison.one(rows, epsilon=epsilon, people=people, mechanism=s.mechanism)
            for s in shown
        ]
        texts = [
            f"{_ratios([r])[0]:,.3f} ± {number(r, 'measured_error') / number(r, 'limit'):,.3f}"
            for r in found
        ]
        lines.append([epsilon, f"{people:,}", *texts])
    what = _named(share) if question == "quantile" else "centre"
    title = f"Squared error of the {what}, measured, by the limit of all local protocols"
    return Table(title, ["ε", "people", *(s.label for s in shown)], lines)


def _limit_figure(every: Sequence[Row], options: Options, epsilon: str) -> matplotlib.figure.Figure:
    targets = _targets(options)
    figure = new_figure(width=4.4 * min(len(targets), 3) + 0.6, height=4.4)
    panels = figure.subplots(1, len(targets), sharey=True, squeeze=False)[0]
    for (question, share), axes in zip(targets, panels, strict=True):
        rows = comparison.pick(every, question=question, share=share, epsilon=epsilon)
        for series in ALL:
            found = comparison.pick(rows, mechanism=series.mechanism)
            if series.model == "local" and found:
                axes.errorbar(
                    [number(r, "people") for r in found],
                    _ratios(found),
                    yerr=[3 * number(r, "measured_error") / number(r, "limit") for r in found],
                    label=series.label,
                    **series.look.style,
                    capsize=2,
                )
        axes.axhline(1, color=FAINT, linewidth=1.2, linestyle=(0, (1, 1.5)))
        axes.set(xscale="log", yscale="log", xlabel="people")
        words = "centre of a normal distribution" if question == "location" else _named(share)
        axes.set_title(f"The {words}, ε {epsilon}")
        axes.grid(visible=True)
    panels[0].set_ylabel("squared error, by the least possible")
    handles, labels = panels[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
    return figure


def _price_figure(every: Sequence[Row], options: Options) -> matplotlib.figure.Figure:
    targets = [_targets(options)[0], ("location", 0.5)]
    figure = new_figure(width=9.0, height=4.0)
    grid = np.geomspace(0.3, 8, 100)
    for (question, share), axes in zip(targets, figure.subplots(1, 2, sharey=True), strict=True):
        rows = comparison.pick(every, question=question, share=share)
        most, target = max(number(r, "people") for r in rows), Target(question, share)
        base = target.limit(NONE, Epsilon("1"), 1)
        for series in (CLIP, LOCAL) if question == "location" else (LOCAL,):
            curve = [target.limit(series, Epsilon(f"{e:.6f}"), 1) / base for e in grid]
            axes.plot(grid, curve, color=series.look.color, ls=series.look.dash)
            found = comparison.pick(rows, people=most, mechanism=series.mechanism)
            axes.errorbar(
                [float(str(r["epsilon"])) for r in found],
                [number(r, "measured") * most / base for r in found],
                yerr=[3 * number(r, "measured_error") * most / base for r in found],
                fmt=series.look.marker,
                color=series.look.color,
                capsize=2,
                label=series.label,
            )
        axes.axhline(1, color=FAINT, linewidth=0.8)
        axes.set(xscale="log", yscale="log", xlabel="ε")
        axes.set_title(f"The {'centre' if question == 'location' else _named(share)}")
        axes.set_xticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
        axes.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
        axes.minorticks_off()
        axes.grid(visible=True)
        axes.legend(loc="upper right")
    figure.axes[0].set_ylabel("times the people, or the variance")
    return figure
