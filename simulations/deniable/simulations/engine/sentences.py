"""Sentences, numbers and tables of a study's page, from its rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

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
    "'These people' are fixed, and only the noise is random. For 'the population' each person is "
    "drawn too, so its errors include the sampling error."
)


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, each as one line; blank lines separate them."""
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip()]


def figure(value: float) -> str:
    """Return a number with three digits, without an exponent where it stays readable.

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
    """Return a probability in percent, never as 100 % if it is less.

    >>> percent(0.73105), percent(0.99999), percent(1.0)
    ('73.1 %', '> 99.9 %', '100.0 %')
    """
    assert isinstance(value, (int, float))
    text = f"{100 * value:.1f}"
    return f"{'> 99.9' if text == '100.0' and value < 1 else text} %"


def listed(texts: Sequence[str]) -> str:
    """Return the texts as a list in a sentence.

    >>> listed(["4"]), listed(["16", "64", "256"])
    ('4', '16, 64 and 256')
    """
    return " and ".join(part for part in (", ".join(texts[:-1]), texts[-1]) if part)


def plus_minus(row: Row, unit: Unit = POINTS, target: Target = THESE) -> str:
    """Return the error by formula, in its unit: every ± is 1.96 standard errors."""
    return f"± {figure(number(row, unit.of(target)))}"


def worst_deviation(
    rows: Sequence[Row], columns: tuple[str, str, str] = ("measured", "exact", "error")
) -> float:
    """Return the largest distance of a measured error from its formula, in Monte-Carlo errors."""
    known = [row for row in rows if all(row[column] for column in columns)]
    values = ([number(row, column) for column in columns] for row in known)
    return max((abs(measured - exact) / error for measured, exact, error in values), default=0.0)


def method(rows: Sequence[Row], text: str) -> list[str]:
    """Return the paragraphs of a text, with those of every study that has such columns."""
    first = [TWO_TARGETS] if any(row.get("exact_drawn") is not None for row in rows) else []
    return [*first, *paragraphs(text), simulation_check(rows)]


def simulation_check(rows: Sequence[Row]) -> str:
    """Return how far simulated errors are from their formulas."""
    drawn = [row for row in rows if row["measured"] is not None]
    return (
        f"As a check, {int(number(drawn[0], 'repetitions')):,} populations are drawn for each row. "
        f"The largest distance of a measured mean squared error from its formula is "
        f"{worst_deviation(rows):.1f} Monte-Carlo errors, in {len(drawn):,} rows."
    )


# Tables

Text = Callable[[Rows], str]


def table(title: str, rows: Rows, keys: Mapping[str, str], columns: Mapping[str, Text]) -> Table:
    """Return a table with one line for each group of rows with the same values of the keys.

    `keys` map a column's title to the column of a row, `columns` to the text for a group.
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
    """Return a column: a text for the estimator's row, empty where it has none."""
    return lambda group: "".join(text(row) for row in group.of(estimator)[:1])


def error_tables(
    words: str,
    rows: Rows,
    estimators: Sequence[Estimator],
    unit: Unit = POINTS,
    keys: Mapping[str, str] | None = None,
    targets: Sequence[Target] = BOTH,
) -> list[Table]:
    """Return a table of ± for each target, by ε and number of people or by other keys.

    `words` are its title, with {target} in it.
    """

    def one(target: Target) -> Table:
        columns = {
            one.label: column(one, lambda row: plus_minus(row, unit, target)) for one in estimators
        }
        title = words.format(target=target.label)
        return table(title, rows, keys or {"ε": "epsilon", "people": "people"}, columns)

    return [one(target) for target in targets]
