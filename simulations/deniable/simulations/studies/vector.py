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

from numpy.random import Generator

from deniable.shared.privacy.codewords import best_cap
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import KClosest
from deniable.simulations.central import vector_noise
from deniable.simulations.engine import comparison, estimator_rows, option
from deniable.simulations.engine.comparison import Series, figure, look, pick
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study
from deniable.simulations.population.vectors import cosines
from deniable.simulations.studies.building_blocks import column, cross, paragraphs, table
from deniable.simulations.studies.composition.privacy_accounts import gaussian_mu

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
    option.Option("delta", 1e-6, option.inside(), "probability that Gaussian noise fails", "δ"),
    option.repetitions(10_000),
)


def cells(options: Options) -> Sequence[Cell]:
    return cross(options, "people", "dimension")


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    epsilon, n, d = Epsilon(str(cell["epsilon"])), int(cell["people"]), int(cell["dimension"])
    e, delta, times = float(epsilon), float(cell["delta"]), int(cell["repetitions"])
    gain, _ = best_cap(d, e)
    off = 1 / gain**2 + 1 - 2 * cosines(e, d, times, generator) / gain
    scale, deviation = (
        vector_noise.pure_scale(e, n),
        vector_noise.MAX_MOVE / (n * gaussian_mu(e, delta)),
    )
    least = 1 / gain**2 / n
    errors = {
        PRIVUNIT: (least - 1 / n, off / n),
        CLOSEST: ((KClosest(epsilon, d).whole_error(1) ** 2 - 1) / n, None),
        PURE: (
            vector_noise.pure_error(scale, d),
            vector_noise.pure_lengths(scale, d, times, generator) ** 2,
        ),
        GAUSSIAN: (
            d * deviation**2,
            vector_noise.gaussian_lengths(deviation, d, times, generator) ** 2,
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
            **(
                estimator_rows.NOT_MEASURED if squares is None else estimator_rows.measured(squares)
            ),
            "limit": least - 1 / n if series.model == "local" else None,
            "exact_drawn": exact + 1 / n,
            "limit_drawn": least if series.model == "local" else 1 / n,
        }
        for series, (exact, squares) in errors.items()
    ]
    return rows + estimator_rows.curator_row(rows, [PURE])


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, people, d = (
        comparison.middle(options[key]) for key in ("epsilon", "people", "dimension")
    )
    findings = _findings(options, rows, epsilon, people, d)
    title = f"A mean of vectors in {d} dimensions, ε {epsilon}"
    return Report(
        findings=findings,
        figures=[
            Figure(
                "error",
                f"The error of a mean of vectors in {d} dimensions, as a root mean squared length, "
                f"against the number of people, at ε {epsilon}: for these people, and for the "
                "population they are drawn from. For many people, no mechanism on devices has a "
                "smaller error than PrivUnit.",
                lambda: estimator_rows.both_questions(
                    pick(rows, epsilon=epsilon, dimension=d),
                    SERIES,
                    "people",
                    (title, "error, root mean squared length"),
                ),
            ),
            Figure(
                "price",
                "The squared error of PrivUnit divided by that of a trusted server, per person "
                "asked, against the dimension: it falls where the server's guarantee is pure, and "
                f"hardly changes with δ {options['delta']:g}. For {people:,} people.",
                lambda: estimator_rows.price_figure(
                    pick(rows, people=people), PRIVUNIT, (PURE, GAUSSIAN), "dimension"
                ),
            ),
        ],
        tables=[
            table(
                "Error of the mean vector of these people: root mean squared length",
                rows,
                {"ε": "epsilon", "dimension": "dimension", "people": "people"},
                {series.label: column(series, root=True) for series in SERIES[:-1]}
                | {"n × error²": column(PRIVUNIT, times_n=True)},
            )
        ],
        method=paragraphs(
            f"""Every vector has the length one; 'the population' has the mean 0, where errors are
            largest. All errors are formulas; m is computed by quadrature.

            As a check, {options["repetitions"]:,} reports of PrivUnit and as many lengths of noise
            are drawn for each line: the largest distance of a measured mean squared error from its
            formula is {estimator_rows.worst_deviation(rows):.1f} Monte-Carlo errors. These simulate
            distributions on the real numbers and release nothing. Reports of k-closest are whole
            numbers, with a proof."""
        ),
        document=estimator_rows.document(options, rows, findings),
    )


def _findings(
    options: Options, rows: Sequence[Row], epsilon: str, people: int, d: int
) -> list[str]:
    dimensions = sorted(options["dimension"])
    cell, first, last = (
        pick(rows, epsilon=epsilon, people=people, dimension=dimension)
        for dimension in (d, dimensions[0], dimensions[-1])
    )
    length = {series: column(series, root=True)(cell) for series in SERIES}
    pure, gaussian = (
        [figure(estimator_rows.price(end, PRIVUNIT, central)) for end in (first, last)]
        for central in (PURE, GAUSSIAN)
    )
    return paragraphs(
        f"""With {people:,} people at ε {epsilon}, devices estimate the mean of their vectors in {d}
        dimensions to a length of {length[PRIVUNIT]}, and a trusted server to {length[PURE]}, or
        {length[GAUSSIAN]} with δ {options["delta"]:g}. Devices send k-closest, which has
        {estimator_rows.price(cell, CLOSEST, PRIVUNIT):.3f} times the least squared error.

        From {dimensions[0]} to {dimensions[-1]:,} dimensions the price of locality falls from
        {pure[0]} to {pure[1]} times against pure noise, and changes from {gaussian[0]} to
        {gaussian[1]} against Gaussian noise."""
    )


STUDY = Study(
    name="vector",
    question="What does a mean of vectors, as in federated learning, cost on devices?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        ("devices, PrivUnit", r"\dfrac{1 / m^2 - 1}{n}"),
        ("a trusted server, pure noise", r"\dfrac{4d(d + 1)}{(ε n)^2}"),
        ("a trusted server, Gaussian noise", r"d σ^2"),
        ("no local protocol is below, about the population", r"\dfrac{1}{n m^2}"),
    ),
)
