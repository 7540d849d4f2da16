"""Synthetic people: all tables of two attributes, and people made from the estimated tables.

`pages/synthetic.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, combinations_with_replacement

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import gammaln

from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.central.noise import CubeNoise, DiscreteLaplace, discrete_laplace
from deniable.simulations.engine import estimators, figures, option
from deniable.simulations.engine.estimators import Array, Case, Estimator, Risk, number
from deniable.simulations.engine.figures import LOOKS, SHUFFLED_LOOK
from deniable.simulations.engine.limits import ball_prior, unit_vector_limits
from deniable.simulations.engine.presentation import View, column, estimator_table, figure, study
from deniable.simulations.engine.study import Cell, Report, Row
from deniable.simulations.studies.bit_reports import noise, reported_rate

LOCAL = Estimator("local", "characters", "devices, characters", LOOKS[0])
LOCAL_PEOPLE = Estimator("local", "synthetic", "devices, synthetic people", LOOKS[5])
CELLS = Estimator("central", "cells", "trusted, cells", LOOKS[1])
CENTRAL = Estimator("central", "characters", "trusted, characters", LOOKS[3])
CENTRAL_PEOPLE = Estimator("central", "synthetic", "trusted, synthetic people", LOOKS[4])
BLR = Estimator("central", "blr", "trusted, BLR's guarantee", LOOKS[1])
BLR_RUN = Estimator("central", "blr-run", "trusted, BLR as executed", SHUFFLED_LOOK)
NONE = Estimator("none", "shares", "no privacy", LOOKS[2])
SHARE = estimators.Unit("standard error of a share", 1.0)
AGREE = 0.8
STEPS, STEP = 150, 0.15
FAILURE = 0.05  # β of BLR: the probability that its guarantee fails
MAX_SETS = 4_000  # of people, which BLR enumerates
MAX_BLR_ATTRIBUTES = 4  # with up to as many, all sets of a few people are enumerated
SYNTHETIC_SETS = 12  # number of sets of synthetic people for each row


@dataclass(frozen=True)
class Attributes:
    """Population with this number of attributes."""

    number: int

    @cached_property
    def subsets(self) -> list[tuple[int, ...]]:
        """The sets of one attribute, then those of two."""
        d = range(self.number)
        return [*((i,) for i in d), *combinations(d, 2)]

    @cached_property
    def characters(self) -> Array:
        """χ_S(x) as `characters[x, S]`, with x as a number of d bits."""
        signs = 1 - 2 * (np.arange(2**self.number)[:, None] >> np.arange(self.number) & 1)
        return np.stack([signs[:, list(s)].prod(axis=1) for s in self.subsets], axis=1).astype(
            float
        )

    @cached_property
    def population(self) -> Array:
        bits = np.arange(2**self.number)[:, None] >> np.arange(self.number) & 1
        agreeing = (bits[:, 1:] == bits[:, :-1]).sum(axis=1)
        disagreeing = self.number - 1 - agreeing
        return np.asarray(0.5 * AGREE**agreeing * (1 - AGREE) ** disagreeing)

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """The positions of the three subsets of each pair of attributes."""
        position = {s: n for n, s in enumerate(self.subsets)}
        return np.array(
            [[position[s[:1]], position[s[1:]], position[s]] for s in self.subsets if len(s) > 1]
        )

    @cached_property
    def weights(self) -> Array:
        """The weight of each c_S in the mean squared error of a cell, times 16."""
        counts = np.bincount(self.pairs.ravel(), minlength=len(self.subsets))
        return np.asarray(counts / len(self.pairs))

    def tables(self, coefficients: Array) -> Array:
        """Return the four cells of each pair, for rows of c_S."""
        one, other, both = (coefficients[..., self.pairs[:, n]] for n in range(3))
        cells = [1 + s * one + t * other + s * t * both for s in (1, -1) for t in (1, -1)]
        return np.stack(cells, axis=-1) / 4

    def of_people(self, counts: Array) -> Array:
        return np.asarray(counts @ self.characters / counts.sum(axis=-1, keepdims=True))

    def fitted(self, coefficients: Array) -> Array:
        """Return the distribution of people for each row of c_S."""
        wanted = np.clip(coefficients, -1, 1)
        ahead = force = np.zeros_like(wanted)
        for step in range(STEPS):
            before = force
            force = ahead + STEP * (wanted - self._distribution(ahead) @ self.characters)
            ahead = force + step / (step + 3) * (force - before)
        return self._distribution(force)

    def _distribution(self, force: Array) -> Array:
        logs = force @ self.characters.T
        weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def limit(epsilon: float, people: Attributes, number: int) -> float:
    """Return the least mean squared error of a cell about the population; an infinite ε is none."""
    characters = len(people.weights)

    def gain(epsilon: float) -> float:
        return min(1.0, 1 / math.sqrt(4 * noise(epsilon) * characters)) if epsilon < 40 else 1.0

    unit = unit_vector_limits(number, ball_prior(characters), gain, epsilon)[1]
    return unit * float(np.sqrt(people.weights).sum()) ** 2 / (16 * characters)


def blr(epsilon: float, attributes: int, people: int) -> float:
    """Return BLR's bound on the error of every cell, for the best set size."""
    m = np.unique(np.geomspace(1, 10**7, 4_000).astype(np.int64)).astype(float)
    many = math.log(4 * attributes * (attributes - 1))
    sets = m * attributes * math.log(2) + math.log(1 / FAILURE)
    return min(1.0, float((np.sqrt(many / (2 * m)) + 2 * sets / (epsilon * people)).min()))


def executed_blr(people: Attributes, number: int, epsilon: float) -> tuple[Array, Array]:
    """Return the largest error of a cell for each multiset of a few people, and its probability.

    This is BLR itself: the exponential mechanism on all sets of m people, with the largest m for
    which there are at most `MAX_SETS` multisets. One person moves a score by at most 1 / n.
    """
    cells = 2**people.number
    m = max(m for m in range(1, MAX_SETS) if math.comb(cells + m - 1, m) <= MAX_SETS)
    sets = np.array(
        [np.bincount(s, minlength=cells) for s in combinations_with_replacement(range(cells), m)]
    )
    truth = people.tables(people.population @ people.characters)
    made = people.tables(people.of_people(sets.astype(float)))
    errors = np.abs(made - truth).max(axis=(1, 2))
    logs = -gammaln(sets + 1).sum(axis=1) - epsilon * number / 2 * errors
    weights = np.exp(logs - logs.max())
    return np.asarray(errors), np.asarray(weights / weights.sum())


# The study


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
