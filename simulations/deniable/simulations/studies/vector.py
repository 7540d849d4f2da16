"""A mean of vectors: PrivUnit and k-closest on devices against a trusted server's noise.

Every person has a vector of length one in d dimensions. Errors are mean squared lengths:

                                     these people            the population, whose mean is 0
    local      PrivUnit              (1 / m^2 - 1) / n       1 / (m^2 n)
    local      k-closest             the same with its own gain in place of m
    central    pure, ε               4 d (d + 1) / (ε n)^2   1 / n more
    central    Gaussian, (ε, δ)      4 d / (μ n)^2           1 / n more
    none       the mean              0                       1 / n

m is the largest mean along the vector that a report with ε can have: that of a cap (`population/
caps.py`). No protocol on devices has a smaller error, for many people: the density 1 + <ϑ, x> on
the sphere has the mean ϑ / d, and |E f x| / E f <= m for every f with values in [1, e^ε], so
reports have information of trace at most m^2 about the mean. For these people it is the least among
unbiased randomizers [1]. For small ε 1 / m^2 -> 2 π d / ε^2, so the price tends to n π / (2 (d +
1)) against pure noise, and is the same in every dimension against Gaussian noise, about n π / (4
ln(1.25 / δ)). Where that is below 1 a trusted server does better with the devices' mechanism: such
a row has the model `central`. The sampling error 1 / n is a trusted server's limit about the
population, for many people.

Measured are reports of PrivUnit, one at a time, and the lengths of noise: simulations of their
distributions. Devices of deniable send k-closest, which is exact (`shared`).

[1] Asi, Feldman, Talwar 2022, "Optimal algorithms for mean estimation under local differential
    privacy", ICML.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from deniable.shared.privacy.codewords import best_cap
from deniable.shared.privacy.mechanisms import KClosest
from deniable.simulations.central import vector_noise
from deniable.simulations.engine import estimators, figures, option, sentences
from deniable.simulations.engine.estimators import Case, Estimator, Risk, Rows, middle, number
from deniable.simulations.engine.figures import LOOKS
from deniable.simulations.engine.sentences import column, figure, paragraphs
from deniable.simulations.engine.study import Cell, Options, Report, Row, Study
from deniable.simulations.population.vectors import cosines
from deniable.simulations.studies.composition import gaussian_mu

LENGTH = estimators.Unit("error, root mean squared length", 1.0)
OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e2,1e3,1e4,1e5,1e6,1e7,1e8"),
    option.Option(
        "dimension", "2,10,100,1000", option.several(option.whole(2, 1_024)), "of the vectors"
    ),
    option.delta("probability that Gaussian noise fails"),
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
    scale = vector_noise.pure_scale(e, n)
    deviation = vector_noise.MAX_MOVE / (n * gaussian_mu(e, case.delta))
    pure = vector_noise.pure_lengths(scale, d, times, draw(PURE))
    gaussian = vector_noise.gaussian_lengths(deviation, d, times, draw(GAUSSIAN))
    least, closest = 1 / gain**2 / n, KClosest(case.epsilon, d).whole_error(1)
    exact = {
        PRIVUNIT: (least - 1 / n, np.sqrt(squares / n)),
        CLOSEST: ((closest**2 - 1) / n, None),
        PURE: (vector_noise.pure_error(scale, d), pure),
        GAUSSIAN: (d * deviation**2, gaussian),
        NONE: (0.0, None),
    }
    risks = {
        one: Risk(*risk, columns={"delta": case.delta if one is GAUSSIAN else 0.0})
        for one, risk in exact.items()
    }
    limits = {
        "local": {"limit": least - 1 / n, "limit_drawn": least},
        "central": {"limit_drawn": 1 / n},
        "none": {"limit_drawn": 1 / n},
    }
    return case.rows(("epsilon", "delta", "dimension", "people"), risks, limits, sampling=1 / n)


def report(options: Options, found: Sequence[Row]) -> Report:
    epsilon, people, d = (middle(options[key]) for key in ("epsilon", "people", "dimension"))
    rows = Rows(found)
    return Report(
        _findings(options, rows.at(epsilon=epsilon, people=people), d),
        [
            figures.error_figure(
                "error",
                f"The error of a mean of vectors in {d} dimensions, as a root mean squared length, "
                f"at ε {epsilon}. For many people, no mechanism on devices has a smaller error "
                "than PrivUnit.",
                *(rows.at(epsilon=epsilon, dimension=d), ESTIMATORS),
                *(f"A mean of vectors in {d} dimensions, ε {epsilon}", LENGTH),
            ),
            figures.price_figure(
                "price",
                "The squared error of PrivUnit divided by that of a trusted server, per person "
                "asked, against the dimension: it falls where the server's guarantee is pure, and "
                f"hardly changes with δ {options['delta']:g}. For {people:,} people.",
                *(rows.at(people=people), PRIVUNIT, (PURE, GAUSSIAN), "dimension"),
            ),
        ],
        [
            sentences.table(
                "Error of the mean vector of these people: root mean squared length",
                rows,
                {"ε": "epsilon", "dimension": "dimension", "people": "people"},
                {one.label: column(one, _length) for one in ESTIMATORS[:-1]}
                | {
                    "n × error²": column(
                        PRIVUNIT, lambda row: figure(number(row, "people") * number(row, "exact"))
                    )
                },
            )
        ],
        sentences.method(
            rows,
            """Every vector has the length one; 'the population' has the mean 0, where errors are
            largest. All errors are formulas; m is computed by quadrature.

            The simulations draw from distributions on the real numbers and release nothing. Reports
            of k-closest are whole numbers, with a proof.""",
        ),
    )


def _length(row: Row) -> str:
    return figure(number(row, estimators.root("exact")))


def _findings(options: Options, rows: Rows, d: int) -> list[str]:
    dimensions, cell = sorted(options["dimension"]), rows.at(dimension=d)
    devices, pure, gaussian = (_length(cell.one(one)) for one in (PRIVUNIT, PURE, GAUSSIAN))
    prices = [
        figure(rows.at(dimension=end).price(PRIVUNIT, central))
        for central in (PURE, GAUSSIAN)
        for end in (dimensions[0], dimensions[-1])
    ]
    return paragraphs(
        f"""With {rows[0]["people"]:,} people at ε {rows[0]["epsilon"]}, devices estimate the mean
        of their vectors in {d} dimensions to a length of {devices}, and a trusted server to {pure},
        or {gaussian} with δ {options["delta"]:g}. Devices send k-closest, which has
        {cell.price(CLOSEST, PRIVUNIT):.3f} times the least squared error.

        From {dimensions[0]} to {dimensions[-1]:,} dimensions the price of locality falls from
        {prices[0]} to {prices[1]} times against pure noise, and changes from {prices[2]} to
        {prices[3]} against Gaussian noise."""
    )


STUDY = Study(
    name="vector",
    question="What does a mean of vectors, as in federated learning, cost on devices?",
    options=OPTIONS,
    cells=estimators.cross("people", "dimension"),
    run=run,
    report=report,
    formulas=(
        ("devices, PrivUnit", r"\dfrac{1 / m^2 - 1}{n}"),
        ("a trusted server, pure noise", r"\dfrac{4d(d + 1)}{(ε n)^2}"),
        ("a trusted server, Gaussian noise", r"d σ^2"),
        ("no local protocol is below, about the population", r"\dfrac{1}{n m^2}"),
    ),
)
