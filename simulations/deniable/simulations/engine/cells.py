"""Run of a study's cells, each with its own seed, and the journal of finished cells.

The generator of a cell is seeded with the root seed and the first 128 bits of the SHA-256 of the
cell's parameters, as `SeedSequence(root, spawn_key=...)`. Its numbers therefore depend neither on
the order of the cells, nor on the process, nor on other cells. Each estimator has its own `branch`
of this generator, seeded with its name, so the list of mechanisms is not part of the seed.

The journal has one line of JSON per finished cell, forced to disk, so that an interrupted run can
resume. Its first line states the study, seed, options and program. If any of them differs from
this run, the journal starts over.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from deniable.server.parallel import map_merge
from deniable.shared.errors import WrongUse, quantity
from deniable.simulations.engine.study import Cell, Options, Row, Run, Study

JOURNAL_FILE = "cells.jsonl"
PARTS = ("client", "server", "shared", "simulations")  # studies call code of all four


def run_cells(
    study: Study,
    cells: Sequence[Cell],
    seed: int,
    where: str = "local",
    journal: Journal | None = None,
    finished: Callable[[int], None] = lambda _count: None,
) -> list[Row]:
    """Return all rows in the order of the cells; call `finished` with the number of cells done."""
    known = {_cell_text(cell): rows for cell, rows in journal.entries} if journal else {}
    missing = [cell for cell in cells if _cell_text(cell) not in known]
    done = len(cells) - len(missing)

    def arrived(number: int, rows: Sequence[Row]) -> None:
        nonlocal done
        done += 1
        known[_cell_text(missing[number])] = rows
        if journal:
            journal.add(missing[number], rows)
        finished(done)

    finished(done)
    run_cell = partial(_run_cell, study.name, study.run, seed)
    map_merge(run_cell, missing, lambda nothing, _rows: nothing, None, where, arrived)
    return [row for cell in cells for row in known[_cell_text(cell)]]


def cell_generator(name: str, seed: int, cell: Cell) -> np.random.Generator:
    parameters = {key: value for key, value in cell.items() if key != "mechanisms"}
    return _seeded(seed, _spawn_key(f"{name} {_cell_text(parameters)}"))


def branch(generator: np.random.Generator, name: str) -> np.random.Generator:
    """Return a generator for this name, independent of what else is drawn from `generator`."""
    seeds: Any = generator.bit_generator.seed_seq  # Any: numpy's interface does not declare entropy
    return _seeded(seeds.entropy, (*seeds.spawn_key, *_spawn_key(name)))


def _seeded(seed: int, spawn_key: tuple[int, ...]) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=spawn_key)))


def _spawn_key(text: str) -> tuple[int, ...]:
    digest = hashlib.sha256(text.encode()).digest()
    return tuple(int(word) for word in np.frombuffer(digest[:16], "<u4"))


def _run_cell(name: str, run: Run, seed: int, cell: Cell) -> list[Row]:
    """Return the rows as a journal would return them. Each process imports `run` by name."""
    rows = run(cell, cell_generator(name, seed, cell))
    plain: list[Row] = json.loads(json.dumps(list(rows), default=lambda number: number.item()))
    return plain


def _cell_text(cell: Cell) -> str:
    return json.dumps(cell, sort_keys=True)


# Journal


@contextmanager
def open_journal(
    folder: Path | None, study: Study, seed: int, options: Options
) -> Iterator[Journal | None]:
    """Open the journal in this folder, creating the folder if needed; yield None without one."""
    if folder is None:
        yield None
        return
    header = {"study": study.name, "seed": seed, "options": options}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        journal = Journal(folder / JOURNAL_FILE, header | {"program": _program_digest(study)})
    except OSError as error:
        raise WrongUse(f"--out {folder} cannot be written: {error.strerror}") from None
    if journal.started_over:
        message = f"{folder} has a run with other options, seed or program: starting over"
        print(message, file=sys.stderr)
    elif journal.entries:
        print(
            f"resuming: {quantity(len(journal.entries), 'cell is', 'cells are')} already finished",
            file=sys.stderr,
        )
    try:
        yield journal
    finally:
        journal.close()


class Journal:
    """File of finished cells; `entries` are those of an earlier run.

    `started_over` is true if the file was the journal of another run.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:  # Any: JSON values
        header = json.loads(json.dumps(header))
        lines = _whole_lines(path)
        self.started_over = bool(lines) and lines[0] != header
        if not lines or self.started_over:
            lines = [header]
        self.entries: list[tuple[Cell, Sequence[Row]]] = [
            (line["cell"], line["rows"]) for line in lines[1:]
        ]
        whole = path.with_suffix(".new")
        whole.write_text("".join(_line(line) for line in lines), "utf-8")
        whole.replace(path)
        self._file = path.open("a", encoding="utf-8")

    def add(self, cell: Cell, rows: Sequence[Row]) -> None:
        self._file.write(_line({"cell": cell, "rows": list(rows)}))
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def _program_digest(study: Study) -> str:
    """Return a digest of all source files that could change a cell's numbers."""
    digest = hashlib.sha256()
    roots = [import_module(f"deniable.{part}").__path__[0] for part in PARTS]
    sources = [path for root in roots for path in sorted(Path(root).rglob("*.py"))]
    for path in (*sources, Path(inspect.getfile(study.run))):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _line(document: Mapping[str, Any]) -> str:  # Any: JSON values
    return json.dumps(document, allow_nan=False) + "\n"


def _whole_lines(path: Path) -> list[Any]:
    """Return the lines before the first one that was not written completely."""
    lines: list[Any] = []
    if path.exists():
        for text in path.read_text("utf-8").splitlines():
            try:
                lines.append(json.loads(text))
            except ValueError:
                break
    return lines
