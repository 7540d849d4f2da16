"""Reports in a uniformly random order, drawn from the kernel, whatever fits into memory.

Each report goes to a random part first, on the disk, and then each part is permuted by itself: all
orders are equally probable (Rao 1961; Sandelius 1962), up to a bias of 2^-50.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

Reports = npt.NDArray[np.uint8]  # a row of bytes for each report


def shuffled(chunks: Iterable[Reports], size: int, parts: int, folder: Path) -> Iterator[Reports]:
    """Part by part; one of few reports may be empty. Uses files in this folder and removes them."""
    for rows in chunks:
        _scatter(rows, parts, folder)
    for number in range(parts):
        spilled = _spilled(folder, number)
        content = spilled.read_bytes() if spilled.exists() else b""
        spilled.unlink(missing_ok=True)
        yield permuted(np.frombuffer(content, np.uint8).reshape(-1, size))


def permuted(rows: Reports) -> Reports:
    return rows[np.argsort(_random(len(rows)))]


def _scatter(rows: Reports, parts: int, folder: Path) -> None:
    where = (_random(len(rows)) % np.uint64(parts)).astype(np.uint32)
    order = np.argsort(where, kind="stable")
    ends = np.searchsorted(where[order], np.arange(parts), side="right")
    for number, chosen in enumerate(np.split(rows[order], ends[:-1])):
        if len(chosen):
            with _spilled(folder, number).open("ab") as file:
                file.write(chosen.tobytes())


def _random(count: int) -> npt.NDArray[np.uint64]:
    return np.frombuffer(os.urandom(8 * count), np.uint64)


def _spilled(folder: Path, number: int) -> Path:
    return folder / f"{number}.spilled"
