"""The models of a choice among options, and how they look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

from deniable.simulations.engine import custom_mechanisms
from deniable.simulations.engine.comparison import SHUFFLED, Series, look

REPLACE = Series("central", "geometric-replace-one", "trusted, replace", look(1))
ADD = Series("central", "geometric-add-or-delete", "trusted, add", look(3))
BEST = Series("central", "best", "trusted, best", look(1))
SHOWN = (SHUFFLED, BEST, ADD)  # in figures and tables: `replace` is `best` almost everywhere
LOOKS = tuple(look(place) for place in (0, 2, 4, 5))
DASHES = ("-", "-.", "--", ":")  # of the second round of colours, of the third


def local_series(mechanisms: Sequence[str]) -> tuple[Series, ...]:
    """Those that were asked for."""
    looks = (
        replace(each, dash=dash) if round_ else each
        for round_, dash in enumerate(DASHES)
        for each in LOOKS
    )
    return tuple(
        Series("local", name, custom_mechanisms.label("choice", name), appearance)
        for name, appearance in zip(mechanisms, cycle(looks), strict=False)
    )
