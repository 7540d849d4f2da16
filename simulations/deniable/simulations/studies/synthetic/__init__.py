"""Synthetic people: all tables of two attributes, and people made from the estimated tables.

People have d yes-or-no attributes, and T = d + d (d - 1) / 2 characters (see `attributes`). The
mean squared error of a cell of a table of two attributes, averaged, is, with v_S that of the
character S:

    local      one drawn character by randomized response    (v_i + v_j + v_ij) / 16, where
               v_S = (C^2 - c_S^2) / g about the population, and g = n / T people are asked S
    central    geometric noise on each cell, Δ = d (d - 1)   2 d^2 (d - 1)^2 / (ε n)^2, for small ε
    central    cube noise on all characters together         (T + 1) (T + 2) / (4 (ε n)^2)
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
from deniable.simulations.central.vector_noise import CubeNoise
from deniable.simulations.engine import estimators, figures, option
from deniable.simulations.engine.estimators import (
    Array,
    Case,
    Estimator,
    Risk,
    number,
)
from deniable.simulations.engine.figures import LOOKS, SHUFFLED_LOOK
from deniable.simulations.engine.presentation import View, column, estimator_table, figure, study
from deniable.simulations.engine.study import Cell, Report, Row
from deniable.simulations.studies.bit_reports import reported_rate
from deniable.simulations.studies.synthetic.attributes import (
    FAILURE,
    Attributes,
    blr,
    executed_blr,
    limit,
)

LOCAL = Estimator("local", "characters", "devices, characters", LOOKS[0])
LOCAL_PEOPLE = Estimator("local", "synthetic", "devices, synthetic people", LOOKS[5])
CELLS = Estimator("central", "cells", "trusted, cells", LOOKS[1])
CENTRAL = Estimator("central", "characters", "trusted, characters", LOOKS[3])
CENTRAL_PEOPLE = Estimator("central", "synthetic", "trusted, synthetic people", LOOKS[4])
BLR = Estimator("central", "blr", "trusted, BLR's guarantee", LOOKS[1])
BLR_RUN = Estimator("central", "blr-run", "trusted, BLR as executed", SHUFFLED_LOOK)
NONE = Estimator("none", "shares", "no privacy", LOOKS[2])
SHARE = estimators.Unit("standard error of a share", 1.0)
MAX_BLR_ATTRIBUTES = 4  # with up to as many, all sets of a few people are enumerated
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
    of_characters = CubeNoise(case.epsilon, len(truth))
    noisy = discrete_laplace(of_cells, (times, *cells.shape), generator) / n
    moved = 2 * of_characters.drawn(times, generator) / n
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
    if people.number <= MAX_BLR_ATTRIBUTES:
        errors, chances = executed_blr(people, n, float(case.epsilon))
        risks[BLR_RUN] = unlimited(Risk(None, columns={"largest": float(chances @ errors)}))
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


def report(view: View) -> Report:
    d, shown = view.attributes, view.along("people")
    cell = shown.at(people=max(view.options["people"]))
    title, local = f"Tables of two of {d} attributes, ε {view.epsilon}", cell.one(LOCAL)
    values = {
        "local": _points(local),
        "cells": _points(cell.one(CELLS)),
        "central": _points(cell.of(CENTRAL)[0]),
        "worst": _worst(cell.one(LOCAL_PEOPLE)),
        "blr": _worst(cell.one(BLR)),
        "over": number(local, "exact_drawn") / number(local, "limit_drawn"),
        "sets": SYNTHETIC_SETS,
        "sure": 1 - FAILURE,
    }
    drawn = (LOCAL, LOCAL_PEOPLE, CENTRAL, CENTRAL_PEOPLE, BLR, BLR_RUN, NONE)
    curves = [figures.curve(shown.of(o), o.look, "people", "largest", o.label) for o in drawn]
    largest = figures.Panel(title, curves, "people", "largest error of a share")
    worst = {
        "devices": LOCAL_PEOPLE, "trusted": CENTRAL_PEOPLE, "BLR": BLR, "BLR, executed": BLR_RUN,
    }  # fmt: skip
    return view.report(
        values,
        {
            "error": figures.errors(shown, (LOCAL, CELLS, CENTRAL, NONE), title, SHARE),
            "largest": figures.drawing(largest),
        },
        [
            estimator_table(
                "Standard error of a cell for these people, and the largest error, in points",
                *(view.rows, (LOCAL, CELLS, CENTRAL), _points),
                {"ε": "epsilon", "attributes": "attributes", "people": "people"},
                {f"largest: {name}": column(one, _worst) for name, one in worst.items()},
            )
        ],
    )


def _points(row: Row) -> str:
    return figure(number(row, estimators.root("exact", 100)))


def _worst(row: Row) -> str:
    return figure(100 * number(row, "largest"))


OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e4,1e5,1e6,1e7", least=100),  # more than there are characters
    option.sizes("attributes", "4,8,10", 2, 12, "numbers of attributes of each person"),
    option.repetitions(100),
)
STUDY = study("synthetic", OPTIONS, estimators.cross("people", "attributes"), run, report)
