"""Results for a terminal: tables of estimates, with the sentences that explain them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from deniable.server.results.answers import TIMES
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
from deniable.server.results.notes import shuffle_sentences

HEADINGS = (
    "question", "label", "estimate", "95 % interval", "±", "these people", "reports",
)  # fmt: skip
FIRST_NUMBER = 2  # the columns from here on are aligned to the right
MAX_ROWS_SHOWN = 40
MAX_IN_ORDER = 20  # of a longer list, only labels clearly above 0 are shown, the highest first
WIDTH = 90
QUARTILES = (0.25, 0.5, 0.75)
EMPTY = ("",) * 5
READING = (
    "Results describe people who answered. “95 % interval” refers to the population they came",
    "from; “these people” to exactly the respondents, for whom only the privacy noise is random.",
    "Each interval on its own contains the truth in 95 % of cases; for a question with more than",
    f"{MAX_IN_ORDER} options, all of its 95 % intervals hold jointly. While a round accepts",
    "reports, they hold for repeated looks. Nothing is clipped, so an estimate may lie outside the",
    "possible range.",
)


def lines(results: Results, rounds: Iterable[Round] | None = None) -> Iterator[str]:
    """Yield the report of these rounds, or of those that `results` holds."""
    yield f"{results.name}: {results.title}"
    each = f"for {results.repeat_rounds} rounds" if results.repeat_rounds else "a round"
    yield f"{results.survey}, {results.state}, ε {results.epsilon} {each}"
    if results.left_out:
        yield f"\nThe newest rounds; for {results.left_out:,} earlier ones use --until N"
    period = None
    for period in results.rounds if rounds is None else rounds:
        yield ""
        yield from _round_lines(results, period)
    if period is None:
        yield "\nNo round has begun yet, so there is nothing to show."
    yield ""
    yield from READING
    if results.ask:
        yield f"Each install was asked one of the {len(results.about)} questions, drawn at random:"
        yield "a question's results describe all who reported, except for the interval of these"
        yield "people, which refers to those who were asked it."
    if period is not None and period.cross:
        yield "Pairs of questions (×) are counted from the same reports, which adds no ε."
    if results.repeat_rounds:
        yield f"Each install sends one report for {results.repeat_rounds} rounds at a time. Such"
        yield "rounds contain the same reports and are not independent; a change shows in the next"
        yield "ones."


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    this = f"{comparison.name}, round {comparison.round}"
    other = f"{comparison.against_name}, round {comparison.against_round}"
    yield f"{this}, compared with {other}: differences, with 95 % intervals"
    for name, differences in comparison.questions.items():
        yield from _difference_lines(name, comparison.about[name], differences)
    yield "The intervals are valid even if the same people answered in both. “These people” refers"
    yield "to exactly the respondents, for whom only the privacy noise is random."


def _round_lines(results: Results, period: Round) -> Iterator[str]:
    first, last = period.first_day, period.last_day
    days = first if first == last else f"{first} to {last}"
    yield f"Round {period.round}, {days}: {_count(period.reports, 'report')}"
    if period.warning:
        yield from _wrapped(f"WARNING: {period.warning}.")
    if period.note:
        yield f"  {period.note}"
    yield from _wrapped(_verdict(period))
    for sentence in shuffle_sentences(period.shuffled or (), results.epsilon):
        yield from _wrapped(sentence)
    rows = [cells for question in results.of(period) for cells in _rows(question)]
    rows += [cells for crossed in period.cross or () for cells in _crossed_rows(crossed)]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)]
    for cells in (HEADINGS, *rows):
        yield "  " + _aligned(cells, widths)
    yield from _quartile_lines(results, period)
    for name, vector in (period.vectors or {}).items():
        yield f"  {name}: {whole_text(vector)}"
    for name, floor in (period.floors or {}).items():
        yield from _wrapped(f"{name}: {floor.words}")
    yield from _change_lines(results, period)


def _quartile_lines(results: Results, period: Round) -> Iterator[str]:
    for name, distribution in (period.distributions or {}).items():
        quartiles = [each for each in distribution.quantiles if each.level in QUARTILES]
        unit = results.about[name].unit
        listed = "; ".join(quantile_text(quartile, unit) for quartile in quartiles)
        yield from _wrapped(f"{name}: {listed}. These intervals hold jointly; --json has the rest.")


def _verdict(period: Round) -> str:
    """Give the forgery check of each question."""
    p_values = ", ".join(f"{name} {fit.p_value:.2g}" for name, fit in period.fit.items())
    if any(fit.forged for fit in period.fit.values()):
        return f"Forgery check: failed. Honest reports hardly give these counts (p: {p_values})."
    return (
        f"Forgery check: passed (p: {p_values}). Forgeries that mimic honest reports cannot be "
        "detected."
    )


def _change_lines(results: Results, period: Round) -> Iterator[str]:
    """Give the clear differences from the round before."""
    if period.change is None:
        return
    since, note = period.change.since, period.change.note
    if note:
        yield from _wrapped(f"No comparison with round {since}: {note}.")
    for name, differences in period.change.questions.items():
        about = results.about[name]
        yield from _difference_lines(f"{name}, since round {since}", about, differences)


def _difference_lines(title: str, about: About, differences: Sequence[Difference]) -> Iterator[str]:
    style = STYLES[about.statistic]
    unit = style.behind_margin(about.unit)
    clear = [each for each in differences if each.low > 0 or each.high < 0]
    shown = differences if len(differences) == 1 else clear[:MAX_ROWS_SHOWN]
    for each in shown:
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
    if others := len(differences) - len(shown):
        what = "not shown" if len(clear) > len(shown) else "no clear change"
        yield f"  {title}: {what} in the other {_count(others, style.labels or 'label')}"


def _rows(question: QuestionResult) -> Iterator[tuple[str, ...]]:
    about, rows = question.about, question.rows
    title = f"{question.name} (ε {about.epsilon})"
    joint = len(rows) > MAX_IN_ORDER
    shown = _clear(rows) if joint else rows
    made = ((row, figures(row, about.statistic, about.unit, joint)) for row in shown)
    yield from _table(title, made)
    if len(shown) > MAX_ROWS_SHOWN:
        yield "", f"… {len(shown) - MAX_ROWS_SHOWN:,} more: --csv", *EMPTY
    if len(rows) > len(shown):
        first = "" if shown else title
        yield first, f"… {len(rows) - len(shown):,} others: {_floor(question)}", *EMPTY


def _crossed_rows(crossed: Crossed) -> Iterator[tuple[str, ...]]:
    """Give the share of each pair of answers; the 95 % intervals of many pairs hold jointly."""
    title, joint = TIMES.join(crossed.questions), len(crossed.rows) > MAX_IN_ORDER
    shown = (_clear(crossed.rows) if joint else crossed.rows)[:MAX_ROWS_SHOWN]
    yield from _table(title, ((row, figures(row, "share", joint=joint)) for row in shown))
    if others := len(crossed.rows) - len(shown):
        yield "" if shown else title, f"… {others:,} others: --csv", *EMPTY


def _table(title: str, rows: Iterable[tuple[Row, Figures | None]]) -> Iterator[tuple[str, ...]]:
    """Give one line per row, the first with the title."""
    for number, (row, made) in enumerate(rows):
        if number < MAX_ROWS_SHOWN:
            yield (
                title if number == 0 else "",
                row.label,
                *_cells(made, row.note),
                f"{row.reports:,}",
            )


def _clear(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rows clearly above 0, the highest first.

    Without any estimate, return the first row, which says why.
    """
    known = [row for row in rows if row.estimate is not None]
    clear = [row for row in known if row.low_all is not None and row.low_all > 0]
    return sorted(clear, key=lambda row: -(row.estimate or 0)) if known else rows[:1]


def _floor(question: QuestionResult) -> str:
    if question.floor is None:
        return "--csv"
    style = STYLES[question.about.statistic]
    floor = style.text(question.floor, decimals(style.factor * question.floor))
    return f"too rare to measure (below {floor}{style.sign})"


def _cells(made: Figures | None, note: str | None) -> tuple[str, str, str, str]:
    if made is None:
        return "–", note or "", "", ""
    these = f"{made.these}{made.unit}" if made.these else ""
    return made.whole, made.interval, made.margin, these


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        cell.rjust(width) if number >= FIRST_NUMBER else cell.ljust(width)
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(padded).rstrip()


def _wrapped(text: str) -> Iterator[str]:
    return (f"  {line}" for line in wrap(text, WIDTH))


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
