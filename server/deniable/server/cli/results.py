"""`deniable results`: the estimates of a survey, from the store itself or from a server."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from deniable.server.cli.place import add_place
from deniable.shared.cli.verb import Verb

if TYPE_CHECKING:
    from deniable.server.results import QuestionResult, Results, Round
    from deniable.server.results.display import Figures

TOKEN = "DENIABLE_TOKEN"  # noqa: S105 # the name of a variable
HEADINGS = ("question", "label", "estimate", "95 % interval", "±", "reports")
NUMBERS_FROM = 2  # the columns from here on are aligned to the right
ROWS_SHOWN = 40
WIDTH = 90


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("survey", metavar="SURVEY", help="a name, an id or its beginning")
    add_place(parser).add_argument("--server", metavar="URL", help="ask a server, over HTTP")
    parser.add_argument(
        "--token", help=f"an analyst's, for --server; better in the environment's {TOKEN}"
    )
    parser.add_argument("--round", type=int, metavar="N", help="only this round")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON document")
    form.add_argument("--csv", action="store_true", help="print a table for other programs")


def run(chosen: Namespace) -> int:
    import msgspec

    from deniable.server.results import csv_text

    results = _from_server(chosen) if chosen.server else _from_store(chosen)
    if chosen.json:
        print(msgspec.json.encode(results).decode())
    elif chosen.csv:
        sys.stdout.write(csv_text(results).replace("\r\n", "\n"))
    else:
        print("\n".join(lines(results)))
    return 0


def _from_store(chosen: Namespace) -> Results:
    from datetime import UTC, datetime

    from deniable.server.results import survey_results
    from deniable.server.store import open_store
    from deniable.server.surveys.catalogue import Catalogue

    with open_store(chosen.data) as store:
        published = Catalogue(store).find(chosen.survey)
        tallies = store.tallies(published.sequence)
    return survey_results(published, tallies, datetime.now(UTC), chosen.round)


def _from_server(chosen: Namespace) -> Results:
    from deniable.server.cli.remote import remote_results

    return remote_results(chosen.server, chosen.survey, chosen.round, chosen.token)


def lines(results: Results) -> Iterator[str]:
    """The whole answer as a person reads it."""
    yield f"{results.name}: {results.title}"
    each = f"for {results.repeat_rounds} rounds" if results.repeat_rounds else "a round"
    yield f"{results.survey}, {results.state}, ε {results.epsilon} {each}"
    if not results.rounds:
        yield "\nNo round has begun yet, so there is nothing to show."
    for period in results.rounds:
        yield ""
        yield from _round_lines(results, period)
    yield ""
    yield "Confidence intervals cover the truth about the people who reported in 95 % of cases:"
    yield "each on its own, and looked at once. Nothing is clipped, so an estimate may lie outside"
    yield "of what is possible."
    if results.ask:
        yield f"Each install was asked one of the {len(results.about)} questions, drawn at random:"
        yield "what those say who were asked a question is about all who reported."
    if results.repeat_rounds:
        yield f"Each install sends one report for {results.repeat_rounds} rounds at a time: such"
        yield "rounds share their noise and are not independent; a change shows in the next ones."


def _round_lines(results: Results, period: Round) -> Iterator[str]:
    from deniable.server.results.shuffled import sentences

    first, last = period.first_day, period.last_day
    days = first if first == last else f"{first} to {last}"
    yield f"Round {period.round}, {days}: {_count(period.reports)}"
    if period.warning:
        yield from (f"  {line}" for line in wrap(f"WARNING: {period.warning}.", WIDTH))
    if period.note:
        yield f"  {period.note}"
    for sentence in sentences(period.shuffled or (), results.epsilon):
        yield from (f"  {line}" for line in wrap(sentence, WIDTH))
    rows = [cells for question in results.of(period) for cells in _rows(question)]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)]
    for cells in (HEADINGS, *rows):
        yield "  " + _aligned(cells, widths)


def _rows(question: QuestionResult) -> Iterator[tuple[str, ...]]:
    from deniable.server.results.display import figures

    about, rows = question.about, question.rows
    first = f"{question.name} (ε {about.epsilon})"
    for row in rows[:ROWS_SHOWN]:
        found = figures(row, about.statistic, about.unit)
        yield first, row.label, *_cells(found, row.note), f"{row.reports:,}"
        first = ""
    if len(rows) > ROWS_SHOWN:
        yield "", f"… {len(rows) - ROWS_SHOWN:,} more: --csv", "", "", "", ""


def _cells(found: Figures | None, note: str | None) -> tuple[str, str, str]:
    if found is None:
        return "–", note or "", ""
    return found.whole, found.interval, found.margin


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    columns = enumerate(zip(cells, widths, strict=True))
    text = (
        cell.rjust(width) if n >= NUMBERS_FROM else cell.ljust(width)
        for n, (cell, width) in columns
    )
    return "  ".join(text).rstrip()


RESULTS = Verb(
    "results",
    "show a survey's estimates with their intervals",
    arguments,
    run,
    example="deniable results app-health --data ./data",
)


def _count(reports: int) -> str:
    return "1 report" if reports == 1 else f"{reports:,} reports"
