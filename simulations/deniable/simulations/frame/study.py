"""What a study is: a question, cells that are computed on their own, and a report that answers.

A study's module ends with one constant, `STUDY = Study(...)`, and `registry.py` knows its name; one
in another package is found through its entry point in the group `deniable.studies`, and one in hand
is run by `simulate(study)`. The frame does the rest: it reads the options, runs the cells anywhere
and in any order, keeps what is finished, and writes the page, the figures, the table and the run
record.

    options     what was asked for, as the readers and `Study.check` have it    what JSON can hold
    cell        the parameters of one piece of work, all different              texts and numbers
    row         one line of the result, with the same keys as the others        texts, numbers, None

`Study.run` computes from its cell and generator alone: it may run in another process, on another
machine, or not at all where a journal has its rows. Rows come back in the order of the cells.
A study of one cell is fine; a cell should take a second at most, for progress and for a journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deniable.simulations.frame.option import Option

if TYPE_CHECKING:
    import matplotlib.figure
    import numpy as np

SEED = 20240501  # the root of all randomness unless another is given

Options = Mapping[str, Any]  # Any: what JSON can hold, whichever the study's own options are
Cell = Mapping[str, str | int | float]
Row = Mapping[str, str | int | float | None]
Run = Callable[[Cell, "np.random.Generator"], Sequence[Row]]


@dataclass(frozen=True)
class Figure:
    """`draw` makes it anew, in the frame's style (`figures.py`); `name` becomes the file's name.
    The caption says in one sentence what a person sees."""

    name: str
    caption: str
    draw: Callable[[], matplotlib.figure.Figure]


@dataclass(frozen=True)
class Table:
    """What a person reads: texts, already rounded. The CSV has every row and digit."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Report:
    """What a study says: the page, the figures and the JSON are made of it."""

    findings: Sequence[str]  # two sentences, computed from the rows
    figures: Sequence[Figure]
    tables: Sequence[Table]
    method: Sequence[str]  # how it was computed, a paragraph each
    document: Mapping[str, Any]  # what --json prints; Any: each study has its own form


@dataclass(frozen=True)
class Study:
    """A question, and how it is answered. The module's docstring says what each part is given."""

    name: str
    question: str  # one sentence with a question mark, which anybody understands: the page's title
    options: Sequence[Option]  # its own only: the frame adds where, how and the seed
    cells: Callable[[Options], Sequence[Cell]]
    run: Run
    report: Callable[[Options, Sequence[Row]], Report]
    check: Callable[[dict[str, Any]], Options] = dict  # of all together; raises WrongUse
    formulas: Sequence[tuple[str, str]] = ()  # in words, and as `formulas.py` reads
    where: str = "local"  # where cells run unless it is said
