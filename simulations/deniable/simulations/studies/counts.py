"""Many counts of all people: each of n people has m yes-or-no answers, and all are counted.

Errors are mean squared errors of a share, averaged over the m shares; half of the people say yes to
each question, where errors are largest.

                                             these people                      their population
    local     one question, drawn at random  m V / n + (m - 1) / (4 (n - 1))   m (V + 1/4) / n
    local     all questions, each at ε / m   V(ε / m) / n                      1 / (4 n) more
    central   geometric, sensitivity m       2 V(ε / m) / n^2                  1 / (4 n) more
    central   cube (`central/cube.py`)       (m + 1) (m + 2) / (3 (ε n)^2)     1 / (4 n) more
    central   Gaussian, (ε, δ)               m / (μ n)^2                       1 / (4 n) more
    none                                     0                                 1 / (4 n)

with V(ε) = e^ε / (e^ε - 1)^2. For one question each, people are split at random into m groups; the
first formula is for groups of the same size. For small ε the price against geometric noise is about
n ε^2 V / (2 m), which falls with m, and against a cube's noise six times that. A δ replaces m by √m
in the noise; the price then does not depend on m.

Limit, for many people and shares of one half: m / (4 M^2 n), with M the largest |E f x| / E f of an
f with values in [1, e^ε], over the corners x of {-1, 1}^m: reports have information of trace at
most M^2 about the m means (density 1 + <ϑ, x>). In any direction <u, x> is symmetric and has the
variance 1, so a half-space of probability q <= 1/2 has E[<u, x>; there] <= √(q / 2), and

    M = tanh(ε / 2)  for e^ε <= 3,   M^2 <= (e^ε - 1) / 8  beyond;   tanh(ε / 2) for one count

so that no protocol beats one drawn question up to ε = ln 3 = 1.10. A curator's limit about the
population is the sampling error; about these people it is known for one count, where geometric
noise is the least for many people [1]. With few people a curator does better with the devices'
mechanism: such a row has the model `central`.

[1] Gupte, Sundararajan 2010, "Universally optimal privacy mechanisms for minimax agents", PODS.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon, decimal_text
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central import DiscreteLaplace, discrete_laplace
from deniable.simulations.central.vector_noise import CubeNoise
from deniable.simulations.engine import comparison, estimator_rows, option
from deniable.simulations.engine.comparison import Z95, Series, figure, look, number, pick
from deniable.simulations.engine.estimator_rows import Array
from deniable.simulations.engine.figures import plain_ticks
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study
from deniable.simulations.studies.building_blocks import by_series, column, cross, paragraphs, table
from deniable.simulations.studies.composition.privacy_accounts import gaussian_mu

if TYPE_CHECKING:
    import matplotlib.figure

ONE_QUESTION = Series("local", "one-question", "devices, one drawn question", look(0))
ALL = Series("local", "all-questions", "devices, all questions", look(5))
GEOMETRIC = Series("central", "geometric", "trusted, geometric", look(1))
CUBE = Series("central", "cube", "trusted, cube", look(4))
GAUSSIAN = Series("central", "gaussian", "trusted, Gaussian", look(3))
NONE = Series("none", "share", "no privacy", look(2))
SERIES = (ONE_QUESTION, ALL, GEOMETRIC, CUBE, GAUSSIAN, NONE)
OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e3,1e4,1e5,1e6,1e7,1e8"),
    option.Option(
        "counts", "1,4,16,64,256", option.several(option.whole(1, 4_096)), "questions per person"
    ),
    option.Option("delta", 1e-6, option.inside(), "probability that Gaussian noise fails", "δ"),
    option.repetitions(400),
)


def _check(options: dict[str, Any]) -> Options:  # Any: what JSON can hold
    if min(options["people"]) < max(options["counts"]):
        raise WrongUse("people: at least as many as counts, so that each question is asked")
    return options


def cells(options: Options) -> Sequence[Cell]:
    return cross(options, "people", "counts")


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    epsilon, n, m = Epsilon(str(cell["epsilon"])), int(cell["people"]), int(cell["counts"])
    delta, times = float(cell["delta"]), int(cell["repetitions"])
    design, part = RandomizedResponse(epsilon), RandomizedResponse(_part(epsilon, m))
    noise, cube = DiscreteLaplace(epsilon, m), CubeNoise(epsilon, m)
    deviation = math.sqrt(m) / gaussian_mu(float(epsilon), delta)
    yes, sampling = n // 2, 1 / (4 * n)
    true = yes / n * (1 - yes / n)
    groups = (n // m + (np.arange(m) < n % m)).astype(np.int64)
    asked = float(np.mean(design.variance(1, 0.5) / groups))
    split = float(np.mean((n - groups) / groups / (n - 1))) * true
    wide = (times, m)
    group_yes = generator.hypergeometric(yes, n - yes, groups, wide)
    errors_by_series: dict[Series, tuple[float, Array | None]] = {
        ONE_QUESTION: (
            asked + split,
            _estimates(design, group_yes, groups, generator) - yes / n,
        ),
        ALL: (
            part.variance(n, 0.5),
            _estimates(part, np.full(wide, yes), np.full(m, n), generator) - yes / n,
        ),
        GEOMETRIC: (noise.variance / n**2, discrete_laplace(noise, wide, generator) / n),
        CUBE: (cube.variance / n**2, cube.drawn(times, generator) / n),
        GAUSSIAN: ((deviation / n) ** 2, generator.normal(0, deviation, wide) / n),
        NONE: (0.0, None),
    }
    drawn = {ONE_QUESTION: asked + float(np.mean(1 / groups)) / 4}
    pure = noise.variance / n**2 if m == 1 else None
    rows: list[Row] = [
        {
            "model": series.model,
            "estimator": series.mechanism,
            "epsilon": str(epsilon),
            "delta": delta if series is GAUSSIAN else 0.0,
            "counts": m,
            "people": n,
            "exact": exact,
            **(
                estimator_rows.NOT_MEASURED
                if errors is None
                else estimator_rows.measured((errors**2).mean(axis=1))
            ),
            "limit": pure if series in (GEOMETRIC, CUBE) else None,
            "exact_drawn": drawn.get(series, exact + sampling),
            "limit_drawn": limit(float(epsilon), m) / n if series.model == "local" else sampling,
        }
        for series, (exact, errors) in errors_by_series.items()
    ]
    return rows + estimator_rows.curator_row(rows, [GEOMETRIC, CUBE])


def limit(epsilon: float, counts: int) -> float:
    """Return m / (4 M^2): n times the least mean squared error of any local protocol."""
    reach = math.tanh(epsilon / 2) ** 2
    if counts > 1 and epsilon > math.log(3):
        reach = math.expm1(epsilon) / 8
    return counts / (4 * reach)


def _part(epsilon: Epsilon, counts: int) -> Epsilon:
    """Return ε / m, rounded down to a billionth."""
    return Epsilon(decimal_text(max(1, epsilon.billionths // counts)))


def _estimates(
    design: RandomizedResponse,
    yes: estimator_rows.Whole,
    asked: estimator_rows.Whole,
    generator: Generator,
) -> Array:
    """Return estimated shares from reports of `asked` people, of whom `yes` say yes."""
    keep, lie = design.keep / ONE, design.lie / ONE
    reported = generator.binomial(yes, keep) + generator.binomial(asked - yes, lie)
    return np.asarray((reported / asked - lie) / (keep - lie))


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, people = (comparison.middle(options[key]) for key in ("epsilon", "people"))
    findings = _findings(options, rows, epsilon, people)
    return Report(
        findings=findings,
        figures=[
            Figure(
                "counts",
                f"The error of each of m counts of {people:,} people, at ε {epsilon}, against m. "
                "Lines are formulas, points are simulations.",
                lambda: _counts_figure(pick(rows, epsilon=epsilon, people=people), people, epsilon),
            ),
            Figure(
                "price",
                "The squared error of one drawn question divided by that of a trusted server, per "
                "person asked. Against pure noise it falls with m; with many counts it is six "
                "times larger against a cube's noise than against geometric noise. Against "
                f"Gaussian noise, with δ {options['delta']:g}, it does not depend on m.",
                lambda: estimator_rows.price_figure(
                    pick(rows, people=people), ONE_QUESTION, (GEOMETRIC, CUBE, GAUSSIAN), "counts"
                ),
            ),
        ],
        tables=[
            table(
                "Error of a count of these people, in points: 1.96 standard errors",
                rows,
                {"ε": "epsilon", "counts": "counts", "people": "people"},
                {
                    series.label: column(series, scale=100 * Z95, root=True, before="± ")
                    for series in SERIES[:-1]
                },
            )
        ],
        method=paragraphs(
            f"""Half of the people say yes to each question. Errors in the figure and the table are
            about these people; `exact_drawn` in the rows adds the sampling error.

            As a check, {options["repetitions"]:,} populations are drawn for each line: the largest
            distance of a measured mean squared error from its formula is
            {estimator_rows.worst_deviation(rows):.1f} Monte-Carlo errors. Reports and geometric
            noise are whole numbers; Gaussian noise is simulated in floating point.

            The limit is for many people and shares of one half: the information of reports about
            all shares together. Up to ε 1.10 one drawn question attains it."""
        ),
        document=estimator_rows.document(options, rows, findings),
    )


def _findings(options: Options, rows: Sequence[Row], epsilon: str, people: int) -> list[str]:
    m, most = comparison.middle(options["counts"]), max(options["counts"])
    cell = pick(rows, epsilon=epsilon, people=people, counts=m)
    points = {
        series: column(series, scale=100 * Z95, root=True, before="± ")(cell) for series in SERIES
    }
    cell = pick(rows, epsilon=epsilon, people=people, counts=most)
    row = by_series(cell, [ONE_QUESTION])[ONE_QUESTION]
    ratio = estimator_rows.price(cell, ALL, ONE_QUESTION)
    cube, gaussian = (
        figure(people / estimator_rows.price(cell, ONE_QUESTION, series))
        for series in (CUBE, GAUSSIAN)
    )
    return paragraphs(
        f"""With {people:,} people at ε {epsilon}, devices that answer one of {m} questions give
        each count to {points[ONE_QUESTION]} points, and to {points[ALL]} if they answer all at
        ε / {m}; a trusted server to {points[CUBE]}, or {points[GAUSSIAN]} with δ
        {options["delta"]:g}.

        With {most} questions, answering all has {figure(ratio)} times the variance of answering one
        drawn question. The price of one drawn question is n / {cube} against a cube's pure noise
        and n / {gaussian} against Gaussian noise; about the population its squared error is
        {number(row, "exact_drawn") / number(row, "limit_drawn"):.2f} times the least of any local
        protocol."""
    )


def _counts_figure(rows: Sequence[Row], people: int, epsilon: str) -> matplotlib.figure.Figure:
    words = (f"Many counts of {people:,} people, ε {epsilon}", "standard error of a share")
    picture = estimator_rows.both_questions(rows, SERIES, "counts", words, ONE_QUESTION)
    for axes in picture.axes:
        axes.set_xlabel("counts of all people")
        plain_ticks(axes, sorted({number(row, "counts") for row in rows}))
    return picture


STUDY = Study(
    name="counts",
    question="What do many yes-or-no questions to all people cost without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    check=_check,
    formulas=(
        (
            "devices, one drawn question of m, about their population",
            r"\dfrac{m (V + 1/4)}{n}, \quad V = \dfrac{e^ε}{(e^ε - 1)^2}",
        ),
        ("a trusted server, noise on each count, small ε", r"\dfrac{2m^2}{(ε n)^2}"),
        (
            "a trusted server, noise of a cube on all counts together, small ε",
            r"\dfrac{(m + 1)(m + 2)}{3 (ε n)^2}",
        ),
        ("a trusted server, Gaussian noise", r"\dfrac{m}{(μ n)^2}"),
    ),
)
