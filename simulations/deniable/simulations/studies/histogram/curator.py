"""What a curator does best: noisy bins, or what devices do."""

from __future__ import annotations

from collections.abc import Sequence

from deniable.simulations.engine import comparison
from deniable.simulations.engine.comparison import number
from deniable.simulations.engine.study import Row
from deniable.simulations.studies.histogram.series import ADD, BEST, REPLACE


def run_by_the_curator(rows: Sequence[Row]) -> list[Row]:
    """The best local mechanism, where a curator who runs it does better than with noisy bins."""
    bins = comparison.one(rows, mechanism=REPLACE.mechanism)
    local = min(comparison.pick(rows, model="local"), key=lambda row: number(row, "exact"))
    better = number(local, "exact") < number(bins, "exact")
    return [{**local, "model": "central", "limit": None, "limit_ratio": None}] if better else []


def with_best(rows: Sequence[Row]) -> list[Row]:
    """And for each cell the best of what a curator can do at this ε."""
    best: dict[tuple[object, ...], Row] = {}
    for row in rows:
        if row["model"] == "central" and row["mechanism"] != ADD.mechanism:
            cell = tuple(row[key] for key in ("epsilon", "people", "options"))
            best[cell] = min(best.get(cell, row), row, key=lambda r: number(r, "exact"))
    return [*rows, *({**row, "mechanism": BEST.mechanism} for row in best.values())]
