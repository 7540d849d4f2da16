"""The models of a bounded mean, and how they look."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from deniable.simulations.engine import custom_mechanisms
from deniable.simulations.engine.comparison import Series, look

CENTRAL_STEPS = 1_000
CENTRAL = Series("central", "laplace", "trusted server", look(5))
LOOKS = tuple(look(place) for place in range(5))


def series_of(mechanisms: Sequence[str]) -> tuple[Series, ...]:
    """Those that were asked for, and the trusted server."""
    local = (
        Series("local", name, custom_mechanisms.label("number", name), appearance)
        for name, appearance in zip(mechanisms, cycle(LOOKS), strict=False)
    )
    return (*local, CENTRAL)
