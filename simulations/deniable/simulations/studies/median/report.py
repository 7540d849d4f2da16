"""What the median study found: sentences, figures and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deniable.simulations.frame import comparison
from deniable.simulations.frame.comparison import number
from deniable.simulations.frame.figures import FAINT, new_figure
from deniable.simulations.frame.study import Figure, Options, Report, Row, Table
from deniable.simulations.studies.median.local_search import GROUPS
from deniable.simulations.studies.median.people import DENSITY, LOCAL, MEDIAN, SERIES

if TYPE_CHECKING:
    import matplotlib.figure


def make_report(options: Options, rows: Sequence[Row]) -> Report:
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
