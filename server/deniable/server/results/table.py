"""Results as a flat table: one row for each label of each question, and pair, of each round."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping

from deniable.server.results.crossing import TIMES
from deniable.server.results.document import Crossed, QuestionResult, Results, Round, Row

COLUMNS = (
    "survey", "name", "round", "from", "until", "open", "question", "kind", "label", "estimate",
    "low", "high", "standard_error", "consistent", "reports", "confidence", "epsilon", "mechanism",
    "leverage", "note", "low_these", "high_these", "low_all", "high_all", "floor",
)  # fmt: skip
FORGED = "some of these reports cannot be honest"
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
Cell = str | int | float | None  # None is an empty one


def csv_text(results: Results) -> str:
    return _written(COLUMNS, _lines(results))


def records_text(records: Iterable[Mapping[str, Cell]]) -> str:
    """Records that have the same keys, which are the header."""
    listed = list(records)
    return _written(listed[0] if listed else (), (record.values() for record in listed))


def _written(header: Iterable[str], lines: Iterable[Iterable[Cell]]) -> str:
    """RFC 4180, with a header."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(header)
    writer.writerows(map(_plain, line) for line in lines)
    return file.getvalue()


def _lines(results: Results) -> Iterator[tuple[Cell, ...]]:
    for period in results.rounds:
        for question in results.of(period):
            for row in question.rows:
                yield _line(results, period, question, row)
        for each in period.cross or ():
            for row in each.rows:
                yield _crossed_line(results, period, each, row)


def _plain(cell: Cell) -> Cell:
    """Options are anybody's words: a spreadsheet takes a text that begins so for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def _line(results: Results, period: Round, question: QuestionResult, row: Row) -> tuple[Cell, ...]:
    """In the order of the columns."""
    about = question.about
    warning = FORGED if period.fit[question.name].forged else None
    note = "; ".join(note for note in (warning, row.note, period.note) if note)
    return (
        results.survey, results.name,
        period.round, period.first_day, period.last_day, "yes" if period.open else "no",
        question.name, about.kind,
        row.label, row.estimate, row.low, row.high, row.standard_error, row.consistent, row.reports,
        results.confidence, about.epsilon, about.mechanism, about.leverage, note,
        row.low_these, row.high_these, row.low_all, row.high_all, question.floor,
    )  # fmt: skip


def _crossed_line(results: Results, period: Round, each: Crossed, row: Row) -> tuple[Cell, ...]:
    """Of two questions; what is of one of them is left empty."""
    warning = FORGED if any(period.fit[name].forged for name in each.questions) else None
    note = "; ".join(note for note in (warning, row.note, period.note) if note)
    return (
        results.survey, results.name,
        period.round, period.first_day, period.last_day, "yes" if period.open else "no",
        TIMES.join(each.questions), "cross",
        row.label, row.estimate, row.low, row.high, row.standard_error, row.consistent, row.reports,
        results.confidence, None, None, None, note,
        row.low_these, row.high_these, row.low_all, row.high_all, None,
    )  # fmt: skip
