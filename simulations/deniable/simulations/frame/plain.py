"""A report as plain text, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from deniable.simulations.frame.study import Report, Study, Table


def plain_text(study: Study, report: Report) -> str:
    lines = [study.question, ""]
    for table in report.tables:
        lines += [table.title, *_aligned(table), ""]
    return "\n".join([*lines, *report.findings])


def _aligned(table: Table) -> Iterator[str]:
    """Columns as wide as their widest text; all but the first flush right."""
    rows = [list(table.columns), *(list(row) for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *rest = (
            text.rjust(width) if place else text.ljust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join((first, *rest)).rstrip()
