"""Choice among options: every local mechanism against a trusted histogram of noisy bins.

    local      each frequency oracle                              variance V(f) / n for each option
    central    geometric noise on each bin, one person replaced   2 h / (h - 1)^2 / n^2, h = e^(ε/2)
    central    the same, one person added or deleted              2 a / (a - 1)^2 / n^2, a = e^ε
    central    the best that keeps ε for one person replaced, local mechanisms included
    shuffled   the oracle of a question with ε₀                   V(f; ε₀) / n for each option

A local report hides which answer a person gave, so the first central line is its counterpart: a
person with another answer leaves one bin and enters another. With two options and a public number
of people there is only one count to release, so that h = a. The second central line keeps ε only
for adding or removing a person, where the number of people is private; for another answer it has 2
ε. A trusted server can also run a local mechanism, which is better for few people and large ε. With
many options, the price of unary against the first central line is (n / 2) / cosh(ε / 4)^2.

The limit is that of unit vectors (`engine/limits.py`), the corners of a simplex in k - 1
dimensions, with the gain √(T / (k (k - 1))). For many people it is the least sum of squared errors
if shares are equal, (k - 1)^2 / (n T) about the population (`planning/forecast.py` of the server),
to which `limit_ratio` compares. For these mechanisms the sum does not depend on the shares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.random import Generator

from deniable.server.estimation.amplification import report_epsilon
from deniable.server.estimation.shares import support_counts, unbiased_share
from deniable.server.planning.forecast import ADD_OR_DELETE, REPLACE_ONE, largest_information
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanisms import support_design
from deniable.simulations.central.discrete_laplace import GeometricCounts, discrete_laplace
from deniable.simulations.engine import custom_mechanisms, estimators, figures, option, sentences
from deniable.simulations.engine.estimators import Case, Estimator, Risk, Rows, middle, number
from deniable.simulations.engine.figures import LOOKS, SHUFFLED_LOOK
from deniable.simulations.engine.limits import options_prior, unit_vector_limits
from deniable.simulations.engine.sentences import TRUST, figure, listed, paragraphs, plus_minus
from deniable.simulations.engine.study import Cell, Options, Report, Row, Study
from deniable.simulations.population import drawn, fixed, whole_people

OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e3,1e4,1e5,1e6,1e7,1e8"),
    option.repetitions(200),
    custom_mechanisms.mechanisms_option("choice"),
    option.sizes("options", "4,16,64,256,1024", 2, 65_536, "numbers of options"),
    option.delta(),
)

SHUFFLED = Estimator("shuffled", "shuffled", "shuffled", SHUFFLED_LOOK)
REPLACE = Estimator("central", "geometric-replace-one", "trusted, replace", LOOKS[1])
ADD = Estimator("central", "geometric-add-or-delete", "trusted, add", LOOKS[3], False)
BEST = Estimator("central", "best", "trusted, best", LOOKS[1])
SHOWN = (SHUFFLED, BEST, ADD)  # REPLACE is almost always the same as BEST


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
    unit = unit_vector_limits(n, options_prior(k), lambda e: choice_gain(e, k), float(epsilon))[0]
    mixed = support_design("choice", report_epsilon(epsilon, n, case.delta), k)
    return case.rows(
        ("options", "epsilon", "people"),
        risks
        | {REPLACE: bins(REPLACE, REPLACE_ONE), ADD: bins(ADD, ADD_OR_DELETE)}
        | {SHUFFLED: devices(SHUFFLED, mixed)},
        {"local": {"limit": unit * (k - 1) / k**2}},
        sampling=float(np.mean(shares * (1 - shares)) / n),
    )


@lru_cache(maxsize=4096)
def choice_gain(epsilon: float, options: int) -> float:
    return math.sqrt(largest_information(epsilon, options) / (options * (options - 1)))


def _root_mean(errors: estimators.Array) -> estimators.Array:
    return np.asarray(np.sqrt((errors**2).mean(axis=1)))


def with_best(rows: Sequence[Row]) -> Rows:
    """Return the rows, and for each cell the best row that keeps ε with a trusted server."""
    cells = Rows(rows).groups("epsilon", "people", "options").values()
    central = (Rows(row for row in cell if row["estimator"] != ADD.name) for cell in cells)
    return Rows([*rows, *({**cell.best("central"), "estimator": BEST.name} for cell in central)])


def many_options_price(epsilon: float) -> float:
    """Return the price per person of unary against geometric noise (replace), with many options."""
    return 0.5 / math.cosh(epsilon / 4) ** 2


def report(options: Options, found: Sequence[Row]) -> Report:
    epsilon, people, k = (middle(options[key]) for key in ("epsilon", "people", "options"))
    rows, local = with_best(found), local_estimators(options["mechanisms"])
    by_people, by_options, shown = rows.at(options=k), rows.at(people=people), (*local, *SHOWN)
    prices = {one.label: _price(one, people) for one in local}
    prices["unary, limit of many options"] = lambda cell: (
        f"{many_options_price(number(cell[0], 'epsilon')):,.4f}"
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
                "number of options, for each ε. With many people, no local mechanism can have a "
                "ratio below 1.",
                [(f"ε {e}", by_options.at(epsilon=e), "limit_ratio") for e in options["epsilon"]],
                *(local, "options", "squared error / least possible"),
            ),
            figures.error_figure(
                "options",
                f"The error for {people:,} people, against the number of options. k-RR gets worse "
                "with every option; mechanisms whose reports are sets of options do not.",
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
                Rows(sorted(by_options, key=_epsilon_and_options)),
                {"ε": "epsilon", "options": "options"},
                prices,
            ),
        ],
        sentences.method(
            Rows(found),
            f"""The shares of the options are proportional to 1, 1/2, 1/3, and so on. Errors are
            root mean squares over the options.

            Like the local mechanisms, 'trusted, best' keeps ε for one person who gives another
            answer. It uses noisy bins, or a local mechanism run by the server if that is better.
            'trusted, add' keeps ε only for one person more or fewer, and 2 ε for another answer.

            Shuffled reports come from the local mechanism with the least error at a larger ε₀.
            Together they are (ε, {options["delta"]:g})-private if the shuffler and n people are
            honest. A single report only has ε₀.

            Counts are simulated with exactly the distribution that the reports of all people would
            give.""",
        ),
    )


def _price(estimator: Estimator, people: int) -> Callable[[Rows], str]:
    """Return a column with the estimator's price per person, or empty text without a row."""
    return lambda cell: f"{cell.price(estimator, BEST) / people:,.4f}" if cell.of(estimator) else ""


def _findings(rows: Rows, people: int, k: int) -> list[str]:
    cell, epsilon = rows.at(options=k), str(rows[0]["epsilon"])
    local, central, mixed = cell.best("local"), cell.one(BEST), cell.one(SHUFFLED)
    price = number(local, "exact") / number(central, "exact")
    drawn_price = number(local, "exact_drawn") / number(central, "exact_drawn")
    return paragraphs(
        f"""With {people:,} people and {k} options at ε {epsilon}, {_label(local)} estimates each
        share to {plus_minus(local)} points and a trusted histogram to {plus_minus(central)} points.
        For these people, the local variance is {figure(price)} times as large, a price that grows
        with their number. For their population, it is {figure(drawn_price)} times as large.

        The local mechanism with the least error at ε {epsilon} is {_best_by_options(rows)}. With
        {k} options, the squared error of {_label(local)} is {number(local, "limit_ratio"):.4f}
        times the least possible.

        With a shuffler, reports at ε {number(mixed, "report_epsilon"):.2f} would estimate each
        share to {plus_minus(mixed)} points. The shuffler's guarantee {TRUST}."""
    )


def _label(row: Row) -> str:
    return custom_mechanisms.label("choice", str(row["estimator"]))


def _epsilon_and_options(row: Row) -> tuple[float, float]:
    return number(row, "epsilon"), number(row, "options")


def _best_by_options(rows: Rows) -> str:
    """Return each best mechanism with the numbers of options for which it is the best."""
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
            "devices, with probability p of naming one's own option and q of naming another",
            r"\dfrac{V(f)}{n} = \dfrac{f p (1 - p) + (1 - f) q (1 - q)}{n (p - q)^2}",
        ),
        ("a trusted server's noisy bins", r"\dfrac{2h}{n^2 (h - 1)^2}, \quad h = e^{ε / 2}"),
        (
            "least possible sum of squared errors on devices",
            (
                r"\dfrac{(k - 1)^2}{n T}, \quad "
                r"T = \max_d \dfrac{k d (k - d) (e^ε - 1)^2}{(d e^ε + k - d)^2}"
            ),
        ),
    ),
)
