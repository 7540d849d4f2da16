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

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central import DiscreteLaplace
from deniable.simulations.frame import comparison, option
from deniable.simulations.frame import rows as forms
from deniable.simulations.frame.comparison import Series, look
from deniable.simulations.frame.figures import new_figure
from deniable.simulations.frame.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.population import discrete_laplace
from deniable.simulations.studies.synthetic.attributes import Attributes

if TYPE_CHECKING:
    import matplotlib.figure

Array = forms.Array
LOCAL = Series("local", "characters", "devices, characters", look(0))
LOCAL_PEOPLE = Series("local", "synthetic", "devices, synthetic people", look(5))
CELLS = Series("central", "cells", "trusted, cells", look(1))
CENTRAL = Series("central", "characters", "trusted, characters", look(3))
CENTRAL_PEOPLE = Series("central", "synthetic", "trusted, synthetic people", look(4))
BLR = Series("central", "blr", "trusted, BLR's guarantee", look(1))
NONE = Series("none", "shares", "no privacy", look(2))
SURE = 0.05  # β of BLR
FEW = 12  # sets of synthetic people for each line


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


def limit(epsilon: Epsilon, people: Attributes) -> float:
    """n times what no local protocol's mean squared error of a cell is below."""
    noise = 1 / math.sinh(float(epsilon) / 2) ** 2
    return noise * float(np.sqrt(people.weights).sum()) ** 2 / 16


def blr(epsilon: float, attributes: int, people: int) -> float:
    """What no cell is further off, with probability 1 - β: of the best size of set."""
    m = np.unique(np.geomspace(1, 10**7, 4_000).astype(np.int64)).astype(float)
    many = math.log(4 * attributes * (attributes - 1))
    sets = m * attributes * math.log(2) + math.log(1 / SURE)
    return min(1.0, float((np.sqrt(many / (2 * m)) + 2 * sets / (epsilon * people)).min()))


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, d = (comparison.middle(options[key]) for key in ("epsilon", "attributes"))
    most = max(options["people"])
    findings = _findings(rows, epsilon, most, d)
    shown = comparison.pick(rows, epsilon=epsilon, attributes=d)
    return Report(
        findings=findings,
        figures=[
            Figure(
                "error",
                f"How far off a share of a table of two of {d} attributes is, on average, against "
                f"the people, at ε {epsilon}: of these people, and of the population that they are "
                "drawn from. Lines are formulas, points are simulations.",
                lambda: _error_figure(shown, d, epsilon),
            ),
            Figure(
                "largest",
                "The largest error of all these shares, on average: of characters, of the "
                "synthetic people that are made from them, and what BLR guarantees.",
                lambda: _largest_figure(shown, d, epsilon),
            ),
        ],
        tables=[_table(rows)],
        method=[
            (
                "People are made here: a chain of attributes, each of which agrees with the one "
                "before it with probability 0.8. Errors are root mean squares over all cells of "
                "all tables of two attributes."
            ),
            (
                "Noise and reports are whole numbers, as a server and devices would have them. "
                "Synthetic people have the distribution of the largest entropy with the characters "
                f"that were released: {FEW} sets of them for each line, as many people as were "
                "asked. BLR would have to go through all sets of people: its line is a guarantee "
                f"that holds with probability {1 - SURE:g}, and nothing was drawn."
            ),
            (
                f"Everything else is drawn {options['repetitions']:,} times; the largest distance "
                "of a measured mean squared error from its formula is "
                f"{forms.worst_deviation(rows):.1f} Monte-Carlo errors."
            ),
        ],
        document=forms.document(options, rows, findings),
    )


def _findings(rows: Sequence[Row], epsilon: str, people: int, d: int) -> list[str]:
    here = comparison.pick(rows, epsilon=epsilon, people=people, attributes=d)
    off = {
        each: comparison.figure(100 * math.sqrt(forms.value(here, each)))
        for each in (LOCAL, CELLS, CENTRAL)
    }
    (blr_row,), (local, made) = (
        forms.of(here, BLR),
        (forms.of(here, each)[0] for each in (LOCAL, LOCAL_PEOPLE)),
    )
    over = comparison.number(local, "exact_drawn") / comparison.number(local, "limit_drawn")
    largest = {
        name: comparison.figure(100 * comparison.number(row, "largest"))
        for name, row in (("blr", blr_row), ("made", made))
    }
    return [
        (
            f"With {people:,} people at ε {epsilon}, devices tell each share of all tables of two "
            f"of {d} attributes to a standard error of {off[LOCAL]} points, a trusted server that "
            f"adds noise to cells to {off[CELLS]}, and to {off[CENTRAL]} by characters."
        ),
        (
            f"Synthetic people made from these reports are off by {largest['made']} points in the "
            f"worst cell, where BLR with the true data guarantees {largest['blr']}; devices' "
            f"squared errors are {over:.2f} times what no local protocol is below."
        ),
    ]


def _table(rows: Sequence[Row]) -> Table:
    lines = []
    for row in forms.of(rows, LOCAL):
        epsilon, people, d = row["epsilon"], row["people"], row["attributes"]
        here = comparison.pick(rows, epsilon=epsilon, people=people, attributes=d)
        errors = [
            comparison.figure(100 * math.sqrt(forms.value(here, each)))
            for each in (LOCAL, CELLS, CENTRAL)
        ]
        worst = [
            comparison.figure(100 * comparison.number(forms.of(here, each)[0], "largest"))
            for each in (LOCAL_PEOPLE, CENTRAL_PEOPLE, BLR)
        ]
        lines.append([str(epsilon), f"{d}", f"{people:,}", *errors, *worst])
    return Table(
        "Standard errors of a cell of these people, in points; and the largest error",
        [
            *("ε", "attributes", "people"),
            *(each.label for each in (LOCAL, CELLS, CENTRAL)),
            *("largest: devices", "largest: trusted", "largest: BLR"),
        ],
        lines,
    )


def _error_figure(rows: Sequence[Row], d: int, epsilon: str) -> matplotlib.figure.Figure:
    figure = new_figure(width=9.0)
    these, population = figure.subplots(1, 2, sharey=True)
    for each in (LOCAL, CELLS, CENTRAL):
        forms.draw(these, rows, each, "people")
    for each in (LOCAL, CELLS, CENTRAL, NONE):
        forms.draw(
            population, rows, each, "people",
            exact="exact_drawn", measured="measured_drawn", error="error_drawn",
        )  # fmt: skip
    forms.draw_limit(population, rows, LOCAL, "people", "limit_drawn")
    for axes, title in ((these, "these people"), (population, "their population")):
        axes.set(xscale="log", yscale="log", xlabel="people", title=title)
        axes.grid(visible=True)
    these.set_ylabel("standard error of a share")
    figure.suptitle(f"Tables of two of {d} attributes, ε {epsilon}", fontsize=12)
    population.legend(loc="lower left", fontsize=9)
    return figure


def _largest_figure(rows: Sequence[Row], d: int, epsilon: str) -> matplotlib.figure.Figure:
    figure = new_figure()
    axes = figure.subplots()
    for each in (LOCAL, LOCAL_PEOPLE, CENTRAL, CENTRAL_PEOPLE, BLR, NONE):
        found = sorted(forms.of(rows, each), key=lambda row: comparison.number(row, "people"))
        axes.plot(
            [comparison.number(row, "people") for row in found],
            [comparison.number(row, "largest") for row in found],
            label=each.label,
            **each.look.style,
        )
    axes.set(xscale="log", yscale="log", xlabel="people", ylabel="largest error of a share")
    axes.set_title(f"Tables of two of {d} attributes, ε {epsilon}")
    axes.grid(visible=True)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9)
    return figure


STUDY = Study(
    name="synthetic",
    question="What do synthetic people cost without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
)
