"""`deniable results`: the estimates of a survey, from the store itself or from a server."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from deniable.server.cli.place import add_place
from deniable.server.process.settings import TOKEN
from deniable.shared.cli.verb import Verb

if TYPE_CHECKING:
    from deniable.server.results import (
        About,
        Comparison,
        Crossed,
        Difference,
        QuestionResult,
        Results,
        Round,
        Row,
    )
    from deniable.server.results.display import Figures

HEADINGS = ("question", "label", "estimate", "95 % interval", "±", "these people", "reports")
NUMBERS_FROM = 2  # the columns from here on are aligned to the right
ROWS_SHOWN = 40
MOST_IN_ORDER = 20  # of more labels, those that are told from 0 are shown, the highest first
WIDTH = 90
QUARTERS = (0.25, 0.5, 0.75)
EMPTY = ("",) * 5
READING = (
    "What is said is about the people who reported. Each 95 % interval is about people like",
    "these, drawn at random; beside it stands the one about these very people, for whom only the",
    "noise is drawn. Each holds in 95 % of cases: on its own, or where a question has more than",
    f"{MOST_IN_ORDER} options, all of its 95 % intervals at once; at one look, or at all looks",
    "together while a round is open. Nothing is clipped, so an estimate may lie outside of what",
    "is possible.",
)


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("survey", metavar="SURVEY", help="a name, an id or its beginning")
    add_place(parser).add_argument("--server", metavar="URL", help="ask a server, over HTTP")
    parser.add_argument(
        "--token", help=f"an analyst's, for --server; better in the environment's {TOKEN}"
    )
    parser.add_argument("--round", type=int, metavar="N", help="only this round")
    parser.add_argument(
        "--from", dest="first", type=int, metavar="N", help="only this round and later ones"
    )
    parser.add_argument(
        "--until", dest="last", type=int, metavar="N", help="only this round and earlier ones"
    )
    parser.add_argument(
        "--against", metavar="SURVEY", help="what differs from this survey's newest round"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON document")
    form.add_argument("--csv", action="store_true", help="print a table for other programs")


def run(chosen: Namespace) -> int:
    import msgspec

    from deniable.server.results import csv_text

    if chosen.against:
        return _compare(chosen)
    results = _from_server(chosen) if chosen.server else _from_store(chosen)
    if chosen.json:
        print(msgspec.json.encode(results).decode())
    elif chosen.csv:
        sys.stdout.write(csv_text(results).replace("\r\n", "\n"))
    else:
        print("\n".join(lines(results)))
    return 0


def _compare(chosen: Namespace) -> int:
    import msgspec

    from deniable.server.analysis.opening import stored_comparison
    from deniable.shared.errors import WrongUse

    if chosen.server or chosen.csv:
        raise WrongUse("--against compares two surveys of one store: with --data, without --csv")
    found = stored_comparison(chosen.data, chosen.survey, chosen.against, chosen.round)
    if chosen.json:
        print(msgspec.json.encode(found).decode())
    else:
        print("\n".join(comparison_lines(found)))
    return 0


def comparison_lines(found: Comparison) -> Iterator[str]:
    this, other = (
        f"{name}, round {number}"
        for name, number in (
            (found.name, found.round),
            (found.against_name, found.against_round),
        )
    )
    yield f"{this}, against {other}: differences, with 95 % intervals"
    for name, differences in found.questions.items():
        yield from difference_lines(name, found.about[name], differences)
    yield "Intervals hold however many people are in both; those of these people are about them as"
    yield "they are, for whom only the noise is drawn."


def _from_store(chosen: Namespace) -> Results:
    from deniable.server.analysis.opening import stored_results

    return stored_results(chosen.data, chosen.survey, chosen.round, chosen.first, chosen.last)


def _from_server(chosen: Namespace) -> Results:
    from deniable.server.analysis.remote import remote_results

    return remote_results(chosen.server, chosen.survey, _asked(chosen), chosen.token)


def _asked(chosen: Namespace) -> dict[str, int]:
    given = {"round": chosen.round, "from": chosen.first, "until": chosen.last}
    return {name: number for name, number in given.items() if number is not None}


def lines(results: Results) -> Iterator[str]:
    """The whole answer as a person reads it."""
    yield f"{results.name}: {results.title}"
    each = f"for {results.repeat_rounds} rounds" if results.repeat_rounds else "a round"
    yield f"{results.survey}, {results.state}, ε {results.epsilon} {each}"
    if not results.rounds:
        yield "\nNo round has begun yet, so there is nothing to show."
    if results.left_out:
        yield f"\nThe newest rounds; {results.left_out:,} earlier ones: --until N"
    for period in results.rounds:
        yield ""
        yield from _round_lines(results, period)
    yield ""
    yield from READING
    if results.ask:
        yield f"Each install was asked one of the {len(results.about)} questions, drawn at random:"
        yield "what those say who were asked a question is about all who reported, but for the"
        yield "interval of these people: that is about those who were asked."
    if any(period.cross for period in results.rounds):
        yield "Two questions at once (×) are counted in the same reports: that adds no ε."
    if results.repeat_rounds:
        yield f"Each install sends one report for {results.repeat_rounds} rounds at a time: such"
        yield "rounds share their noise and are not independent; a change shows in the next ones."


def _round_lines(results: Results, period: Round) -> Iterator[str]:
    from deniable.server.results.display import whole_text
    from deniable.server.results.shuffled import sentences

    first, last = period.first_day, period.last_day
    days = first if first == last else f"{first} to {last}"
    yield f"Round {period.round}, {days}: {_count(period.reports)}"
    if period.warning:
        yield from (f"  {line}" for line in wrap(f"WARNING: {period.warning}.", WIDTH))
    if period.note:
        yield f"  {period.note}"
    yield from (f"  {line}" for line in wrap(_verdict(period), WIDTH))
    for sentence in sentences(period.shuffled or (), results.epsilon):
        yield from (f"  {line}" for line in wrap(sentence, WIDTH))
    rows = [cells for question in results.of(period) for cells in _rows(question)]
    rows += [cells for each in period.cross or () for cells in _crossed_rows(each)]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)]
    for cells in (HEADINGS, *rows):
        yield "  " + _aligned(cells, widths)
    yield from _quantile_lines(results, period)
    for name, vector in (period.vectors or {}).items():
        yield f"  {name}: {whole_text(vector)}"
    for name, floor in (period.floors or {}).items():
        yield from (f"  {line}" for line in wrap(f"{name}: {floor.words}", WIDTH))
    yield from _change_lines(results, period)


def _quantile_lines(results: Results, period: Round) -> Iterator[str]:
    from deniable.server.results.display import quantile_text

    for name, found in (period.distributions or {}).items():
        quarters = [each for each in found.quantiles if each.level in QUARTERS]
        said = "; ".join(quantile_text(each, results.about[name].unit) for each in quarters)
        words = f"{name}: {said}. These intervals hold all at once; --json has the rest."
        yield from (f"  {line}" for line in wrap(words, WIDTH))


def _verdict(period: Round) -> str:
    """Whether honest reports can give its counts, question by question."""
    p_values = ", ".join(f"{name} {fit.p_value:.2g}" for name, fit in period.fit.items())
    if any(fit.forged for fit in period.fit.values()):
        return f"Is it ours? Honest reports hardly give these counts; p: {p_values}."
    return (
        f"Is it ours? Honest reports can give these counts; p: {p_values}. Forged ones that look "
        "like them are not noticed."
    )


def _change_lines(results: Results, period: Round) -> Iterator[str]:
    """Differences that are told from 0, of the round from the one before."""
    if period.change is None:
        return
    since, note = period.change.since, period.change.note
    if note:
        yield from (f"  {line}" for line in wrap(f"Since round {since}: {note}.", WIDTH))
    for name, differences in period.change.questions.items():
        about = results.about[name]
        yield from difference_lines(f"{name}, since round {since}", about, differences)


def difference_lines(title: str, about: About, differences: Sequence[Difference]) -> Iterator[str]:
    from deniable.server.results.display import STYLES, decimals

    style = STYLES[about.statistic]
    unit = f" {about.unit}" if about.unit else style.points
    told = [each for each in differences if each.low > 0 or each.high < 0]
    shown = differences if len(differences) == 1 else told
    for each in shown[:ROWS_SHOWN]:
        places = decimals(style.factor * (each.high - each.low) / 2)
        estimate, low, high, low_these, high_these = (
            style.text(value, places)
            for value in (each.estimate, each.low, each.high, each.low_these, each.high_these)
        )
        label = f" {each.label}:" if len(differences) > 1 else ":"
        yield (
            f"  {title}{label} {estimate}{unit} ({low} to {high}; these people {low_these} to "
            f"{high_these})"
        )
    others = len(differences) - len(shown[:ROWS_SHOWN])
    if others:
        yield f"  {title}: {_more(others)} not told from no change, or not shown here"


def _more(labels: int) -> str:
    return f"{labels:,} {'label' if labels == 1 else 'labels'}"


def _rows(question: QuestionResult) -> Iterator[tuple[str, ...]]:
    from deniable.server.results.display import figures

    about, rows = question.about, question.rows
    first = f"{question.name} (ε {about.epsilon})"
    joint = len(rows) > MOST_IN_ORDER
    shown = _told(rows) if joint else rows
    for row in shown[:ROWS_SHOWN]:
        found = figures(row, about.statistic, about.unit, joint)
        yield first, row.label, *_cells(found, row.note), f"{row.reports:,}"
        first = ""
    if len(shown) > ROWS_SHOWN:
        yield first, f"… {len(shown) - ROWS_SHOWN:,} more: --csv", *EMPTY
    if len(rows) > len(shown):
        yield first, f"… {len(rows) - len(shown):,} others: {_floor(question)}", *EMPTY


def _crossed_rows(each: Crossed) -> Iterator[tuple[str, ...]]:
    """Two questions at once; the 95 % intervals of many answers hold at once."""
    from deniable.server.results.crossing import TIMES
    from deniable.server.results.display import figures

    first, joint = TIMES.join(each.questions), len(each.rows) > MOST_IN_ORDER
    shown = _told(each.rows) if joint else each.rows
    for row in shown[:ROWS_SHOWN]:
        found = figures(row, "share", joint=joint)
        yield first, row.label, *_cells(found, row.note), f"{row.reports:,}"
        first = ""
    if others := len(each.rows) - len(shown[:ROWS_SHOWN]):
        yield first, f"… {others:,} others: --csv", *EMPTY


def _told(rows: Sequence[Row]) -> Sequence[Row]:
    """Those that are told from 0, the highest first; where nothing is known, one that says so."""
    known = [row for row in rows if row.estimate is not None]
    told = [row for row in known if row.low_all is not None and row.low_all > 0]
    return sorted(told, key=lambda row: -(row.estimate or 0)) if known else rows[:1]


def _floor(question: QuestionResult) -> str:
    from deniable.server.results.display import STYLES, decimals

    if question.floor is None:
        return "--csv"
    style = STYLES[question.about.statistic]
    floor = style.factor * question.floor
    return f"below {style.text(question.floor, decimals(floor))}{style.sign}, not told from none"


def _cells(found: Figures | None, note: str | None) -> tuple[str, str, str, str]:
    if found is None:
        return "–", note or "", "", ""
    these = f"{found.these}{found.unit}" if found.these else ""
    return found.whole, found.interval, found.margin, these


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
