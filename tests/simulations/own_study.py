"""Custom study: the share of people who must lie to be as well protected as by a coin flip.

The documents link to it. It runs by its name from the command line, in a pool and on Dask.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations import Figure, Option, Report, Study
from deniable.simulations.engine import option
from deniable.simulations.engine.estimators import Rows, grid
from deniable.simulations.engine.figures import LOOKS, Panel, curve, draw
from deniable.simulations.engine.study import Cell, Options, Row


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    exact = RandomizedResponse(Epsilon(str(cell["epsilon"]))).lie / ONE
    people = int(cell["people"])
    return [{**cell, "exact": exact, "measured": generator.binomial(people, exact) / people}]


def report(options: Options, rows: Sequence[Row]) -> Report:
    words = f"At ε {options['epsilon'][0]}, {rows[0]['exact']:.1%} of the people lie."
    shown = Rows(rows).at(people=options["people"][0])
    lies = [
        curve(shown, LOOKS[0], "epsilon", "exact", "by formula", "line"),
        curve(shown, LOOKS[0], "epsilon", "measured", "simulated", "points"),
    ]
    panel = Panel("", lies, "ε", "share who lie")
    return Report([words], [Figure("liars", "Who lies, against ε.", lambda: draw([panel]))])


OPTIONS: list[Option] = [option.epsilons("1,2"), option.people("1e3,1e6")]
STUDY = Study("liars", "How many people lie?", OPTIONS, grid("epsilon", "people"), run, report)
