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

import numpy as np
from numpy.random import Generator

from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.central.discrete_laplace import DiscreteLaplace, discrete_laplace
from deniable.simulations.engine import estimators, figures, option, sentences
from deniable.simulations.engine.estimators import Array, Case, Estimator, Risk, Rows
from deniable.simulations.engine.figures import LOOKS
from deniable.simulations.engine.sentences import figure
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study
from deniable.simulations.studies.bit_reports import reported_rate
from deniable.simulations.studies.synthetic.attributes import FAILURE, Attributes, blr, limit

LOCAL = Estimator("local", "characters", "devices, characters", LOOKS[0])
LOCAL_PEOPLE = Estimator("local", "synthetic", "devices, synthetic people", LOOKS[5])
CELLS = Estimator("central", "cells", "trusted, cells", LOOKS[1])
CENTRAL = Estimator("central", "characters", "trusted, characters", LOOKS[3])
CENTRAL_PEOPLE = Estimator("central", "synthetic", "trusted, synthetic people", LOOKS[4])
BLR = Estimator("central", "blr", "trusted, BLR's guarantee", LOOKS[1])
NONE = Estimator("none", "shares", "no privacy", LOOKS[2])
SHARE = estimators.Unit("standard error of a share", 1.0)
SYNTHETIC_SETS = 12  # sets of synthetic people for each line
OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e4,1e5,1e6,1e7", least=100),  # more than there are characters
    option.Option("attributes", "4,8,10", option.several(option.whole(2, 12)), "of each person"),
    option.repetitions(100),
)


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    case, people = Case(cell, generator), Attributes(int(cell["attributes"]))
    n, times = case.people, case.repetitions
    truth = people.population @ people.characters
    cells = people.tables(truth)
    sampling = float((cells * (1 - cells)).mean()) / n
    own = people.of_people(generator.multinomial(n, people.population, times).astype(float))

    asked = n // len(truth) + (np.arange(len(truth)) < n % len(truth))
    response = RandomizedResponse(case.epsilon)
    yes = generator.binomial(asked, reported_rate(response, (1 + truth) / 2), (times, len(truth)))
    reported = 2 * response.unbiased_share(yes / asked) - 1
    of_cells = DiscreteLaplace(case.epsilon, 2 * len(people.pairs))
    of_characters = DiscreteLaplace(case.epsilon, len(truth))
    noisy = discrete_laplace(of_cells, (times, *cells.shape), generator) / n
    moved = 2 * discrete_laplace(of_characters, own.shape, generator) / n
    spread = people.tables(own) - cells

    def risk(exact: float, these: Array | None, drawn: Array, exact_drawn: float) -> Risk:
        return Risk(exact, _rows(these), exact_drawn, _rows(drawn), _largest(drawn))

    def central(exact: float, noise: Array) -> Risk:
        return risk(exact, noise, spread + noise, exact + sampling)

    # limits hold for estimated tables; rounding to whole people can make the error smaller
    unlimited = {"limit_drawn": None}

    def synthetic(released: Array) -> Risk:
        made = generator.multinomial(n, people.fitted(released[:SYNTHETIC_SETS])).astype(float)
        errors = people.tables(people.of_people(made)) - cells
        return Risk(None, errors_drawn=_rows(errors), columns={**_largest(errors), **unlimited})

    drawn = people.tables(reported) - cells
    local, population = (
        float(people.weights @ _variances(response, truth, asked, count)) / 16
        for count in (n, None)
    )
    of_moved = float(people.weights @ np.full(len(truth), 4 * of_characters.variance / n**2)) / 16
    risks = {
        LOCAL: risk(local, None, drawn, population),
        LOCAL_PEOPLE: synthetic(reported),
        CELLS: central(of_cells.variance / n**2, noisy),
        CENTRAL: central(of_moved, people.tables(moved) - 0.25),
        CENTRAL_PEOPLE: synthetic(own + moved),
        BLR: Risk(
            None, columns={"largest": blr(float(case.epsilon), people.number, n), **unlimited}
        ),
        NONE: risk(0.0, None, spread, sampling),
    }
    least = {"local": limit(case.epsilon, people) / n, "central": sampling, "none": sampling}
    limits = {model: {"limit_drawn": value} for model, value in least.items()}
    return case.rows(("epsilon", "attributes", "people"), risks, limits)


def _rows(errors: Array | None) -> Array | None:
    """Return errors with one row for each repetition."""
    return None if errors is None else errors.reshape(len(errors), -1)


def _largest(errors: Array) -> dict[str, float]:
    return {"largest": float(np.abs(errors).max(axis=(1, 2)).mean())}


def _variances(
    response: RandomizedResponse, truth: Array, asked: Array, people: int | None
) -> Array:
    """Return v_S about these people, who are split at random; about the population if None."""
    noise = 4 * response.variance(1, 0.5) / asked
    left = 1.0 if people is None else (people - asked) / (people - 1)
    return np.asarray(noise + (1 - truth**2) / asked * left)


def report(options: Options, found: Sequence[Row]) -> Report:
    rows, epsilon, d = (
        Rows(found),
        *(estimators.middle(options[k]) for k in ("epsilon", "attributes")),
    )
    shown = rows.at(epsilon=epsilon, attributes=d)
    title = f"Tables of two of {d} attributes, ε {epsilon}"
    largest = figures.Panel(
        title,
        [
            figures.curve(shown.of(one), one.look, "people", "largest", one.label)
            for one in (LOCAL, LOCAL_PEOPLE, CENTRAL, CENTRAL_PEOPLE, BLR, NONE)
        ],
        *("people", "largest error of a share"),
    )
    worst = {"devices": LOCAL_PEOPLE, "trusted": CENTRAL_PEOPLE, "BLR": BLR}
    return Report(
        _findings(shown.at(people=max(options["people"])), d),
        [
            figures.error_figure(
                "error",
                f"The error of a share in a table of two of {d} attributes, averaged, against the "
                f"number of people, at ε {epsilon}: for these people, and for the population they "
                "are drawn from.",
                *(shown, (LOCAL, CELLS, CENTRAL, NONE), title, SHARE),
            ),
            Figure(
                "largest",
                "The largest error of all these shares, averaged: of characters, of the synthetic "
                "people made from them, and as guaranteed by BLR.",
                lambda: figures.draw([largest]),
            ),
        ],
        [
            sentences.table(
                "Standard errors of a cell of these people, in points; and the largest error",
                rows,
                {"ε": "epsilon", "attributes": "attributes", "people": "people"},
                {one.label: sentences.column(one, _points) for one in (LOCAL, CELLS, CENTRAL)}
                | {
                    f"largest: {name}": sentences.column(one, _worst) for name, one in worst.items()
                },
            )
        ],
        sentences.method(
            rows,
            f"""The people are simulated: a chain of attributes, each of which agrees with the one
            before it with probability 0.8. Errors are root mean squares over all cells of all
            tables of two attributes.

            Noise and reports are whole numbers, as a server and devices would have them. Synthetic
            people have the distribution of the largest entropy with the released characters:
            {SYNTHETIC_SETS} sets of them for each line, each with as many people as were asked. BLR
            would have to enumerate all sets of people: its line is a guarantee that holds with
            probability {1 - FAILURE:g}, and nothing was drawn.""",
        ),
    )


def _points(row: Row) -> str:
    return figure(estimators.number(row, estimators.root("exact", 100)))


def _worst(row: Row) -> str:
    return figure(100 * estimators.number(row, "largest"))


def _findings(cell: Rows, d: int) -> list[str]:
    local = cell.one(LOCAL)
    over = estimators.number(local, "exact_drawn") / estimators.number(local, "limit_drawn")
    return sentences.paragraphs(
        f"""With {cell[0]["people"]:,} people at ε {cell[0]["epsilon"]}, devices estimate each share
        of all tables of two of {d} attributes to a standard error of {_points(local)} points, a
        trusted server to {_points(cell.one(CELLS))} with noise on cells and to
        {_points(cell.of(CENTRAL)[0])} with noise on characters.

        Synthetic people made from these reports are {_worst(cell.one(LOCAL_PEOPLE))} points off in
        the worst cell, where BLR with the true data guarantees {_worst(cell.one(BLR))}. The
        squared errors of devices are {over:.2f} times the least of any local protocol."""
    )


STUDY = Study(
    name="synthetic",
    question="What do synthetic people like the real ones cost, without trusting the server?",
    options=OPTIONS,
    cells=estimators.cross("people", "attributes"),
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
