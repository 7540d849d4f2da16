"""Sentences, formatted numbers and tables for the page of a study, made from its rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from deniable.simulations.engine.estimators import (
    BOTH,
    POINTS,
    THESE,
    Estimator,
    Rows,
    Target,
    Unit,
    number,
)
from deniable.simulations.engine.study import Row, Table

TRUST = "needs n honest people and an honest shuffler"
TWO_TARGETS = (
    "Errors about 'these people' come from the noise alone. Errors about 'the population' also "
    "include the sampling error, because the people are a random sample of it."
)


def paragraphs(text: str) -> list[str]:
    """Split a text at blank lines, and return each paragraph as one line."""
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip()]


def figure(value: float) -> str:
    """Return a number with three digits, without an exponent unless it is very small.

    >>> figure(0.012345), figure(1234567.0), figure(1.5e-9)
    ('0.0123', '1,230,000', '1.5e-09')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < 1e-4:
        return f"{value:.3g}"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{round(value, digits):,.{max(0, digits)}f}"


def percent(value: object) -> str:
    """Return a probability in percent; only certainty is shown as 100 %.

    >>> percent(0.73105), percent(0.99999), percent(1.0)
    ('73.1 %', '> 99.9 %', '100.0 %')
    """
    assert isinstance(value, (int, float))
    text = f"{100 * value:.1f}"
    return f"{'> 99.9' if text == '100.0' and value < 1 else text} %"


def listed(texts: Sequence[str]) -> str:
    """Join texts with commas and "and".

    >>> listed(["4"]), listed(["16", "64", "256"])
    ('4', '16, 64 and 256')
    """
    return " and ".join(part for part in (", ".join(texts[:-1]), texts[-1]) if part)


def margin(text: str) -> str:
    """Format a margin of error, or the error of a simulation; no other study prints a "±"."""
    return f"± {text}"


def with_error(measured: str, error: str) -> str:
    return f"{measured} {margin(error)}"


def plus_minus(row: Row, unit: Unit = POINTS, target: Target = THESE) -> str:
    """Return the error by formula: by default, 1.96 standard errors in points."""
    return margin(figure(number(row, unit.of(target))))


def worst_deviation(rows: Sequence[Row]) -> float:
    """Return the largest difference of a measured error from its formula, in Monte-Carlo errors."""
    known = [row for row in rows if row["measured"] is not None and row["error"]]
    values = ([number(row, key) for key in ("measured", "exact", "error")] for row in known)
    return max((abs(measured - exact) / error for measured, exact, error in values), default=0.0)


def simulation_check(rows: Sequence[Row]) -> str:
    """Return a sentence that compares simulated errors with their formulas."""
    drawn = [row for row in rows if row["measured"] is not None]
    return (
        f"As a check, each row simulates {int(number(drawn[0], 'repetitions')):,} populations. In "
        f"{len(drawn):,} rows, the largest difference between a simulated mean squared error and "
        f"its formula is {worst_deviation(rows):.1f} Monte-Carlo standard errors."
    )


# Tables

Text = Callable[[Rows], str]
BY_PEOPLE = MappingProxyType({"ε": "epsilon", "people": "people"})


def table(title: str, rows: Rows, keys: Mapping[str, str], columns: Mapping[str, Text]) -> Table:
    """Return a table with a line for each group of rows that agree in the keys.

    `keys` maps the title of a column to a key of the rows; `columns` maps a title to a function
    from a group to its text.
    """
    lines = []
    for values, group in rows.groups(*keys.values()).items():
        first = [f"{v:g}" if isinstance(v, float) else _text(v) for v in values]
        lines.append([*first, *(text(group) for text in columns.values())])
    return Table(title, [*keys, *columns], lines)


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def column(
    estimator: Estimator, text: Callable[[Row], str] = lambda row: figure(number(row, "exact"))
) -> Text:
    """Return a column with the text of the estimator's row, or empty text if there is none."""
    return lambda group: "".join(text(row) for row in group.of(estimator)[:1])


def estimator_table(
    title: str,
    rows: Rows,
    estimators: Sequence[Estimator],
    text: Callable[[Row], str],
    keys: Mapping[str, str] = BY_PEOPLE,
    more: Mapping[str, Text] = MappingProxyType({}),
) -> Table:
    """Return a table with the text of each estimator's row, and `more` columns."""
    return table(title, rows, keys, {one.label: column(one, text) for one in estimators} | {**more})


def error_tables(
    words: str,
    rows: Rows,
    estimators: Sequence[Estimator],
    unit: Unit = POINTS,
    keys: Mapping[str, str] = BY_PEOPLE,
    targets: Sequence[Target] = BOTH,
) -> list[Table]:
    """Return a table of errors for each target, whose label replaces {target} in the title."""
    return [
        estimator_table(
            words.format(target=target.label),
            *(rows, estimators, partial(plus_minus, unit=unit, target=target), keys),
        )
        for target in targets
    ]
