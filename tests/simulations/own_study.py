"""A study of one's own: the share of people who would have to lie to be as safe as a coin is.

It is what the documents point to: run by its name from the command line, in a pool and on Dask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations import Figure, Option, Report, Study
from deniable.simulations.engine import option
from deniable.simulations.engine.comparison import number
from deniable.simulations.engine.figures import new_figure
from deniable.simulations.engine.study import Cell, Options, Row

if TYPE_CHECKING:
    import matplotlib.figure


def cells(options: Options) -> Sequence[Cell]:
    return [{"epsilon": e, "people": n} for e in options["epsilon"] for n in options["people"]]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    exact = RandomizedResponse(Epsilon(str(cell["epsilon"]))).lie / ONE
    people = int(cell["people"])
    return [{**cell, "exact": exact, "measured": generator.binomial(people, exact) / people}]


def report(options: Options, rows: Sequence[Row]) -> Report:
    words = f"At ε {options['epsilon'][0]}, {rows[0]['exact']:.1%} of the people lie."
    figure = Figure("liars", "Who lies, against ε.", lambda: draw(rows))
    return Report([words], [figure], [], [], {"rows": [dict(row) for row in rows]})


def draw(rows: Sequence[Row]) -> matplotlib.figure.Figure:
    figure = new_figure()
    figure.subplots().plot([str(r["epsilon"]) for r in rows], [number(r, "exact") for r in rows])
    return figure


OPTIONS: list[Option] = [option.epsilons("1,2"), option.people("1e3,1e6")]
STUDY = Study("liars", "How many people lie?", OPTIONS, cells, run, report)
