"""A choice among options: every local mechanism for it against a trusted histogram of noisy bins.

    local      each frequency oracle                              variance V(f) / n for each option
    central    geometric noise on each bin, one person replaced   2 h / (h - 1)^2 / n^2, h = e^(ε/2)
    central    the same, one person added or deleted              2 a / (a - 1)^2 / n^2, a = e^ε
    central    the best of what keeps ε for one person replaced, local mechanisms among them
    shuffled   the oracle that a question would have at ε₀       V(f; ε₀) / n for each option

A local report protects a person who gives another answer, so it compares with the first central
line: such a person leaves one bin and enters another. With two options there is only one count to
release, as the number of people is public; in that case h = a. The second line keeps ε only where a
neighbour is one person more or fewer, in which case the number of people is not public; it has 2 ε
against another answer. A curator can also run a local mechanism, which is better where people are
few and ε is large. With many options, the price of unary against the first is (n / 2) / cosh(ε /
4)^2.

The limit is the least sum of squared errors of any local mechanism where all shares are equal, for
many people: (k - 1)^2 / (n T) when people are drawn (`planning/forecast.py` of the server).
Errors of these designs, summed over the options, do not depend on the shares. From n of about
40 V k^2 on it is proved to within 25 to 40 %, V = e^ε / (e^ε - 1)^2, by van Trees' inequality.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.random import Generator

from deniable.server.estimation.amplification import report_epsilon
from deniable.server.estimation.shares import support_counts, unbiased_share
from deniable.server.planning.forecast import (
    ADD_OR_DELETE,
    REPLACE_ONE,
    largest_information,
    least_of_a_share,
)
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanisms import support_design
from deniable.simulations.central.discrete_laplace import GeometricCounts, discrete_laplace
from deniable.simulations.engine import custom_mechanisms, estimators, figures, option, sentences
from deniable.simulations.engine.estimators import Case, Estimator, Risk, Rows, middle, number
from deniable.simulations.engine.figures import LOOKS, SHUFFLED_LOOK
from deniable.simulations.engine.sentences import TRUST, figure, listed, paragraphs, plus_minus
from deniable.simulations.engine.study import Cell, Options, Report, Row, Study
from deniable.simulations.population import drawn, fixed, whole_people

BELOW = 1 - 1e-12  # a limit stays one in doubles
OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e3,1e4,1e5,1e6,1e7,1e8"),
    option.repetitions(200),
    custom_mechanisms.mechanisms_option("choice"),
    option.Option(
        "options", "4,16,64,256,1024", option.several(option.whole(2, 4096)), "how many options"
    ),
    option.delta(),
)


SHUFFLED = Estimator("shuffled", "shuffled", "shuffled", SHUFFLED_LOOK)
REPLACE = Estimator("central", "geometric-replace-one", "trusted, replace", LOOKS[1])
ADD = Estimator("central", "geometric-add-or-delete", "trusted, add", LOOKS[3], False)
BEST = Estimator("central", "best", "trusted, best", LOOKS[1])
SHOWN = (SHUFFLED, BEST, ADD)  # in figures and tables: `replace` is `best` almost everywhere


def local_estimators(mechanisms: Sequence[str]) -> list[Estimator]:
    return custom_mechanisms.local_estimators("choice", mechanisms, [BEST.look, ADD.look])


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    case = Case(cell, generator)
    n, k, times, epsilon = case.people, case.options, case.repetitions, case.epsilon
    weights = 1 / np.arange(1, k + 1)
    held, shares = whole_people(weights.tolist(), n), weights / weights.sum()

    def devices(one: Estimator, design: SupportDesign) -> Risk:
        tallies = (
            fixed(design, held, times, case.generator(one)),
            drawn(design, shares.tolist(), n, times, case.generator(one)),
        )
        these, others = (
            unbiased_share(np.array([support_counts(design, c) for c in tally.counts]) / n, design)
            for tally in tallies
        )
        equal = k * design.variance(1, 1 / k) + (k - 1) / k
        ratio = equal * largest_information(float(design.epsilon), k) / (k - 1) ** 2
        return Risk(
            float(np.mean([design.variance(n, f) for f in (held / n).tolist()])),
            _root_mean(these - held / n),
            errors_drawn=_root_mean(others - shares),
            columns={
                "limit_ratio": ratio if one.model == "local" else None,
                "report_epsilon": str(design.epsilon),
            },
        )

    def bins(one: Estimator, moved: int) -> Risk:
        trusted = GeometricCounts(epsilon, moved if k > 2 else ADD_OR_DELETE)
        errors = discrete_laplace(trusted.noise, (times, k), case.generator(one)) / n
        sampled = case.generator(one).multinomial(n, shares, times) / n - shares
        drawn_errors = _root_mean(errors + sampled)
        return Risk(trusted.variance(n), _root_mean(errors), errors_drawn=drawn_errors)

    risks = {
        one: devices(one, custom_mechanisms.choice_mechanism(one.name, epsilon, k))
        for one in local_estimators(case.mechanisms.split(","))
        if k in custom_mechanisms.find("choice", one.name).sizes
    }
    mixed = support_design("choice", report_epsilon(epsilon, n, case.delta), k)
    return case.rows(
        ("options", "epsilon", "people"),
        risks
        | {REPLACE: bins(REPLACE, REPLACE_ONE), ADD: bins(ADD, ADD_OR_DELETE)}
        | {SHUFFLED: devices(SHUFFLED, mixed)},
        {"local": {"limit": BELOW * least_of_a_share(float(epsilon), k) / n}},
        sampling=float(np.mean(shares * (1 - shares)) / n),
    )


def _root_mean(errors: estimators.Array) -> estimators.Array:
    return np.asarray(np.sqrt((errors**2).mean(axis=1)))


def with_best(rows: Sequence[Row]) -> Rows:
    """Return the rows, and for each cell the best that a curator can do at this ε."""
    cells = Rows(rows).groups("epsilon", "people", "options").values()
    central = (Rows(row for row in cell if row["estimator"] != ADD.name) for cell in cells)
    return Rows([*rows, *({**cell.best("central"), "estimator": BEST.name} for cell in central)])


def many_options_price(epsilon: float) -> float:
    """Return the price per person of unary against geometric noise, with many options.

    A neighbour is one person replaced.
    """
    return 0.5 / math.cosh(epsilon / 4) ** 2


def report(options: Options, found: Sequence[Row]) -> Report:
    epsilon, people, k = (middle(options[key]) for key in ("epsilon", "people", "options"))
    rows, local = with_best(found), local_estimators(options["mechanisms"])
    by_people, by_options, shown = rows.at(options=k), rows.at(people=people), (*local, *SHOWN)
    by_epsilon_and_options = Rows(
        sorted(by_options, key=lambda row: (number(row, "epsilon"), number(row, "options")))
    )
    return Report(
        _findings(by_options.at(epsilon=epsilon), people, k),
        [
            figures.error_figure(
                "error",
                f"The error of an option's share, averaged over {k} options, at ε {epsilon}.",
                *(by_people.at(epsilon=epsilon), shown, f"Error of each share of {k}, ε {epsilon}"),
            ),
            figures.ratio_figure(
                "limit",
                "The squared errors of local mechanisms divided by the least possible, against the "
                "number of options, for each ε. No mechanism can have a ratio below 1, "
                "whatever devices send; this is proved for many people.",
                [(f"ε {e}", by_options.at(epsilon=e), "limit_ratio") for e in options["epsilon"]],
                *(local, "options", "squared errors / least"),
            ),
            figures.error_figure(
                "options",
                f"The error for {people:,} people, against the number of options: k-RR gets worse "
                "with every option; mechanisms whose reports are sets do not.",
                *(by_options.at(epsilon=epsilon), shown),
                f"Error of each share, {people:,} people, ε {epsilon}",
                x="options",
            ),
        ],
        [
            *sentences.error_tables(
                f"Error of a share of {{target}}, {k} options, in points: 1.96 standard errors",
                *(by_people, shown),
            ),
            sentences.table(
                "Price of locality against 'trusted, best', per person asked",
                by_epsilon_and_options,
                {"ε": "epsilon", "options": "options"},
                {one.label: _price(one, people) for one in local}
                | {
                    "unary, limit of many options": lambda cell: (
                        f"{many_options_price(number(cell[0], 'epsilon')):,.4f}"
                    )
                },
            ),
        ],
        sentences.method(
            Rows(found),
            f"""Shares fall off as 1, 1/2, 1/3, ... Errors are root mean squares over the options.

            'trusted, best' keeps ε for one person who gives another answer, as the local mechanisms
            do: noisy bins, or a local mechanism where that is better, which a curator can run too.
            'trusted, add' keeps ε only for one person more or fewer, and 2 ε for another answer.

            Shuffled reports are those of the local mechanism with the least error at a larger ε₀.
            Together they have (ε, {options["delta"]:g}) as long as the shuffler and n people are
            honest; alone, a report has ε₀.

            Counts are drawn in time that does not depend on the people, with exactly the
            distribution that reports of all of them would give.""",
        ),
    )


def _price(estimator: Estimator, people: int) -> Callable[[Rows], str]:
    """Return a column: the price of the estimator per person, empty where it has no row."""
    return lambda cell: f"{cell.price(estimator, BEST) / people:,.4f}" if cell.of(estimator) else ""


def _findings(rows: Rows, people: int, k: int) -> list[str]:
    cell, epsilon = rows.at(options=k), str(rows[0]["epsilon"])
    local, central, mixed = cell.best("local"), cell.one(BEST), cell.one(SHUFFLED)
    price = number(local, "exact") / number(central, "exact")
    drawn_price = number(local, "exact_drawn") / number(central, "exact_drawn")
    return paragraphs(
        f"""With {people:,} people and {k} options at ε {epsilon}, {_label(local)} estimates each
        share to {plus_minus(local)} points and a trusted histogram to {plus_minus(central)}. For
        these people the price of locality is {figure(price)} times the variance, and grows with
        their number; about their population it is {figure(drawn_price)} times.

        The local mechanism with the least error at ε {epsilon} is {_best_by_options(rows)}; its
        squared errors are {number(local, "limit_ratio"):.4f} times the least of any local
        mechanism.

        A shuffler would estimate each share to {plus_minus(mixed)} points with reports at ε
        {number(mixed, "report_epsilon"):.2f}; it {TRUST}."""
    )


def _label(row: Row) -> str:
    return custom_mechanisms.label("choice", str(row["estimator"]))


def _best_by_options(rows: Rows) -> str:
    """Return each best mechanism once, with the numbers of options at which it is the best."""
    wins: dict[str, list[str]] = {}
    for k in sorted({int(number(row, "options")) for row in rows}):
        wins.setdefault(_label(rows.at(options=k).best("local")), []).append(f"{k:,}")
    return ", and ".join(f"{label} with {listed(sizes)} options" for label, sizes in wins.items())


STUDY = Study(
    name="histogram",
    question="What does it cost to learn how popular each option is, without trusting the server?",
    options=OPTIONS,
    cells=estimators.cross("people", "options"),
    run=run,
    report=report,
    formulas=(
        (
            "devices; of those who hold an option p say so, of others q",
            r"\dfrac{V(f)}{n} = \dfrac{f p (1 - p) + (1 - f) q (1 - q)}{n (p - q)^2}",
        ),
        ("a trusted server's noisy bins", r"\dfrac{2h}{n^2 (h - 1)^2}, \quad h = e^{ε / 2}"),
        (
            "no mechanism on devices has a smaller sum",
            (
                r"\dfrac{(k - 1)^2}{n T}, \quad "
                r"T = \max_d \dfrac{k d (k - d) (e^ε - 1)^2}{(d e^ε + k - d)^2}"
            ),
        ),
    ),
)
