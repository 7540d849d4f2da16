"""A choice among options: every local mechanism for it against a trusted histogram of noisy bins.

    local      each frequency oracle                              variance V(f) / n for each option
    central    geometric noise on each bin, one person replaced   2 h / (h - 1)^2 / n^2, h = e^(ε/2)
    central    the same, one person added or deleted              2 a / (a - 1)^2 / n^2, a = e^ε

A local report protects a person who gives another answer, so the first central line is what it
compares with: such a person leaves one bin and enters another. The second keeps ε only where a
neighbour is a person more or fewer, and then the number of people is not public; it keeps 2 ε
against another answer. With many options, unary against the first has the price (n / 2) / cosh(ε /
4)^2.

Errors are means over the options. The JSON form: `options` and `cells` (`model`, `mechanism`,
`options`, `epsilon`, `people`, `exact`, `measured`, `measured_error`, `repetitions`).
"""

from __future__ import annotations

import math
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from itertools import cycle

import matplotlib.figure
import numpy as np

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import mechanisms, support_design
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central import GeometricCounts
from deniable.simulations.central.geometric import ADD_OR_DELETE, REPLACE_ONE
from deniable.simulations.frame import comparison, option_lists
from deniable.simulations.frame.comparison import Series, look, number
from deniable.simulations.frame.figures import FAINT, new_figure
from deniable.simulations.frame.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.population import discrete_laplace, fixed, whole_people

REPLACE = Series("central", "geometric-replace-one", "trusted, replace", look(1))
ADD = Series("central", "geometric-add-or-delete", "trusted, add", look(3))
LOCAL_LOOKS = cycle(look(place) for place in (0, 2, 4, 5))
LOCAL = tuple(
    Series("local", name, each.label, appearance)
    for (name, each), appearance in zip(mechanisms("choice").items(), LOCAL_LOOKS, strict=False)
)
SERIES = (*LOCAL, REPLACE, ADD)


def arguments(parser: ArgumentParser) -> None:
    comparison.add_arguments(parser, "0.5,1,2,4", "1e3,1e4,1e5,1e6,1e7,1e8", 200)
    parser.add_argument(
        "--options",
        default="4,16,64,256,1024",
        metavar="LIST",
        help="how many (default %(default)s)",
    )


def options(chosen: Namespace) -> Options:
    numbers = [option_lists.whole(part, 2, 4096, "--options") for part in chosen.options.split(",")]
    return {**comparison.read_options(chosen), "options": numbers}


def cells(options: Options) -> Sequence[Cell]:
    """Every number of people at the middle number of options, and every number of options at the
    middle number of people."""
    middle_options = comparison.middle(options["options"])
    middle_people = comparison.middle(options["people"])
    pairs = [(n, middle_options) for n in options["people"]]
    pairs += [(middle_people, k) for k in options["options"] if k != middle_options]
    return [
        {"epsilon": e, "people": n, "options": k, "repetitions": options["repetitions"]}
        for e in options["epsilon"]
        for n, k in pairs
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    epsilon, k, times = (
        Epsilon(str(cell["epsilon"])),
        int(cell["options"]),
        int(cell["repetitions"]),
    )
    people = int(cell["people"])
    held = whole_people([1 / rank for rank in range(1, k + 1)], people)
    rows = []
    for series in SERIES:
        if series.model == "local":
            design = support_design("choice", epsilon, k, series.mechanism)
            counts = fixed(design, held, times, generator).counts
            line = (counts / people - design.lie / ONE) * (ONE / (design.keep - design.lie))
            errors = line - held / people
            exact = float(np.mean([design.variance(people, f) for f in (held / people).tolist()]))
        else:
            trusted = GeometricCounts(epsilon, REPLACE_ONE if series is REPLACE else ADD_OR_DELETE)
            errors = discrete_laplace(trusted.noise, (times, k), generator) / people
            exact = trusted.variance(people)
        root_mean_squares = np.sqrt((errors**2).mean(axis=1))
        row = comparison.row(series, str(epsilon), people, exact, root_mean_squares)
        rows.append({"options": k, **row})
    return rows


def many_options_price(epsilon: float) -> float:
    """Unary against geometric noise for one person replaced, in the limit of many options, for
    each person asked."""
    return 0.5 / math.cosh(epsilon / 4) ** 2


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, people, k = (
        comparison.middle(options[key]) for key in ("epsilon", "people", "options")
    )
    by_people = comparison.pick(rows, options=k)
    by_options = comparison.pick(rows, people=people)
    return Report(
        findings=_findings(rows, epsilon, people, k),
        figures=[
            Figure(
                "error",
                f"How far off the share of an option is, on average over {k} options, against the "
                f"people asked, at ε {epsilon}. Lines are formulas, points are simulations.",
                lambda: comparison.error_figure(
                    comparison.pick(by_people, epsilon=epsilon),
                    SERIES,
                    f"Error of each share of {k}, ε {epsilon}",
                    "± points (1.96 standard errors)",
                    100,
                ),
            ),
            Figure(
                "options",
                f"The same for {people:,} people, against the number of options: k-RR gets worse "
                "with every option; the mechanisms whose reports are sets do not.",
                lambda: _options_figure(
                    comparison.pick(by_options, epsilon=epsilon), people, epsilon
                ),
            ),
        ],
        tables=[
            comparison.error_table(
                f"Error of a share, {k} options, in points: 1.96 standard errors",
                by_people,
                SERIES,
                100,
                "",
            ),
            _price_table(by_options, people),
        ],
        method=[
            (
                "Shares fall off as 1, 1/2, 1/3, ...; the people are fixed and only noise is "
                "drawn. "
                "Errors are root mean squares over the options."
            ),
            (
                "'trusted, replace' keeps ε for one person who gives another answer, as the local "
                "mechanisms do, and is the fair comparison. 'trusted, add' keeps ε only for one "
                "person more or fewer, and 2 ε for another answer."
            ),
            comparison.check_words(rows),
            (
                "Counts are drawn in time that does not depend on the people, each with exactly "
                "the distribution that as many reports would give it."
            ),
        ],
        document=comparison.cells_document(options, rows),
    )


def _findings(rows: Sequence[Row], epsilon: str, people: int, k: int) -> list[str]:
    found = comparison.pick(rows, epsilon=epsilon, people=people, options=k)
    local = min(comparison.pick(found, model="local"), key=lambda r: number(r, "exact"))
    label = next(s.label for s in SERIES if s.mechanism == local["mechanism"])
    central = comparison.one(found, mechanism=REPLACE.mechanism)
    price = number(local, "exact") / number(central, "exact")
    best = _best_by_options(comparison.pick(rows, epsilon=epsilon, people=people, model="local"))
    return [
        (
            f"With {people:,} people and {k} options at ε {epsilon}, {label} gives each share to "
            f"± {comparison.figure(100 * comparison.half_width(local))} points and a trusted "
            f"histogram to ± {comparison.figure(100 * comparison.half_width(central))}: "
            f"{comparison.figure(price / people)} times the variance for each person asked, where "
            "unary encoding of many options comes to "
            f"{comparison.figure(many_options_price(float(Epsilon(epsilon))))}."
        ),
        f"The local mechanism that errs least at ε {epsilon} is {best}.",
    ]


def _best_by_options(rows: Sequence[Row]) -> str:
    """Each once, with the numbers of options at which it errs least."""
    labels = {series.mechanism: series.label for series in LOCAL}
    least: dict[int, Row] = {}
    for row in sorted(rows, key=lambda r: number(r, "exact")):
        least.setdefault(int(number(row, "options")), row)
    wins: dict[str, list[str]] = {}
    for k in sorted(least):
        wins.setdefault(labels[str(least[k]["mechanism"])], []).append(f"{k:,}")
    return ", and ".join(f"{label} with {listed(sizes)} options" for label, sizes in wins.items())


def listed(texts: Sequence[str]) -> str:
    """
    >>> listed(["4"]), listed(["16", "64", "256"])
    ('4', '16, 64 and 256')
    """
    return " and ".join(part for part in (", ".join(texts[:-1]), texts[-1]) if part)


def _price_table(rows: Sequence[Row], people: int) -> Table:
    keys = sorted({(float(str(r["epsilon"])), int(number(r, "options"))) for r in rows})
    lines = []
    for epsilon, k in keys:
        found = comparison.pick(rows, epsilon=str(Epsilon(f"{epsilon:.9f}")), options=k)
        central = number(comparison.one(found, mechanism=REPLACE.mechanism), "exact")
        prices = [
            number(comparison.one(found, mechanism=s.mechanism), "exact") / central / people
            for s in LOCAL
        ]
        limit = many_options_price(epsilon)
        lines.append([f"{epsilon:g}", f"{k:,}", *(f"{price:,.4f}" for price in (*prices, limit))])
    return Table(
        "Price of locality against 'trusted, replace', for each person asked",
        ["ε", "options", *(s.label for s in LOCAL), "unary, limit of many options"],
        lines,
    )


def _options_figure(rows: Sequence[Row], people: int, epsilon: str) -> matplotlib.figure.Figure:
    figure = new_figure()
    axes = figure.subplots()
    for series in SERIES:
        found = sorted(
            comparison.pick(rows, mechanism=series.mechanism), key=lambda r: number(r, "options")
        )
        axes.plot(
            [number(r, "options") for r in found],
            [100 * comparison.half_width(r) for r in found],
            color=series.look.color,
            linestyle=series.look.dash,
            marker=series.look.marker,
            label=series.label,
        )
    axes.set(xscale="log", yscale="log", xlabel="options")
    axes.set(ylabel="± points (1.96 standard errors)")
    axes.set_title(f"Error of each share, {people:,} people, ε {epsilon}")
    ticks = sorted({int(number(r, "options")) for r in rows})
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(visible=True, color=FAINT)
    axes.legend(loc="center left")
    return figure


STUDY = Study(
    name="histogram",
    question="What does it cost to learn the shares of many options without trusting the server?",
    arguments=arguments,
    options=options,
    cells=cells,
    run=run,
    report=report,
)
