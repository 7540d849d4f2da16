"""Running a study, and its result as rows, text, a data frame, figures and files.

`--out` writes the page, the figures, a table with all digits (CSV, and Parquet if pyarrow is
installed), and `run.toml`, the record needed to reproduce the numbers.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any

from deniable.server.parallel import progress
from deniable.shared.errors import WrongUse
from deniable.simulations.engine.cells import open_journal, run_cells
from deniable.simulations.engine.figures import styled
from deniable.simulations.engine.option import read
from deniable.simulations.engine.page import DrawnFigure, excerpt, page
from deniable.simulations.engine.study import SEED, Options, Report, Row, Study, Table, load

if TYPE_CHECKING:
    import matplotlib.figure

DATA_FRAMES = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}
RECORDED_VERSIONS = ("deniable", "numpy", "scipy", "matplotlib")


@dataclass(frozen=True, repr=False)
class StudyResult:
    """Result of a study. Each row is a plain mapping."""

    study: Study
    options: Options
    seed: int
    rows: Sequence[Row]

    @cached_property
    def report(self) -> Report:
        """Findings, figures and tables, computed from the rows."""
        return self.study.report(self.options, self.rows)

    @property
    def findings(self) -> Sequence[str]:
        """Sentences that answer the question of the study."""
        return self.report.findings

    @property
    def document(self) -> dict[str, Any]:  # Any: JSON values
        """JSON document that --json prints: options, rows, findings, and keys of the study."""
        whole = {"options": self.options, "rows": self.rows, "findings": self.findings}
        return whole | dict(self.report.document)

    def frame(self) -> Any:  # Any: depends on the installed library
        """Return the rows as a pandas or polars data frame or an Arrow table, as installed."""
        for library, maker in DATA_FRAMES.items():
            if find_spec(library):
                return getattr(import_module(library), maker)(_columns(self.rows))
        raise WrongUse(f"frame() needs one of {', '.join(DATA_FRAMES)}; run: pip install pandas")

    def figure(self, name: str | None = None) -> matplotlib.figure.Figure:
        """Return the figure with this name, or the first figure."""
        figures = {figure.name: figure for figure in self.report.figures}
        if name is not None and name not in figures:
            raise WrongUse(f"unknown figure {name!r}; choose from {', '.join(figures)}")
        with styled():
            return (figures[name] if name else next(iter(figures.values()))).draw()

    def write(self, folder: str | Path) -> Path:
        """Write the page, figures, tables and run record; return the path of the page."""
        folder, name = Path(folder), self.study.name
        folder.mkdir(parents=True, exist_ok=True)
        drawn = [DrawnFigure(figure) for figure in self.report.figures]
        for figure in drawn:
            (folder / f"{figure.name}.svg").write_text(figure.svg, "utf-8")
            (folder / f"{figure.name}.png").write_bytes(figure.png)
        (folder / f"{name}.csv").write_bytes(csv_bytes(self.rows))
        _write_parquet(folder / f"{name}.parquet", self.rows)
        record = self._run_record()
        (folder / "run.toml").write_text(record, "utf-8")
        html = page(self.study, self.report, drawn, record, self._as_python())
        (folder / "index.html").write_text(html, "utf-8")
        return folder / "index.html"

    def _run_record(self) -> str:
        """Return, as TOML, the study, seed, options and versions that reproduce the numbers."""
        versions = {"python": python_version()} | {n: _version(n) for n in RECORDED_VERSIONS}
        tables = {
            "run": {"study": self.study.name, "seed": self.seed},
            "arguments": self.options,
            "versions": versions,
        }
        return "\n".join(_toml_table(name, table) for name, table in tables.items())

    def _as_python(self) -> str:
        """Return Python code that reproduces the rows; empty if an option was not recorded."""
        if any(option.name not in self.options for option in self.study.options):
            return ""
        arguments = [
            f"{option.name}={self.options[option.name]!r}" for option in self.study.options
        ]
        lines = [repr(self.study.name), *arguments, f"seed={self.seed}"]
        call = ["result = simulate(", *(f"    {line}," for line in lines), ")", "result.frame()"]
        return "\n".join(["from deniable.simulations import simulate", "", *call])

    def __repr__(self) -> str:
        """Return the question, tables and findings as plain text."""
        lines = [self.study.question, ""]
        for table in self.report.tables:
            lines += [table.title, *_aligned(table), ""]
        return "\n".join([*lines, *self.findings])

    def _repr_html_(self) -> str:
        """Return the findings and figures as HTML for a notebook."""
        return excerpt(self.report, [DrawnFigure(figure) for figure in self.report.figures])


def simulate(
    study: str | Study,
    *,
    seed: int = SEED,
    on: str | None = None,
    out: str | Path | None = None,
    **options: Any,  # Any: input of the study's options
) -> StudyResult:
    """Run a study: a built-in one by name, or your own `Study`.

    `on` selects where the cells run: local, pool, dask or dask:ADDRESS. With `out`, the run saves
    finished cells in that folder, so that it can resume, and writes the page there.

    >>> simulate("repeat", epsilon=1, rounds=[1, 12]).rows[0]["scheme"]
    'fresh'
    """
    study = load(study) if isinstance(study, str) else study
    result = run(study, study.check(read(study.options, options)), seed, on, out)
    if out is not None:
        result.write(out)
    return result


def run(
    study: Study,
    options: Options,
    seed: int,
    on: str | None = None,
    out: str | Path | None = None,
    show_progress: bool = False,
) -> StudyResult:
    """Run a study whose options are already read; progress goes to standard error."""
    if seed < 0:
        raise WrongUse(f"the seed must be a whole number of at least 0, got {seed}")
    cells = study.cells(options)
    shown = progress(study.name, len(cells)) if show_progress else nullcontext(lambda _count: None)
    with (
        open_journal(None if out is None else Path(out), study, seed, options) as journal,
        shown as finished,
    ):
        rows = run_cells(study, cells, seed, on or study.where, journal, finished)
    return StudyResult(study, options, seed, rows)


def csv_bytes(rows: Sequence[Row]) -> bytes:
    """Return the rows as CSV with all digits, so that floats survive a round trip."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def _columns(rows: Sequence[Row]) -> dict[str, list[str | int | float | None]]:
    """Return the columns, each of one type: a column with any text becomes all text."""
    columns = {key: [row[key] for row in rows] for key in (rows[0] if rows else ())}
    return {
        key: [str(value) if value is not None else None for value in column]
        if any(isinstance(value, str) for value in column)
        else column
        for key, column in columns.items()
    }


def _write_parquet(path: Path, rows: Sequence[Row]) -> None:
    try:
        import pyarrow as pa
        from pyarrow.parquet import write_table
    except ModuleNotFoundError:
        return  # the extra "archive" adds it
    write_table(pa.table(_columns(rows)), path)


def _toml_table(name: str, table: Mapping[str, Any]) -> str:  # Any: JSON values
    """Return a TOML table: values as in JSON, nested mappings as JSON text."""
    lines = [f"{json.dumps(key)} = {_toml_value(value)}" for key, value in table.items()]
    return "\n".join([f"[{name}]", *lines, ""])


def _toml_value(value: Any) -> str:  # Any: JSON values
    nested = isinstance(value, Mapping) or value is None
    return json.dumps(json.dumps(value) if nested else value, ensure_ascii=False)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def _aligned(table: Table) -> Iterator[str]:
    """Yield aligned lines: the first column flush left, the others flush right."""
    rows = [list(table.columns), *(list(row) for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *rest = (
            text.rjust(width) if column else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join((first, *rest)).rstrip()
