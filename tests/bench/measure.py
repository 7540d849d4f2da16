"""Measurements: comparison of two sides, and printing of the result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

ROUNDS = 9


@dataclass(frozen=True)
class Measurement:
    """Measured value `ours` and its `baseline`, in the same unit.

    `limit` applies to their ratio, or to `ours` if there is no baseline.
    """

    name: str
    ours: float
    baseline: float | None
    unit: str
    limit: float
    spread: float = 0.0  # (slowest - fastest round) / fastest
    note: str = ""

    @property
    def figure(self) -> float:
        return self.ours / self.baseline if self.baseline else self.ours

    @property
    def holds(self) -> bool:
        return self.figure <= self.limit

    def line(self) -> str:
        baseline = f" against {self.baseline:.4g} {self.unit}" if self.baseline else ""
        ratio = f": {self.figure:.2f} times" if self.baseline else ""
        limit = f"{self.limit:g} times" if self.baseline else f"{self.limit:g} {self.unit}"
        verdict = "holds" if self.holds else "EXCEEDED"
        note = f" ({self.note})" if self.note else ""
        return (
            f"{self.name}: {self.ours:.4g} {self.unit}{baseline}{ratio}, "
            f"limit {limit} {verdict}, spread {self.spread:.0%}{note}"
        )


def compare(
    name: str,
    ours: Callable[[], object],
    baseline: Callable[[], object],
    *,
    unit: str,
    per: float,
    limit: float,
    note: str = "",
) -> Measurement:
    """Compare the best of several rounds of each side; the rounds alternate.

    `per` converts the seconds of one call to the unit.
    """
    our_seconds, base_seconds = [], []
    for _ in range(ROUNDS):
        our_seconds.append(seconds(ours))
        base_seconds.append(seconds(baseline))
    best = min(our_seconds)
    spread = (max(our_seconds) - best) / best
    return Measurement(name, best * per, min(base_seconds) * per, unit, limit, spread, note)


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
