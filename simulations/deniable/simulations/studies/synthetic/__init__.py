"""Synthetic people: all tables of two attributes, and people made from the estimated tables.

People have d yes-or-no attributes (`attributes.py`), T = d + d (d - 1) / 2. Mean squared errors of
a cell of a table of two attributes, averaged, with v_S that of the character S:

    local      one drawn character by randomized response    (v_i + v_j + v_ij) / 16, where
               v_S = (C^2 - c_S^2) / g about the population, g = n / T of the people being asked S
    central    geometric noise on each cell, Δ = d (d - 1)   2 d^2 (d - 1)^2 / (ε n)^2, for small ε
    central    geometric noise on each character, Δ = T      (3/2) T^2 / (ε n)^2
    central    BLR: of all sets of m people, by the exponential mechanism, the one whose largest
               error is least                                a guarantee only

and for the population the sampling error in addition. From the characters n synthetic people are
made: post-processing, which costs no further privacy.

With probability 1 - β the error of no cell of BLR's people exceeds √(ln(2 K) / (2 m)) for the best
set plus (2 / (ε n)) (m d ln 2 + ln(1 / β)) for choosing among 2^(d m) sets, with K = 2 d (d - 1)
cells and the best m. Enumerating all these sets is infeasible.

Limit, local, for many people among whom all x are equally frequent: characters are uncorrelated
there, and |E f χ|^2 / (E f)^2 <= (e^ε - 1)^2 / (4 e^ε) = 1 / (4 V) for f with values in [1, e^ε],
so that errors weighted by w_S add up to at least 4 V (Σ √w_S)^2 / n. A curator's limit is the
sampling error. With few people a curator does better with the devices' mechanism: such a row has
the model `central`.

Sources: Blum, Ligett, Roth 2008, "A learning theory approach to non-interactive database privacy",
STOC; Barak, Chaudhuri, Dwork, Kale, McSherry, Talwar 2007, PODS, for characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central import DiscreteLaplace, discrete_laplace
from deniable.simulations.engine import comparison, estimator_rows, option
from deniable.simulations.engine.comparison import Series, look, number, pick
from deniable.simulations.engine.estimator_rows import Array
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study
from deniable.simulations.studies.building_blocks import (
    by_series,
    chart,
    column,
    cross,
    marked_line,
    paragraphs,
    points_of,
    table,
)
from deniable.simulations.studies.synthetic.attributes import FAILURE, Attributes, blr, limit

if TYPE_CHECKING:
    import matplotlib.figure

LOCAL = Series("local", "characters", "devices, characters", look(0))
LOCAL_PEOPLE = Series("local", "synthetic", "devices, synthetic people", look(5))
CELLS = Series("central", "cells", "trusted, cells", look(1))
CENTRAL = Series("central", "characters", "trusted, characters", look(3))
CENTRAL_PEOPLE = Series("central", "synthetic", "trusted, synthetic people", look(4))
BLR = Series("central", "blr", "trusted, BLR's guarantee", look(1))
NONE = Series("none", "shares", "no privacy", look(2))
SYNTHETIC_SETS = 12  # sets of synthetic people for each line
OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e4,1e5,1e6,1e7", least=100),  # more than there are characters
    option.Option("attributes", "4,8,10", option.several(option.whole(2, 12)), "of each person"),
    option.repetitions(100),
)


def cells(options: Options) -> Sequence[Cell]:
    return cross(options, "people", "attributes")


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    epsilon, n, times = Epsilon(str(cell["epsilon"])), int(cell["people"]), int(cell["repetitions"])
    people = Attributes(int(cell["attributes"]))
    truth = people.population @ people.characters
    cells = people.tables(truth)
    sampling = float((cells * (1 - cells)).mean()) / n
    own = people.of_people(generator.multinomial(n, people.population, times).astype(float))

    asked = _groups(n, len(truth))
    response = RandomizedResponse(epsilon)
    reported = _reported(response, truth, asked, times, generator)
    of_cells = DiscreteLaplace(epsilon, 2 * len(people.pairs))
    of_characters = DiscreteLaplace(epsilon, len(truth))
    noisy = discrete_laplace(of_cells, (times, *cells.shape), generator) / n
    moved = 2 * discrete_laplace(of_characters, own.shape, generator) / n
    noise = {CELLS: noisy, CENTRAL: people.tables(moved) - 0.25}
    spread = people.tables(own) - cells
    errors = {LOCAL: people.tables(reported) - cells, NONE: spread}
    errors |= {series: spread + more for series, more in noise.items()}
    for series, released in ((LOCAL_PEOPLE, reported), (CENTRAL_PEOPLE, own + moved)):
        made = generator.multinomial(n, people.fitted(released[:SYNTHETIC_SETS])).astype(float)
        errors[series] = people.tables(people.of_people(made)) - cells
    exact = {
        LOCAL: _error(people, _variances(response, truth, asked, n)),
        CELLS: of_cells.variance / n**2,
        CENTRAL: _error(people, np.full(len(truth), 4 * of_characters.variance / n**2)),
        NONE: 0.0,
    }
    drawn = {series: value + sampling for series, value in exact.items()}
    drawn[LOCAL] = _error(people, _variances(response, truth, asked, None))
    least = limit(epsilon, people) / n
    sampled = dict.fromkeys((CELLS, CENTRAL, NONE), sampling)
    rows: list[Row] = []
    for series in (LOCAL, LOCAL_PEOPLE, CELLS, CENTRAL, CENTRAL_PEOPLE, BLR, NONE):
        off = errors.get(series)
        about = (
            estimator_rows.measured(_mean_squares(off))
            if off is not None
            else estimator_rows.NOT_MEASURED
        )
        these = (
            estimator_rows.measured(_mean_squares(noise[series]))
            if series in noise
            else estimator_rows.NOT_MEASURED
        )
        guaranteed = blr(float(epsilon), people.number, n) if series is BLR else None
        rows.append(
            {
                "model": series.model,
                "estimator": series.mechanism,
                "epsilon": str(epsilon),
                "attributes": people.number,
                "people": n,
                "exact": exact.get(series),
                **these,
                "limit": None,
                "exact_drawn": drawn.get(series),
                "measured_drawn": about["measured"],
                "error_drawn": about["error"],
                "limit_drawn": least if series is LOCAL else sampled.get(series),
                "largest": guaranteed if off is None else _largest(off),
            }
        )
    return rows + estimator_rows.curator_row(rows, [CELLS, CENTRAL])


def _groups(n: int, number: int) -> estimator_rows.Whole:
    return (n // number + (np.arange(number) < n % number)).astype(np.int64)


def _reported(
    response: RandomizedResponse, truth: Array, asked: estimator_rows.Whole, times: int,
    generator: Generator
) -> Array:  # fmt: skip
    """Return estimates of c_S from the reports of each group, whose people are drawn."""
    keep, lie = response.keep / ONE, response.lie / ONE
    yes = generator.binomial(asked, lie + (keep - lie) * (1 + truth) / 2, (times, len(truth)))
    return np.asarray(2 * (yes / asked - lie) / (keep - lie) - 1)


def _variances(
    response: RandomizedResponse, truth: Array, asked: estimator_rows.Whole, people: int | None
) -> Array:
    """Return v_S about these people, who are split at random; about the population if None."""
    noise = 4 * response.variance(1, 0.5) / asked
    left = 1.0 if people is None else (people - asked) / (people - 1)
    return np.asarray(noise + (1 - truth**2) / asked * left)


def _error(people: Attributes, variances: Array) -> float:
    return float(people.weights @ variances) / 16


def _mean_squares(errors: Array) -> Array:
    return np.asarray((errors**2).mean(axis=(1, 2)))


def _largest(errors: Array) -> float:
    return float(np.abs(errors).max(axis=(1, 2)).mean())


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, d = (comparison.middle(options[key]) for key in ("epsilon", "attributes"))
    findings = _findings(rows, epsilon, max(options["people"]), d)
    shown = pick(rows, epsilon=epsilon, attributes=d)
    title = f"Tables of two of {d} attributes, ε {epsilon}"
    errors = {
        series.label: column(series, scale=100, root=True) for series in (LOCAL, CELLS, CENTRAL)
    }
    largest = {"devices": LOCAL_PEOPLE, "trusted": CENTRAL_PEOPLE, "BLR": BLR}
    return Report(
        findings=findings,
        figures=[
            Figure(
                "error",
                f"The error of a share in a table of two of {d} attributes, averaged, against the "
                f"number of people, at ε {epsilon}: for these people, and for the population they "
                "are drawn from. Lines are formulas, points are simulations.",
                lambda: estimator_rows.both_questions(
                    shown,
                    (LOCAL, CELLS, CENTRAL, NONE),
                    "people",
                    (title, "standard error of a share"),
                    LOCAL,
                    drawn=True,
                ),
            ),
            Figure(
                "largest",
                "The largest error of all these shares, averaged: of characters, of the synthetic "
                "people made from them, and as guaranteed by BLR.",
                lambda: _largest_figure(shown, title),
            ),
        ],
        tables=[
            table(
                "Standard errors of a cell of these people, in points; and the largest error",
                rows,
                {"ε": "epsilon", "attributes": "attributes", "people": "people"},
                errors
                | {
                    f"largest: {name}": column(series, "largest", 100)
                    for name, series in largest.items()
                },
            )
        ],
        method=paragraphs(
            f"""The people are simulated: a chain of attributes, each of which agrees with the one
            before it with probability 0.8. Errors are root mean squares over all cells of all
            tables of two attributes.

            Noise and reports are whole numbers, as a server and devices would have them. Synthetic
            people have the distribution of the largest entropy with the released characters:
            {SYNTHETIC_SETS} sets of them for each line, each with as many people as were asked. BLR
            would have to enumerate all sets of people: its line is a guarantee that holds with
            probability {1 - FAILURE:g}, and nothing was drawn.

            Everything else is drawn {options["repetitions"]:,} times; the largest distance of a
            measured mean squared error from its formula is
            {estimator_rows.worst_deviation(rows):.1f} Monte-Carlo errors."""
        ),
        document=estimator_rows.document(options, rows, findings),
    )


def _findings(rows: Sequence[Row], epsilon: str, people: int, d: int) -> list[str]:
    cell = pick(rows, epsilon=epsilon, people=people, attributes=d)
    local = by_series(cell, [LOCAL])[LOCAL]
    off = {one: column(one, scale=100, root=True)(cell) for one in (LOCAL, CELLS, CENTRAL)}
    largest = {one: column(one, "largest", 100)(cell) for one in (LOCAL_PEOPLE, BLR)}
    over = number(local, "exact_drawn") / number(local, "limit_drawn")
    return paragraphs(
        f"""With {people:,} people at ε {epsilon}, devices estimate each share of all tables of two
        of {d} attributes to a standard error of {off[LOCAL]} points, a trusted server
        to {off[CELLS]} with noise on cells and to {off[CENTRAL]} with noise
        on characters.

        Synthetic people made from these reports are {largest[LOCAL_PEOPLE]} points off in
        the worst cell, where BLR with the true data guarantees {largest[BLR]}. The
        squared errors of devices are {over:.2f} times the least of any local protocol."""
    )


def _largest_figure(rows: Sequence[Row], title: str) -> matplotlib.figure.Figure:
    picture, axes = chart(title, "people", "largest error of a share")
    for series in (LOCAL, LOCAL_PEOPLE, CENTRAL, CENTRAL_PEOPLE, BLR, NONE):
        points = points_of(rows, series, "people", "largest")
        marked_line(axes, points, series.look, series.label)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9)
    return picture


STUDY = Study(
    name="synthetic",
    question="What do synthetic people like the real ones cost, without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        (
            "devices, one drawn character of T",
            (
                r"\dfrac{3 T C^2}{16 n}, \quad T = \dfrac{d(d + 1)}{2}, \quad "
                r"C = \dfrac{1}{\tanh(ε / 2)}"
            ),
        ),
        ("a trusted server, noise on each cell", r"\dfrac{2 d^2 (d - 1)^2}{(ε n)^2}"),
        ("a trusted server, noise on each character", r"\dfrac{3 T^2}{2 (ε n)^2}"),
    ),
)
