"""Definition of a study (a question, its cells and its report), and the table of all studies.

A study is a module that ends with `STUDY = Study(...)` and has a line in `STUDIES`. Another package
can add studies through entry points in the group `deniable.studies`; `simulate(study)` runs any
`Study` object. The engine reads the options, runs the cells anywhere and in any order, stores
finished cells, and writes the page, the figures, the table and the run record.

    options     option values, after their readers and `Study.check`            JSON values
    cell        parameters of one unit of work; no two cells are equal          strings and numbers
    row         one row of the result; all rows have the same keys      strings, numbers and None

`Study.run` must depend only on its cell and generator: it may run in another process or on another
machine, and it is skipped if the journal has the rows of its cell. Rows are returned in the order
of the cells. A cell should take at most a second, so that progress and the journal stay useful.

`deniable --help` must start fast, so this module does not import numpy or other heavy libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from deniable.shared.cli.command import EntryPoint, entry_points
from deniable.shared.errors import WrongUse
from deniable.simulations.engine.option import Option

if TYPE_CHECKING:
    import matplotlib.figure
    import numpy as np


SEED = 20240501  # the default root of all randomness

Options = Mapping[str, Any]  # Any: JSON values
Cell = Mapping[str, str | int | float]
Row = Mapping[str, str | int | float | None]
Run = Callable[[Cell, "np.random.Generator"], Sequence[Row]]


class Figure(NamedTuple):
    """A figure of the page. `name` is the name of its files.

    The caption describes it in one sentence. `draw` runs in the style of `figures.py`.
    """

    name: str
    caption: str
    draw: Callable[[], matplotlib.figure.Figure]


class Table(NamedTuple):
    """Table of the page, as rounded text. The CSV file has all rows and all digits."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Report:
    """Report of a study: the content of its page, figures and JSON."""

    findings: Sequence[str]  # two sentences, computed from the rows
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    method: Sequence[str] = ()  # paragraphs: how it was computed
    document: Mapping[str, Any] = field(default_factory=dict)  # extra keys of --json; Any: JSON


@dataclass(frozen=True)
class Study:
    """A question, and the code that answers it. The module's docstring describes each part."""

    name: str
    question: str  # the page's title: one sentence that anyone understands
    options: Sequence[Option]  # the engine adds --on, --out, --json and --seed
    cells: Callable[[Options], Sequence[Cell]]
    run: Run
    report: Callable[[Options, Sequence[Row]], Report]
    check: Callable[[dict[str, Any]], Options] = dict  # checks all options; raises WrongUse
    formulas: Sequence[tuple[str, str]] = ()  # (description, TeX): see `page.formula_svg`
    theory: str = ""  # formulas, proofs of limits and sources, as plain text
    where: str = "local"  # where cells run by default


STUDIES = {  # name: (module in `studies`, summary)
    "minimax": ("minimax", "the least possible error: on devices, on a server, without privacy"),
    "bit": ("bit", "a yes-or-no question: devices, a shuffler, and a trusted count"),
    "test": ("hypothesis_test", "people needed to distinguish two shares, in each model"),
    "mean": ("mean", "a bounded mean: local mechanisms against a trusted curator"),
    "histogram": ("histogram", "a choice among options: local mechanisms against noisy bins"),
    "vector": ("vector", "a mean of vectors: PrivUnit on devices against a trusted server"),
    "counts": ("counts", "many yes-or-no questions: one random question each, or noisy counts"),
    "select": ("selection", "the best of many options: by votes, or by conditions met"),
    "texts": ("texts", "texts that many people write, found without a list of texts"),
    "median": ("median", "a median or a centre: local searches against trusted servers"),
    "regression": ("regression", "slopes of a line and of a logistic regression, in each model"),
    "synthetic": ("synthetic", "tables of two attributes, and synthetic people made from them"),
    "survey": ("survey", "your own survey and population: intervals, people needed, attacks"),
    "attack": ("attack", "what attackers learn about one person, from counts and from reports"),
    "privacy": ("privacy", "trade-offs, profiles and losses of any release or mechanism"),
    "compose": ("composition", "many rounds: the total ε, by each composition theorem"),
    "repeat": ("repetition", "many rounds: what fresh, latched and two-stage noise reveal"),
    "year": ("survey.year", "a year of an app: rounds drawn in advance, or spent as they come"),
}
ENTRY_POINT_GROUP = "deniable.studies"


def summaries() -> dict[str, str]:
    """Return the summary of every installed study, by name; a built-in study wins a shared name."""
    ours = {name: summary for name, (_, summary) in STUDIES.items()}
    return ours | {point.name: f"custom study from {point.module}" for point in _other_studies()}


def load(name: str) -> Study:
    if name in STUDIES:
        study = import_module(f"deniable.simulations.studies.{STUDIES[name][0]}").STUDY
    elif points := [point for point in _other_studies() if point.name == name]:
        study = points[0].load()
    else:
        raise WrongUse(f"unknown study {name!r}; choose one of {', '.join(summaries())}")
    if not isinstance(study, Study):
        raise WrongUse(f"{name}: its entry point must be a Study, got {type(study).__name__}")
    return study


def _other_studies() -> list[EntryPoint]:
    return [point for point in entry_points(ENTRY_POINT_GROUP) if point.name not in STUDIES]
