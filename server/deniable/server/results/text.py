"""Results for a terminal: tables of estimates, and what is said beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from deniable.server.results.crossing import TIMES
from deniable.server.results.display import (
    STYLES,
    Figures,
    decimals,
    figures,
    quantile_text,
    whole_text,
)
from deniable.server.results.document import (
    About,
    Comparison,
    Crossed,
    Difference,
    QuestionResult,
    Results,
    Round,
    Row,
)
from deniable.server.results.shuffled import sentences

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
        yield from _difference_lines(name, found.about[name], differences)
    yield "Intervals hold however many people are in both; those of these people are about them as"
    yield "they are, for whom only the noise is drawn."


def _round_lines(results: Results, period: Round) -> Iterator[str]:
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
        yield from _difference_lines(f"{name}, since round {since}", about, differences)


def _difference_lines(title: str, about: About, differences: Sequence[Difference]) -> Iterator[str]:
    style = STYLES[about.statistic]
    unit = style.behind_margin(about.unit)
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


def _count(reports: int) -> str:
    return "1 report" if reports == 1 else f"{reports:,} reports"
