"""The models of tables of two attributes, and how they look."""

from __future__ import annotations

from deniable.simulations.engine.comparison import Series, look

LOCAL = Series("local", "characters", "devices, characters", look(0))
LOCAL_PEOPLE = Series("local", "synthetic", "devices, synthetic people", look(5))
CELLS = Series("central", "cells", "trusted, cells", look(1))
CENTRAL = Series("central", "characters", "trusted, characters", look(3))
CENTRAL_PEOPLE = Series("central", "synthetic", "trusted, synthetic people", look(4))
BLR = Series("central", "blr", "trusted, BLR's guarantee", look(1))
NONE = Series("none", "shares", "no privacy", look(2))
FEW = 12  # sets of synthetic people for each line
