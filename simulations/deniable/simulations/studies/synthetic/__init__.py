"""Synthetic people: all tables of two attributes, and people made from the estimated tables.

People have d yes-or-no attributes, and T = d + d (d - 1) / 2 characters (see `attributes`). The
mean squared error of a cell of a table of two attributes, averaged, is, with v_S that of the
character S:

    local      one drawn character by randomized response    (v_i + v_j + v_ij) / 16, where
               v_S = (C^2 - c_S^2) / g about the population, and g = n / T people are asked S
    central    geometric noise on each cell, Δ = d (d - 1)   2 d^2 (d - 1)^2 / (ε n)^2, for small ε
    central    geometric noise on each character, Δ = T      (3/2) T^2 / (ε n)^2
    central    BLR: the exponential mechanism chooses the set of m people whose largest error is
               least, among all such sets                    a guarantee only

For the population, add the sampling error. From the characters n synthetic people are made, which
is post-processing and costs no further privacy.

With probability 1 - β no cell of BLR's people has an error above √(ln(2 K) / (2 m)) for the best
set plus (2 / (ε n)) (m d ln 2 + ln(1 / β)) for choosing among 2^(d m) sets, with K = 2 d (d - 1)
cells and the best m. It is infeasible to enumerate all these sets.

The limits are about populations where all x are nearly equally frequent: the vector of characters,
divided by √T, is a unit vector there (`engine/limits.py`). Its squared gain is at most 1, and at
most 1 / (4 V T), as |E f χ|^2 / (E f)^2 <= (e^ε - 1)^2 / (4 e^ε) = 1 / (4 V) for f with values in
[1, e^ε]. Errors weighted by w_S add up to at least (Σ √w_S)^2 / T times the limit of the unit
vector, for many people to 4 V (Σ √w_S)^2 / n. With few people a curator gains by running the
devices' mechanism, which then has a row with the model `central`.

Sources: Blum, Ligett, Roth 2008, "A learning theory approach to non-interactive database privacy",
STOC; Barak, Chaudhuri, Dwork, Kale, McSherry, Talwar 2007, PODS, for characters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.random import Generator

from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.central.discrete_laplace import DiscreteLaplace, discrete_laplace
from deniable.simulations.engine import estimators, figures, option, sentences
from deniable.simulations.engine.estimators import (
    Array,
    Case,
    Estimator,
    Risk,
    Rows,
    middle,
    number,
)
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
SYNTHETIC_SETS = 12  # number of sets of synthetic people for each row


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

    def risk(exact: float | None, drawn: Array, exact_drawn: float | None = None) -> Risk:
        largest = {"largest": float(np.abs(drawn).max(axis=(1, 2)).mean())}
        return Risk(exact, None, exact_drawn, _flat(drawn), largest)

    def central(exact: float, noise: Array) -> Risk:
        return replace(risk(exact, spread + noise, exact + sampling), errors=_flat(noise))

    def unlimited(one: Risk) -> Risk:
        """Remove the limit: it holds for estimated tables, and whole people may have less error."""
        return replace(one, columns={**one.columns, "limit_drawn": None})

    def synthetic(released: Array) -> Risk:
        made = generator.multinomial(n, people.fitted(released[:SYNTHETIC_SETS])).astype(float)
        return unlimited(risk(None, people.tables(people.of_people(made)) - cells))

    def cell_error(variances: Array) -> float:
        return float(people.weights @ variances) / 16

    local, population = (cell_error(_variances(response, truth, asked, k)) for k in (n, None))
    of_moved = cell_error(np.full(len(truth), 4 * of_characters.variance / n**2))
    guarantee = blr(float(case.epsilon), people.number, n)
    risks = {
        LOCAL: risk(local, people.tables(reported) - cells, population),
        LOCAL_PEOPLE: synthetic(reported),
        CELLS: central(of_cells.variance / n**2, noisy),
        CENTRAL: central(of_moved, people.tables(moved) - 0.25),
        CENTRAL_PEOPLE: synthetic(own + moved),
        BLR: unlimited(Risk(None, columns={"largest": guarantee})),
        NONE: risk(0.0, spread, sampling),
    }
    sampled = {"limit_drawn": min(sampling, limit(math.inf, people, n))}
    of_devices = {"limit_drawn": limit(float(case.epsilon), people, n)}
    limits = {"local": of_devices, "central": sampled, "none": sampled}
    return case.rows(("epsilon", "attributes", "people"), risks, limits)


def _flat(errors: Array) -> Array:
    """Return errors with one row for each repetition."""
    return errors.reshape(len(errors), -1)


def _variances(
    response: RandomizedResponse, truth: Array, asked: Array, people: int | None
) -> Array:
    """Return v_S for these people, who are split at random, or (without people) the population."""
    noise = 4 * response.variance(1, 0.5) / asked
    left = 1.0 if people is None else (people - asked) / (people - 1)
    return np.asarray(noise + (1 - truth**2) / asked * left)


def report(options: Options, found: Sequence[Row]) -> Report:
    rows, epsilon, d = Rows(found), middle(options["epsilon"]), middle(options["attributes"])
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
                f"The average error of a share in a table of two of {d} attributes, against the "
                f"number of people, at ε {epsilon}: for these people, and for the population they "
                "are drawn from.",
                *(shown, (LOCAL, CELLS, CENTRAL, NONE), title, SHARE),
            ),
            Figure(
                "largest",
                "The largest error of all these shares, averaged over repetitions: for tables from "
                "characters, for synthetic people made from them, and as guaranteed by BLR.",
                lambda: figures.draw([largest]),
            ),
        ],
        [
            sentences.table(
                "Standard error of a cell for these people, and the largest error, in points",
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
            f"""The people are simulated: their attributes form a chain, and each agrees with the
            one before it with probability 0.8. Errors are root mean squares over all cells of all
            tables of two attributes. A character is 1 where an even number of the attributes in a
            set are yes, else -1; devices report characters of one or two attributes.

            Noise and reports are whole numbers, as on a server and on devices. Synthetic people
            have the distribution with the largest entropy that has the released characters.
            {SYNTHETIC_SETS} sets of them are drawn for each row, each with as many people as were
            asked. BLR would have to enumerate all sets of people: its line is a guarantee that
            holds with probability {1 - FAILURE:g}, and nothing was drawn.""",
        ),
    )


def _points(row: Row) -> str:
    return figure(number(row, estimators.root("exact", 100)))


def _worst(row: Row) -> str:
    return figure(100 * number(row, "largest"))


def _findings(cell: Rows, d: int) -> list[str]:
    local = cell.one(LOCAL)
    over = number(local, "exact_drawn") / number(local, "limit_drawn")
    return sentences.paragraphs(
        f"""With {cell[0]["people"]:,} people at ε {cell[0]["epsilon"]}, devices estimate each share
        in the tables of two of {d} attributes with a standard error of {_points(local)} points.
        With a trusted server, it is {_points(cell.one(CELLS))} points with noise on cells, and
        {_points(cell.of(CENTRAL)[0])} with noise on characters.

        Synthetic people made from these reports are {_worst(cell.one(LOCAL_PEOPLE))} points off in
        the worst cell. BLR with the true data guarantees at most {_worst(cell.one(BLR))}. The
        squared errors of devices are {over:.2f} times the limit for local protocols."""
    )


STUDY = Study(
    name="synthetic",
    question="What do synthetic people like the real ones cost, without trusting the server?",
    options=(
        option.epsilons("0.5,1,2,4"),
        option.people("1e4,1e5,1e6,1e7", least=100),  # more than there are characters
        option.Option(
            *("attributes", "4,8,10", option.several(option.whole(2, 12))),
            "how many attributes each person has, with commas",
        ),
        option.repetitions(100),
    ),
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
