"""Mean of vectors: PrivUnit and k-closest on devices against noise on a trusted server.

`pages/vector.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from deniable.shared.privacy.codewords import best_cap
from deniable.shared.privacy.mechanisms import KClosest
from deniable.simulations.engine import estimators, figures, option
from deniable.simulations.engine.estimators import Case, Estimator, Risk, number
from deniable.simulations.engine.figures import LOOKS
from deniable.simulations.engine.limits import unit_vector_columns
from deniable.simulations.engine.presentation import View, column, estimator_table, figure, study
from deniable.simulations.engine.study import Cell, Report, Row
from deniable.simulations.population.vectors import cosines
from deniable.simulations.studies.composition import gaussian_mu

MAX_MOVE = 2.0  # length of the change of a sum when one of its unit vectors is replaced
LENGTH = estimators.Unit("error, root mean squared length", 1.0)
OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e2,1e3,1e4,1e5,1e6,1e7,1e8"),
    option.sizes("dimension", "2,10,100,1000", 2, 1_024, "dimensions of the vectors"),
    option.delta("probability that the guarantee of Gaussian noise fails"),
    option.repetitions(10_000),
)

PRIVUNIT = Estimator("local", "privunit", "devices, PrivUnit", LOOKS[0])
CLOSEST = Estimator("local", "k-closest", "devices, k-closest", LOOKS[5])
PURE = Estimator("central", "pure", "trusted, pure", LOOKS[1])
GAUSSIAN = Estimator("central", "gaussian", "trusted, Gaussian", LOOKS[3], False)
NONE = Estimator("none", "mean", "no privacy", LOOKS[2])
ESTIMATORS = (PRIVUNIT, CLOSEST, PURE, GAUSSIAN, NONE)


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    case = Case(cell, generator)
    e, n, d, times = float(case.epsilon), case.people, case.dimension, case.repetitions
    draw, gain = case.generator, best_cap(d, e)[0]
    squares = 1 / gain**2 + 1 - 2 * cosines(e, d, times, draw(PRIVUNIT)) / gain
    scale, deviation = MAX_MOVE / (e * n), MAX_MOVE / (n * gaussian_mu(e, case.delta))
    pure = draw(PURE).gamma(d, scale, times)
    gaussian = deviation * np.sqrt(draw(GAUSSIAN).chisquare(d, times))
    least, closest = 1 / gain**2 / n, KClosest(case.epsilon, d).whole_error(1)
    exact = {
        PRIVUNIT: (least - 1 / n, np.sqrt(squares / n)),
        CLOSEST: ((closest**2 - 1) / n, None),
        PURE: (d * (d + 1) * scale**2, pure),
        GAUSSIAN: (d * deviation**2, gaussian),
        NONE: (0.0, None),
    }
    risks = {
        one: Risk(*risk, columns={"delta": case.delta if one is GAUSSIAN else 0.0})
        for one, risk in exact.items()
    }
    limits = unit_vector_columns(n, d, lambda e: best_cap(d, e)[0], e)
    return case.rows(("epsilon", "delta", "dimension", "people"), risks, limits, sampling=1 / n)


def report(view: View) -> Report:
    d, shown, dimensions = view.dimension, view.along("dimension"), view.options["dimension"]
    low, high = min(dimensions), max(dimensions)
    values = {
        **{one.name: _length(view.cell.one(one)) for one in (PRIVUNIT, PURE, GAUSSIAN)},
        "closest": view.cell.price(CLOSEST, PRIVUNIT),
        "low": low,
        "high": high,
        "prices": [
            figure(shown.at(dimension=end).price(PRIVUNIT, central))
            for central in (PURE, GAUSSIAN)
            for end in (low, high)
        ],
    }
    times_n = column(PRIVUNIT, lambda row: figure(number(row, "people") * number(row, "exact")))
    title = f"A mean of vectors in {d} dimensions, ε {view.epsilon}"
    prices = (view.along("dimension", "epsilon"), PRIVUNIT, (PURE, GAUSSIAN), "dimension")
    return view.report(
        values,
        {
            "error": figures.errors(view.along("people"), ESTIMATORS, title, LENGTH),
            "price": figures.prices(*prices),
        },
        [
            estimator_table(
                "Error of the mean vector of these people: root mean squared length",
                *(view.rows, ESTIMATORS[:-1], _length),
                {"ε": "epsilon", "dimension": "dimension", "people": "people"},
                {"n × error²": times_n},
            )
        ],
    )


def _length(row: Row) -> str:
    return figure(number(row, estimators.root("exact")))


STUDY = study("vector", OPTIONS, estimators.cross("people", "dimension"), run, report)
