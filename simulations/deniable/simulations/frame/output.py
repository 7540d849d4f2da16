"""What `--out` writes: a page, the figures, the table with every digit, and the run record."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any

from deniable.simulations.frame.figures import png, settle, styled, svg
from deniable.simulations.frame.page import page
from deniable.simulations.frame.study import Options, Report, Row, Study

RECORDED = ("deniable", "numpy", "scipy", "matplotlib")


def write_all(
    folder: Path, study: Study, report: Report, rows: Sequence[Row], seed: int, options: Options
) -> None:
    drawn = {}
    for figure in report.figures:
        with styled():
            made = figure.draw()
            settle(made)
        drawn[figure.name] = svg(made)
        (folder / f"{figure.name}.svg").write_text(drawn[figure.name], "utf-8")
        (folder / f"{figure.name}.png").write_bytes(png(made))
    record = run_record(study, seed, options)
    (folder / "index.html").write_text(page(study, report, drawn, record), "utf-8")
    (folder / f"{study.name}.csv").write_bytes(csv_bytes(rows))
    _write_parquet(folder / f"{study.name}.parquet", rows)
    (folder / "run.toml").write_text(record, "utf-8")


def csv_bytes(rows: Sequence[Row]) -> bytes:
    """Every digit: a float is read back as the same float. Nothing at all for None."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def run_record(study: Study, seed: int, options: Options) -> str:
    """TOML: what computes the same numbers again."""
    tables = {
        "run": {"study": study.name, "seed": seed},
        "arguments": options,
        "versions": {"python": python_version()} | {name: _version(name) for name in RECORDED},
    }
    return "\n".join(_toml_table(name, table) for name, table in tables.items())


def _write_parquet(path: Path, rows: Sequence[Row]) -> None:
    try:
        import pyarrow as pa
        from pyarrow.parquet import write_table
    except ModuleNotFoundError:
        return  # `pip install 'deniable[archive]'` brings it
    write_table(pa.table(_columns(rows)), path)


def _columns(rows: Sequence[Row]) -> dict[str, list[str | int | float | None]]:
    """A column is of one type: numbers become text where a text stands among them, like "inf"."""
    columns = {key: [row[key] for row in rows] for key in (rows[0] if rows else ())}
    return {
        key: [str(value) if value is not None else None for value in column]
        if any(isinstance(value, str) for value in column)
        else column
        for key, column in columns.items()
    }


def _toml_table(name: str, table: Mapping[str, Any]) -> str:  # Any: whatever JSON holds
    """JSON's texts, numbers, lists are TOML's too; what is nested deeper becomes a text."""
    lines = [f"{json.dumps(key)} = {_toml_value(value)}" for key, value in table.items()]
    return "\n".join([f"[{name}]", *lines, ""])


def _toml_value(value: Any) -> str:  # Any: whatever JSON holds
    nested = isinstance(value, Mapping) or value is None
    return json.dumps(json.dumps(value) if nested else value, ensure_ascii=False)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"
