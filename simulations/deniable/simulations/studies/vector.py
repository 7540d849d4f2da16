"""Mean of vectors: PrivUnit and k-closest on devices against noise on a trusted server.

Every person has a vector of length one in d dimensions. Errors are expected squared lengths:

                                     these people            the population, whose mean is 0
    local      PrivUnit              (1 / m^2 - 1) / n       1 / (m^2 n)
    local      k-closest             the same with the gain of k-closest in place of m
    central    pure, ε               4 d (d + 1) / (ε n)^2   1 / n more
    central    Gaussian, (ε, δ)      4 d / (μ n)^2           1 / n more
    none       the mean              0                       1 / n

m is the largest mean that a report with ε can have along the person's vector; a cap attains it
(`deniable.shared.privacy.codewords`). So for many people the limits (`engine/limits.py`) are the
errors of PrivUnit, which are the least of unbiased randomizers for any number [1].

For small ε, 1 / m^2 -> 2 π d / ε^2. The price then tends to n π / (2 (d + 1)) against pure noise,
and to about n π / (4 ln(1.25 / δ)) against Gaussian noise in every dimension. Where the price is
below 1, a trusted server does better with the local mechanism, which then gets a row in the model
`central`. Its limit about the population is that without privacy, where m = 1.

Pure noise has the density e^(-|v| / s) with s = 2 / (ε n). Replacing one vector moves the mean by
at most 2 / n, so by the triangle inequality no density changes by more than e^ε. The length |v| has
the distribution Gamma(d, s). Gaussian noise is calibrated exactly [2].

The simulations draw single reports of PrivUnit and lengths of noise vectors. Devices of deniable
send k-closest, a mechanism with exact probabilities (`shared`).

[1] Asi, Feldman, Talwar 2022, "Optimal algorithms for mean estimation under local differential
    privacy", ICML.
[2] Balle, Wang 2018, "Improving the Gaussian mechanism for differential privacy", ICML.
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
