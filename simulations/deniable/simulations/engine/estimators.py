"""Building blocks of a study: estimators, their risks and limits, and the rows made from them.

In each `Case`, which is a cell with random generators, a study computes the `Risk` of every
`Estimator`: its mean squared error by formula, and simulated errors. There are two targets. For
*these people*, only the noise is random. For *the population* from which they are drawn, the error
includes the sampling error.

    exact, exact_drawn          mean squared error by formula, for these people and the population
    measured, measured_drawn    mean squared simulated error, with its Monte-Carlo standard error
                                (`error`, `error_drawn`); null if nothing is simulated
    limit, limit_drawn          lower bound of the largest error of any estimator; null if unknown

`Case.generator` seeds a generator from the cell and the estimator's name, so an estimator's numbers
do not change when a study gets another estimator. Estimators that must see the same people share
the generator of the cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.engine.cells import branch
from deniable.simulations.engine.study import Cell, Options, Row

if TYPE_CHECKING:
    from deniable.simulations.engine.figures import Look

Array = NDArray[np.floating]
Columns = Mapping[str, str | int | float | None]
BELOW = 1 - 1e-12  # factor that keeps a limit below errors that equal it, despite rounding
Z95 = 1.959963984540054  # standard deviations that contain 95 % of a normal distribution


@dataclass(frozen=True)
class Estimator:
    """Mechanism in a model, with its label and look in figures.

    `same_promise` is false if the guarantee is weaker than the devices' ε because it has a δ or
    another definition of neighbours.
    """

    model: str
    name: str
    label: str
    look: Look
    same_promise: bool = True


@dataclass(frozen=True)
class Risk:
    """Mean squared error of one estimator in one case, by formula and as simulated errors.

    Errors have one row per repetition; squared errors within a row are averaged. `control` has a
    number with mean zero for each repetition, which is subtracted from its squared error to reduce
    the Monte-Carlo error. `columns` are added to the row and override its other columns.
    """

    exact: float | None
    errors: Array | None = None
    exact_drawn: float | None = None
    errors_drawn: Array | None = None
    columns: Columns = field(default_factory=dict)
    control: Array | float = 0.0


class Case:
    """Cell whose values are attributes, with a random generator for each estimator."""

    def __init__(self, cell: Cell, generator: Generator) -> None:
        self.cell = cell
        self.epsilon = Epsilon(str(cell["epsilon"]))
        self._root = generator
        self._generators: dict[Estimator, Generator] = {}

    def __getattr__(self, name: str) -> Any:  # Any: JSON values
        try:
            return self.__dict__["cell"][name]
        except KeyError:
            raise AttributeError(name) from None

    def generator(self, one: Estimator) -> Generator:
        """Return the generator of this estimator: the same object on every call."""
        if one not in self._generators:
            self._generators[one] = branch(self._root, f"{one.model} {one.name}")
        return self._generators[one]

    def rows(
        self,
        keys: Sequence[str],
        risks: Mapping[Estimator, Risk],
        limits: Mapping[str, Columns] = MappingProxyType({}),
        sampling: float | None = None,
    ) -> list[Row]:
        """Return the row of each estimator, with the limits of its model and these cell values.

        `sampling` is the squared error that drawing people from the population adds to an exact
        error. A trusted server can run local mechanisms too: if one has less error than every
        central estimator with the same promise, it gets an additional row in the central model.
        """
        parameters = {key: self.cell[key] for key in keys}
        rows = [
            row_of(one, parameters, limits.get(one.model, {}), risk, sampling)
            for one, risk in risks.items()
        ]
        trusted = [
            risk.exact
            for one, risk in risks.items()
            if one.model == "central" and one.same_promise and risk.exact is not None
        ]
        curator = dict.fromkeys(limits.get("local", {})) | dict(limits.get("central", {}))
        rows += [
            {**row, "model": "central", **curator}
            for row in rows
            if row["model"] == "local"
            and row["exact"] is not None
            and row["exact"] < min(trusted, default=0.0)
        ]
        columns = dict.fromkeys(key for row in rows for key in row)
        return [{key: row.get(key) for key in columns} for row in rows]


def row_of(
    estimator: Estimator, keys: Columns, limits: Columns, risk: Risk, sampling: float | None = None
) -> dict[str, Any]:  # Any: JSON values
    """Return the row of an estimator; `keys` are values of its cell."""
    measured, error = mean_square(risk.errors, risk.control)
    measured_drawn, error_drawn = mean_square(risk.errors_drawn)
    exact_drawn = risk.exact_drawn
    if exact_drawn is None and risk.exact is not None and sampling is not None:
        exact_drawn = risk.exact + sampling
    return {
        "model": estimator.model,
        "estimator": estimator.name,
        **keys,
        "exact": risk.exact,
        "measured": measured,
        "error": error,
        "repetitions": None if risk.errors is None else len(risk.errors),
        "exact_drawn": exact_drawn,
        "measured_drawn": measured_drawn,
        "error_drawn": error_drawn,
        "limit": None,
        "limit_drawn": None,
        **limits,
        **risk.columns,
    }


def mean_square(
    errors: Array | None, control: Array | float = 0.0
) -> tuple[float | None, float | None]:
    """Return the mean squared error and its Monte-Carlo standard error."""
    if errors is None:
        return None, None
    squares = (errors**2 if errors.ndim == 1 else (errors**2).mean(axis=1)) - control
    return float(squares.mean()), float(squares.std(ddof=1) / math.sqrt(len(squares)))


# Cells from options


def sweep(options: Options, /, *names: str, **axes: Sequence[Any]) -> list[Cell]:
    """Return a cell for each combination of values of the named options and further axes.

    Every cell also has all options with a single value. Any: JSON values.

    >>> sweep({"epsilon": ["1", "2"], "share": 0.3}, "epsilon", question=["votes"])[1]
    {'share': 0.3, 'epsilon': '2', 'question': 'votes'}
    """
    axes = {name: options[name] for name in names} | axes
    return [
        _single(options) | dict(zip(axes, values, strict=True))
        for values in product(*axes.values())
    ]


def grid(*names: str) -> Callable[[Options], list[Cell]]:
    """Return a `cells` function for all combinations of these options."""
    return lambda options: sweep(options, *names)


def cross(first: str, second: str) -> Callable[[Options], list[Cell]]:
    """Return a `cells` function that varies one of two options at a time, for each ε.

    While one option takes all its values, the other has its middle value.
    """

    def cells(options: Options) -> list[Cell]:
        middles = middle(options[first]), middle(options[second])
        pairs = [(value, middles[1]) for value in options[first]]
        pairs += [(middles[0], value) for value in options[second] if value != middles[1]]
        return [
            {**_single(options), "epsilon": epsilon, first: one, second: other}
            for epsilon in options["epsilon"]
            for one, other in pairs
        ]

    return cells


def _single(options: Options) -> dict[str, Any]:  # Any: JSON values
    """Return the options with a single value; a list of mechanisms becomes one string."""
    lists = {"mechanisms": ",".join(options["mechanisms"])} if "mechanisms" in options else {}
    return {key: value for key, value in options.items() if not isinstance(value, list)} | lists


def middle(values: Sequence[Any]) -> Any:
    """Return the middle value, for a figure that can show only one value. Any: any type."""
    return values[(len(values) - 1) // 2]


# Rows


class Target(NamedTuple):
    """Target of an estimate: its label and the names of its columns."""

    label: str
    exact: str = "exact"
    measured: str = "measured"
    error: str = "error"
    limit: str = "limit"


THESE = Target("these people (noise alone)")
DRAWN = Target(
    "the population they are drawn from",
    *("exact_drawn", "measured_drawn", "error_drawn", "limit_drawn"),
)
BOTH = (THESE, DRAWN)


class Unit(NamedTuple):
    """Unit of displayed errors: the label of an axis, and a factor for standard errors."""

    words: str
    factor: float

    def of(self, target: Target) -> Callable[[Row], float | None]:
        """Return a function from a row to its error by formula, in this unit."""
        return root(target.exact, self.factor)


POINTS = Unit("points (1.96 standard errors)", 100 * Z95)
RANGE_PERCENT = Unit("% of the range (1.96 standard errors)", 100 * Z95)
Value = str | Callable[[Row], float | None]


def value_of(row: Row, key: Value) -> float | None:
    """Return the number in a column, or the result of a function of the row; None if missing."""
    found = key(row) if callable(key) else row[key]
    return None if found is None else float(found)


def number(row: Row, key: Value) -> float:
    value = value_of(row, key)
    assert value is not None, key
    return value


def root(key: str, scale: float = 1.0) -> Callable[[Row], float | None]:
    """Return a function from a row to the square root of a column, times `scale`."""
    return lambda row: None if row[key] is None else scale * math.sqrt(number(row, key))


class Rows(tuple[Row, ...]):
    """Rows of a study, with methods that select and compare them."""

    __slots__ = ()

    def at(self, **wanted: object) -> Rows:
        """Return the rows in which these columns have these values."""
        return Rows(r for r in self if all(r[key] == value for key, value in wanted.items()))

    def of(self, estimator: Estimator) -> Rows:
        return self.at(model=estimator.model, estimator=estimator.name)

    def one(self, estimator: Estimator) -> Row:
        (row,) = self.of(estimator)
        return row

    def best(self, model: str, key: str = "exact") -> Row:
        """Return the row with the least error in this model."""
        known = (row for row in self.at(model=model) if row[key] is not None)
        return min(known, key=lambda row: number(row, key))

    def price(self, one: Estimator, other: Estimator, key: str = "exact") -> float:
        """Return the squared error of the first estimator divided by that of the other."""
        return number(self.one(one), key) / number(self.one(other), key)

    def groups(self, *keys: str) -> dict[tuple[object, ...], Rows]:
        """Group the rows by their values in these columns, in order of first appearance."""
        found: dict[tuple[object, ...], list[Row]] = {}
        for row in self:
            found.setdefault(tuple(row[key] for key in keys), []).append(row)
        return {values: Rows(rows) for values, rows in found.items()}
