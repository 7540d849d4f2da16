"""The slope of a line: y = θ x + e, x and y in [-1, 1], one trusted server after the other.

x is uniform on [-1, 1], e uniform on ±1/2, θ = 1/2. n times the mean squared error, to first order,
with C = 1 / tanh(ε / 2) and S = 1 / (2 E x^2):

    none       least squares                     Var e / E x^2
    central    exponential mechanism             8 S / ε                        and that of none
    central    KNG, or objective perturbation    512 S^2 / (ε^2 n)              and that of none
    central    noisy sums of x^2 and x y         (81/8) (1 + θ^2) / (ε E x^2)^2 / n    and none's
    local      sums, by two groups               (A / w + B / (1 - w)) / (E x^2)^2
    local      gradients, one bit each           16 C^2 S^2
    local      signs, one bit each               C^2, as E|x| f(0) = 1/2

A = C^2 - (θ E x^2)^2 and B = θ^2 (C^2 / 4 - (E x^2 - 1/2)^2) are the variances of one bit for x y
and for x^2; a share w of the people tells the first, the best being √A / (√A + √B). Gradients
2 x (y - θ x), rounded at random to ±4, are asked at the θ where the search stands, and so are the
signs of x (y - θ x): those find the θ at which residuals have the median 0, which is the slope
here, as errors are as often above as below. All are bits, randomized, and private as those of
devices are.

Limit, local, for many people: (E|x e| / E x^2)^2 C^2 / n. Under densities changed by 1 + v
sign(x e) the slope of least squares moves by v E|x e| / E x^2, and all that a report says of v is a
randomized response: information tanh(ε / 2)^2.

Where an estimate leaves [-1, 1] it is cut off. Sums of people's x^2 and x e are drawn from normal
distributions, which for so many people they have; trusted noise in doubles is a simulation of its
distribution (`central/regression.py`).

The JSON form: `options`, `rows` (`model`, `estimator`, `epsilon`, `people`, `exact` the formula, to
first order, of which `noise` is what privacy adds, null where it is not a part; `measured` with its
Monte-Carlo error `error`, `limit`) and `findings`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central import regression as central
from deniable.simulations.frame import comparison, option
from deniable.simulations.frame import rows as forms
from deniable.simulations.frame.comparison import Series, look
from deniable.simulations.frame.figures import new_figure
from deniable.simulations.frame.study import Cell, Figure, Options, Report, Row, Study, Table

if TYPE_CHECKING:
    import matplotlib.figure

Array = forms.Array
NONE = Series("none", "least-squares", "no privacy", look(2))
EXPONENTIAL = Series("central", "exponential", "trusted, exponential mechanism", look(1))
KNG = Series("central", "kng", "trusted, KNG", look(3))
OBJECTIVE = Series("central", "objective", "trusted, objective perturbation", look(4))
NOISY_SUMS = Series("central", "noisy-sums", "trusted, noisy sums", look(5))
SUMS = Series("local", "sums", "devices, sums", look(0))
HALVES = Series("local", "sums-halves", "devices, sums by halves", look(3))
GRADIENT = Series("local", "gradient", "devices, gradients", look(4))
SIGNS = Series("local", "signs", "devices, signs", look(5))
TRUSTED = (NONE, EXPONENTIAL, OBJECTIVE, KNG, NOISY_SUMS)
DEVICES = (GRADIENT, HALVES, SUMS, SIGNS)
SERIES = (*TRUSTED, *DEVICES)

SLOPE, XX, ERROR = 0.5, 1 / 3, 1 / 12  # θ, E x^2, Var e
XX_VARIANCE = 1 / 5 - 1 / 9
S = 1 / (2 * XX)
X_E = 1 / 8  # E|x e|
STEEPEST = 4.0  # of a gradient
GROUPS, LEFT_OUT = 1_000, 50
Gradient = Callable[[Array], Array]  # at θ: the probability that the bit is one


OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e4,1e5,1e6,1e7,1e8", least=1_000),
    option.repetitions(300),
)


def cells(options: Options) -> Sequence[Cell]:
    return [
        {"epsilon": epsilon, "people": people, "repetitions": options["repetitions"]}
        for epsilon in options["epsilon"]
        for people in options["people"]
    ]


def formulas(epsilon: float) -> dict[Series, tuple[float, float | None, float | None]]:
    """n times the error; and what noise adds to it, over and above, n times and n^2 times."""
    c2 = 1 / math.tanh(epsilon / 2) ** 2
    a, b = parts(epsilon)
    best = (math.sqrt(a) + math.sqrt(b)) ** 2
    steep = 512 * S**2 / epsilon**2
    return {
        NONE: (ERROR / XX, None, None),
        EXPONENTIAL: (ERROR / XX, 8 * S / epsilon, None),
        KNG: (ERROR / XX, None, steep),
        OBJECTIVE: (ERROR / XX, None, steep),
        NOISY_SUMS: (ERROR / XX, None, 81 / 8 * (1 + SLOPE**2) / (epsilon * XX) ** 2),
        SUMS: (best / XX**2, None, None),
        HALVES: (2 * (a + b) / XX**2, None, None),
        GRADIENT: (16 * c2 * S**2, None, None),
        SIGNS: (c2, None, None),
    }


def parts(epsilon: float) -> tuple[float, float]:
    """A and B."""
    c2 = 1 / math.tanh(epsilon / 2) ** 2
    return c2 - (SLOPE * XX) ** 2, SLOPE**2 * (c2 / 4 - (XX - 0.5) ** 2)


def limit(epsilon: float) -> float:
    """n times what no local protocol is below."""
    return (X_E / XX / math.tanh(epsilon / 2)) ** 2


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    epsilon, n, times = Epsilon(str(cell["epsilon"])), int(cell["people"]), int(cell["repetitions"])
    e, response = float(epsilon), RandomizedResponse(epsilon)
    people = _people(n, times, generator)
    a, b = (math.sqrt(part) for part in parts(e))
    found = {
        NONE: people.slope,
        EXPONENTIAL: central.exponential(people, e, generator),
        KNG: central.kng(people, e, generator),
        OBJECTIVE: central.objective(people, e, generator),
        NOISY_SUMS: central.noisy_sums(people, e, generator),
        SUMS: _two_groups(response, n, a / (a + b), times, generator),
        HALVES: _two_groups(response, n, 0.5, times, generator),
        GRADIENT: _search(response, n, times, by_gradient, 2 * STEEPEST * S, generator),
        SIGNS: _search(response, n, times, by_sign, 2.0, generator),
    }
    rows: list[Row] = []
    for series, (once, noise, small) in formulas(e).items():
        added = (noise or 0.0) / n + (small or 0.0) / n**2
        rows.append(
            {
                "model": series.model,
                "estimator": series.mechanism,
                "epsilon": str(epsilon),
                "people": n,
                "exact": once / n + added,
                "noise": added if series.model == "central" else None,
                **forms.measured((found[series] - SLOPE) ** 2),
                "limit": limit(e) / n if series.model == "local" else None,
            }
        )
    return rows


def _people(n: int, times: int, generator: np.random.Generator) -> central.Sums:
    xx = generator.normal(n * XX, math.sqrt(n * XX_VARIANCE), times)
    xe = generator.normal(0, math.sqrt(n * XX * ERROR), times)
    return central.Sums(xx, SLOPE * xx + xe)


def _said(
    response: RandomizedResponse, size: int, rate: Array | float, times: int,
    generator: np.random.Generator,
) -> Array:  # fmt: skip
    """An unbiased estimate of the probability of the bit, from so many people's reports."""
    keep, lie = response.keep / ONE, response.lie / ONE
    counts = generator.binomial(size, lie + (keep - lie) * np.asarray(rate), times)
    return np.asarray((counts / size - lie) / (keep - lie))


def _two_groups(
    response: RandomizedResponse, n: int, share: float, times: int, generator: np.random.Generator
) -> Array:
    first = round(n * share)
    xy = 2 * _said(response, first, (1 + SLOPE * XX) / 2, times, generator) - 1
    xx = _said(response, n - first, XX, times, generator)
    return np.clip(xy / np.maximum(xx, 1e-3), -1, 1)


def by_gradient(theta: Array) -> Array:
    """Of the gradient, rounded at random to one of its ends."""
    return np.asarray((1 + 2 * XX * (SLOPE - theta) / STEEPEST) / 2)


def by_sign(theta: Array) -> Array:
    """That x (y - θ x) is above 0: 1/2 + E min(|d x|, 1/2) to the side of d = θ* - θ."""
    d = SLOPE - theta
    far = 0.5 - 1 / (8 * np.maximum(np.abs(d), 0.5))
    return np.asarray(0.5 + np.sign(d) * np.where(np.abs(d) <= 0.5, np.abs(d) / 2, far))


def _search(
    response: RandomizedResponse, n: int, times: int, rate: Gradient, steep: float,
    generator: np.random.Generator,
) -> Array:  # fmt: skip
    """Polyak's average of a walk to where the bit is as often one as not; `steep` is how far θ is
    off for each that it is off."""
    ends = np.rint(np.linspace(0, n, GROUPS + 1)).astype(np.int64)
    theta, total, weight = np.zeros(times), np.zeros(times), 0
    for place, size in enumerate(np.diff(ends).tolist()):
        if place >= GROUPS // LEFT_OUT:
            total += size * theta
            weight += size
        step = steep * (place + 1) ** -0.6 * (_said(response, size, rate(theta), times, generator)
                                              - 0.5)  # fmt: skip
        theta = np.clip(theta + step, -1, 1)
    return np.asarray(total / weight)


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, people = comparison.middle(options["epsilon"]), options["people"][-1]
    middle = comparison.middle(options["people"])
    findings = _findings(rows, epsilon, middle)
    shown = comparison.pick(rows, epsilon=epsilon)
    return Report(
        findings=findings,
        figures=[
            Figure(
                "error",
                f"How far off a slope is, against the people, at ε {epsilon}: by a trusted server "
                "and on devices. Lines are formulas for many people, points are simulations.",
                lambda: _error_figure(shown, epsilon),
            ),
            Figure(
                "price",
                f"n times the squared error of {people:,} people, against ε: devices that are "
                "asked better questions, and what no local protocol is below.",
                lambda: _epsilon_figure(comparison.pick(rows, people=people), people),
            ),
        ],
        tables=[_table(rows)],
        method=[
            (
                "x is uniform on [-1, 1], y is x / 2 and an error uniform on ±1/2; people are "
                "drawn, and one of them replaced by another is what ε protects against. Formulas "
                "are to first order for many people."
            ),
            (
                f"Each line is drawn {options['repetitions']:,} times. Sums over people are drawn "
                "from normal distributions; counts of reports are exact, given what is asked. With "
                f"{people:,} people the mean squared errors are {forms.ratios(rows, people)} times "
                "the formulas."
            ),
            (
                "Trusted noise is drawn in doubles: a simulation of its distribution. Reports of "
                "devices are randomized bits, of a number rounded at random to an end of its range."
            ),
        ],
        document=forms.document(options, rows, findings),
    )


def _findings(rows: Sequence[Row], epsilon: str, people: int) -> list[str]:
    here = comparison.pick(rows, epsilon=epsilon, people=people)
    error = {each: people * forms.value(here, each) for each in SERIES}
    said = {each: comparison.figure(value) for each, value in error.items()}
    against = {
        each: comparison.figure(error[SUMS] / error[each]) for each in (EXPONENTIAL, KNG, NONE)
    }
    least = comparison.figure(error[SIGNS] / limit(float(epsilon)))
    return [
        (
            f"With {people:,} people at ε {epsilon}, devices' sums cost {against[EXPONENTIAL]} "
            "times the people of a trusted exponential mechanism, and "
            f"{against[KNG]} times those of KNG: which trusted server matters more than which "
            "device."
        ),
        (
            f"n times the squared error is {said[NONE]} without privacy; on devices "
            f"{said[GRADIENT]} by gradients, {said[HALVES]} by sums in halves, {said[SUMS]} by "
            f"sums with the best split, and {said[SIGNS]} by signs, {least} times what no local "
            "protocol is below."
        ),
    ]


def _table(rows: Sequence[Row]) -> Table:
    lines = []
    for row in forms.of(rows, NONE):
        epsilon, people = row["epsilon"], row["people"]
        here = comparison.pick(rows, epsilon=epsilon, people=people)
        n = comparison.number(row, "people")
        errors = [comparison.figure(n * forms.value(here, each)) for each in SERIES]
        lines.append([str(epsilon), f"{people:,}", *errors])
    return Table(
        "n times the squared error of a slope, by formula",
        ["ε", "people", *(each.label for each in SERIES)],
        lines,
    )


def _error_figure(rows: Sequence[Row], epsilon: str) -> matplotlib.figure.Figure:
    figure = new_figure(width=9.4)
    trusted, devices = figure.subplots(1, 2, sharey=True)
    for axes, series, title in (
        (trusted, TRUSTED, "a trusted server"),
        (devices, DEVICES, "devices"),
    ):
        for each in series:
            forms.draw(axes, rows, each, "people")
        axes.set(xscale="log", yscale="log", xlabel="people", title=title)
        axes.grid(visible=True)
    forms.draw_limit(devices, rows, SUMS, "people", "limit")
    for axes in (trusted, devices):
        axes.legend(loc="lower left", fontsize=9)
    trusted.set_ylabel("root mean squared error of the slope")
    figure.suptitle(f"The slope of a line, ε {epsilon}", fontsize=12)
    return figure


def _epsilon_figure(rows: Sequence[Row], people: int) -> matplotlib.figure.Figure:
    figure = new_figure()
    axes = figure.subplots()
    epsilons = sorted({float(str(row["epsilon"])) for row in rows})
    for each in (*DEVICES, NONE):
        found = {float(str(row["epsilon"])): row for row in forms.of(rows, each)}
        values = [people * comparison.number(found[e], "exact") for e in epsilons]
        axes.plot(epsilons, values, label=each.label, **each.look.style)
    least = [limit(e) for e in epsilons]
    axes.plot(epsilons, least, color=SUMS.look.color, ls=forms.DOTS, lw=1.2, label="local limit")
    axes.set(xscale="log", yscale="log", xlabel="ε", ylabel="n × mean squared error")
    axes.set_title("The slope of a line, on devices")
    forms.plain_ticks(axes, epsilons)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9)
    return figure


STUDY = Study(
    name="regression",
    question="What does the slope of a line cost without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
)
