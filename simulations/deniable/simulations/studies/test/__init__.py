"""A test: how many people it takes to tell one share from a larger one, in each model.

Every test here is the most powerful of its model (`powers.py`), so that its power is the limit too:
no private test finds the larger share more often. All are exact sums; tests of populations that
are drawn, with the noise drawn too, are a check.

The JSON form: `options`, `rows` (`model` none, central or local, `estimator`, `epsilon`, `people`,
`exact` the power with so many people, `measured` with its Monte-Carlo error `error`, `limit` the
largest power that there is, and `people_needed` for the power that was asked for, null beyond ten
billion) and `findings`. Without privacy ε makes no difference: its rows are repeated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.engine import comparison, option
from deniable.simulations.engine.comparison import look, number
from deniable.simulations.engine.figures import FAINT, new_figure
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.studies.test.powers import ESTIMATORS, MODELS, ShareTest

if TYPE_CHECKING:
    import matplotlib.figure

LABELS = {"none": "no privacy", "central": "trusted server", "local": "devices"}
LOOKS = dict(zip(MODELS, map(look, (2, 1, 0)), strict=True))
PEOPLE = "30,100,200,300,500,800,1200,2e3,3e3,5e3,1e4,2e4,1e5,1e6"


OPTIONS = (
    option.epsilons("0.1,0.5,1,2,4"),
    option.people(PEOPLE),
    option.repetitions(4_000),
    option.Option("low", 0.5, option.inside(), "the share if nothing is found", "SHARE"),
    option.Option("high", 0.55, option.inside(), "the larger share, to be told from it", "SHARE"),
    option.Option("level", 0.05, option.inside(), "how often low may be taken for high", "ALPHA"),
    option.Option("power", 0.9, option.inside(), "how often high has to be found", "POWER"),
)


def _check(options: dict[str, Any]) -> Options:  # Any: what JSON can hold
    if not options["low"] < options["high"]:
        raise WrongUse(f"low is below high, got {options['low']:g} and {options['high']:g}")
    if not options["level"] < options["power"]:
        raise WrongUse("level is below power: a coin has as much power as its level")
    return options


def cells(options: Options) -> Sequence[Cell]:
    shared = {key: options[key] for key in ("repetitions", "low", "high", "level", "power")}
    people = ",".join(map(str, options["people"]))
    return [
        {"model": model, "epsilon": epsilon, "people": people, **shared}
        for epsilon in options["epsilon"]
        for model in MODELS
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    model, times = str(cell["model"]), int(cell["repetitions"])
    low, high, level = (float(cell[key]) for key in ("low", "high", "level"))
    test = ShareTest(model, Epsilon(str(cell["epsilon"])), low, high, level)
    needed = test.people_needed(float(cell["power"]))
    rows: list[Row] = []
    for people in map(int, str(cell["people"]).split(",")):
        exact = test.power(people)
        counts = generator.binomial(people, test.rates[1], times)
        found = float(test.rejects(people, counts, generator).mean())
        rows.append(
            {
                "model": model,
                "estimator": ESTIMATORS[model],
                "epsilon": str(cell["epsilon"]),
                "people": people,
                "exact": exact,
                "measured": found,
                "error": math.sqrt(max(0.0, exact * (1 - exact)) / times),
                "limit": exact,
                "people_needed": needed,
            }
        )
    return rows


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon = comparison.middle(options["epsilon"])
    findings = _findings(options, rows, epsilon)
    return Report(
        findings=findings,
        figures=[
            Figure(
                "power",
                f"How often {_words(options)} are told apart, against the people, at ε {epsilon}. "
                "Lines are exact, and nobody's test does better in its model; points are "
                "simulations.",
                lambda: _power_figure(rows, options, epsilon),
            ),
            Figure(
                "people",
                f"How many people that takes with power {options['power']:g}, against ε. "
                "The lower, the better.",
                lambda: _people_figure(rows, options),
            ),
        ],
        tables=[_table(rows, options)],
        method=[
            (
                f"A test may take {options['low']:g} for {options['high']:g} with probability "
                f"{options['level']:g}. Each is the most powerful one: of all tests, of all "
                "private tests of the true answers (Tulap noise), of all tests of deniable "
                "reports (randomized response, whatever else a device might send)."
            ),
            "Power is a sum over a binomial, with a coin at the boundary; nothing is approximated.",
            (
                f"As a check, {options['repetitions']:,} populations are drawn for each number of "
                f"people, and tested: the largest distance from the sum is {_worst(rows):.1f} "
                "Monte-Carlo errors."
            ),
        ],
        document={
            "options": dict(options),
            "rows": [dict(row) for row in rows],
            "findings": findings,
        },
    )


def _words(options: Options) -> str:
    return f"shares of {100 * options['low']:g} % and {100 * options['high']:g} %"


def _needed(rows: Sequence[Row], epsilon: str) -> dict[str, int | None]:
    found = comparison.pick(rows, epsilon=epsilon)
    needed = {str(r["model"]): r["people_needed"] for r in found}
    return {model: None if n is None else int(n) for model, n in needed.items()}


def _said(people: int | None) -> str:
    return "over ten billion" if people is None else f"{people:,}"


def _findings(options: Options, rows: Sequence[Row], epsilon: str) -> list[str]:
    said = {model: _said(n) for model, n in _needed(rows, epsilon).items()}
    first, last = (
        _needed(rows, e)["local"] for e in (options["epsilon"][0], options["epsilon"][-1])
    )
    return [
        (
            f"To tell {_words(options)} apart with power {options['power']:g} takes {said['none']} "
            f"people without privacy, {said['central']} with a trusted server, and {said['local']} "
            f"devices, at ε {epsilon}."
        ),
        (
            f"It takes {_said(first)} devices at ε {options['epsilon'][0]} and {_said(last)} at ε "
            f"{options['epsilon'][-1]}; no other reports and no other test need fewer."
        ),
    ]


def _worst(rows: Sequence[Row]) -> float:
    return max(
        (
            abs(number(r, "measured") - number(r, "exact")) / number(r, "error")
            for r in rows
            if number(r, "error") > 0.001  # else nearly all are alike, and one counts for many
        ),
        default=0.0,
    )


def _table(rows: Sequence[Row], options: Options) -> Table:
    lines = []
    for epsilon in options["epsilon"]:
        needed = _needed(rows, epsilon)
        none, local = needed["none"], needed["local"]
        price = f"{local / none:,.1f}" if none and local else ""
        lines.append([epsilon, *(_said(needed[model]) for model in MODELS), price])
    return Table(
        f"People needed to tell {_words(options)} apart, power {options['power']:g}, level "
        f"{options['level']:g}",
        ["ε", *LABELS.values(), "devices for each without"],
        lines,
    )


def _power_figure(rows: Sequence[Row], options: Options, epsilon: str) -> matplotlib.figure.Figure:
    figure = new_figure()
    axes = figure.subplots()
    for model in MODELS:
        found = sorted(
            comparison.pick(rows, epsilon=epsilon, model=model), key=lambda r: number(r, "people")
        )
        test = ShareTest(model, Epsilon(epsilon), *(options[k] for k in ("low", "high", "level")))
        people = [int(number(r, "people")) for r in found]
        fine = np.unique(np.geomspace(people[0], people[-1], 80).astype(int)).tolist()
        look = LOOKS[model]
        axes.plot(fine, [100 * test.power(n) for n in fine], color=look.color, ls=look.dash)
        axes.errorbar(
            people,
            [100 * number(r, "measured") for r in found],
            yerr=[300 * number(r, "error") for r in found],
            fmt=look.marker,
            color=look.color,
            label=LABELS[model],
            capsize=2,
        )
    axes.axhline(100 * options["power"], color=FAINT, linewidth=0.8)
    axes.axhline(100 * options["level"], color=FAINT, linewidth=0.8)
    axes.set(xscale="log", ylim=(0, 103), xlabel="people", ylabel="told apart, %")
    axes.set_title(f"{_words(options).capitalize()} told apart, ε {epsilon}")
    axes.grid(visible=True)
    axes.legend(loc="center right")
    return figure


def _people_figure(rows: Sequence[Row], options: Options) -> matplotlib.figure.Figure:
    figure = new_figure(height=4.0)
    axes = figure.subplots()
    for model in MODELS:
        needed = [(float(e), _needed(rows, e)[model]) for e in options["epsilon"]]
        known = sorted((e, n) for e, n in needed if n is not None)
        if known:
            axes.plot(*zip(*known, strict=True), label=LABELS[model], **LOOKS[model].style)
    ticks = sorted(float(e) for e in options["epsilon"])
    axes.set(xscale="log", yscale="log", xlabel="ε", ylabel="people needed")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_title(f"People needed, power {options['power']:g}, level {options['level']:g}")
    axes.grid(visible=True)
    axes.legend(loc="upper right")
    return figure


STUDY = Study(
    name="test",
    question="How many people does it take to tell two shares apart?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    check=_check,
    formulas=(
        ("devices say yes with probability", r"\dfrac{1 + (e^ε - 1) s}{e^ε + 1}"),
        (
            "people that devices take to tell a share s from t, about",
            (
                r"n \approx \dfrac{(z_α + z_β)^2 (V + s(1 - s))}{(t - s)^2}, \quad "
                r"V = \dfrac{e^ε}{(e^ε - 1)^2}"
            ),
        ),
    ),
)
