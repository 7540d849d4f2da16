"""Rows as a frame of whichever library is installed, and as columns for it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from deniable.shared.errors import WrongUse
from deniable.simulations.frame.study import Row

MAKERS = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}


def frame(rows: Sequence[Row]) -> Any:  # Any: of a library that need not be installed
    for library, maker in MAKERS.items():
        if find_spec(library):
            return getattr(import_module(library), maker)(columns(rows))
    raise WrongUse(f"a frame needs one of {', '.join(MAKERS)}; run: pip install pandas")


def columns(rows: Sequence[Row]) -> dict[str, list[str | int | float | None]]:
    """A column is of one type: numbers become text where a text stands among them, like "inf"."""
    listed = {key: [row[key] for row in rows] for key in (rows[0] if rows else ())}
    return {
        key: [str(value) if value is not None else None for value in column]
        if any(isinstance(value, str) for value in column)
        else column
        for key, column in listed.items()
    }
