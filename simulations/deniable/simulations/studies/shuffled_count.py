"""Count of people who say yes: devices with a shuffler, against devices alone and a trusted server.

    local       randomized response at ε                       n V(ε)
    shuffled    randomized response at ε₀ > ε, shuffled        n V(ε₀)
    central     geometric noise on the count                   2 V(ε)

The mean squared errors are in people, with V = e^ε / (e^ε - 1)^2. ε₀ is the largest value at which
n shuffled reports are (ε, δ)-private. e^ε₀ grows in proportion to n, so the shuffled error tends to
a constant, as the central error is, and a price of n / 2 becomes a constant. The guarantee needs n
honest people and an honest shuffler. A single report only has ε₀. The limits are those of `bit.py`.

Sources: see `deniable.server.estimation.amplification`.
"""

from __future__ import annotations

from collections.abc import Sequence

from numpy.random import Generator

from deniable.server.estimation.amplification import report_epsilon
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.central.discrete_laplace import DiscreteLaplace, discrete_laplace
from deniable.simulations.engine import estimators, figures, option, sentences
from deniable.simulations.engine.estimators import Case, Columns, Estimator, Risk, Rows, number
from deniable.simulations.engine.figures import LOOKS
from deniable.simulations.engine.sentences import TRUST, column, figure
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study
from deniable.simulations.population import fixed
from deniable.simulations.studies.bit import count_limit, share_limits

OPTIONS = (
    option.epsilons("0.1,0.5,1,2"),
    option.people("1e2,1e3,1e4,1e5,1e6,1e7,1e8,1e9"),
    option.Option("share", 0.3, option.share, "share of people who say yes", "SHARE"),
    option.delta(),
    option.repetitions(4_000),
)

LOCAL = Estimator("local", "randomized-response", "devices", LOOKS[0])
MIXED = Estimator("shuffled", "randomized-response", "shuffled", figures.SHUFFLED_LOOK, False)
CENTRAL = Estimator("central", "geometric", "trusted server", LOOKS[1])
ESTIMATORS = (LOCAL, MIXED, CENTRAL)


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    case = Case(cell, generator)
    n, yes = case.people, round(case.people * case.share)
    noise = DiscreteLaplace(case.epsilon)

    def devices(one: Estimator, epsilon: Epsilon, delta: float) -> Risk:
        design = RandomizedResponse(epsilon)
        keep, lie = design.keep / ONE, design.lie / ONE
        ones = fixed(design, [n - yes, yes], case.repetitions, case.generator(one)).counts[:, 1]
        errors = (ones - n * lie) / (keep - lie) - yes
        columns: Columns = {"delta": delta, "report_epsilon": str(epsilon)}
        return Risk(n**2 * design.variance(n, yes / n), errors, columns=columns)

    errors = discrete_laplace(noise, case.repetitions, case.generator(CENTRAL)).astype(float)
    risks = {
        LOCAL: devices(LOCAL, case.epsilon, 0.0),
        MIXED: devices(MIXED, report_epsilon(case.epsilon, n, case.delta), case.delta),
        CENTRAL: Risk(noise.variance, errors, columns={"delta": 0.0, "report_epsilon": None}),
    }
    keep = RandomizedResponse(case.epsilon).keep / ONE
    limits = {
        "local": {"limit": n**2 * share_limits(keep, case.share, n)[0]},
        "central": {"limit": count_limit(float(case.epsilon), n)},
    }
    return case.rows(("epsilon", "people"), risks, limits)


def report(options: Options, found: Sequence[Row]) -> Report:
    rows, epsilons = Rows(found), options["epsilon"]
    first = rows.at(epsilon=epsilons[0])
    looks = figures.distinct_looks(len(epsilons))
    alone = [
        figures.curve(rows.at(epsilon=e).of(MIXED), look, "people", "report_epsilon", f"ε {e}")
        for e, look in zip(epsilons, looks, strict=True)
    ]
    panel = figures.Panel(
        "Privacy of a single report", alone, "people", "ε₀ of one report", ("log", "linear")
    )
    return Report(
        _findings(options, rows.at(people=options["people"][-1])),
        [
            figures.error_figure(
                "error",
                "The error of a count, against the number of people. Without a shuffler, the error "
                "of devices grows as the square root of that number. With a shuffler or a trusted "
                f"server, it does not grow. The shuffler's guarantee {TRUST}.",
                *(first, ESTIMATORS, f"Error of a count, ε {epsilons[0]}"),
                unit=estimators.Unit("standard error of a count, people", 1.0),
                targets=[estimators.THESE],
            ),
            Figure(
                "reports",
                "The ε₀ that each single report may have so that all reports together, shuffled, "
                "have ε. If the shuffler is not honest, ε₀ is the only guarantee.",
                lambda: figures.draw([panel]),
            ),
        ],
        [
            sentences.table(
                "Standard error of a count, in people",
                rows,
                {"ε": "epsilon", "people": "people"},
                {one.label: column(one, _standard_error) for one in ESTIMATORS}
                | {"ε₀ of a report": column(MIXED, _reported)},
            )
        ],
        sentences.method(
            rows,
            f"""ε₀ is the largest value at which the divergence of n shuffled reports is at most
            δ = {options["delta"]:g}. The divergence is computed as a sum over binomials, and the
            omitted tails count against δ. Devices and the trusted server keep ε with δ = 0.

            People who send false reports or publish their own reports do not hide others, so n
            counts only honest people. In sealed surveys, a relay shuffles reports, and
            the survey's page states how much this adds. The ε of a survey never relies on it.""",
        ),
    )


def _standard_error(row: Row) -> str:
    return figure(number(row, estimators.root("exact")))


def _reported(row: Row) -> str:
    return f"{number(row, 'report_epsilon'):.2f}"


def _findings(options: Options, largest: Rows) -> list[str]:
    people, epsilons = options["people"][-1], options["epsilon"]
    cell = largest.at(epsilon=epsilons[0])
    error = {one: _standard_error(cell.one(one)) for one in ESTIMATORS}
    prices = [largest.at(epsilon=e).price(MIXED, CENTRAL) for e in epsilons]
    return sentences.paragraphs(
        f"""At ε {epsilons[0]}, a shuffler reduces the price of locality from n / 2, here
        {figure(cell.price(LOCAL, CENTRAL))}, to {figure(prices[0])}. The standard error of a count
        of {people:,} people is {error[LOCAL]} people with devices alone, {error[MIXED]} with a
        shuffler, and {error[CENTRAL]} with a trusted server.

        The shuffler's guarantee {TRUST}. Otherwise, a report only has
        ε {_reported(cell.one(MIXED))}. From ε {epsilons[0]} to {epsilons[-1]}, the price with a
        shuffler is between {figure(min(prices))} and {figure(max(prices))}, with
        δ {options["delta"]:g}."""
    )


STUDY = Study(
    name="shuffle",
    question="What does a shuffler between devices and the server gain?",
    options=OPTIONS,
    cells=estimators.grid("epsilon", "people"),
    run=run,
    report=report,
    formulas=(
        ("devices alone", r"n V(ε), \quad V(ε) = \dfrac{e^ε}{(e^ε - 1)^2}"),
        ("devices with a shuffler, where each report has ε₀", r"n V(ε_0)"),
        ("a trusted server", r"2 V(ε)"),
    ),
)
