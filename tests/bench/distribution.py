"""Accuracy of a number's estimated distribution: coverage, and error by table and by window.

Coverage: people are drawn at random from shapes that leave a band no slack, and reports are drawn
exactly. In the worst cell, neither bands nor intervals of quantiles may miss more often than 5 %
plus five standard deviations.

Error: the absolute error of the share below a point, averaged over the points, for 20,000 people.
Raw and consistent estimates are measured. Each error is compared with that of another table or
another window at the same ε. The consistent error is also compared with the raw one and with the
smoothed one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.distribution import (
    LEAST_GAIN,
    cumulative_values,
    informative_parts,
    likeliest,
    worst_variance,
)
from deniable.server.surveys.survey_file import parse_survey_file
from deniable.shared.privacy.epsilon import Epsilon, exp_interval
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.mechanisms import LocalLaplace, SquareWave
from tests.bench.measure import Measurement
from tests.server.estimation.places import SHAPES, Places, misses, on_grid, rows_of
from tests.survey_texts import number, survey_text

Array = npt.NDArray[np.float64]

COVERED = (300, 3_000, 30_000)
STEPS, PARTS = 16, 8
PEOPLE, DRAWN = 20_000, 40


class MutualInformation(SquareWave):
    """Square wave with the window of Li et al. 2020, which is twice as wide."""

    @staticmethod
    def side(epsilon: Epsilon, steps: int) -> int:
        e, x = exp_interval(*epsilon.ratio, 192).low / 2**192, float(epsilon)
        return round(steps * (x * e - e + 1) / (2 * e * (e - 1 - x)))


def optimal(epsilon: str, steps: int) -> NumberTable:
    text = survey_text(number(mechanism="optimal-table", epsilon=epsilon, grid=steps))
    table = parse_survey_file(text).questions[0].mechanism
    assert isinstance(table, NumberTable)
    return table


def measurements(runs: int = 200) -> Iterator[Measurement]:
    yield from _coverage(runs)
    for epsilon in ("1", "2"):
        wave = SquareWave(Epsilon(epsilon), STEPS)
        yield from _errors(f"local-laplace, ε {epsilon}", wave, LocalLaplace(wave.epsilon, STEPS))
        yield from _errors(f"optimal-table, ε {epsilon}", wave, optimal(epsilon, STEPS))
        fine = SquareWave(wave.epsilon, 64)
        wide = MutualInformation(wave.epsilon, 64)
        yield from _errors(f"a window twice as wide, ε {epsilon}", fine, wide)
        yield from _own_errors(wave)
        yield from _own_errors(fine)


def _coverage(runs: int) -> Iterator[Measurement]:
    tables: list[NumberTable] = [SquareWave(Epsilon(text), 64) for text in ("0.5", "1", "2", "4")]
    tables += [LocalLaplace(Epsilon("4"), 8), optimal("2", STEPS)]
    found = {}
    for table, people, shape in product(tables, COVERED, SHAPES):
        if parts := informative_parts(table, people):
            cell = f"{table.name}, ε {table.epsilon}, n {people}, {parts} parts, {shape.__name__}"
            found[cell] = misses(table, parts, people, shape, runs)
    limit = 100 * (0.05 + 5 * math.sqrt(0.05 * 0.95 / runs))
    for which, name in enumerate(("bands", "all quantiles' intervals")):
        cell = max(found, key=lambda cell: found[cell][which])
        share = 100 * found[cell][which] / runs
        overall = sum(errors[which] for errors in found.values()) / runs / len(found)
        yield Measurement(
            f"{name}, the worst of {len(found)} cells", share, None, "% missed", limit,
            note=f"{cell}; {overall:.1%} over all cells",
        )  # fmt: skip


def _errors(against: str, wave: NumberTable, other: NumberTable) -> Iterator[Measurement]:
    mine, theirs = _errors_of(wave), _errors_of(other)
    deviation, others = (
        math.sqrt(worst_variance(table, PARTS) / PEOPLE) for table in (wave, other)
    )
    yield Measurement(f"worst deviation compared with {against}", deviation, others, "of 1", 1)
    yield Measurement(f"raw error compared with {against}", mine.raw, theirs.raw, "of 1", 1)
    yield Measurement(
        f"consistent error compared with {against}", mine.consistent, theirs.consistent, "of 1", 1.1
    )


def _own_errors(wave: NumberTable) -> Iterator[Measurement]:
    found, at = _errors_of(wave), f"{wave.name}, ε {wave.epsilon}, {wave.steps} steps"
    yield Measurement(
        f"{at}: consistent compared with raw", found.consistent, found.raw, "of 1", 1.1
    )
    yield Measurement(f"{at}: compared with smoothed", found.consistent, found.smoothed, "of 1", 1)


class Errors(NamedTuple):
    raw: float
    consistent: float
    smoothed: float


@lru_cache(maxsize=64)
def _errors_of(table: NumberTable) -> Errors:
    """Return the mean errors over all shapes."""
    return Errors(*np.mean([_errors_at(table, shape) for shape in SHAPES], axis=0).tolist())


def _errors_at(table: NumberTable, shape: Callable[[int], Places]) -> list[float]:
    rng, rows = np.random.default_rng(1), rows_of(table)
    fine = on_grid(table, *shape(PARTS))
    places = np.arange(table.steps + 1) * PARTS / table.steps
    coarse = np.maximum(1 - np.abs(places - np.arange(PARTS + 1)[:, None]), 0)
    values, _ = cumulative_values(table, PARTS)
    rates, truth = fine @ rows, np.cumsum(coarse @ fine)[:-1]
    errors = np.zeros(3)
    for _ in range(DRAWN):
        counts = rng.multinomial(PEOPLE, rates / rates.sum()).astype(float)
        raw = values @ counts / PEOPLE
        found = [np.cumsum(coarse @ f(rows, counts))[:-1] for f in (likeliest, smoothed)]
        errors += [np.abs(estimate - truth).mean() / DRAWN for estimate in (raw, *found)]
    return [float(error) for error in errors]


def smoothed(rows: Array, counts: Array) -> Array:
    """Return the smoothed estimate of Li et al."""
    shares, before = np.full(len(rows), 1 / len(rows)), -math.inf
    while (likelihood := float(counts @ np.log(shares @ rows))) - before >= LEAST_GAIN:
        before = likelihood
        wide = np.pad(shares * (rows @ (counts / (shares @ rows))), 1, mode="edge")
        shares = wide[:-2] + 2 * wide[1:-1] + wide[2:]
        shares = shares / shares.sum()
    return shares
