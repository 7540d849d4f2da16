"""`deniable results`: the estimates of a survey, from the data folder."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deniable.shared.cli.verb import Verb

if TYPE_CHECKING:
    from deniable.server.results.display import Figures

HEADINGS = ("question", "label", "estimate", "95 % interval", "±", "reports")
NUMBERS_FROM = 2  # the columns from here on are aligned to the right
ROWS_SHOWN = 40
Document = dict[str, Any]  # JSON: values of several types


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("survey", metavar="SURVEY", help="a name, an id or its beginning")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--round", type=int, metavar="N", help="only this round")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON document")
    form.add_argument("--csv", action="store_true", help="print a table for other programs")


def run(chosen: Namespace) -> int:
    from datetime import UTC, datetime

    from deniable.server.results import csv_text, survey_results
    from deniable.server.store import Store

    with Store.open(chosen.data) as store:
        published = store.find(chosen.survey)
        tallies = store.tallies(published.id)
    document = survey_results(published, tallies, datetime.now(UTC), chosen.round)
    if chosen.json:
        print(json.dumps(document, ensure_ascii=False, allow_nan=False))
    elif chosen.csv:
        sys.stdout.write(csv_text(document).replace("\r\n", "\n"))
    else:
        print("\n".join(lines(document)))
    return 0


def lines(document: Document) -> Iterator[str]:
    """The whole answer as a person reads it."""
    yield f"{document['name']}: {document['title']}"
    yield f"{document['survey']}, {document['state']}, ε {document['epsilon']} a round"
    if not document["rounds"]:
        yield "\nNo round has begun yet, so there is nothing to show."
    for period in document["rounds"]:
        yield ""
        yield from _round_lines(period, document["about"])
    yield ""
    yield "Intervals hold the truth in 95 % of cases, each by itself, at one look. They are about"
    yield "the people who reported. Nothing is clipped: an estimate may leave what is possible."


def _round_lines(period: Document, about: Document) -> Iterator[str]:
    days = (
        period["from"]
        if period["from"] == period["until"]
        else f"{period['from']} to {period['until']}"
    )
    yield f"Round {period['round']}, {days}: {_count(period['reports'])}"
    if period["note"]:
        yield f"  {period['note']}"
    rows = [
        cells
        for name, part in period["questions"].items()
        for cells in _rows(name, part, about[name])
    ]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)]
    for cells in (HEADINGS, *rows):
        yield "  " + _aligned(cells, widths)


def _rows(name: str, rows: Sequence[Document], about: Document) -> Iterator[tuple[str, ...]]:
    from deniable.server.results.display import figures

    first = f"{name} (ε {about['epsilon']})"
    for row in rows[:ROWS_SHOWN]:
        yield first, row["label"], *_cells(figures(row, about["kind"]), row), f"{row['reports']:,}"
        first = ""
    if len(rows) > ROWS_SHOWN:
        yield "", f"… {len(rows) - ROWS_SHOWN:,} more: --csv", "", "", "", ""


def _cells(found: Figures | None, row: Document) -> tuple[str, str, str]:
    if found is None:
        return "–", row["note"], ""
    return found.whole, found.interval, found.margin


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    columns = enumerate(zip(cells, widths, strict=True))
    text = (
        cell.rjust(width) if n >= NUMBERS_FROM else cell.ljust(width)
        for n, (cell, width) in columns
    )
    return "  ".join(text).rstrip()


RESULTS = Verb("results", "show a survey's estimates with their intervals", arguments, run)


def _count(reports: int) -> str:
    return "1 report" if reports == 1 else f"{reports:,} reports"
