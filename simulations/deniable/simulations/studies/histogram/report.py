"""What is said and drawn of a choice among options."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.engine import comparison, custom_mechanisms
from deniable.simulations.engine.comparison import DRAWN, SHUFFLED, THESE, Series, number
from deniable.simulations.engine.figures import FAINT, new_figure
from deniable.simulations.engine.study import Figure, Options, Report, Row, Table
from deniable.simulations.studies.histogram.curator import with_best
from deniable.simulations.studies.histogram.series import BEST, LOOKS, SHOWN, local_series

if TYPE_CHECKING:
    import matplotlib.figure


def many_options_price(epsilon: float) -> float:
    """Unary against geometric noise for one person replaced, in the limit of many options, for
    each person asked."""
    return 0.5 / math.cosh(epsilon / 4) ** 2


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, people, k = (
        comparison.middle(options[key]) for key in ("epsilon", "people", "options")
    )
    local = local_series(options["mechanisms"])
    series, document = (*local, *SHOWN), comparison.cells_document(options, rows)
    checked, rows = comparison.check_words(rows), with_best(rows)
    by_people = comparison.pick(rows, options=k)
    by_options = comparison.pick(rows, people=people)
    return Report(
        findings=_findings(rows, epsilon, people, k),
        figures=[
            Figure(
                "error",
                f"How far off the share of an option is, on average over {k} options, against the "
                f"people asked, at ε {epsilon}: of the people who are asked, and of the population "
                "that they are drawn from. Lines are formulas, points are simulations.",
                lambda: comparison.error_figure(
                    comparison.pick(by_people, epsilon=epsilon),
                    series,
                    f"Error of each share of {k}, ε {epsilon}",
                    "± points (1.96 standard errors)",
                    100,
                    (THESE, DRAWN),
                ),
            ),
            Figure(
                "limit",
                "How much larger the squared errors of local mechanisms are than those of the best "
                "there can be, against the number of options, for each ε. At 1 nobody does better, "
                "whatever devices send; the line is proved for many people.",
                lambda: _limit_figure(by_options, local, options["epsilon"]),
            ),
            Figure(
                "options",
                f"The error for {people:,} people, against the number of options: k-RR gets worse "
                "with every option; the mechanisms whose reports are sets do not. No local "
                "mechanism is below the dotted line.",
                lambda: _options_figure(
                    comparison.pick(by_options, epsilon=epsilon), series, people, epsilon
                ),
            ),
        ],
        tables=[
            *(
                comparison.error_table(
                    f"Error of a share of {side.label}, {k} options, in points: 1.96 standard "
                    "errors",
                    by_people,
                    series,
                    100,
                    "",
                    side,
                )
                for side in (THESE, DRAWN)
            ),
            _price_table(by_options, local, people),
        ],
        method=[
            (
                "Shares fall off as 1, 1/2, 1/3, ...; 'these people' are fixed and only noise is "
                "drawn, 'the population' has people drawn too. Errors are root mean squares over "
                "the options."
            ),
            (
                "'trusted, best' keeps ε for one person who gives another answer, as the local "
                "mechanisms do: noisy bins, or a local mechanism where that is better, which a "
                "curator can run too. 'trusted, add' keeps ε only for one person more or fewer, "
                "and 2 ε for another answer."
            ),
            (
                "'Shuffled' are reports of the local mechanism that errs least at a larger ε₀, "
                f"which together keep (ε, {options['delta']:g}) as long as the shuffler is honest "
                "and n people are: alone, a report keeps its ε₀."
            ),
            checked,
            (
                "Counts are drawn in time that does not depend on the people, each with exactly "
                "the distribution that as many reports would give it."
            ),
        ],
        document=document,
    )


def _findings(rows: Sequence[Row], epsilon: str, people: int, k: int) -> list[str]:
    found = comparison.pick(rows, epsilon=epsilon, people=people, options=k)
    local = min(comparison.pick(found, model="local"), key=lambda r: number(r, "exact"))
    label = custom_mechanisms.label("choice", str(local["mechanism"]))
    central = comparison.one(found, mechanism=BEST.mechanism)
    mixed = comparison.one(found, model=SHUFFLED.model)
    price = number(local, "exact") / number(central, "exact")
    drawn_price = number(local, "exact_drawn") / number(central, "exact_drawn")
    best = _best_by_options(comparison.pick(rows, epsilon=epsilon, people=people, model="local"))
    return [
        (
            f"With {people:,} people and {k} options at ε {epsilon}, {label} gives each share to "
            f"± {comparison.figure(100 * comparison.half_width(local))} points and a trusted "
            f"histogram to ± {comparison.figure(100 * comparison.half_width(central))}: "
            f"{comparison.figure(price / people)} times the variance for each person asked, where "
            "unary encoding of many options comes to "
            f"{comparison.figure(many_options_price(float(Epsilon(epsilon))))}. About the "
            f"population that they are drawn from it is {comparison.figure(drawn_price)} times."
        ),
        (
            f"The local mechanism that errs least at ε {epsilon} is {best}; its squared errors are "
            f"{number(local, 'limit_ratio'):.4f} times the least that any local mechanism can have."
        ),
        (
            "A shuffler would give each share to "
            f"± {comparison.figure(100 * comparison.half_width(mixed))} points with "
            f"reports at ε {float(str(mixed['report_epsilon'])):.2f}; it {comparison.TRUST}."
        ),
    ]


def _best_by_options(rows: Sequence[Row]) -> str:
    """Each once, with the numbers of options at which it errs least."""
    least: dict[int, Row] = {}
    for row in sorted(rows, key=lambda r: number(r, "exact")):
        least.setdefault(int(number(row, "options")), row)
    wins: dict[str, list[str]] = {}
    for k in sorted(least):
        label = custom_mechanisms.label("choice", str(least[k]["mechanism"]))
        wins.setdefault(label, []).append(f"{k:,}")
    return ", and ".join(f"{label} with {listed(sizes)} options" for label, sizes in wins.items())


def listed(texts: Sequence[str]) -> str:
    """Return the texts as a list in a sentence.

    >>> listed(["4"]), listed(["16", "64", "256"])
    ('4', '16, 64 and 256')
    """
    return " and ".join(part for part in (", ".join(texts[:-1]), texts[-1]) if part)


def _price_table(rows: Sequence[Row], local: Sequence[Series], people: int) -> Table:
    keys = sorted({(float(str(r["epsilon"])), int(number(r, "options"))) for r in rows})
    lines = []
    for epsilon, k in keys:
        found = comparison.pick(rows, epsilon=str(Epsilon(f"{epsilon:.9f}")), options=k)
        central = number(comparison.one(found, mechanism=BEST.mechanism), "exact")
        prices = [
            f"{number(row, 'exact') / central / people:,.4f}" if row else ""
            for s in local
            for row in [
                next(iter(comparison.pick(found, model="local", mechanism=s.mechanism)), None)
            ]
        ]
        limit = f"{many_options_price(epsilon):,.4f}"
        lines.append([f"{epsilon:g}", f"{k:,}", *prices, limit])
    return Table(
        "Price of locality against 'trusted, best', for each person asked",
        ["ε", "options", *(s.label for s in local), "unary, limit of many options"],
        lines,
    )


def _limit_figure(
    rows: Sequence[Row], local: Sequence[Series], epsilons: Sequence[str]
) -> matplotlib.figure.Figure:
    figure = new_figure(width=9.0, height=2.9 * math.ceil(len(epsilons) / 2) + 0.8)
    grid = figure.subplots(math.ceil(len(epsilons) / 2), 2, sharey=True, squeeze=False).flat
    ticks = sorted({int(number(r, "options")) for r in rows})
    for epsilon, axes in zip(epsilons, grid, strict=False):
        for each in local:
            found = comparison.pick(rows, model="local", mechanism=each.mechanism, epsilon=epsilon)
            points = sorted((number(r, "options"), number(r, "limit_ratio")) for r in found)
            if points:
                axes.plot(*zip(*points, strict=True), label=each.label, **each.look.style)
        axes.axhline(1, color=FAINT, linewidth=1.2, linestyle=(0, (1, 1.5)))
        axes.set(xscale="log", yscale="log", title=f"ε {epsilon}", ylim=(0.9, 10))
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.set_yticks([1, 2, 5, 10], ["1", "2", "5", "10"])
        axes.minorticks_off()
        axes.grid(visible=True)
    for axes in list(grid):
        axes.remove()
    figure.supylabel("squared errors, by the least possible", fontsize=10)
    figure.supxlabel("options", fontsize=10)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=9)
    return figure


def _options_figure(
    rows: Sequence[Row], series: Sequence[Series], people: int, epsilon: str
) -> matplotlib.figure.Figure:
    figure = new_figure()
    axes = figure.subplots()
    for each in series:
        found = sorted(
            comparison.pick(rows, model=each.model, mechanism=each.mechanism),
            key=lambda r: number(r, "options"),
        )
        axes.plot(
            [number(r, "options") for r in found],
            [100 * comparison.half_width(r) for r in found],
            color=each.look.color,
            linestyle=each.look.dash,
            marker=each.look.marker,
            label=each.label,
        )
    limits = sorted({(number(r, "options"), number(r, "limit")) for r in rows if r["limit"]})
    if limits:
        ks, least = zip(*limits, strict=True)
        half = [100 * comparison.Z95 * math.sqrt(each) for each in least]
        axes.plot(ks, half, color=LOOKS[0].color, lw=1.2, ls=(0, (1, 1.5)), label="local limit")
    axes.set(xscale="log", yscale="log", xlabel="options")
    axes.set(ylabel="± points (1.96 standard errors)")
    axes.set_title(f"Error of each share, {people:,} people, ε {epsilon}")
    ticks = sorted({int(number(r, "options")) for r in rows})
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(visible=True, color=FAINT)
    axes.legend(loc="center left")
    return figure
