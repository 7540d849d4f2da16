"""Results as JSON and CSV, in pieces: only a few rounds are in memory at a time."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from deniable.server.results.answers import TIMES
from deniable.server.results.document import Results, Round, Row

COLUMNS = (
    "survey", "name", "round", "from", "until", "open", "question", "kind", "label", "estimate",
    "low", "high", "standard_error", "consistent", "reports", "confidence", "epsilon", "mechanism",
    "leverage", "note", "low_these", "high_these", "low_all", "high_all", "floor",
)  # fmt: skip
FORGED = "some of these reports cannot be honest"
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
Cell = str | int | float | None  # None is an empty one


def json_chunks(header: Results, rounds: Iterable[Round]) -> Iterator[bytes]:
    """Yield the JSON of the document `header` with these rounds."""
    opening = msgspec.json.encode(header)
    yield opening.removesuffix(b"]}")  # of `rounds`, which is empty and last
    separator = b""
    for period in rounds:
        yield separator + msgspec.json.encode(period)
        separator = b","
    yield b"]}"


def csv_chunks(header: Results, rounds: Iterable[Round]) -> Iterator[str]:
    """Yield a flat table: one row for each label of each question, and pair, of each round.

    Rows that are left out are named by a last row that has nothing but a note.
    """
    yield csv_text([COLUMNS])
    for period in rounds:
        yield csv_text(_lines(header, period))
        if period.rows_left_out:
            listed = (f"{count:,} of {name}" for name, count in period.rows_left_out.items())
            words = f"rows with the lowest estimates left out: {', '.join(listed)}"
            yield csv_text([_note_line(header, period.round, words)])
    if header.left_out:
        words = f"only the newest rounds; earlier rounds left out: {header.left_out:,}"
        yield csv_text([_note_line(header, None, words)])


def records_csv(records: Iterable[Mapping[str, Cell]]) -> str:
    """Return records with the same keys as a table; the keys are the header."""
    listed = list(records)
    header = tuple(listed[0]) if listed else ()
    return csv_text([header, *(record.values() for record in listed)])


def csv_text(lines: Iterable[Iterable[Cell]]) -> str:
    """Return RFC 4180."""
    file = io.StringIO(newline="")
    csv.writer(file).writerows(map(_plain, line) for line in lines)
    return file.getvalue()


def _plain(cell: Cell) -> Cell:
    """Options can be any text: a spreadsheet takes one that begins like this for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def _lines(results: Results, period: Round) -> Iterator[tuple[Cell, ...]]:
    for question in results.of(period):
        about = question.about
        facts = about.epsilon, about.mechanism, about.leverage
        for row in question.rows:
            yield _line(results, period, (question.name,), about.kind, row, facts, question.floor)
    for crossed in period.cross or ():
        for row in crossed.rows:  # columns about one question are empty
            yield _line(results, period, crossed.questions, "cross", row, (None,) * 3, None)


def _line(
    results: Results,
    period: Round,
    names: Sequence[str],
    kind: str,
    row: Row,
    facts: tuple[Cell, Cell, Cell],
    floor: float | None,
) -> tuple[Cell, ...]:
    """Return the cells in the order of the columns."""
    return (
        results.survey, results.name,
        period.round, period.first_day, period.last_day, "yes" if period.open else "no",
        TIMES.join(names), kind,
        row.label, row.estimate, row.low, row.high, row.standard_error, row.consistent, row.reports,
        results.confidence, *facts, _note(period, row, names),
        row.low_these, row.high_these, row.low_all, row.high_all, floor,
    )  # fmt: skip


def _note_line(results: Results, number: int | None, words: str) -> list[Cell]:
    known: dict[str, Cell] = {"survey": results.survey, "name": results.name}
    known |= {"round": number, "note": words}
    return [known.get(column) for column in COLUMNS]


def _note(period: Round, row: Row, questions: Sequence[str]) -> str:
    forged = any(period.fit[name].forged for name in questions)
    return "; ".join(filter(None, (FORGED if forged else None, row.note, period.note)))
