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
from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central import GeometricCounts
from deniable.simulations.central.geometric import ADD_OR_DELETE, REPLACE_ONE
from deniable.simulations.frame import comparison, option, own
from deniable.simulations.frame.comparison import Series, look, number
from deniable.simulations.frame.figures import FAINT, new_figure
from deniable.simulations.frame.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.population import discrete_laplace, fixed, whole_people

if TYPE_CHECKING:
    import matplotlib.figure


REPLACE = Series("central", "geometric-replace-one", "trusted, replace", look(1))
ADD = Series("central", "geometric-add-or-delete", "trusted, add", look(3))
LOOKS = tuple(look(place) for place in (0, 2, 4, 5))


def series_of(mechanisms: Sequence[str]) -> tuple[Series, ...]:
    """Those that were asked for, and the trusted histograms."""
    local = (
        Series("local", name, own.label("choice", name), appearance)
        for name, appearance in zip(mechanisms, cycle(LOOKS), strict=False)
    )
    return (*local, REPLACE, ADD)


OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e3,1e4,1e5,1e6,1e7,1e8"),
    option.repetitions(200),
    own.option_for("choice"),
    option.Option(
        "options", "4,16,64,256,1024", option.several(option.whole(2, 4096)), "how many options"
    ),
)


def cells(options: Options) -> Sequence[Cell]:
    """Every number of people at the middle number of options, and every number of options at the
    middle number of people."""
    middle_options = comparison.middle(options["options"])
    middle_people = comparison.middle(options["people"])
    pairs = [(n, middle_options) for n in options["people"]]
    pairs += [(middle_people, k) for k in options["options"] if k != middle_options]
    shared = {
        "mechanisms": ",".join(options["mechanisms"]),
        "repetitions": options["repetitions"],
    }
    return [
        {"epsilon": e, "people": n, "options": k, **shared}
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
    for series in series_of(str(cell["mechanisms"]).split(",")):
        if series.model == "local":
            design = own.choice_mechanism(series.mechanism, epsilon, k)
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
    series = series_of(options["mechanisms"])
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
                    series,
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
                    comparison.pick(by_options, epsilon=epsilon), series, people, epsilon
                ),
            ),
        ],
        tables=[
            comparison.error_table(
                f"Error of a share, {k} options, in points: 1.96 standard errors",
                by_people,
                series,
                100,
                "",
            ),
            _price_table(by_options, series, people),
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
    label = own.label("choice", str(local["mechanism"]))
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
    least: dict[int, Row] = {}
    for row in sorted(rows, key=lambda r: number(r, "exact")):
        least.setdefault(int(number(row, "options")), row)
    wins: dict[str, list[str]] = {}
    for k in sorted(least):
        label = own.label("choice", str(least[k]["mechanism"]))
        wins.setdefault(label, []).append(f"{k:,}")
    return ", and ".join(f"{label} with {listed(sizes)} options" for label, sizes in wins.items())


def listed(texts: Sequence[str]) -> str:
    """
    >>> listed(["4"]), listed(["16", "64", "256"])
    ('4', '16, 64 and 256')
    """
    return " and ".join(part for part in (", ".join(texts[:-1]), texts[-1]) if part)


def _price_table(rows: Sequence[Row], series: Sequence[Series], people: int) -> Table:
    local = [each for each in series if each.model == "local"]
    keys = sorted({(float(str(r["epsilon"])), int(number(r, "options"))) for r in rows})
    lines = []
    for epsilon, k in keys:
        found = comparison.pick(rows, epsilon=str(Epsilon(f"{epsilon:.9f}")), options=k)
        central = number(comparison.one(found, mechanism=REPLACE.mechanism), "exact")
        prices = [
            number(comparison.one(found, mechanism=s.mechanism), "exact") / central / people
            for s in local
        ]
        limit = many_options_price(epsilon)
        lines.append([f"{epsilon:g}", f"{k:,}", *(f"{price:,.4f}" for price in (*prices, limit))])
    return Table(
        "Price of locality against 'trusted, replace', for each person asked",
        ["ε", "options", *(s.label for s in local), "unary, limit of many options"],
        lines,
    )


def _options_figure(
    rows: Sequence[Row], series: Sequence[Series], people: int, epsilon: str
) -> matplotlib.figure.Figure:
    figure = new_figure()
    axes = figure.subplots()
    for each in series:
        found = sorted(
            comparison.pick(rows, mechanism=each.mechanism), key=lambda r: number(r, "options")
        )
        axes.plot(
            [number(r, "options") for r in found],
            [100 * comparison.half_width(r) for r in found],
            color=each.look.color,
            linestyle=each.look.dash,
            marker=each.look.marker,
            label=each.label,
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
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
)
