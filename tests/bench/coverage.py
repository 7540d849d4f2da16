"""Coverage of the interval for a mean, over all conditions in which it is used.

    python tests/bench/coverage.py [--runs 4000] [--seed 1]

Each cell is a mechanism, a number of people and their fixed answers. Reports are drawn exactly: a
multinomial for each answer on the grid.

The output lists the cells of lowest coverage, with the probability (from exact binomial limits)
that the true coverage is below 94.5 %, and the widest intervals relative to the normal
approximation. The exit code is 1 if a cell is below 94.5 % beyond chance.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from deniable.server.estimation.mean_limits import at_pole, bounded_mean
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.mechanisms import LocalLaplace, OneBitMean
from tests.bench.measure import Measurement

Array = npt.NDArray[np.float64]

EPSILONS = ("0.1", "0.5", "1", "2", "4", "8", "16")
STEPS = (1, 2, 8, 64, 255)
PEOPLE = (50, 200, 1_000, 10_000)
LEAST = 0.945
HALVINGS = 45


@dataclass(frozen=True)
class Cell:
    epsilon: str
    steps: int
    people: int
    population: str

    def __str__(self) -> str:
        return f"ε {self.epsilon}, {self.steps} steps, n {self.people}, {self.population}"


@dataclass(frozen=True)
class Outcome:
    cell: Cell
    coverage: float
    too_low: float  # share of runs whose truth is above the interval
    too_high: float
    width: float  # mean width, relative to the normal interval for people drawn at random
    rarest: float  # expected reports of the rarer end symbol; if few, the normal interval fails


def populations(steps: int, people: int) -> dict[str, npt.NDArray[np.int64]]:
    """Return the number of people who hold each answer on the grid, by population name."""
    shares = {
        "all low": {0: 1.0},
        "all high": {steps: 1.0},
        "middle": {steps // 2: 1.0},
        "two points": {0: 0.5, steps: 0.5},
        "1 % high": {0: 0.99, steps: 0.01},
        "0.1 % high": {0: 0.999, steps: 0.001},
        "uniform": dict.fromkeys(range(steps + 1), 1 / (steps + 1)),
    }
    result = {}
    for name, parts in shares.items():
        held = np.zeros(steps + 1, dtype=np.int64)
        for answer, share in parts.items():
            held[answer] = int(share * people)
        held[next(iter(parts))] += people - held.sum()
        result[name] = held
    return result


def table_of(epsilon: str, steps: int) -> NumberTable:
    return OneBitMean(Epsilon(epsilon)) if steps == 1 else LocalLaplace(Epsilon(epsilon), steps)


def draw_counts(
    table: NumberTable, held: npt.NDArray[np.int64], runs: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw the counts of every symbol exactly, one row per run."""
    counts = np.zeros((runs, table.symbols), dtype=np.int64)
    for answer in np.flatnonzero(held):
        counts += rng.multinomial(held[answer], _row(table, int(answer)), size=runs)
    return counts


def measure(cell: Cell, runs: int, rng: np.random.Generator) -> Outcome:
    table = table_of(cell.epsilon, cell.steps)
    held = populations(cell.steps, cell.people)[cell.population]
    values = np.array([float(value) for value in table.values]) / cell.steps
    truth = float(held @ np.arange(cell.steps + 1)) / cell.people / cell.steps
    counts = draw_counts(table, held, runs, rng).astype(np.float64)
    below = beyond(values, counts, truth)
    above = beyond(-values[::-1], counts[:, ::-1], -truth)
    distribution = sum(held[i] / cell.people * _row(table, int(i)) for i in np.flatnonzero(held))
    deviation = math.sqrt(float(distribution @ values**2) - float(distribution @ values) ** 2)
    normal = 2 * 1.959964 * deviation / math.sqrt(cell.people)
    widths = [np.subtract(*bounded_mean(values, row, 0.95)[::-1]) for row in counts[:20]]
    return Outcome(
        cell,
        coverage=1 - float((below | above).mean()),
        too_low=float(below.mean()),
        too_high=float(above.mean()),
        width=float(np.mean(widths)) / normal,
        rarest=float(min(distribution[0], distribution[-1])) * cell.people,
    )


def beyond(values: Array, counts: Array, truth: float) -> npt.NDArray[np.bool_]:
    """Return True for each run whose truth is above the upper limit.

    All runs are tested together, without computing each limit.
    """
    few = (counts[:, :-1] > 0).sum(1) <= 1
    result = np.zeros(len(counts), dtype=bool)
    result[~few] = _beyond_many(values, counts[~few], truth)
    limits = {
        row.tobytes(): bounded_mean(values, row, 0.95)[1] for row in np.unique(counts[few], axis=0)
    }
    result[few] = [truth > limits[row.tobytes()] for row in counts[few]]
    return result


def _beyond_many(values: Array, counts: Array, truth: float) -> npt.NDArray[np.bool_]:
    shapes = counts.copy()
    shapes[:, -1] += 1
    shifted, aim = values - values[-1], truth - values[-1]
    centre = (shapes @ shifted) / shapes.sum(1)
    spread = np.sqrt((shapes * (shifted - centre[:, None]) ** 2).sum(1))
    near, far = np.full(len(counts), math.log(-shifted[0]) - 30), np.log(centre + 100 * spread)
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        mean, _ = at_pole(np.exp(middle), shifted, shapes)
        near, far = np.where(mean > aim, middle, near), np.where(mean > aim, far, middle)
    _, probability = at_pole(np.exp(near), shifted, shapes)
    verdict: npt.NDArray[np.bool_] = (aim > centre) & (probability < 0.025)
    return verdict


def _row(table: NumberTable, answer: int) -> Array:
    row = np.array(table.rows[answer], dtype=np.float64) / ONE
    normalised: Array = row / row.sum()
    return normalised


def cells() -> Iterator[Cell]:
    for epsilon in EPSILONS:
        for steps in STEPS:
            for people in PEOPLE:
                for population in populations(steps, people):
                    yield Cell(epsilon, steps, people, population)


def measurements(runs: int = 2_000) -> Iterator[Measurement]:
    """Measure the worst cell for `./run bench --long`. The limit allows five standard errors."""
    outcomes = [
        measure(cell, runs, np.random.default_rng(np.random.SeedSequence(1, spawn_key=(number,))))
        for number, cell in enumerate(cells())
    ]
    worst = min(outcomes, key=lambda outcome: outcome.coverage)
    missed = 1 - LEAST
    limit = 100 * (missed + 5 * math.sqrt(missed * LEAST / runs))
    yield Measurement(
        f"intervals for means, the worst of {len(outcomes)} cells",
        100 * (1 - worst.coverage),
        None,
        "% missed",
        limit,
        note=str(worst.cell),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    outcomes = []
    for number, cell in enumerate(cells()):
        rng = np.random.default_rng(np.random.SeedSequence(chosen.seed, spawn_key=(number,)))
        outcomes.append(measure(cell, chosen.runs, rng))
        if number % 28 == 27:
            print(f"{cell}: done", file=sys.stderr)
    return _report(outcomes, chosen.runs)


def _report(outcomes: list[Outcome], runs: int) -> int:
    from scipy.stats import binom

    outcomes.sort(key=lambda outcome: outcome.coverage)
    print(f"{len(outcomes)} cells, {runs} runs each; least coverage:")
    for outcome in outcomes[:15]:
        print(
            f"  {outcome.coverage:.4f} (missed below {outcome.too_low:.4f}, "
            f"above {outcome.too_high:.4f}), width {outcome.width:.3f}: {outcome.cell}"
        )
    print("widest against the normal interval, n = 10,000:")
    large = [outcome for outcome in outcomes if outcome.cell.people == 10_000]
    for outcome in sorted(large, key=lambda outcome: -outcome.width)[:10]:
        print(f"  {outcome.width:.3f}, {outcome.rarest:.2g} of the rarer end: {outcome.cell}")
    probability = binom.cdf(round(outcomes[0].coverage * runs), runs, LEAST) * len(outcomes)
    bound = min(1, probability)
    print(f"probability of the first line if all covered {LEAST:.1%}: at most {bound:.2g}")
    return 1 if probability < 1e-6 else 0


if __name__ == "__main__":
    sys.exit(main())
