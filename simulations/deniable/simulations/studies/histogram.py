"""A choice among options: every local mechanism for it against a trusted histogram of noisy bins.

    local      each frequency oracle                              variance V(f) / n for each option
    central    geometric noise on each bin, one person replaced   2 h / (h - 1)^2 / n^2, h = e^(ε/2)
    central    the same, one person added or deleted              2 a / (a - 1)^2 / n^2, a = e^ε
    central    the best of what keeps ε for one person replaced, local mechanisms among them
    shuffled   the oracle that a question would have at ε₀      V(f; ε₀) / n for each option

A local report protects a person who gives another answer, so the first central line is what it
compares with: such a person leaves one bin and enters another. Two options are one count, as the
number of people is public: there h is a. The second keeps ε only where a neighbour is a person more
or fewer, and then the number of people is not public; it keeps 2 ε against another answer. A
curator can run a local mechanism too, which is the better one where people are few and ε large.
With many options, unary against the first has the price (n / 2) / cosh(ε / 4)^2.

The limit is the least sum of squared errors that any local mechanism has where shares are alike,
for many people: (k - 1)^2 / (n T) when people are drawn (`planning/least_variance.py` of the
server). Errors of these designs, summed over the options, do not depend on the shares. From n of
about 40 V k^2 on it is proved to within 25 to 40 %, V = e^ε / (e^ε - 1)^2, by van Trees'
inequality.

Errors are means over the options. The JSON form: `options` and `cells` (`model`, `mechanism`,
`options`, `epsilon`, `people`, `exact`, `measured`, `measured_error`, `repetitions` about these
people; `exact_drawn`, `measured_drawn`, `error_drawn` about the population; `limit` of the first;
`limit_ratio`, n times the sum of squared errors where shares are alike by that of the limit, people
being drawn). A local mechanism with the model `central` is one that a curator runs: it is there
where it is better than noisy bins. Shuffled reports keep (ε, δ) if the shuffler and n people are
honest (`frame/shuffler.py`); `report_epsilon` is that of one report, null where there are none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from deniable.server.estimation.shares import unbiased_share
from deniable.server.estimation.supports import supports
from deniable.server.planning.least_variance import least_of_a_share, told
from deniable.server.planning.shuffled import report_epsilon
from deniable.server.planning.trusted import ADD_OR_DELETE, REPLACE_ONE
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import support_design
from deniable.shared.privacy.shapes.support import SupportDesign
from deniable.simulations.central import GeometricCounts
from deniable.simulations.frame import comparison, option, own, shuffler
from deniable.simulations.frame.comparison import DRAWN, THESE, Series, look, number
from deniable.simulations.frame.figures import FAINT, new_figure
from deniable.simulations.frame.shuffler import SHUFFLED
from deniable.simulations.frame.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.population import discrete_laplace, drawn, fixed, whole_people

if TYPE_CHECKING:
    import matplotlib.figure

Array = NDArray[np.float64]
REPLACE = Series("central", "geometric-replace-one", "trusted, replace", look(1))
ADD = Series("central", "geometric-add-or-delete", "trusted, add", look(3))
BEST = Series("central", "best", "trusted, best", look(1))
BELOW = 1 - 1e-12  # a limit stays one in doubles
SHOWN = (SHUFFLED, BEST, ADD)  # in figures and tables: `replace` is `best` almost everywhere
LOOKS = tuple(look(place) for place in (0, 2, 4, 5))
DASHES = ("-", "-.", "--", ":")  # of the second round of colours, of the third


def local_series(mechanisms: Sequence[str]) -> tuple[Series, ...]:
    """Those that were asked for."""
    looks = (
        replace(each, dash=dash) if round_ else each
        for round_, dash in enumerate(DASHES)
        for each in LOOKS
    )
    return tuple(
        Series("local", name, own.label("choice", name), appearance)
        for name, appearance in zip(mechanisms, cycle(looks), strict=False)
    )


OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e3,1e4,1e5,1e6,1e7,1e8"),
    option.repetitions(200),
    own.option_for("choice"),
    option.Option(
        "options", "4,16,64,256,1024", option.several(option.whole(2, 4096)), "how many options"
    ),
    shuffler.option_for(),
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
        "delta": options["delta"],
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
    weights = 1 / np.arange(1, k + 1)
    crowd = Crowd(people, whole_people(weights.tolist(), people), weights / weights.sum())
    rows: list[Row] = []
    for series in local_series(str(cell["mechanisms"]).split(",")):
        if k in own.find("choice", series.mechanism).sizes:
            design = own.choice_mechanism(series.mechanism, epsilon, k)
            rows.append(_local(series, design, crowd, times, generator))
    moved = {REPLACE: REPLACE_ONE if k > 2 else ADD_OR_DELETE, ADD: ADD_OR_DELETE}
    rows += [
        _central(series, GeometricCounts(epsilon, by), crowd, times, generator)
        for series, by in moved.items()
    ]
    rows += _run_by_the_curator(rows)
    mixed = report_epsilon(epsilon, people, float(cell["delta"]))
    rows.append(
        _shuffled(support_design("choice", mixed, k), str(epsilon), crowd, times, generator)
    )
    return [{"options": k, **row} for row in rows]


def _run_by_the_curator(rows: Sequence[Row]) -> list[Row]:
    """The best local mechanism, where a curator who runs it does better than with noisy bins."""
    bins = comparison.one(rows, mechanism=REPLACE.mechanism)
    local = min(comparison.pick(rows, model="local"), key=lambda row: number(row, "exact"))
    better = number(local, "exact") < number(bins, "exact")
    return [{**local, "model": "central", "limit": None, "limit_ratio": None}] if better else []


def with_best(rows: Sequence[Row]) -> list[Row]:
    """And for each cell the best of what a curator can do at this ε."""
    best: dict[tuple[object, ...], Row] = {}
    for row in rows:
        if row["model"] == "central" and row["mechanism"] != ADD.mechanism:
            cell = tuple(row[key] for key in ("epsilon", "people", "options"))
            best[cell] = min(best.get(cell, row), row, key=lambda r: number(r, "exact"))
    return [*rows, *({**row, "mechanism": BEST.mechanism} for row in best.values())]


@dataclass(frozen=True)
class Crowd:
    """`held` each option, and the `shares` of the population that such people are drawn from."""

    people: int
    held: NDArray[np.int64]
    shares: Array

    @property
    def sampling(self) -> float:
        """The variance that drawing the people adds, on average over the options."""
        return float(np.mean(self.shares * (1 - self.shares)) / self.people)


def _local(
    series: Series,
    design: SupportDesign,
    crowd: Crowd,
    times: int,
    generator: np.random.Generator,
) -> dict[str, str | int | float | None]:
    n, k = crowd.people, design.options

    def shares(counts: NDArray[np.int64]) -> Array:
        supporting = np.array([supports(design, cells) for cells in counts])
        return np.asarray(unbiased_share(supporting / n, design))

    these = shares(fixed(design, crowd.held, times, generator).counts) - crowd.held / n
    anew = shares(drawn(design, crowd.shares.tolist(), n, times, generator).counts) - crowd.shares
    exact = float(np.mean([design.variance(n, f) for f in (crowd.held / n).tolist()]))
    epsilon = float(design.epsilon)
    alike = k * design.variance(1, 1 / k) + (k - 1) / k
    return {
        **_row(series, str(design.epsilon), crowd, exact, these, anew),
        "limit": BELOW * least_of_a_share(epsilon, k) / n,
        "limit_ratio": alike * told(epsilon, k) / (k - 1) ** 2,
        "report_epsilon": str(design.epsilon),
    }


def _shuffled(
    design: SupportDesign, epsilon: str, crowd: Crowd, times: int, generator: np.random.Generator
) -> dict[str, str | int | float | None]:
    """No limit of such reports is known."""
    row = _local(SHUFFLED, design, crowd, times, generator)
    return {**row, "epsilon": epsilon, "limit": None, "limit_ratio": None}


def _central(
    series: Series,
    trusted: GeometricCounts,
    crowd: Crowd,
    times: int,
    generator: np.random.Generator,
) -> dict[str, str | int | float | None]:
    n = crowd.people
    errors = discrete_laplace(trusted.noise, (times, len(crowd.held)), generator) / n
    sampled = generator.multinomial(n, crowd.shares, times) / n - crowd.shares
    exact = trusted.variance(n)
    row = _row(series, str(trusted.epsilon), crowd, exact, errors, errors + sampled)
    return {**row, "limit": None, "limit_ratio": None, "report_epsilon": None}


def _row(
    series: Series, epsilon: str, crowd: Crowd, exact: float, these: Array, anew: Array
) -> dict[str, str | int | float | None]:
    """From the errors of each option in each repetition."""
    roots = (np.sqrt((errors**2).mean(axis=1)) for errors in (these, anew))
    return {
        **comparison.row(series, epsilon, crowd.people, exact, next(roots)),
        **comparison.drawn_columns(exact + crowd.sampling, next(roots)),
    }


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
    label = own.label("choice", str(local["mechanism"]))
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
            f"reports at ε {float(str(mixed['report_epsilon'])):.2f}; it {shuffler.TRUST}."
        ),
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


STUDY = Study(
    name="histogram",
    question="What does it cost to learn how popular each option is, without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        (
            "devices; of those who hold an option p say so, of others q",
            "V(f) / n = (f p (1 - p) + (1 - f) q (1 - q)) / (n (p - q)^2)",
        ),
        ("a trusted server's noisy bins", "2 h / (n^2 (h - 1)^2), h = e^(ε / 2)"),
        (
            "no mechanism on devices has a smaller sum",
            "(k - 1)^2 / (n T), T = max_d k d (k - d) (e^ε - 1)^2 / (d e^ε + k - d)^2",
        ),
    ),
)
