"""Definition of a study (a question, its cells and its report), and the table of all studies.

A study is one module that ends with `STUDY = Study(...)`, and one line in `STUDIES`. A study in
another package is found through its entry point in the group `deniable.studies`; `simulate(study)`
runs any other. The engine reads the options, runs the cells anywhere and in any order, keeps
finished ones, and writes the page, the figures, the table and the run record.

    options     values of the options, after their readers and `Study.check`    what JSON can hold
    cell        parameters of one piece of work; no two cells are the same      texts and numbers
    row         one line of the result; all rows have the same keys             texts, numbers, None

`Study.run` computes from its cell and generator alone: it may run in another process, on another
machine, or not at all where a journal has its rows. Rows come back in the order of the cells.
One cell is enough for a study; a cell should take at most a second, for progress and the journal.

`deniable --help` must not wait for numpy, so this module imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from deniable.shared.cli.command import EntryPoint, entry_points
from deniable.shared.errors import WrongUse
from deniable.simulations.engine.option import Option

if TYPE_CHECKING:
    import matplotlib.figure
    import numpy as np


SEED = 20240501  # the default root of all randomness

Options = Mapping[str, Any]  # Any: what JSON can hold
Cell = Mapping[str, str | int | float]
Row = Mapping[str, str | int | float | None]
Run = Callable[[Cell, "np.random.Generator"], Sequence[Row]]


@dataclass(frozen=True)
class Figure:
    """A figure of the page. `name` is the name of its files.

    The caption describes it in one sentence. `draw` runs in the style of `figures.py`.
    """

    name: str
    caption: str
    draw: Callable[[], matplotlib.figure.Figure]


@dataclass(frozen=True)
class Table:
    """A table of the page, as rounded texts. The CSV has every row and digit."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Report:
    """Answer of a study, from which the page, the figures and the JSON are made."""

    findings: Sequence[str]  # two sentences, computed from the rows
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    method: Sequence[str] = ()  # paragraphs: how it was computed
    document: Mapping[str, Any] = field(default_factory=dict)  # more keys for --json; Any: JSON


@dataclass(frozen=True)
class Study:
    """A question, and the code that answers it. The module's docstring describes each part."""

    name: str
    question: str  # the page's title: one sentence that anyone understands
    options: Sequence[Option]  # its own; the engine adds --on, --out, --json and --seed
    cells: Callable[[Options], Sequence[Cell]]
    run: Run
    report: Callable[[Options, Sequence[Row]], Report]
    check: Callable[[dict[str, Any]], Options] = dict  # of all options; raises WrongUse
    formulas: Sequence[tuple[str, str]] = ()  # (words, TeX): see `figures.formula_svg`
    where: str = "local"  # where cells run by default


STUDIES = {  # name: (module in `studies`, summary)
    "minimax": ("minimax", "what privacy costs at best: on devices, on a server, without it"),
    "bit": ("bit", "a yes-or-no question: randomized response against a trusted count"),
    "test": ("hypothesis_test", "people needed to distinguish two shares, in each model"),
    "mean": ("mean", "a bounded mean: local mechanisms against a trusted curator"),
    "histogram": ("histogram", "a choice among options: local mechanisms against noisy bins"),
    "mechanisms": ("mechanisms", "every mechanism against the least possible error, and its cost"),
    "vector": ("vector", "a mean of vectors: PrivUnit on devices against a trusted server"),
    "counts": ("counts", "many counts of everyone: one drawn question against noisy counts"),
    "select": ("selection", "the best of many: votes, and conditions as in model selection"),
    "median": ("median", "a median: local search against the exponential mechanism"),
    "regression": ("regression", "slopes of a line and of a logistic regression, in each model"),
    "subsample": ("subsample_aggregate", "a centre by subsample and aggregate, or by a search"),
    "synthetic": ("synthetic", "tables of two attributes, and people made from them"),
    "survey": ("survey", "your own survey and population: intervals, people needed, attacks"),
    "shuffle": ("shuffled_count", "what is gained by a shuffler between devices and the server"),
    "attack": ("attack", "what attackers learn about one person, from counts and from reports"),
    "compose": ("composition", "many rounds: their total ε, by every account"),
    "repeat": ("repetition", "many rounds: what fresh, latched and two-stage noise give away"),
}
ENTRY_POINT_GROUP = "deniable.studies"


def summaries() -> dict[str, str]:
    """Return the summary of every installed study by its name. Ours come first and win a name."""
    ours = {name: summary for name, (_, summary) in STUDIES.items()}
    return ours | {point.name: f"own study, {point.module}" for point in _other_studies()}


def load(name: str) -> Study:
    if name in STUDIES:
        study = import_module(f"deniable.simulations.studies.{STUDIES[name][0]}").STUDY
    elif points := [point for point in _other_studies() if point.name == name]:
        study = points[0].load()
    else:
        raise WrongUse(f"there is no study {name!r}; there are {', '.join(summaries())}")
    if not isinstance(study, Study):
        raise WrongUse(f"{name}: its entry point must be a Study, got {type(study).__name__}")
    return study


def _other_studies() -> list[EntryPoint]:
    return [point for point in entry_points(ENTRY_POINT_GROUP) if point.name not in STUDIES]
