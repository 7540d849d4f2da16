"""Run a study's cells: seeded one by one, in any order, anywhere, going on where it stopped.

A cell's randomness comes from the root seed and from what the cell is, never from when or where it
runs: `SeedSequence(root, spawn_key=...)` with the first 128 bits of SHA-256 of its parameters. So
its numbers are the same in every order, on every back-end, and whatever else was asked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from deniable.server.work.map_merge import map_merge
from deniable.simulations.frame.journal import Journal
from deniable.simulations.frame.study import Cell, Row, Run, Study


def run_cells(
    study: Study,
    cells: Sequence[Cell],
    seed: int,
    where: str = "local",
    journal: Journal | None = None,
    finished: Callable[[int], None] = lambda _count: None,
) -> list[Row]:
    """All rows in the order of the cells. `finished` is called with how many are done."""
    known = {cell_text(cell): rows for cell, rows in journal.entries} if journal else {}
    missing = [cell for cell in cells if cell_text(cell) not in known]
    done = len(cells) - len(missing)

    def arrived(number: int, rows: Sequence[Row]) -> None:
        nonlocal done
        done += 1
        if journal:
            journal.add(missing[number], rows)
        finished(done)

    finished(done)
    fresh = map_merge(
        partial(run_one, study.name, study.run, seed),
        missing,
        _append,
        list[Sequence[Row]](),
        where,
        arrived,
    )
    known |= {cell_text(cell): rows for cell, rows in zip(missing, fresh, strict=True)}
    return [row for cell in cells for row in known[cell_text(cell)]]


def run_one(name: str, run: Run, seed: int, cell: Cell) -> list[Row]:
    """Every process imports `run` from its module. Rows come back as they would from a journal."""
    rows = run(cell, cell_generator(name, seed, cell))
    plain: list[Row] = json.loads(json.dumps(list(rows), default=lambda number: number.item()))
    return plain


def cell_generator(name: str, seed: int, cell: Cell) -> np.random.Generator:
    digest = hashlib.sha256(f"{name} {cell_text(cell)}".encode()).digest()
    key = tuple(int(word) for word in np.frombuffer(digest[:16], "<u4"))
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


def cell_text(cell: Cell) -> str:
    return json.dumps(cell, sort_keys=True)


def _append(all_rows: list[Sequence[Row]], rows: Sequence[Row]) -> list[Sequence[Row]]:
    all_rows.append(rows)
    return all_rows
