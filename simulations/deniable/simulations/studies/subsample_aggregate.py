"""A centre without a bound on one person's influence: subsample and aggregate, or a search.

People are normally distributed in a range 20 deviations wide. A trusted server splits them into k =
√n blocks, takes the mean of each, and a private centre of the means (`central/subsample.py`); on
devices a search by yes-or-no questions finds the median. n times the mean squared error, in squared
deviations, to first order, with C = 1 / tanh(ε / 2):

    none       the mean                       1
    central    the range is known             1 + 2 (20 / ε)^2 / n
    central    winsorized mean of blocks      1 + 8 (8 · 1.349)^2 / (ε^2 k)
    central    median of blocks               π / 2 + 16 π / (ε^2 k)
    local      search for the median          (π / 2) C^2
    local      clipped at 3 deviations        9 C^2, if the centre is known

With many blocks, aggregation adds no error. A device has no block: it can only be asked on which
side of a point it is. Limit, local, for many people: (π / 2) C^2 up to ε = 1.04 [1], and 1 / m^2
beyond, with m = max over z of (e^ε - 1) φ(z) / (1 + (e^ε - 1) Φ(-z)), the largest |E f s| / E f of
an f with values in [1, e^ε] and the score s.

The formulas are exact without privacy, with a known range (except for people 10 deviations away)
and for clipped numbers. No estimator's error is below 1 / (n + (π / 10)^2) for every centre in the
range: van Trees' inequality with a prior on all of it.

[1] Kalinin, Steinberger 2025, "Efficient estimation of a Gaussian mean with local differential
    privacy", AISTATS.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central import sample_and_aggregate as central
from deniable.simulations.engine import comparison, estimator_rows, option
from deniable.simulations.engine.comparison import Series, figure, look, number, pick
from deniable.simulations.engine.estimator_rows import FORMULA
from deniable.simulations.engine.figures import LIMIT_DASH
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study
from deniable.simulations.studies.building_blocks import (
    bars,
    chart,
    column,
    grid,
    paragraphs,
    table,
)
from deniable.simulations.studies.median.quantile_search import (
    CENTRE,
    CLIPPED,
    SIGMA,
    Target,
    crowd,
    search,
)

if TYPE_CHECKING:
    import matplotlib.figure

NONE = Series("none", "mean", "no privacy", look(2))
RANGE = Series("central", "known-range", "trusted, range known", look(4))
WINSORIZED = Series("central", "winsorized", "trusted, winsorized blocks", look(1))
BLOCK_MEDIAN = Series("central", "block-median", "trusted, median of blocks", look(3))
SEARCH = Series("local", "search", "devices, search", look(0))
CLIP = Series("local", "clip", "devices, clipped mean", look(5))
SERIES = (NONE, RANGE, WINSORIZED, BLOCK_MEDIAN, SEARCH, CLIP)
BLOCKS = (WINSORIZED, BLOCK_MEDIAN)
EXACT = (NONE, RANGE, CLIP)  # where the formulas are exact
WIDTH = 1 / SIGMA  # of the range, in deviations
QUARTILES = 1.3489795003921634  # the distance between them, in deviations
SHARP = 1.04  # the search is known to be optimal up to this ε


OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e3,1e4,1e5,1e6,1e7,1e8", least=100),
    option.repetitions(300),
)


def formulas(epsilon: float, people: int) -> dict[Series, float]:
    """Return n times the mean squared error of each series."""
    c2, k = 1 / math.tanh(epsilon / 2) ** 2, math.isqrt(people)
    return {
        NONE: 1.0,
        RANGE: 1 + 2 * (WIDTH / epsilon) ** 2 / people,
        WINSORIZED: 1 + 8 * (2 * central.QUARTILE_DISTANCES * QUARTILES / epsilon) ** 2 / k,
        BLOCK_MEDIAN: math.pi / 2 + 16 * math.pi / (epsilon**2 * k),
        SEARCH: math.pi / 2 * c2,
        CLIP: CLIPPED**2 * c2,
    }


def limit(epsilon: float) -> float:
    """Return n times the least error of any local protocol."""
    if epsilon <= SHARP:
        return math.pi / 2 / math.tanh(epsilon / 2) ** 2
    from scipy.special import ndtr

    z = np.linspace(0, 8, 8_001)
    more = math.expm1(epsilon)
    gains = more * np.exp(-z * z / 2) / math.sqrt(2 * math.pi) / (1 + more * ndtr(-z))
    return float(1 / gains.max() ** 2)


def least(people: int) -> float:
    """Return the least error of any estimator, private or not."""
    return 1 / (people + (math.pi / (WIDTH / 2)) ** 2)


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    epsilon, n, times = Epsilon(str(cell["epsilon"])), int(cell["people"]), int(cell["repetitions"])
    e, response, k = float(epsilon), RandomizedResponse(epsilon), math.isqrt(n)
    blocks = generator.normal(CENTRE, SIGMA * math.sqrt(k / n), (times, k))
    mean = blocks.mean(axis=1)
    keep, lie = response.keep / ONE, response.lie / ONE
    share = (generator.binomial(n, 0.5, times) / n - lie) / (keep - lie)
    ask = crowd(response, generator, Target("location", 0.5))
    estimates = {
        NONE: mean,
        RANGE: mean + generator.laplace(0, 1 / (e * n), times),
        WINSORIZED: central.winsorized_mean(blocks, e, generator),
        BLOCK_MEDIAN: central.private_quantile(blocks, 0.5, e, generator),
        SEARCH: search(response, n, times, ask),
        CLIP: CENTRE + CLIPPED * SIGMA * (2 * share - 1),
    }
    return [
        {
            "model": series.model,
            "estimator": series.mechanism,
            "epsilon": str(epsilon),
            "people": n,
            "blocks": k if series in BLOCKS else None,
            "exact": once / n if series in EXACT else None,
            FORMULA: once / n,
            **estimator_rows.measured(((estimates[series] - CENTRE) / SIGMA) ** 2),
            "limit": limit(e) / n if series.model == "local" else least(n),
        }
        for series, once in formulas(e, n).items()
    ]


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, most = comparison.middle(options["epsilon"]), max(options["people"])
    findings = _findings(rows, epsilon, comparison.middle(options["people"]), most)
    return Report(
        findings=findings,
        figures=[
            Figure(
                "price",
                f"n times the mean squared error of a centre, in squared deviations, at ε "
                f"{epsilon}: aggregates of blocks approach the error without privacy, devices pay "
                "the same price with any number of people. Lines are formulas for many people, "
                "points are simulations.",
                lambda: _figure(pick(rows, epsilon=epsilon), epsilon),
            )
        ],
        tables=[
            table(
                "n times the squared error of a centre, in squared deviations, by formula for many "
                "people",
                rows,
                {"ε": "epsilon", "people": "people"},
                {series.label: column(series, FORMULA, times_n=True) for series in SERIES}
                | {"winsorized, measured": column(WINSORIZED, "measured", times_n=True)},
            )
        ],
        method=paragraphs(
            f"""People are normally distributed, in a range that is 20 deviations wide. There are √n
            blocks, whose means are drawn from their normal distribution.

            A trusted server that knows how far one person can move a mean needs no blocks: they are
            for statistics where no bound is known. Its noise and its private quantiles are drawn in
            floating point, to simulate their distributions.

            Devices are asked in sequence, in groups, and report randomized bits. 'Clipped' is one
            bit of a number that is clipped 3 deviations from the centre, as if the centre were
            known. Each line is drawn {options["repetitions"]:,} times; with {most:,} people, mean
            squared errors are {estimator_rows.ratios(rows, most, FORMULA)} times the formulas."""
        ),
        document=estimator_rows.document(options, rows, findings),
    )


def _findings(rows: Sequence[Row], epsilon: str, people: int, most: int) -> list[str]:
    cell, largest = (pick(rows, epsilon=epsilon, people=n) for n in (people, most))
    search = people * estimator_rows.series_value(cell, SEARCH, FORMULA)
    many, clip = (
        column(series, FORMULA, times_n=True)(rows)
        for series, rows in ((WINSORIZED, largest), (CLIP, cell))
    )
    few = column(WINSORIZED, "measured", times_n=True)(cell)
    return paragraphs(
        f"""A trusted server that winsorizes the means of blocks needs {many} times the people for
        the centre of {most:,} people at ε {epsilon}. With {people:,} people, {few} times was
        measured: with few blocks the private quartiles may miss the centre. A search on devices
        needs {figure(search)} times the people, whatever their number.

        Clipping numbers at three deviations needs {clip} times the devices. The local counterpart
        of a winsorized mean is a median, within a factor of {search / limit(float(epsilon)):.2f} of
        the best local protocol."""
    )


def _figure(rows: Sequence[Row], epsilon: str) -> matplotlib.figure.Figure:
    title, unit = f"The centre of a normal distribution, ε {epsilon}", "squared deviations"
    picture, axes = chart(title, "people", f"n × mean squared error, {unit}", width=8.4)
    for series in SERIES:
        mine = estimator_rows.series_rows(rows, series)
        people = [number(row, "people") for row in mine]
        formula, measured, errors = (
            [factor * n * number(row, key) for n, row in zip(people, mine, strict=True)]
            for factor, key in ((1, FORMULA), (1, "measured"), (3, "error"))
        )
        axes.plot(people, formula, color=series.look.color, ls=series.look.dash)
        bars(axes, list(zip(people, measured, errors, strict=True)), series.look, series.label)
    axes.axhline(
        limit(float(epsilon)), color=SEARCH.look.color, ls=LIMIT_DASH, lw=1.2, label="local limit"
    )
    axes.set_ylim(0.7, None)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9)
    return picture


STUDY = Study(
    name="subsample",
    question="What does a typical value cost when one person may move it by any amount?",
    options=OPTIONS,
    cells=grid("epsilon", "people"),
    run=run,
    report=report,
    formulas=(
        (
            "a trusted server that keeps a width w of k blocks' means",
            r"\dfrac{1}{n} + \dfrac{8w^2}{ε^2 k n}",
        ),
        (
            "devices, a search for the median",
            r"\dfrac{π C^2}{2n}, \quad C = \dfrac{1}{\tanh(ε / 2)}",
        ),
        ("devices, clipped at three deviations", r"\dfrac{9 C^2}{n}"),
    ),
)
