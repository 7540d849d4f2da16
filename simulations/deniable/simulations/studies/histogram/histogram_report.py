"""The report on a choice among options: its series, the curator's best, findings and figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING

from deniable.simulations.engine import comparison, custom_mechanisms
from deniable.simulations.engine.comparison import (
    DRAWN,
    SHUFFLED,
    THESE,
    TRUST,
    Z95,
    Series,
    figure,
    half_width,
    look,
    number,
    one,
    pick,
)
from deniable.simulations.engine.figures import new_figure, plain_ticks
from deniable.simulations.engine.study import Figure, Options, Report, Row
from deniable.simulations.studies.building_blocks import (
    by_series,
    chart,
    limit_line,
    marked_line,
    paragraphs,
    points_of,
    reference_line,
    table,
)

if TYPE_CHECKING:
    import matplotlib.figure

REPLACE = Series("central", "geometric-replace-one", "trusted, replace", look(1))
ADD = Series("central", "geometric-add-or-delete", "trusted, add", look(3))
BEST = Series("central", "best", "trusted, best", look(1))
SHOWN = (SHUFFLED, BEST, ADD)  # in figures and tables: `replace` is `best` almost everywhere
LOOKS = tuple(map(look, (0, 2, 4, 5)))
DASHES = ("-", "-.", "--", ":")  # of the second and later rounds through the colours
UNIT = "± points (1.96 standard errors)"


def local_series(mechanisms: Sequence[str]) -> tuple[Series, ...]:
    """Return the series of these local mechanisms."""
    looks = (
        replace(look, dash=dash) if round_ else look
        for round_, dash in enumerate(DASHES)
        for look in LOOKS
    )
    return tuple(
        Series("local", name, custom_mechanisms.label("choice", name), appearance)
        for name, appearance in zip(mechanisms, cycle(looks), strict=False)
    )


def run_by_the_curator(rows: Sequence[Row]) -> list[Row]:
    """Return the best local mechanism as a curator's, where it is better than noisy bins."""
    bins = one(rows, mechanism=REPLACE.mechanism)
    local = min(pick(rows, model="local"), key=lambda row: number(row, "exact"))
    better = number(local, "exact") < number(bins, "exact")
    return [{**local, "model": "central", "limit": None, "limit_ratio": None}] if better else []


def with_best(rows: Sequence[Row]) -> list[Row]:
    """Return the rows, and for each cell the best that a curator can do at this ε."""
    best: dict[tuple[object, ...], Row] = {}
    for row in rows:
        if row["model"] == "central" and row["mechanism"] != ADD.mechanism:
            cell = tuple(row[key] for key in ("epsilon", "people", "options"))
            best[cell] = min(best.get(cell, row), row, key=lambda r: number(r, "exact"))
    return [*rows, *({**row, "mechanism": BEST.mechanism} for row in best.values())]


def many_options_price(epsilon: float) -> float:
    """Return the price per person of unary against geometric noise, with many options.

    A neighbour is one person replaced.
    """
    return 0.5 / math.cosh(epsilon / 4) ** 2


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, people, k = (
        comparison.middle(options[key]) for key in ("epsilon", "people", "options")
    )
    local, document = local_series(options["mechanisms"]), comparison.cells_document(options, rows)
    series = (*local, *SHOWN)
    checked, rows = comparison.check_words(rows), with_best(rows)
    by_people, by_options = pick(rows, options=k), pick(rows, people=people)
    error_caption, limit_caption, options_caption = paragraphs(
        f"""The error of an option's share, averaged over {k} options, against the number of people,
        at ε {epsilon}: for the people who are asked, and for the population they are drawn from.
        Lines are formulas, points are simulations.

        The squared errors of local mechanisms divided by the least possible, against the number of
        options, for each ε. No mechanism is below 1, whatever devices send; the line is proved for
        many people.

        The error for {people:,} people, against the number of options: k-RR gets worse with every
        option; mechanisms whose reports are sets do not. No local mechanism is below the dotted
        line."""
    )
    return Report(
        findings=_findings(rows, epsilon, people, k),
        figures=[
            Figure(
                "error",
                error_caption,
                lambda: comparison.error_figure(
                    pick(by_people, epsilon=epsilon),
                    series,
                    f"Error of each share of {k}, ε {epsilon}",
                    *(UNIT, 100, (THESE, DRAWN)),
                ),
            ),
            Figure(
                "limit",
                limit_caption,
                lambda: _limit_figure(by_options, local, options["epsilon"]),
            ),
            Figure(
                "options",
                options_caption,
                lambda: _options_figure(pick(by_options, epsilon=epsilon), series, people, epsilon),
            ),
        ],
        tables=[
            *(
                comparison.error_table(
                    f"Error of a share of {side.label}, {k} options, in points: 1.96 standard "
                    "errors",
                    *(by_people, series, 100, "", side),
                )
                for side in (THESE, DRAWN)
            ),
            table(
                "Price of locality against 'trusted, best', per person asked",
                sorted(by_options, key=lambda r: (float(str(r["epsilon"])), number(r, "options"))),
                {"ε": "epsilon", "options": "options"},
                {oracle.label: _price_of(oracle, people) for oracle in local}
                | {
                    "unary, limit of many options": lambda cell: (
                        f"{many_options_price(float(str(cell[0]['epsilon']))):,.4f}"
                    )
                },
            ),
        ],
        method=paragraphs(
            f"""Shares fall off as 1, 1/2, 1/3, ...; 'these people' are fixed and only noise is
            drawn, 'the population' has people drawn too. Errors are root mean squares over the
            options.

            'trusted, best' keeps ε for one person who gives another answer, as the local mechanisms
            do: noisy bins, or a local mechanism where that is better, which a curator can run too.
            'trusted, add' keeps ε only for one person more or fewer, and 2 ε for another answer.

            Shuffled reports are those of the local mechanism with the least error at a larger ε₀.
            Together they have (ε, {options["delta"]:g}) as long as the shuffler and n people are
            honest; alone, a report has ε₀.

            {checked}

            Counts are drawn in time that does not depend on the people, with exactly the
            distribution that reports of all of them would give."""
        ),
        document=document,
    )


def _price_of(series: Series, people: int) -> Callable[[Sequence[Row]], str]:
    """Return a column: the price of the series per person, empty where it has no row."""

    def text(cell: Sequence[Row]) -> str:
        rows = by_series(cell, [series, BEST])
        if series not in rows:
            return ""
        price = number(rows[series], "exact") / number(rows[BEST], "exact") / people
        return f"{price:,.4f}"

    return text


def _findings(rows: Sequence[Row], epsilon: str, people: int, k: int) -> list[str]:
    cell = pick(rows, epsilon=epsilon, people=people, options=k)
    local = min(pick(cell, model="local"), key=lambda row: number(row, "exact"))
    central, mixed = one(cell, mechanism=BEST.mechanism), one(cell, model=SHUFFLED.model)
    price = number(local, "exact") / number(central, "exact") / people
    drawn_price = number(local, "exact_drawn") / number(central, "exact_drawn")
    best = _best_by_options(pick(rows, epsilon=epsilon, people=people, model="local"))

    def points(row: Row) -> str:
        return f"± {figure(100 * half_width(row))}"

    return paragraphs(
        f"""With {people:,} people and {k} options at ε {epsilon}, {_label(local)} estimates each
        share to {points(local)} points and a trusted histogram to {points(central)}. The variance
        is {figure(price)} n times as large, where n is the number of people; for unary encoding of
        many options the factor is {figure(many_options_price(float(epsilon)))}. About the
        population the variance is {figure(drawn_price)} times as large.

        The local mechanism with the least error at ε {epsilon} is {best}; its squared errors are
        {number(local, "limit_ratio"):.4f} times the least of any local mechanism.

        A shuffler would estimate each share to {points(mixed)} points with reports at ε
        {float(str(mixed["report_epsilon"])):.2f}; it {TRUST}."""
    )


def _label(row: Row) -> str:
    return custom_mechanisms.label("choice", str(row["mechanism"]))


def _best_by_options(rows: Sequence[Row]) -> str:
    """Return each best mechanism once, with the numbers of options at which it is the best."""
    least: dict[int, Row] = {}
    for row in sorted(rows, key=lambda r: number(r, "exact")):
        least.setdefault(int(number(row, "options")), row)
    wins: dict[str, list[str]] = {}
    for k in sorted(least):
        wins.setdefault(_label(least[k]), []).append(f"{k:,}")
    return ", and ".join(f"{label} with {listed(sizes)} options" for label, sizes in wins.items())


def listed(texts: Sequence[str]) -> str:
    """Return the texts as a list in a sentence.

    >>> listed(["4"]), listed(["16", "64", "256"])
    ('4', '16, 64 and 256')
    """
    return " and ".join(part for part in (", ".join(texts[:-1]), texts[-1]) if part)


def _limit_figure(
    rows: Sequence[Row], local: Sequence[Series], epsilons: Sequence[str]
) -> matplotlib.figure.Figure:
    picture = new_figure(width=9.0, height=2.9 * math.ceil(len(epsilons) / 2) + 0.8)
    grid = picture.subplots(math.ceil(len(epsilons) / 2), 2, sharey=True, squeeze=False).flat
    ticks = sorted({number(row, "options") for row in rows})
    for epsilon, axes in zip(epsilons, grid, strict=False):
        for series in local:
            points = points_of(pick(rows, epsilon=epsilon), series, "options", "limit_ratio")
            marked_line(axes, points, series.look, series.label)
        reference_line(axes, 1)
        axes.set(xscale="log", yscale="log", title=f"ε {epsilon}", ylim=(0.9, 10))
        axes.set_yticks([1, 2, 5, 10], ["1", "2", "5", "10"])
        plain_ticks(axes, ticks)
    for axes in list(grid):
        axes.remove()
    picture.supylabel("squared errors / least possible", fontsize=10)
    picture.supxlabel("options", fontsize=10)
    handles, labels = picture.axes[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=9)
    return picture


def _options_figure(
    rows: Sequence[Row], series: Sequence[Series], people: int, epsilon: str
) -> matplotlib.figure.Figure:
    title = f"Error of each share, {people:,} people, ε {epsilon}"
    picture, axes = chart(title, "options", UNIT)
    for one_series in series:
        points = [
            (number(row, "options"), 100 * half_width(row))
            for row in pick(rows, model=one_series.model, mechanism=one_series.mechanism)
        ]
        marked_line(axes, points, one_series.look, one_series.label)
    limits = {
        (number(row, "options"), 100 * Z95 * math.sqrt(number(row, "limit")))
        for row in rows
        if row["limit"]
    }
    limit_line(axes, limits, LOOKS[0], "local limit")
    plain_ticks(axes, sorted({number(row, "options") for row in rows}))
    axes.legend(loc="center left")
    return picture
