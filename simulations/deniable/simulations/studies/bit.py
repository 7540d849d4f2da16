"""Yes-or-no question: randomized response against a trusted count, and the price of locality.

`pages/bit.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.random import Generator

from deniable.server.shuffling.amplification import count_delta, report_epsilon
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.central.noise import DiscreteLaplace, discrete_laplace
from deniable.simulations.engine import estimators, figures, option
from deniable.simulations.engine.estimators import Case, Estimator, Risk, Rows, number
from deniable.simulations.engine.figures import LOOKS, Panel, price_curves
from deniable.simulations.engine.presentation import (
    View,
    column,
    error_tables,
    estimator_table,
    figure,
    study,
    table,
)
from deniable.simulations.engine.study import Cell, Report, Row
from deniable.simulations.population import drawn, fixed

OPTIONS = (
    option.epsilons("0.1,0.5,1,2,4"),
    option.people("1e2,1e3,1e4,1e5,1e6,1e7,1e8,1e9"),
    option.repetitions(20_000),
    option.Option("share", 0.3, option.share, "share of people who say yes", "SHARE"),
    option.delta(),
)

LOCAL = Estimator("local", "randomized-response", "randomized response", LOOKS[0])
SHUFFLED = Estimator("shuffled", "shuffled", "shuffled", figures.SHUFFLED_LOOK)
GEOMETRIC = Estimator("central", "geometric", "trusted, geometric", LOOKS[1])
LAPLACE = Estimator("central", "laplace", "trusted, Laplace", LOOKS[2])
ESTIMATORS = (LOCAL, SHUFFLED, GEOMETRIC, LAPLACE)


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    case = Case(cell, generator)
    n, share, times, epsilon = case.people, case.share, case.repetitions, case.epsilon
    yes = round(n * share)

    def devices(one: Estimator, epsilon: Epsilon) -> Risk:
        design = RandomizedResponse(epsilon)
        keep, lie = design.keep / ONE, design.lie / ONE
        tallies = (
            fixed(design, [n - yes, yes], times, case.generator(one)),
            drawn(design, [1 - share, share], n, times, case.generator(one)),
        )
        these, others = ((t.counts[:, 1] - n * lie) / (n * (keep - lie)) for t in tallies)
        return Risk(
            design.variance(n, yes / n), these - yes / n, errors_drawn=others - share,
            columns={"report_epsilon": str(epsilon)},
        )  # fmt: skip

    def server(one: Estimator, variance: float, errors: estimators.Array) -> Risk:
        sampled = case.generator(one).binomial(n, share, times) / n - share
        return Risk(variance, errors, errors_drawn=errors + sampled)

    noise, scale = DiscreteLaplace(epsilon), 1 / (float(epsilon) * n)
    counted = discrete_laplace(noise, times, case.generator(GEOMETRIC)) / n
    laplace = case.generator(LAPLACE).laplace(0, scale, times)
    keep = RandomizedResponse(epsilon).keep / ONE
    limits = {
        "local": share_limits(keep, share, n),
        "central": (count_limit(float(epsilon), n) / n**2, share_limits(1.0, share, n)[1]),
    }
    return case.rows(
        ("epsilon", "people"),
        {
            LOCAL: devices(LOCAL, epsilon),
            SHUFFLED: devices(SHUFFLED, report_epsilon(epsilon, n, case.delta, count_delta)),
            GEOMETRIC: server(GEOMETRIC, noise.variance / n**2, counted),
            LAPLACE: server(LAPLACE, 2 * scale**2, laplace),
        },
        {model: {"limit": a, "limit_drawn": b} for model, (a, b) in limits.items()},
        sampling=share * (1 - share) / n,
    )


# Limits


def share_limits(keep: float, share: float, people: int) -> tuple[float, float]:
    """Return the local limits of the errors about these people and about their population."""
    h = np.geomspace(1e-5, 0.5, 500)
    low = np.maximum(min(share, 1 - share), h) - h
    high = np.minimum(low + 2 * h, 0.5)
    spread, largest = low * (1 - low), high * (1 - high)
    noise, signal = keep * (1 - keep), (2 * keep - 1) ** 2
    w, w_largest = noise + signal * np.array([spread, largest])
    information = people * signal / np.maximum(w, 1e-200) + (np.pi / h) ** 2
    given = noise * spread / np.maximum(w, 1e-200) / people
    these = given + (noise / np.maximum(w_largest, 1e-200)) ** 2 / information
    return float(these.max()), float((1 / information).max())


@cache
def count_limit(epsilon: float, people: int) -> float:
    """Return the central limit of the squared error of a count.

    Away from the ends of its range, each value of a uniform count adds the same risk, so only a few
    values are summed.
    """
    apart = max(1, min(math.floor(0.1 / epsilon), people))
    q, last = math.exp(-epsilon * apart), people // apart
    few = min(last, 4 + math.ceil(80 / (epsilon * apart)))
    counts = np.arange(few + 1)
    chances = q ** abs(counts[:, None] - counts) * (1 - q) / (1 + q)
    chances[:, [0, -1]] /= 1 - q  # noisy counts beyond an end carry the same information
    means = counts @ chances / chances.sum(axis=0)
    risk = float((chances * (counts[:, None] - means) ** 2).sum())
    return apart**2 * (risk + (last - few) * 2 * q / (1 - q) ** 2) / (last + 1)


def drawn_price(epsilon: float, share: float) -> float:
    """Return the price for the population in the limit of many people.

    It is infinite at a share of 0 or 1, where there is no sampling error.
    """
    if share in (0.0, 1.0):
        return math.inf
    return 1 + 1 / (4 * math.sinh(epsilon / 2) ** 2 * share * (1 - share))


def report(view: View) -> Report:
    rows, cell, epsilons = view.rows, view.cell, view.options["epsilon"]
    largest = rows.at(people=max(view.options["people"]))
    counts = largest.at(epsilon=epsilons[0])
    mixed_prices = [largest.at(epsilon=e).price(SHUFFLED, GEOMETRIC) for e in epsilons]
    values = {
        "mixed": _report_epsilon(cell.one(SHUFFLED)),
        "shuffled_price": cell.price(SHUFFLED, GEOMETRIC),
        "half": view.people / 2,
        "drawn_price": drawn_price(float(view.epsilon), view.share),
        "counts": {one.name: _count_error(counts.one(one)) for one in ESTIMATORS},
        "sole_epsilon": _report_epsilon(counts.one(SHUFFLED)),
        "mixed_prices": (min(mixed_prices), max(mixed_prices)),
        "largest_price": counts.price(LOCAL, GEOMETRIC),
        "largest_mixed": mixed_prices[0],
    }
    each = "per person asked, "
    prices = {
        f"{each}geometric": lambda cell: f"{_prices(cell)['geometric'] / view.people:.6f}",
        f"{each}Laplace": lambda cell: f"{_prices(cell)['laplace'] / view.people:.6f}",
        "population": lambda cell: figure(_prices(cell)["drawn"]),
    }
    title = f"Error of a share, ε {view.epsilon}"
    return view.report(
        values,
        {
            "error": figures.errors(view.along("people"), ESTIMATORS, title),
            "price": _price_figure(largest),
            "reports": _reports_figure(rows, epsilons),
        },
        [
            *error_tables(
                "Error of the share of {target}, in points: 1.96 standard errors", rows, ESTIMATORS
            ),
            table(
                "Price of locality: local variance divided by central variance",
                *(view.along("epsilon"), {"ε": "epsilon"}, prices),
            ),
            estimator_table(
                "Standard error of a count, in people",
                *(rows, ESTIMATORS, _count_error),
                more={"ε₀ of a shuffled report": column(SHUFFLED, _report_epsilon)},
            ),
        ],
        {"prices": [_prices(cell) for cell in rows.groups("epsilon", "people").values()]},
    )


def _prices(cell: Rows) -> dict[str, Any]:  # Any: JSON values
    return {
        "epsilon": cell[0]["epsilon"],
        "people": cell[0]["people"],
        "geometric": cell.price(LOCAL, GEOMETRIC),
        "laplace": cell.price(LOCAL, LAPLACE),
        "drawn": cell.price(LOCAL, GEOMETRIC, "exact_drawn"),
    }


def _price_figure(rows: Rows) -> figures.Draw:
    these = [c for one in (GEOMETRIC, LAPLACE) for c in price_curves(rows, LOCAL, one)]
    population = price_curves(rows, LOCAL, GEOMETRIC, target=estimators.DRAWN)
    words, linear = "These people, per person asked", ("log", "linear")
    panels = [
        Panel(words, these, "ε", "price / people", linear, limits=(0, 0.6)),
        Panel("The population they are drawn from", population, "ε", "price"),
    ]
    return figures.drawing(*panels, share_y=False)


def _reports_figure(rows: Rows, epsilons: Sequence[str]) -> figures.Draw:
    curves = [
        figures.curve(rows.at(epsilon=e).of(SHUFFLED), look, "people", "report_epsilon", f"ε {e}")
        for e, look in zip(epsilons, figures.distinct_looks(len(epsilons)), strict=True)
    ]
    title, y = "Privacy of a single report", "ε₀ of one report"
    return figures.drawing(Panel(title, curves, "people", y, ("log", "linear")))


def _count_error(row: Row) -> str:
    return figure(number(row, "people") * number(row, estimators.root("exact")))


def _report_epsilon(row: Row) -> str:
    return f"{number(row, 'report_epsilon'):.2f}"


STUDY = study("bit", OPTIONS, estimators.grid("epsilon", "people"), run, report)
