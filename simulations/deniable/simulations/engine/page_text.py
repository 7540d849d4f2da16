r"""Text of a study's page: a template, whose fields are filled with options, values and rows.

`studies/pages/NAME.txt` begins with the question and the findings. Each further section begins with
its name: a caption for each figure, `method`, and `formulas`, one to a line.

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

Every option is a value too; of a list, its middle value. A paragraph without words is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.resources import files
from string import Formatter
from typing import Any

from deniable.simulations.engine.estimators import DRAWN, middle
from deniable.simulations.engine.figures import Draw
from deniable.simulations.engine.sentences import (
    TRUST,
    TWO_TARGETS,
    figure,
    paragraphs,
    percent,
    plus_minus,
    simulation_check,
)
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Run, Study, Table

FORMATS: dict[str, Callable[[Any], str]] = {  # Any: numbers, and rows
    "figure": figure,
    "percent": percent,
    "margin": plus_minus,
    "margin drawn": partial(plus_minus, target=DRAWN),
    "check": simulation_check,
}
EVERYWHERE = {"TRUST": TRUST, "TWO_TARGETS": TWO_TARGETS}


class _Fields(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:  # Any: any value
        formatted = FORMATS.get(format_spec)
        return formatted(value) if formatted else str(super().format_field(value, format_spec))


@dataclass(frozen=True)
class PageText:
    """Template of a study's page; that of a built-in study is read from its file."""

    name: str
    text: str = ""

    def study(
        self,
        options: Sequence[Any],  # Any: Option
        cells: Callable[[Options], Sequence[Cell]],
        run: Run,
        report: Callable[[Options, Sequence[Row]], Report],
        **more: Any,  # Any: further arguments of Study
    ) -> Study:
        """Return the study with this name, question and formulas."""
        lines = self._sections.get("formulas", "").strip().splitlines()
        formulas = [(words, tex) for words, _, tex in (line.partition(": ") for line in lines)]
        question = self._sections["findings"].split("\n")[0]
        return Study(self.name, question, options, cells, run, report, formulas=formulas, **more)

    def report(
        self,
        options: Options,
        values: Mapping[str, Any],  # Any: numbers, texts and rows
        figures: Mapping[str, Draw],
        tables: Sequence[Table],
        document: Mapping[str, Any] | None = None,  # Any: JSON
    ) -> Report:
        """Return the report with this text; each figure has a section with its caption."""
        shown = {
            name: middle(value) if isinstance(value, list) and value else value
            for name, value in options.items()
        }

        def filled(section: str) -> list[str]:
            fields = {**EVERYWHERE, **shown, **values}
            return paragraphs(_Fields().vformat(self._sections[section], (), fields))

        return Report(
            filled("findings")[1:],
            [Figure(name, " ".join(filled(name)), draw) for name, draw in figures.items()],
            tables,
            filled("method"),
            document or {},
        )

    @cached_property
    def _sections(self) -> dict[str, str]:
        page = files("deniable.simulations.studies").joinpath(f"pages/{self.name}.txt")
        text = self.text or page.read_text("utf-8")
        first, *others = re.split(r"^= (\w+)\n", text, flags=re.MULTILINE)
        return {"findings": first} | dict(zip(others[::2], others[1::2], strict=True))
