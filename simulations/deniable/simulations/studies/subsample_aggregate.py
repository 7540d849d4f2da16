"""A centre without a bound on one person's influence: subsample and aggregate, or a search.

People are normally distributed in a range 20 deviations wide. A trusted server splits them into k =
√n blocks, takes the mean of each block, and releases a private centre of the means
(`central.sample_and_aggregate`). On devices a search by yes-or-no questions finds the median. The
table gives n times the mean squared error, in squared deviations, to first order, with C = 1 /
tanh(ε / 2):

    none       the mean                       1
    central    the range is known             1 + 2 (20 / ε)^2 / n
    central    winsorized mean of blocks      1 + 8 (8 · 1.349)^2 / (ε^2 k)
    central    median of blocks               π / 2 + 16 π / (ε^2 k)
    local      search for the median          (π / 2) C^2
    local      clipped at 3 deviations        9 C^2, if the centre is known

With many blocks, aggregation adds no error. A device has no block: it can only be asked on which
side of a point its number is.

The formulas are exact without privacy, with a known range (except for people 10 deviations away)
and for clipped numbers. The limits are those of `quantile_search.least_of_a_centre`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from numpy.random import Generator

from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.central import sample_and_aggregate as central
from deniable.simulations.engine import estimators, figures, option, sentences
from deniable.simulations.engine.estimators import Case, Estimator, Risk, Rows, middle, number
from deniable.simulations.engine.figures import LOOKS
from deniable.simulations.engine.sentences import figure
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study
from deniable.simulations.studies.median import quantile_search as quantiles
from deniable.simulations.studies.median.quantile_search import (
    CENTRE,
    SEARCH,
    SIGMA,
    centre_limit,
    least_of_a_centre,
)

NONE = Estimator("none", "mean", "no privacy", LOOKS[2])
RANGE = Estimator("central", "known-range", "trusted, range known", LOOKS[4])
WINSORIZED = Estimator("central", "winsorized", "trusted, winsorized blocks", LOOKS[1])
BLOCK_MEDIAN = Estimator("central", "block-median", "trusted, median of blocks", LOOKS[3])
CLIP = Estimator("local", "clip", "devices, clipped mean", LOOKS[5])
EXACT = (NONE, RANGE, CLIP)  # estimators whose formulas are exact
WIDTH = 1 / SIGMA  # width of the range, in deviations
QUARTILES = 1.3489795003921634  # distance between the quartiles, in deviations


def formulas(epsilon: float, people: int) -> dict[Estimator, float]:
    """Return n times the mean squared error of each estimator."""
    c2, k = 1 / math.tanh(epsilon / 2) ** 2, math.isqrt(people)
    return {
        NONE: 1.0,
        RANGE: 1 + 2 * (WIDTH / epsilon) ** 2 / people,
        WINSORIZED: 1 + 8 * (2 * central.QUARTILE_DISTANCES * QUARTILES / epsilon) ** 2 / k,
        BLOCK_MEDIAN: math.pi / 2 + 16 * math.pi / (epsilon**2 * k),
        SEARCH: math.pi / 2 * c2,
        CLIP: quantiles.CLIPPED**2 * c2,
    }


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    case = Case(cell, generator)
    n, times, e, k = case.people, case.repetitions, float(case.epsilon), math.isqrt(case.people)
    response = RandomizedResponse(case.epsilon)
    blocks = generator.normal(CENTRE, SIGMA * math.sqrt(k / n), (times, k))
    mean, clipped = blocks.mean(axis=1), quantiles.clipped_mean(response, n, times, generator)
    ask = quantiles.crowd(response, generator, quantiles.CENTRE_TARGET)
    estimates = {
        NONE: mean,
        RANGE: mean + generator.laplace(0, 1 / (e * n), times),
        WINSORIZED: central.winsorized_mean(blocks, e, generator),
        BLOCK_MEDIAN: central.private_quantile(blocks, 0.5, e, generator),
        SEARCH: quantiles.search(response, n, times, ask),
        CLIP: clipped,
    }
    return [
        estimators.row_of(
            one,
            {
                "epsilon": str(case.epsilon),
                "people": n,
                "blocks": k if one in (WINSORIZED, BLOCK_MEDIAN) else None,
            },
            {"limit": least_of_a_centre(n, e if one.model == "local" else None)},
            Risk(
                once / n if one in EXACT else None,
                (estimates[one] - CENTRE) / SIGMA,
                columns={"first_order": once / n},
            ),
        )
        for one, once in formulas(e, n).items()
    ]


def report(options: Options, found: Sequence[Row]) -> Report:
    rows, epsilon, most = Rows(found), middle(options["epsilon"]), max(options["people"])
    shown, shown_estimators = rows.at(epsilon=epsilon), list(formulas(1.0, 1))
    ratios = [number(row, "measured") / number(row, "first_order") for row in rows.at(people=most)]
    curves = [
        curve
        for one in shown_estimators
        for curve in figures.formula_and_points(
            *(shown.of(one), one.look, one.label, "people"),
            *(_times_n("first_order"), _times_n("measured"), _times_n("error", 3)),
        )
    ]
    limit = figures.curve(
        *(shown.of(SEARCH), SEARCH.look, "people", _times_n("limit"), "local limit"), form="limit"
    )
    panel = figures.Panel(
        f"The centre of a normal distribution, ε {epsilon}",
        [*curves, limit],
        *("people", "n × mean squared error, squared deviations"),
    )
    return Report(
        _findings(shown.at(people=middle(options["people"])), shown.at(people=most)),
        [
            Figure(
                "price",
                f"n times the mean squared error of a centre, in squared deviations, at ε "
                f"{epsilon}: with more people, aggregates of blocks approach the error without "
                "privacy, while the price on devices stays the same. Lines are formulas for many "
                "people, points are simulations.",
                lambda: figures.draw([panel]),
            )
        ],
        [
            sentences.table(
                "n times the squared error of a centre, in squared deviations, by formula for many "
                "people",
                rows,
                {"ε": "epsilon", "people": "people"},
                {one.label: sentences.column(one, _text("first_order")) for one in shown_estimators}
                | {"winsorized, measured": sentences.column(WINSORIZED, _text("measured"))},
            )
        ],
        sentences.paragraphs(
            f"""People are normally distributed, in a range that is 20 deviations wide. There are √n
            blocks, whose means are drawn from their normal distribution.

            A trusted server that knows how far one person can move a mean needs no blocks: they are
            for statistics without such a bound. Its noise and its private quantiles are drawn in
            floating point, to simulate their distributions.

            Devices are asked in sequence, in groups, and report randomized bits. 'Clipped' is one
            bit of a number that is clipped 3 deviations from the centre, as if the centre were
            known. There are {options["repetitions"]:,} repetitions for each line of the table. With
            {most:,} people, mean squared errors are {min(ratios):.2f} to {max(ratios):.2f} times
            the formulas."""
        ),
    )


def _times_n(key: str, factor: float = 1.0) -> Callable[[Row], float]:
    return lambda row: factor * number(row, "people") * number(row, key)


def _text(key: str) -> Callable[[Row], str]:
    return lambda row: figure(_times_n(key)(row))


def _findings(cell: Rows, largest: Rows) -> list[str]:
    epsilon, people = str(cell[0]["epsilon"]), int(number(cell[0], "people"))
    search, clip = (_times_n("first_order")(cell.one(one)) for one in (SEARCH, CLIP))
    many, measured = _text("first_order")(largest.one(WINSORIZED)), _text("measured")
    near = search / centre_limit(float(epsilon))
    return sentences.paragraphs(
        f"""A trusted server that winsorizes the means of blocks needs {many} times as many people
        for a centre as without privacy, if {largest[0]["people"]:,} are asked at ε {epsilon}. If
        {people:,} are asked, {measured(cell.one(WINSORIZED))} times was measured: with few blocks
        the private quartiles may miss the centre. A search on devices always needs
        {figure(search)} times as many people.

        Clipping numbers at three deviations needs {figure(clip)} times as many devices. On devices
        the counterpart of a winsorized mean is a median, whose squared error is {near:.2f} times
        the limit for local protocols."""
    )


STUDY = Study(
    name="subsample",
    question="What does a typical value cost when one person may move it by any amount?",
    options=(
        option.epsilons("0.5,1,2,4"),
        option.people("1e3,1e4,1e5,1e6,1e7,1e8", least=100),
        option.repetitions(300),
    ),
    cells=estimators.grid("epsilon", "people"),
    run=run,
    report=report,
    formulas=(
        (
            "a trusted server that winsorizes the means of k blocks to a width w",
            r"\dfrac{1}{n} + \dfrac{8w^2}{ε^2 k n}",
        ),
        (
            "devices, a search for the median",
            r"\dfrac{π C^2}{2n}, \quad C = \dfrac{1}{\tanh(ε / 2)}",
        ),
        ("devices, clipped at three deviations", r"\dfrac{9 C^2}{n}"),
    ),
)
