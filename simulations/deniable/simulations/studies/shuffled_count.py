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
from deniable.simulations.engine.figures import LOOKS, Panel
from deniable.simulations.engine.page_text import PageText
from deniable.simulations.engine.sentences import column, figure
from deniable.simulations.engine.study import Cell, Options, Report, Row
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
    rows, epsilons, most = Rows(found), options["epsilon"], options["people"][-1]
    largest, looks = rows.at(people=most), figures.distinct_looks(len(epsilons))
    cell = largest.at(epsilon=epsilons[0])
    prices = [largest.at(epsilon=e).price(MIXED, CENTRAL) for e in epsilons]
    values = {
        "rows": rows,
        "first": epsilons[0],
        "last": epsilons[-1],
        "most": most,
        "alone": cell.price(LOCAL, CENTRAL),
        "prices": prices,
        "least": min(prices),
        "largest": max(prices),
        "reported": _reported(cell.one(MIXED)),
        **{one.model: _standard_error(cell.one(one)) for one in ESTIMATORS},
    }
    alone = [
        figures.curve(rows.at(epsilon=e).of(MIXED), look, "people", "report_epsilon", f"ε {e}")
        for e, look in zip(epsilons, looks, strict=True)
    ]
    title, y = "Privacy of a single report", "ε₀ of one report"
    return TEXT.report(
        options,
        values,
        {
            "error": figures.errors(
                *(rows.at(epsilon=epsilons[0]), ESTIMATORS, f"Error of a count, ε {epsilons[0]}"),
                unit=estimators.Unit("standard error of a count, people", 1.0),
                targets=[estimators.THESE],
            ),
            "reports": figures.drawing(Panel(title, alone, "people", y, ("log", "linear"))),
        },
        [
            sentences.table(
                "Standard error of a count, in people",
                rows,
                {"ε": "epsilon", "people": "people"},
                {one.label: column(one, _standard_error) for one in ESTIMATORS}
                | {"ε₀ of a report": column(MIXED, _reported)},
            )
        ],
    )


def _standard_error(row: Row) -> str:
    return figure(number(row, estimators.root("exact")))


def _reported(row: Row) -> str:
    return f"{number(row, 'report_epsilon'):.2f}"


TEXT = PageText("shuffle")
STUDY = TEXT.study(OPTIONS, estimators.grid("epsilon", "people"), run, report)
