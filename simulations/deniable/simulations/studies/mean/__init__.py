"""A bounded mean: every local mechanism for numbers against a trusted curator.

    local      stochastic rounding to a grid, then each mechanism's table    variance V(x) / n
    central    discrete Laplace noise on the sum, on a grid of 1,000 steps   about 2 / (n ε)^2

as shares of the range, about the people who are asked; V depends on where in it people are, which
is what the populations are for. About the population that they are drawn from the error has the
spread of a sample too, σ^2 / n. Both models keep ε for one person who answers otherwise; the number
of people is public. The limit is the least that the variance at the worst place can be in any local
mechanism (`server/planning/least_variance.py`); a curator's, for many people, that of a share [1].

The JSON form: `options` and `cells` (`model`, `mechanism`, `population`, `epsilon`, `people`,
`exact`, `measured`, `measured_error`, `repetitions`; `exact_drawn`, `measured_drawn`, `error_drawn`
about the population; `worst`, the variance where all people stand at the worst place, and
`limit_worst`, the least that it can be, null where that is not known; mean squared errors as shares
of the range, squared).

[1] Gupte, Sundararajan 2010, "Universally optimal privacy mechanisms for minimax agents", PODS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.server.planning.least_variance import least_of_a_number
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import RANGE, NumberTable
from deniable.simulations.central import BoundedMean, DiscreteLaplace, discrete_laplace
from deniable.simulations.engine import comparison, custom_mechanisms, option
from deniable.simulations.engine.comparison import Series
from deniable.simulations.engine.study import Cell, Options, Row, Study
from deniable.simulations.population import drawn, fixed, grid_distribution, on_grid
from deniable.simulations.studies import populations
from deniable.simulations.studies.mean.report import report
from deniable.simulations.studies.mean.series import CENTRAL, CENTRAL_STEPS, series_of

Array = NDArray[np.float64]
BELOW = 1 - 1e-12  # a limit stays one in doubles

OPTIONS = (
    option.epsilons("0.5,1,2,4,8"),
    option.people("1e2,1e3,1e4,1e5,1e6,1e7,1e8,1e9", 100),
    option.repetitions(1_000),
    custom_mechanisms.mechanisms_option("number"),
    option.Option(
        "population",
        "low",
        populations.read,
        f"{', '.join(populations.NAMED)}; in Python also numbers of your own",
        "NAME",
    ),
)


def cells(options: Options) -> Sequence[Cell]:
    shared = {key: options[key] for key in ("population", "repetitions")}
    return [
        {"mechanism": mechanism, "epsilon": epsilon, "people": people, **shared}
        for mechanism in (*options["mechanisms"], CENTRAL.mechanism)
        for epsilon in options["epsilon"]
        for people in options["people"]
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    epsilon, times = Epsilon(str(cell["epsilon"])), int(cell["repetitions"])
    people, mechanism = int(cell["people"]), str(cell["mechanism"])
    places, held = populations.people_at(cell["population"], people)
    crowd = Crowd(np.asarray(places, dtype=float), np.asarray(held))
    trusted = BoundedMean(epsilon, CENTRAL_STEPS)
    if mechanism == CENTRAL.mechanism:
        rows = [_central(trusted, crowd, times, generator)]
    else:
        (series,) = series_of([mechanism])[:1]
        row = _local(
            series, custom_mechanisms.number_mechanism(mechanism, epsilon), crowd, times, generator
        )
        # A curator may run it, too: with few people and a large ε it errs less than Laplace noise.
        better = comparison.number(row, "exact") < trusted.variance(people)
        by_the_curator = {**row, "model": "central", "limit_worst": least_trusted(epsilon, people)}
        rows = [row, *([by_the_curator] if better else [])]
    return [{"population": cell["population"], **row} for row in rows]


@dataclass(frozen=True)
class Crowd:
    """How many stand at each place; the population has as large a share of them there."""

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
        """The variance that drawing the people adds."""
        return float((self.places - self.mean) ** 2 @ self.held / self.people**2)


def _local(
    series: Series, table: NumberTable, crowd: Crowd, times: int, generator: np.random.Generator
) -> Row:
    people, steps = crowd.people, len(table.rows) - 1
    values = np.array([float(value / table.steps) for value in table.values])
    points = on_grid(crowd.places.tolist(), crowd.held.tolist(), steps, times, generator)
    these = fixed(table, points, times, generator).counts @ values / people - crowd.mean
    shares = grid_distribution(crowd.places.tolist(), (crowd.held / people).tolist(), steps)
    anew = drawn(table, shares, people, times, generator).counts @ values / people - crowd.mean
    at_each = np.array([table.variance(people, x) for x in crowd.places.tolist()])
    exact, least = float(at_each @ crowd.held / people), least_of_a_number(table.epsilon)
    return {
        **comparison.row(series, str(table.epsilon), people, exact, these),
        **comparison.drawn_columns(exact + crowd.sampling, anew),
        "worst": table.worst_variance(people),
        "limit_worst": None if least is None else BELOW * least / RANGE**2 / people,
    }


def _central(trusted: BoundedMean, crowd: Crowd, times: int, generator: np.random.Generator) -> Row:
    people, variance = crowd.people, trusted.variance(crowd.people)
    errors = discrete_laplace(trusted.noise, times, generator) / (people * CENTRAL_STEPS)
    drawn_anew = generator.multinomial(people, crowd.held / people, times)
    sampled = drawn_anew @ crowd.places / people - crowd.mean
    return {
        **comparison.row(CENTRAL, str(trusted.epsilon), people, variance, errors),
        **comparison.drawn_columns(variance + crowd.sampling, errors + sampled),
        "worst": variance,
        "limit_worst": least_trusted(trusted.epsilon, people),
    }


def least_trusted(epsilon: Epsilon, people: int) -> float:
    """No curator's worst variance is below that of a share, for many people: people at the ends are
    a question of yes or no, of which nobody releases a count with less than geometric noise."""
    return DiscreteLaplace(epsilon).variance / people**2


STUDY = Study(
    name="mean",
    question="What does it cost to learn a mean without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        ("devices, V(x) being that of the mechanism's table for a person at x", "V(x) / n"),
        ("a trusted server, as a share of the range", "2 / (n ε)^2"),
        ("and of their population", 'σ^2 / n "more"'),
    ),
)
