"""Mean of bounded numbers: every local mechanism against a trusted server.

`pages/mean.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from deniable.server.planning.forecast import least_of_a_number
from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.number_table import RANGE
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.central.noise import DiscreteLaplace, Staircase, discrete_laplace
from deniable.simulations.engine import custom_mechanisms, estimators, figures, option
from deniable.simulations.engine.estimators import Case, Estimator, Risk, number
from deniable.simulations.engine.option import Redacted, content, digest
from deniable.simulations.engine.presentation import View, error_tables, study
from deniable.simulations.engine.study import Cell, Options, Report, Row
from deniable.simulations.population import drawn, fixed, grid_distribution, on_grid, whole_people
from deniable.simulations.studies.bit import count_limit, share_limits

Array = NDArray[np.float64]
CENTRAL_STEPS, STAIRCASE_DRAWS = 1_000, 40_000
TENTHS = tuple(tenth / 10 for tenth in range(11))
POPULATIONS = {  # percent of the people at 0, 0.1, ..., 1 of the range
    "low": (30, 25, 16, 11, 7, 4, 3, 2, 1, 1, 0),
    "uniform": (9, 9, 9, 9, 9, 10, 9, 9, 9, 9, 9),
    "middle": (0, 0, 2, 8, 20, 40, 20, 8, 2, 0, 0),
    "ends": (50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 50),
}
GRID = 1_000  # steps to which the caller's own numbers are rounded


def _population(name: str, given: Any) -> str:  # Any: a name, or numbers
    if isinstance(given, str):
        return str(option.one_of(POPULATIONS)(name, given))
    numbers = np.asarray(given, dtype=float).ravel()
    if not len(numbers) or not np.isfinite(numbers).all() or numbers.min() < 0 or numbers.max() > 1:
        raise WrongUse(
            f"{name} must have numbers from 0 to 1, shares of the range: (x - low) / (high - low)"
        )
    held = Counter(np.rint(numbers * GRID).astype(int).tolist())
    text = json.dumps([[step / GRID, count] for step, count in sorted(held.items())])
    return Redacted(digest(text.encode()), text)


OPTIONS = (
    option.epsilons("0.5,1,2,4,8"),
    option.people("1e2,1e3,1e4,1e5,1e6,1e7,1e8,1e9", 100),
    option.repetitions(400),
    custom_mechanisms.mechanisms_option("number"),
    option.Option("population", "low", _population,
                  f"{', '.join(POPULATIONS)}; in Python also your own numbers", "NAME"),
)  # fmt: skip


def _check(options: dict[str, Any]) -> Options:  # Any: JSON values
    """Make every mechanism once, which refuses one that fails or exceeds its ε."""
    for mechanism, epsilon in product(options["mechanisms"], options["epsilon"]):
        custom_mechanisms.number_mechanism(mechanism, Epsilon(epsilon))
    return options


@dataclass(frozen=True)
class Crowd:
    """People, of whom `held[i]` are at `places[i]`; the population has the same shares."""

    places: Array
    held: NDArray[np.int64]

    @property
    def people(self) -> int:
        return int(self.held.sum())

    @property
    def mean(self) -> float:
        return float(self.places @ self.held / self.people)

    @property
    def sampling(self) -> float:
        return float((self.places - self.mean) ** 2 @ self.held / self.people**2)


def crowd_of(population: object, people: int) -> Crowd:
    """Return this number of people, from a named population or the caller's own numbers."""
    places: Sequence[float] = TENTHS
    weights: Sequence[float] = POPULATIONS.get(str(population), ())
    if not weights:
        places, weights = zip(*json.loads(content(population)), strict=True)
    return Crowd(np.asarray(places, dtype=float), np.asarray(whole_people(weights, people)))


CENTRAL = Estimator("central", "staircase", "trusted server", figures.LOOKS[5])
LAPLACE = Estimator("central", "laplace", "trusted, Laplace", figures.SHUFFLED_LOOK)


def local_estimators(mechanisms: Sequence[str]) -> list[Estimator]:
    return custom_mechanisms.local_estimators("number", mechanisms, [CENTRAL.look])


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    case = Case(cell, generator)
    n, crowd = case.people, crowd_of(case.population, case.people)
    local, least = local_estimators(case.mechanisms.split(",")), least_of_a_number(case.epsilon)
    limits = {
        "local": share_limits(RandomizedResponse(case.epsilon).keep / ONE, 0.5, n)[0],
        "central": count_limit(float(case.epsilon), n) / n**2,
    }
    best = {"least_worst": None if least is None else estimators.BELOW * least / RANGE**2 / n}
    return case.rows(
        ("epsilon", "people", "population"),
        {one: _local(one, case, crowd, best) for one in local}
        | {one: _central(one, case, crowd) for one in (CENTRAL, LAPLACE)},
        {model: {"limit_worst": limit} for model, limit in limits.items()},
        crowd.sampling,
    )


def _local(one: Estimator, case: Case, crowd: Crowd, best: estimators.Columns) -> Risk:
    table = custom_mechanisms.number_mechanism(one.name, case.epsilon)
    n, steps, places = case.people, len(table.rows) - 1, crowd.places.tolist()
    times, generator = case.repetitions, case.generator(one)
    points = on_grid(places, crowd.held.tolist(), steps, times, generator)
    shares = grid_distribution(places, (crowd.held / n).tolist(), steps)
    tallies = (fixed(table, points, times, generator), drawn(table, shares, n, times, generator))
    values = np.array([float(value / table.steps) for value in table.values])
    these, others = (tally.counts @ values / n - crowd.mean for tally in tallies)
    exact = float(np.array([table.variance(n, x) for x in places]) @ crowd.held / n)
    worst = {"worst": table.worst_variance(n)}
    return Risk(exact, these, errors_drawn=others, columns={**worst, **best})


def _central(one: Estimator, case: Case, crowd: Crowd) -> Risk:
    n, times, generator = case.people, case.repetitions, case.generator(one)
    stairs = Staircase(case.epsilon, CENTRAL_STEPS)
    laplace = DiscreteLaplace(case.epsilon, CENTRAL_STEPS)
    if one is CENTRAL:  # at a large ε, most of its variance is from rare large numbers
        noise, variance = stairs.drawn(max(times, STAIRCASE_DRAWS), generator), stairs.variance
    else:
        noise, variance = discrete_laplace(laplace, times, generator), laplace.variance
    worst, errors = variance / (n * CENTRAL_STEPS) ** 2, noise / (n * CENTRAL_STEPS)
    sampled = generator.multinomial(n, crowd.held / n, times) @ crowd.places / n - crowd.mean
    return Risk(worst, errors, errors_drawn=errors[:times] + sampled, columns={"worst": worst})


def report(view: View) -> Report:
    epsilons, shown = view.options["epsilon"], view.along("people")
    local, by_epsilon = local_estimators(view.options["mechanisms"]), view.along("epsilon")
    curves = [one for one in local if one.name == shown.best("local")["estimator"]]
    at_ends = [by_epsilon.at(epsilon=end) for end in (epsilons[0], epsilons[-1])]
    first, last = (custom_mechanisms.label("number", end.best("local")) for end in at_ends)
    values = {
        **custom_mechanisms.best_values("number", view.cell, CENTRAL),
        "best_at_first": first[0].upper() + first[1:],
        "best_at_last": " and" if last == first else f", and {last}",
        "gain": [end.price(LAPLACE, CENTRAL) for end in at_ends],
        "crowd": _sentence_about(view.population),
        "steps": CENTRAL_STEPS,
    }
    panels = {"At its worst point": "worst", "This population": "exact"}
    in_range, title = estimators.RANGE_PERCENT, f"Error of a mean, ε {view.epsilon}"
    return view.report(
        values,
        {
            "variance": figures.ratios(
                [(words, by_epsilon, partial(_over_limit, key)) for words, key in panels.items()],
                *(local, "epsilon", "variance / least at the worst point", "ε"),
            ),
            "error": figures.errors(shown, [*curves, CENTRAL, LAPLACE], title, in_range),
        },
        error_tables(
            "Error of the mean of {target}, in % of the range: 1.96 standard errors",
            *(view.rows, [*local, CENTRAL, LAPLACE], in_range),
        ),
    )


def _over_limit(key: str, row: Row) -> float | None:
    return None if row["least_worst"] is None else number(row, key) / number(row, "least_worst")


def _sentence_about(population: str) -> str:
    if population not in POPULATIONS:
        return "The population consists of your own numbers, of which only a digest is written."
    percents = ", ".join(map(str, POPULATIONS[population]))
    people = f"In the population {population!r}, {percents} percent of the people"
    return f"{people} are at 0, 0.1, ..., 1 of the range."


STUDY = study("mean", OPTIONS, estimators.grid("epsilon", "people"), run, report, check=_check)
