"""The journal of a study's finished cells: what an interrupted run does not have to do again.

One line of JSON for each cell, forced to disk; the first line says what is being computed. A
journal of something else - other arguments, seed or program - is begun anew.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from deniable.shared.errors import WrongUse
from deniable.simulations.frame.study import Cell, Options, Row, Study

NAME = "cells.jsonl"
PARTS = ("client", "server", "shared", "simulations")  # studies run the real estimators


@contextmanager
def open_journal(
    folder: Path | None, study: Study, seed: int, options: Options
) -> Iterator[Journal | None]:
    """The journal in this folder, which is made; None where there is no folder."""
    if folder is None:
        yield None
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        header = {
            "study": study.name,
            "seed": seed,
            "options": options,
            "program": program_digest(study),
        }
        journal = Journal(folder / NAME, header)
    except OSError as error:
        raise WrongUse(f"--out {folder} cannot be written: {error.strerror}") from None
    if journal.began_anew:
        print(
            f"{folder} holds another run (arguments, seed or program): started anew",
            file=sys.stderr,
        )
    elif journal.entries:
        print(f"going on: {len(journal.entries)} cells were finished before", file=sys.stderr)
    try:
        yield journal
    finally:
        journal.close()


def program_digest(study: Study) -> str:
    """Of all that a cell's numbers may depend on: every source file of the project, and the own
    study's."""
    digest = hashlib.sha256()
    for path in (*_sources(), Path(inspect.getfile(study.run))):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _sources() -> Iterator[Path]:
    for part in PARTS:
        (root,) = import_module(f"deniable.{part}").__path__
        yield from sorted(Path(root).rglob("*.py"))


class Journal:
    """`entries` are the cells that an earlier run has finished; `began_anew` says that there was
    a journal, but of something else."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:  # Any: whatever JSON holds
        header = json.loads(json.dumps(header))
        lines = _whole_lines(path)
        self.began_anew = bool(lines) and lines[0] != header
        if not lines or self.began_anew:
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


def _line(document: Mapping[str, Any]) -> str:  # Any: whatever JSON holds
    return json.dumps(document, allow_nan=False) + "\n"


def _whole_lines(path: Path) -> list[Any]:
    """The lines up to the first that was not written to its end."""
    lines: list[Any] = []
    if path.exists():
        for text in path.read_text("utf-8").splitlines():
            try:
                lines.append(json.loads(text))
            except ValueError:
                break
    return lines
