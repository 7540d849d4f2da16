"""Where in the range people stand: named populations, and numbers of one's own.

Numbers of one's own are shares of the range, 0 to 1, and are withheld: what is written has their
digest alone. Each counts as often as it stands there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from deniable.shared.errors import WrongUse
from deniable.simulations.engine import option
from deniable.simulations.engine.redaction import Redacted, content, digest
from deniable.simulations.population import whole_people

TENTHS = tuple(tenth / 10 for tenth in range(11))
NAMED = {  # how many people in each hundred stand at 0, 0.1, ..., 1 of the range
    "low": (30, 25, 16, 11, 7, 4, 3, 2, 1, 1, 0),
    "uniform": (9, 9, 9, 9, 9, 10, 9, 9, 9, 9, 9),
    "middle": (0, 0, 2, 8, 20, 40, 20, 8, 2, 0, 0),
    "ends": (50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 50),
}
GRID = 1_000  # own numbers are put on so many steps of the range


def read(name: str, given: Any) -> str:  # Any: a name, or numbers
    if isinstance(given, str):
        return str(option.one_of(NAMED)(name, given))
    numbers = np.asarray(given, dtype=float).ravel()
    if not len(numbers) or not np.isfinite(numbers).all() or numbers.min() < 0 or numbers.max() > 1:
        raise WrongUse(
            f"{name}: numbers from 0 to 1, as shares of the range: (x - low) / (high - low)"
        )
    held = Counter(np.rint(numbers * GRID).astype(int).tolist())
    text = json.dumps([[place / GRID, count] for place, count in sorted(held.items())])
    return Redacted(digest(text.encode()), text)


def people_at(population: object, people: int) -> tuple[Sequence[float], list[int]]:
    """The places, and how many of so many people stand at each."""
    if named := NAMED.get(str(population)):
        return TENTHS, whole_people(named, people).tolist()
    places, weights = zip(*json.loads(content(population)), strict=True)
    return places, whole_people(weights, people).tolist()


def said(population: str) -> str:
    if population in NAMED:
        return (
            f"The population is {population!r}: of each hundred people, {NAMED[population]} stand "
            "at 0, 0.1, ..., 1 of the range."
        )
    return "The population is one of the reader's own, of which only a digest is written."
