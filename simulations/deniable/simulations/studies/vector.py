"""A mean of vectors: PrivUnit and k-closest on devices against a trusted server's noise.

Every person has a vector of length one in d dimensions. Errors are mean squared lengths:

                                     these people            the population, whose mean is 0
    local      PrivUnit              (1 / m^2 - 1) / n       1 / (m^2 n)
    local      k-closest             the same with its own gain in place of m
    central    pure, ε               4 d (d + 1) / (ε n)^2   1 / n more
    central    Gaussian, (ε, δ)      4 d / (μ n)^2           1 / n more
    none       the mean              0                       1 / n

m is the largest mean along the vector that a report of ε can have: that of a cap (`population/
caps.py`). Nobody errs less on devices, for many people: the density 1 + <ϑ, x> on the sphere has
the mean ϑ / d, and |E f x| / E f <= m for every f with values in [1, e^ε], so that reports have
information of trace at most m^2 about the mean. For these people it is the least among unbiased
randomizers [1]. For small ε 1 / m^2 -> 2 π d / ε^2, so the price tends to n π / (2 (d + 1)) against
pure noise, and is the same in every dimension against Gaussian noise, about n π / (4 ln(1.25 / δ)).
Where that is below 1 a trusted server does better with the devices' mechanism: there is such a row,
with the model `central`. Whoever sees everything still has the spread of a sample: 1 / n, for many
people, is the limit of a trusted server about the population.

Measured are reports of PrivUnit, one at a time, and the lengths of noise: simulations of their
distributions. What devices of deniable send is k-closest, which is exact (`shared`).

The JSON form: `options`, `rows` (`model`, `estimator`, `epsilon`, `delta`, `dimension`, `people`,
`exact`, `measured` with its Monte-Carlo error `error`, null where nothing is drawn, `limit`;
`exact_drawn`, `limit_drawn`) and `findings`.

[1] Asi, Feldman, Talwar 2022, "Optimal algorithms for mean estimation under local differential
    privacy", ICML.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deniable.shared.privacy.caps import best_cap
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import KClosest
from deniable.simulations.central import vectors
from deniable.simulations.engine import comparison, estimator_rows, option
from deniable.simulations.engine import estimator_rows as forms
from deniable.simulations.engine.comparison import Series, look
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.population.caps import cosines
from deniable.simulations.studies.compose.accounts import gaussian_mu

if TYPE_CHECKING:
    import matplotlib.figure

PRIVUNIT = Series("local", "privunit", "devices, PrivUnit", look(0))
CLOSEST = Series("local", "k-closest", "devices, k-closest", look(5))
PURE = Series("central", "pure", "trusted, pure", look(1))
GAUSSIAN = Series("central", "gaussian", "trusted, Gaussian", look(3))
NONE = Series("none", "mean", "no privacy", look(2))
SERIES = (PRIVUNIT, CLOSEST, PURE, GAUSSIAN, NONE)


OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e2,1e3,1e4,1e5,1e6,1e7,1e8"),
    option.Option(
        "dimension", "2,10,100,1000", option.several(option.whole(2, 1_024)), "of the vectors"
    ),
    option.Option("delta", 1e-6, option.inside(), "the probability that Gaussian noise gives up",
                  "δ"),
    option.repetitions(10_000),
)  # fmt: skip


def cells(options: Options) -> Sequence[Cell]:
    """Every number of people in the middle dimension, and every dimension at the middle number."""
    middle_people, middle = (comparison.middle(options[key]) for key in ("people", "dimension"))
    pairs = [(n, middle) for n in options["people"]]
    pairs += [(middle_people, d) for d in options["dimension"] if d != middle]
    shared = {key: options[key] for key in ("delta", "repetitions")}
    return [
        {"epsilon": e, "people": n, "dimension": d, **shared}
        for e in options["epsilon"]
        for n, d in pairs
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    epsilon, n, d = Epsilon(str(cell["epsilon"])), int(cell["people"]), int(cell["dimension"])
    e, delta, times = float(epsilon), float(cell["delta"]), int(cell["repetitions"])
    gain, _ = best_cap(d, e)
    off = 1 / gain**2 + 1 - 2 * cosines(e, d, times, generator) / gain
    scale, deviation = vectors.pure_scale(e, n), vectors.MOVED / (n * gaussian_mu(e, delta))
    least = 1 / gain**2 / n
    found = {
        PRIVUNIT: (least - 1 / n, off / n),
        CLOSEST: ((KClosest(epsilon, d).whole_error(1) ** 2 - 1) / n, None),
        PURE: (
            vectors.pure_error(scale, d),
            vectors.pure_lengths(scale, d, times, generator) ** 2,
        ),
        GAUSSIAN: (
            d * deviation**2,
            vectors.gaussian_lengths(deviation, d, times, generator) ** 2,
        ),
        NONE: (0.0, None),
    }
    rows: list[Row] = [
        {
            "model": series.model,
            "estimator": series.mechanism,
            "epsilon": str(epsilon),
            "delta": delta if series is GAUSSIAN else 0.0,
            "dimension": d,
            "people": n,
            "exact": exact,
            **(forms.NOTHING if squares is None else forms.measured(squares)),
            "limit": least - 1 / n if series.model == "local" else None,
            "exact_drawn": exact + 1 / n,
            "limit_drawn": least if series.model == "local" else 1 / n,
        }
        for series, (exact, squares) in found.items()
    ]
    return rows + forms.run_by_the_curator(rows, [PURE])


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, people, d = (
        comparison.middle(options[key]) for key in ("epsilon", "people", "dimension")
    )
    by_people = comparison.pick(rows, epsilon=epsilon, dimension=d)
    by_dimension = comparison.pick(rows, people=people)
    findings = _findings(rows, epsilon, people, d, options)
    return Report(
        findings=findings,
        figures=[
            Figure(
                "error",
                f"How far off a mean of vectors in {d} dimensions is, as a root mean squared "
                f"length, against the people, at ε {epsilon}: of these people, and of the "
                "population that they are drawn from. Nobody errs less than PrivUnit on devices, "
                "for many people.",
                lambda: _error_figure(by_people, d, epsilon),
            ),
            Figure(
                "price",
                "The squared error of PrivUnit by that of a trusted server, for each person asked, "
                "against the dimension: it falls where the server's promise is pure, and hardly "
                f"changes where it gives up δ {options['delta']:g}. For {people:,} people.",
                lambda: estimator_rows.price_figure(
                    by_dimension, PRIVUNIT, (PURE, GAUSSIAN), "dimension"
                ),
            ),
        ],
        tables=[_table(rows)],
        method=[
            (
                "Everybody's vector has the length one; 'the population' has the mean 0, where "
                "errors are largest. All errors are formulas; m by quadrature."
            ),
            (
                f"As a check {options['repetitions']:,} reports of PrivUnit, and as many lengths "
                "of noise, are drawn for each line: the largest distance of a measured mean "
                f"squared error from its formula is {forms.worst_deviation(rows):.1f} Monte-Carlo "
                "errors. These are simulations of distributions on the real numbers: nothing is "
                "released by them. Reports of k-closest are whole numbers, with a proof."
            ),
        ],
        document=forms.document(options, rows, findings),
    )


def _findings(
    rows: Sequence[Row], epsilon: str, people: int, d: int, options: Options
) -> list[str]:
    here = comparison.pick(rows, epsilon=epsilon, people=people, dimension=d)
    error = {each: forms.value(here, each) for each in SERIES}
    said = {each: comparison.figure(math.sqrt(error[each])) for each in SERIES}
    dimensions = sorted(options["dimension"])
    pure, gaussian = (
        [
            forms.price(
                comparison.pick(rows, epsilon=epsilon, people=people, dimension=k), PRIVUNIT, each
            )
            for k in (dimensions[0], dimensions[-1])
        ]
        for each in (PURE, GAUSSIAN)
    )
    return [
        (
            f"With {people:,} people at ε {epsilon}, devices tell the mean of their vectors in {d} "
            f"dimensions to a length of {said[PRIVUNIT]}, and a trusted server to {said[PURE]}, "
            f"or {said[GAUSSIAN]} with δ {options['delta']:g}; k-closest, which they can send, has "
            f"{error[CLOSEST] / error[PRIVUNIT]:.3f} times the least squared error."
        ),
        (
            f"From {dimensions[0]} to {dimensions[-1]:,} dimensions the price of locality falls "
            f"from {comparison.figure(pure[0])} to {comparison.figure(pure[1])} times against pure "
            f"noise, and goes from {comparison.figure(gaussian[0])} to "
            f"{comparison.figure(gaussian[1])} against Gaussian noise."
        ),
    ]


def _table(rows: Sequence[Row]) -> Table:
    lines = []
    for row in forms.of(rows, PRIVUNIT):
        epsilon, people, d = row["epsilon"], row["people"], row["dimension"]
        here = comparison.pick(rows, epsilon=epsilon, people=people, dimension=d)
        errors = [comparison.figure(math.sqrt(forms.value(here, each))) for each in SERIES[:-1]]
        n = forms.value(here, PRIVUNIT) * comparison.number(row, "people")
        lines.append([str(epsilon), f"{d:,}", f"{people:,}", *errors, comparison.figure(n)])
    labels = [each.label for each in SERIES[:-1]]
    return Table(
        "Error of the mean vector of these people: root mean squared length",
        ["ε", "dimension", "people", *labels, "n × error²"],
        lines,
    )


def _error_figure(rows: Sequence[Row], d: int, epsilon: str) -> matplotlib.figure.Figure:
    words = (f"A mean of vectors in {d} dimensions, ε {epsilon}", "error, root mean squared length")
    return estimator_rows.both_questions(rows, SERIES, "people", words)


STUDY = Study(
    name="vector",
    question="What does a mean of vectors, as in federated learning, cost on devices?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        ("devices, PrivUnit", "(1 / m^2 - 1) / n"),
        ("a trusted server, pure noise", "4 d (d + 1) / (ε n)^2"),
        ("a trusted server, Gaussian noise", "d σ^2"),
        ("no local protocol is below, about the population", "1 / (n m^2)"),
    ),
)
