"""A shuffler between devices and a trusted server, for the count of people who say yes.

    local       randomized response at ε                       n V(ε)
    shuffled    randomized response at ε₀ > ε, shuffled        n V(ε₀)
    central     geometric noise on the count                   2 V(ε)

are mean squared errors in people, with V = e^ε / (e^ε - 1)^2. ε₀ is the largest with which n
shuffled reports are (ε, δ)-private. As e^ε₀ grows in proportion to n, the
second error tends to a constant, like the third: a price of n / 2 becomes a constant price. The
guarantee needs n honest people and an honest shuffler; alone, a report has ε₀ only.

Sources: those of `deniable.server.estimation.amplification`.
"""

from __future__ import annotations

from collections.abc import Sequence

from numpy.random import Generator

from deniable.server.estimation.amplification import report_epsilon
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.central.discrete_laplace import DiscreteLaplace, discrete_laplace
from deniable.simulations.engine import estimators, figures, option, sentences
from deniable.simulations.engine.estimators import Case, Columns, Estimator, Risk, Rows, number
from deniable.simulations.engine.figures import LOOKS
from deniable.simulations.engine.sentences import TRUST, column, figure
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study
from deniable.simulations.population import fixed

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
    errors = discrete_laplace(noise, case.repetitions, case.generator(CENTRAL)).astype(float)
    risks = {CENTRAL: Risk(noise.variance, errors, columns=_promise(0.0, None))}
    mixed = report_epsilon(case.epsilon, n, case.delta)
    for one, epsilon, delta in ((LOCAL, case.epsilon, 0.0), (MIXED, mixed, case.delta)):
        design = RandomizedResponse(epsilon)
        keep, lie = design.keep / ONE, design.lie / ONE
        ones = fixed(design, [n - yes, yes], case.repetitions, case.generator(one)).counts[:, 1]
        errors = (ones - n * lie) / (keep - lie) - yes
        exact = n**2 * design.variance(n, yes / n)
        risks[one] = Risk(exact, errors, columns=_promise(delta, str(epsilon)))
    limits = {one.model: {"limit": risks[one].exact} for one in (LOCAL, CENTRAL)}
    return case.rows(("epsilon", "people"), {one: risks[one] for one in ESTIMATORS}, limits)


def _promise(delta: float, report: str | None) -> Columns:
    return {"delta": delta, "report_epsilon": report}


def report(options: Options, found: Sequence[Row]) -> Report:
    rows, epsilons = Rows(found), options["epsilon"]
    first = rows.at(epsilon=epsilons[0])
    looks = figures.distinct_looks(len(epsilons))
    alone = [
        figures.curve(rows.at(epsilon=e).of(MIXED), look, "people", "report_epsilon", f"ε {e}")
        for e, look in zip(epsilons, looks, strict=True)
    ]
    panel = figures.Panel(
        "What a report alone gives away", alone, "people", "ε₀ of one report", ("log", "linear")
    )
    return Report(
        _findings(options, rows.at(people=options["people"][-1])),
        [
            figures.error_figure(
                "error",
                "The error of a count against the number of people who are counted. On devices it "
                "grows as the square root of that number; with a shuffler, and with a trusted "
                f"server, it does not grow. The shuffled count {TRUST}.",
                *(first, ESTIMATORS, f"Error of a count, ε {epsilons[0]}"),
                unit=estimators.Unit("standard error of a count, people", 1.0),
                targets=[estimators.THESE],
            ),
            Figure(
                "reports",
                "The ε₀ that each report may have alone, so that all reports, shuffled, have ε for "
                "one person. It is the guarantee that remains if the shuffler is not honest.",
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
            f"""ε₀ is the largest at which the divergence of n shuffled reports is at most
            δ = {options["delta"]:g}: a sum over binomials, whose tails are added to δ. Devices and
            the trusted server keep ε with δ = 0. Counts are drawn in time that does not depend on
            the people.

            People who send something else, or publish what they sent, do not hide others: n counts
            honest people only. A sealed survey and its relay state what theirs add; a survey's own
            promise never relies on it.""",
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
        f"""A shuffler reduces a price of n / 2, here {figure(cell.price(LOCAL, CENTRAL))}, to
        {figure(prices[0])}. At ε {epsilons[0]} the standard error of a count of {people:,} people
        is {error[LOCAL]} people on devices, {error[MIXED]} with a shuffler, and {error[CENTRAL]}
        with a trusted server.

        This {TRUST}: without either, such a report has only ε {_reported(cell.one(MIXED))}. From
        ε {epsilons[0]} to {epsilons[-1]} its price is between {figure(min(prices))} and
        {figure(max(prices))}, with δ {options["delta"]:g}."""
    )


STUDY = Study(
    name="shuffle",
    question="What would shuffling gain, between devices and a trusted server?",
    options=OPTIONS,
    cells=estimators.grid("epsilon", "people"),
    run=run,
    report=report,
    formulas=(
        ("devices", r"n V(ε), \quad V(ε) = \dfrac{e^ε}{(e^ε - 1)^2}"),
        ("shuffled, at the ε₀ of a report that n of them can have", r"n V(ε_0)"),
        ("a trusted server", r"2 V(ε)"),
    ),
)
