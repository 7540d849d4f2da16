"""Synthetic people: all tables of two attributes, and data that have them, without the data.

People have d attributes of yes or no (`attributes.py`), T = d + d (d - 1) / 2. Mean squared errors
of a cell of a table of two attributes, on average, with v_S that of the character S:

    local      one drawn character by randomized response    (v_i + v_j + v_ij) / 16, where
               v_S = (C^2 - c_S^2) / g about the population, g = n / T of the people being asked S
    central    geometric noise on each cell, Δ = d (d - 1)   2 d^2 (d - 1)^2 / (ε n)^2, for small ε
    central    geometric noise on each character, Δ = T      (3/2) T^2 / (ε n)^2
    central    BLR: of all sets of m people, by the exponential mechanism, the one whose largest
               error is least                                a guarantee only

and for the population the spread of a sample more. From the characters synthetic people are made,
n of them: after that nothing is known of anybody that was not known before.

With probability 1 - β no cell of BLR's people is further off than √(ln(2 K) / (2 m)) for the best
set, and (2 / (ε n)) (m d ln 2 + ln(1 / β)) for choosing among 2^(d m), K = 2 d (d - 1) cells; m is
the best one. Nobody can go through all those sets.

Limit, local, for many people of whom all x are as frequent: characters are uncorrelated there, and
|E f χ|^2 / (E f)^2 <= (e^ε - 1)^2 / (4 e^ε) = 1 / (4 V) for f with values in [1, e^ε], so that
errors weighted by w_S are at least 4 V (Σ √w_S)^2 / n together. A curator's is the spread of a
sample; where people are few, a curator does better with the devices' mechanism, which is then in
the rows with the model `central`.

The JSON form: `options`, `rows` (`model`, `estimator`, `epsilon`, `attributes`, `people`, `exact`
about these people, `measured` with its Monte-Carlo error `error`; `exact_drawn`, `measured_drawn`,
`error_drawn`, `limit_drawn` about the population; `largest`, the mean of the largest error of a
cell about the population, and for BLR its guarantee about these people; `limit` null) and
`findings`. What is not known, or not drawn, is null.

Sources: Blum, Ligett, Roth 2008, "A learning theory approach to non-interactive database privacy",
STOC; Barak, Chaudhuri, Dwork, Kale, McSherry, Talwar 2007, PODS, for characters.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central import DiscreteLaplace, discrete_laplace
from deniable.simulations.engine import comparison, option
from deniable.simulations.engine import estimator_rows as forms
from deniable.simulations.engine.study import Cell, Options, Row, Study
from deniable.simulations.studies.synthetic.attributes import Attributes
from deniable.simulations.studies.synthetic.limits import blr, limit
from deniable.simulations.studies.synthetic.report import report
from deniable.simulations.studies.synthetic.series import (
    BLR,
    CELLS,
    CENTRAL,
    CENTRAL_PEOPLE,
    FEW,
    LOCAL,
    LOCAL_PEOPLE,
    NONE,
)

Array = forms.Array


OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e4,1e5,1e6,1e7", least=100),  # more than there are characters
    option.Option("attributes", "4,8,10", option.several(option.whole(2, 12)), "of each person"),
    option.repetitions(100),
)


def cells(options: Options) -> Sequence[Cell]:
    """Every number of people with the middle number of attributes, and the other way round."""
    middle_people, middle = (comparison.middle(options[key]) for key in ("people", "attributes"))
    pairs = [(n, middle) for n in options["people"]]
    pairs += [(middle_people, d) for d in options["attributes"] if d != middle]
    return [
        {"epsilon": e, "people": n, "attributes": d, "repetitions": options["repetitions"]}
        for e in options["epsilon"]
        for n, d in pairs
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
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
    for series, found in ((LOCAL_PEOPLE, reported), (CENTRAL_PEOPLE, own + moved)):
        made = generator.multinomial(n, people.fitted(found[:FEW])).astype(float)
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
        about = forms.measured(_mean_squares(off)) if off is not None else forms.NOTHING
        these = forms.measured(_mean_squares(noise[series])) if series in noise else forms.NOTHING
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
    return rows + forms.run_by_the_curator(rows, [CELLS, CENTRAL])


def _groups(n: int, number: int) -> forms.Whole:
    return (n // number + (np.arange(number) < n % number)).astype(np.int64)


def _reported(
    response: RandomizedResponse, truth: Array, asked: forms.Whole, times: int,
    generator: np.random.Generator,
) -> Array:  # fmt: skip
    """c_S by the reports of each group, of people who are drawn."""
    keep, lie = response.keep / ONE, response.lie / ONE
    said = generator.binomial(asked, lie + (keep - lie) * (1 + truth) / 2, (times, len(truth)))
    return np.asarray(2 * (said / asked - lie) / (keep - lie) - 1)


def _variances(
    response: RandomizedResponse, truth: Array, asked: forms.Whole, people: int | None
) -> Array:
    """v_S, about the population, or about these people, of whom the groups are drawn by lot."""
    noise = 4 * response.variance(1, 0.5) / asked
    left = 1.0 if people is None else (people - asked) / (people - 1)
    return np.asarray(noise + (1 - truth**2) / asked * left)


def _error(people: Attributes, variances: Array) -> float:
    return float(people.weights @ variances) / 16


def _mean_squares(errors: Array) -> Array:
    return np.asarray((errors**2).mean(axis=(1, 2)))


def _largest(errors: Array) -> float:
    return float(np.abs(errors).max(axis=(1, 2)).mean())


STUDY = Study(
    name="synthetic",
    question="What do made-up people cost who are like the real ones, without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        (
            "devices, one drawn character of T",
            "3 T C^2 / (16 n), T = d (d + 1) / 2, C = 1 / tanh(ε / 2)",
        ),
        ("a trusted server, noise on each cell", "2 d^2 (d - 1)^2 / (ε n)^2"),
        ("a trusted server, noise on each character", "3 T^2 / (2 (ε n)^2)"),
    ),
)
