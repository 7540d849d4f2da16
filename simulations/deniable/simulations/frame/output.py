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

from deniable.simulations.frame.figures import Drawn
from deniable.simulations.frame.frames import columns
from deniable.simulations.frame.page import page
from deniable.simulations.frame.study import Options, Report, Row, Study

RECORDED = ("deniable", "numpy", "scipy", "matplotlib")


def write_all(
    folder: Path, study: Study, report: Report, rows: Sequence[Row], seed: int, options: Options
) -> None:
    drawn = [Drawn(figure) for figure in report.figures]
    for each in drawn:
        (folder / f"{each.name}.svg").write_text(each.svg, "utf-8")
        (folder / f"{each.name}.png").write_bytes(each.png)
    record = run_record(study, seed, options)
    (folder / f"{study.name}.csv").write_bytes(csv_bytes(rows))
    _write_parquet(folder / f"{study.name}.parquet", rows)
    (folder / "run.toml").write_text(record, "utf-8")
    again = as_python(study, seed, options)
    (folder / "index.html").write_text(page(study, report, drawn, record, again), "utf-8")


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


def as_python(study: Study, seed: int, options: Options) -> str:
    """What gives the same rows in Python, where the options are there as they were given."""
    lines = ["from deniable.simulations import simulate", ""]
    if any(option.name not in options for option in study.options):
        return ""  # a file, say, of which only a digest is kept
    words = [f"{option.name}={options[option.name]!r}" for option in study.options]
    given = [f"    {word}," for word in (repr(study.name), *words, f"seed={seed}")]
    return "\n".join([*lines, "found = simulate(", *given, ")", "found.frame()"])


def _write_parquet(path: Path, rows: Sequence[Row]) -> None:
    try:
        import pyarrow as pa
        from pyarrow.parquet import write_table
    except ModuleNotFoundError:
        return  # `pip install 'deniable[archive]'` brings it
    write_table(pa.table(columns(rows)), path)


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
