r"""Presentation of a run: the page's text, whose fields are filled, sentences, numbers and tables.

`studies/pages/NAME.txt` begins with the question and the findings. Each further section begins with
its name: a caption for each figure, `method`, `formulas`, one to a line, and `theory`, which
explains every formula and limit, with their sources. It is shown as it is written.

    What does it cost to ask a yes-or-no question without trusting the server?

    With {people:,} people at ε {epsilon}, devices estimate the share to {local:margin} points.

    = error
    The error of an estimated share at ε {epsilon}.

    = formulas
    devices, these people: \dfrac{V}{n}

A field is written as for `str.format`, such as {people:,} or {row[total]:.2f}, with more formats:

    {x:figure}      three digits                    {row:margin}      error about these people
    {x:percent}     probability in percent          {row:margin drawn} error about the population
    {rows:check}    how far simulated errors are from their formulas

Every option is also a value; a list has its middle value, and {first[epsilon]}, {last[epsilon]} and
{most[people]}. {at[laplace]} is the row of an estimator where all options have their middle values.
A paragraph without words is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.resources import files
from string import Formatter
from types import MappingProxyType
from typing import Any

from deniable.simulations.engine.estimators import (
    BOTH,
    DRAWN,
    POINTS,
    THESE,
    Estimator,
    Rows,
    Target,
    Unit,
    middle,
    number,
)
from deniable.simulations.engine.figures import Draw
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Run, Study, Table

TRUST = "needs n honest people and an honest shuffler"
TWO_TARGETS = (
    "Errors about 'these people' come from the noise alone. Errors about 'the population' also "
    "include the sampling error, because the people are a random sample of it."
)
EVERYWHERE = {"TRUST": TRUST, "TWO_TARGETS": TWO_TARGETS}


# Numbers and sentences


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


# Text

FORMATS: dict[str, Callable[[Any], str]] = {  # Any: numbers, and rows
    "figure": figure,
    "percent": percent,
    "margin": plus_minus,
    "margin drawn": partial(plus_minus, target=DRAWN),
    "check": simulation_check,
}


class _Fields(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:  # Any: any value
        formatted = FORMATS.get(format_spec)
        return formatted(value) if formatted else str(super().format_field(value, format_spec))


@dataclass(frozen=True)
class PageText:
    """Template of a study's page; that of a built-in study is read from its file."""

    name: str
    text: str = ""

    @cached_property
    def sections(self) -> dict[str, str]:
        page = files("deniable.simulations.studies").joinpath(f"pages/{self.name}.txt")
        text = self.text or page.read_text("utf-8")
        first, *others = re.split(r"^= (\w+)\n", text, flags=re.MULTILINE)
        return {"findings": first} | dict(zip(others[::2], others[1::2], strict=True))


def study(
    name: str,
    options: Sequence[Any],  # Any: Option
    cells: Callable[[Options], Sequence[Cell]],
    run: Run,
    report: Callable[[View], Report],
    text: str = "",
    **more: Any,  # Any: further arguments of Study
) -> Study:
    """Return the study with the question, page and formulas of its text."""
    page = PageText(name, text)
    lines = page.sections.get("formulas", "").strip().splitlines()
    formulas = [(words, tex) for words, _, tex in (line.partition(": ") for line in lines)]

    def shown(options: Options, rows: Sequence[Row]) -> Report:
        return report(View(page, options, Rows(rows)))

    question = page.sections["findings"].split("\n")[0]
    theory = page.sections.get("theory", "").strip("\n")
    return Study(
        name, question, options, cells, run, shown, formulas=formulas, theory=theory, **more
    )


@dataclass(frozen=True)
class View:
    """Rows of a run. Each option is an attribute: its value, or the middle value of a list."""

    text: PageText
    options: Options
    rows: Rows

    def __getattr__(self, name: str) -> Any:  # Any: JSON values
        if name not in self.__dict__["options"]:
            raise AttributeError(name)
        return self.middle(name)

    def middle(self, name: str) -> Any:  # Any: JSON values
        value = self.options[name]
        return middle(value) if isinstance(value, list) and value else value

    def along(self, *names: str) -> Rows:
        """Return the rows in which all options except these have their middle values."""
        lists = {name for name, value in self.options.items() if isinstance(value, list)}
        fixed = lists.intersection(self.rows[0]) - {*names}
        return self.rows.at(**{name: self.middle(name) for name in fixed})

    @cached_property
    def cell(self) -> Rows:
        """The rows in which all options have their middle values."""
        return self.along()

    def words(self, section: str, **values: Any) -> str:  # Any: numbers, texts and rows
        """Return a section as one line: a sentence that is shown only in some cases."""
        return " ".join(self._filled(section, values))

    def _filled(self, section: str, values: Mapping[str, Any]) -> list[str]:  # Any: as above
        lists = {name: v for name, v in self.options.items() if isinstance(v, list) and v}
        fields = {
            **EVERYWHERE,
            **{name: self.middle(name) for name in self.options},
            "first": {name: v[0] for name, v in lists.items()},
            "last": {name: v[-1] for name, v in lists.items()},
            "most": {name: max(v) for name, v in lists.items()},
            "rows": self.rows,
            "at": {row.get("estimator"): row for row in reversed(self.cell)},
            **values,
        }
        return paragraphs(_Fields().vformat(self.text.sections[section], (), fields))

    def report(
        self,
        values: Mapping[str, Any],  # Any: numbers, texts and rows
        figures: Mapping[str, Draw],
        tables: Sequence[Table],
        document: Mapping[str, Any] | None = None,  # Any: JSON
    ) -> Report:
        """Return the report; each figure has a section of the text with its caption."""
        captions = {name: self.words(name, **values) for name in figures}
        return Report(
            self._filled("findings", values)[1:],
            [Figure(name, captions[name], draw) for name, draw in figures.items()],
            tables,
            self._filled("method", values),
            document or {},
        )
