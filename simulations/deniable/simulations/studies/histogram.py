"""Choice among options: every local mechanism against a trusted histogram of noisy bins.

`pages/histogram.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from deniable.server.estimation.shares import support_counts, unbiased_share
from deniable.server.planning.forecast import ADD_OR_DELETE, REPLACE_ONE, largest_information
from deniable.server.shuffling.accountant import largest_report_epsilon
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanisms import KRandomizedResponse, support_design
from deniable.simulations.central.noise import BinNoise, DiscreteLaplace, discrete_laplace
from deniable.simulations.engine import custom_mechanisms, estimators, figures, option
from deniable.simulations.engine.estimators import Case, Estimator, Risk, Rows, number
from deniable.simulations.engine.figures import LOOKS, SHUFFLED_LOOK
from deniable.simulations.engine.limits import options_prior, unit_vector_limits
from deniable.simulations.engine.presentation import View, error_tables, listed, study, table
from deniable.simulations.engine.study import Cell, Report, Row
from deniable.simulations.population import drawn, fixed, whole_people

OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e3,1e4,1e5,1e6,1e7,1e8"),
    option.repetitions(100),
    custom_mechanisms.mechanisms_option("choice"),
    option.sizes("options", "4,16,64,256,1024", 2, 65_536, "numbers of options"),
    option.delta(),
)

SHUFFLED = Estimator("shuffled", "shuffled", "shuffled", SHUFFLED_LOOK)
REPLACE = Estimator("central", "geometric-replace-one", "trusted, replace", LOOKS[1])
ADD = Estimator("central", "geometric-add-or-delete", "trusted, add", LOOKS[3], False)
JOINT = Estimator("central", "joint", "trusted, joint noise", LOOKS[4])
BEST = Estimator("central", "best", "trusted, best", LOOKS[1])
SHOWN = (SHUFFLED, BEST, ADD)  # BEST is one of the others


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

    def bins(one: Estimator, variance: float, noise: NDArray[np.int64]) -> Risk:
        sampled = case.generator(one).multinomial(n, shares, times) - n * shares
        errors, drawn_errors = _root_mean(noise / n), _root_mean((noise + sampled) / n)
        return Risk(variance / n**2, errors, errors_drawn=drawn_errors)

    def separate(one: Estimator, moved: int) -> Risk:
        noise = DiscreteLaplace(epsilon, moved if k > 2 else ADD_OR_DELETE)
        return bins(one, noise.variance, discrete_laplace(noise, (times, k), case.generator(one)))

    risks = {
        one: devices(one, custom_mechanisms.choice_mechanism(one.name, epsilon, k))
        for one in local_estimators(case.mechanisms.split(","))
        if k in custom_mechanisms.find("choice", one.name).sizes
    }
    unit = unit_vector_limits(n, options_prior(k), lambda e: choice_gain(e, k), float(epsilon))[0]
    joint = BinNoise(epsilon, k)
    mixed = shuffled_design(epsilon, n, case.delta, k)
    return case.rows(
        ("options", "epsilon", "people"),
        risks
        | {REPLACE: separate(REPLACE, REPLACE_ONE), ADD: separate(ADD, ADD_OR_DELETE)}
        | {JOINT: bins(JOINT, joint.variance, joint.drawn(times, case.generator(JOINT)))}
        | {SHUFFLED: devices(SHUFFLED, mixed)},
        {"local": {"limit": unit * (k - 1) / k**2}},
        sampling=float(np.mean(shares * (1 - shares)) / n),
    )


@lru_cache(maxsize=4096)
def shuffled_design(epsilon: Epsilon, people: int, delta: float, options: int) -> SupportDesign:
    """Return the design with the least variance, if each has the largest ε₀ a shuffler allows."""

    def largest(design: Callable[[Epsilon], SupportDesign]) -> SupportDesign:
        return design(largest_report_epsilon(design, epsilon, people, delta, coarse=True))

    one = largest(lambda larger: KRandomizedResponse(larger, options))
    if support_design("choice", one.epsilon, options) == one:
        return one
    several = largest(lambda larger: support_design("choice", larger, options))
    return min(one, several, key=lambda design: design.variance(1, 1 / options))


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


def report(found: View) -> Report:
    view = replace(found, rows=with_best(found.rows))
    epsilon, people, k, cell = view.epsilon, view.people, view.middle("options"), view.cell
    local = local_estimators(view.options["mechanisms"])
    shown = (*local, *SHOWN)
    prices = {one.label: _price(one, people) for one in local}
    prices["unary, limit of many options"] = lambda cell: (
        f"{many_options_price(number(cell[0], 'epsilon')):,.4f}"
    )
    by_options = view.along("options", "epsilon")
    values = {
        "rows": found.rows,
        **custom_mechanisms.best_values("choice", cell, BEST),
        "best": _best_by_options(view.along("options")),
        "report_epsilon": number(cell.one(SHUFFLED), "report_epsilon"),
    }
    ratios = [(f"ε {e}", by_options.at(epsilon=e), "limit_ratio") for e in view.options["epsilon"]]
    title = f"Error of each share of {k}, ε {epsilon}"
    by_size = f"Error of each share, {people:,} people, ε {epsilon}"
    return view.report(
        values,
        {
            "error": figures.errors(view.along("people"), shown, title),
            "limit": figures.ratios(ratios, local, "options", "squared error / least possible"),
            "options": figures.errors(view.along("options"), shown, by_size, x="options"),
        },
        [
            *error_tables(
                f"Error of a share of {{target}}, {k} options, in points: 1.96 standard errors",
                *(view.along("people", "epsilon"), shown),
            ),
            table(
                "Price of locality against 'trusted, best', per person asked",
                Rows(sorted(by_options, key=lambda r: (number(r, "epsilon"), r["options"]))),
                {"ε": "epsilon", "options": "options"},
                prices,
            ),
        ],
    )


def _price(estimator: Estimator, people: int) -> Callable[[Rows], str]:
    return lambda cell: f"{cell.price(estimator, BEST) / people:,.4f}" if cell.of(estimator) else ""


def _best_by_options(rows: Rows) -> str:
    """Return each best mechanism with the numbers of options for which it is the best."""
    wins: dict[str, list[str]] = {}
    for k in sorted({int(number(row, "options")) for row in rows}):
        best = custom_mechanisms.label("choice", rows.at(options=k).best("local"))
        wins.setdefault(best, []).append(f"{k:,}")
    return ", and ".join(f"{label} with {listed(sizes)} options" for label, sizes in wins.items())


STUDY = study("histogram", OPTIONS, estimators.cross("people", "options"), run, report)
