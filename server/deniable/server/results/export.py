"""Results as CSV and as text for a terminal, with only a few rounds in memory at a time."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import NormalDist
from textwrap import wrap

import msgspec
from msgspec import UnsetType

from deniable.server.estimation.statements import CONFIDENCE, MAX_SEPARATE_LABELS
from deniable.server.results.display import (
    STYLES,
    Figures,
    change_words,
    decimals,
    figures,
    period_figures,
    period_name,
    quantile_text,
    whole_text,
)
from deniable.server.results.document import (
    About,
    Comparison,
    Difference,
    Effect,
    Period,
    QuestionResult,
    Results,
    Round,
    Row,
    Smoothed,
)
from deniable.server.results.round_details import TIMES
from deniable.server.results.sentences import (
    disagreements,
    effect_sentences,
    empty_labels,
    forecast_sentence,
    median_name,
    shuffle_sentences,
    smoothed,
)
from deniable.shared.errors import quantity

COLUMNS = (
    "survey", "name", "round", "from", "until", "state", "question", "title", "kind", "label",
    "called", "estimate", "low", "high", "standard_error", "consistent", "reports", "confidence",
    "epsilon", "mechanism", "leverage", "note", "low_these", "high_these", "low_all", "high_all",
    "floor",
)  # fmt: skip
BY_LABEL = ("by", "value", "against")  # only if the survey declares labels
BY_PERIOD = (
    "last_round",
    "rounds",
    "event",
    "change",
    "change_low",
    "change_high",
    "change_low_these",
    "change_high_these",
)  # only if rounds are pooled
SMOOTHED = ("estimate", "low", "high", "low_these", "high_these", "rounds")  # with a trend
Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)  # a margin in standard errors
FORGED = "some of these reports cannot be honest"
# Spreadsheets also read full-width signs as the start of a formula.
FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n")

HEADINGS = (
    "question", "label", "estimate", "95 % interval", "margin", "these people", "reports",
)  # fmt: skip
PERIOD_HEADINGS = (
    "period",
    "label",
    "estimate",
    "95 % interval",
    "since the one before",
    "reports",
)
FIRST_NUMBER = 2  # index of the first right-aligned column
MAX_PERIOD_ROWS = 400
MAX_ROWS_SHOWN = 40
MAX_IN_ORDER = MAX_SEPARATE_LABELS  # longer lists show only labels clearly above 0, highest first
WIDTH = 90
QUARTILES = (0.25, 0.5, 0.75)
EMPTY = ("",) * 5
READING = (
    "Results describe the people who answered. “95 % interval” refers to the population they came",
    "from; “these people” to exactly the respondents, for whom only the privacy noise is random.",
    "Each interval on its own contains the truth in 95 % of cases, counting all that is ever shown",
    f"of its round. If a question has more than {MAX_IN_ORDER} options, all of its 95 % intervals",
    "hold jointly. Nothing is clipped, so an estimate may lie outside the possible range.",
)

PERIOD_READING = (
    "Each period pools the reports of its rounds, and the intervals are about the answers in",
    "exactly these reports, for which only the privacy noise is random. --json and --csv",
    "also have the intervals for the population, which allow for the same people in all rounds.",
)

Cell = str | int | float | None  # None becomes an empty cell
Record = dict[str, Cell]
Smooth = dict[tuple[str, int, str], Smoothed]  # keyed by question, round and label


# CSV


def csv_chunks(header: Results, rounds: Iterable[Round]) -> Iterator[str]:
    """Yield the records as CSV, with the names of the columns first."""
    yield csv_text([_columns(header)])
    for records in result_records(header, rounds):
        yield csv_text(record.values() for record in records)


def result_records(header: Results, rounds: Iterable[Round]) -> Iterator[list[Record]]:
    """Yield a record for each label of each question and pair in each round, then notes.

    If the results are divided into periods, the records are those of the periods. All have the
    same columns. The standard error is the one that an interval for the population would have if it
    were normal, so that it accounts for the same looks.
    """
    columns, smooth = _columns(header), Smooth()
    for name, rows in _trends(header).items():
        smooth |= {(name, row.round, row.label): row for row in rows}
    source: Record = {"survey": header.survey, "name": header.name}
    for period in header.periods or rounds:
        yield [_in_order(record, columns) for record in _records(header, period, source, smooth)]
    if header.left_out:
        words = f"only the newest rounds; earlier rounds left out: {header.left_out:,}"
        yield [_in_order(source | {"note": words}, columns)]


def _columns(header: Results) -> tuple[str, ...]:
    columns = (*COLUMNS, *(BY_LABEL if header.by else ()), *(BY_PERIOD if header.periods else ()))
    return (*columns, *(f"smoothed_{name}" for name in SMOOTHED if _trends(header)))


def _trends(header: Results) -> Mapping[str, Sequence[Smoothed]]:
    """Return the smoothed estimates, which belong to rounds and not to periods."""
    return {} if header.periods else header.trends or {}


def _in_order(record: Record, columns: Sequence[str]) -> Record:
    return {column: record.get(column) for column in columns}


def records_csv(records: Iterable[Mapping[str, Cell]]) -> str:
    """Return records with the same keys as CSV; the keys are the header."""
    listed = list(records)
    return csv_text([listed[0] if listed else (), *(record.values() for record in listed)])


def csv_text(lines: Iterable[Iterable[Cell]]) -> str:
    """Return the lines as CSV (RFC 4180)."""
    file = io.StringIO(newline="")
    csv.writer(file).writerows(map(_plain, line) for line in lines)
    return file.getvalue()


def _plain(cell: Cell) -> Cell:
    """Escape an option that a spreadsheet would read as a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def _records(results: Results, period: Round, source: Record, smooth: Smooth) -> Iterator[Record]:
    """Yield records keyed by column. Columns about one question are empty for a pair."""
    common = source | {
        "round": period.round, "from": period.first_day, "until": period.last_day,
        "state": period.state, "confidence": results.confidence,
    }  # fmt: skip
    if isinstance(period, Period):
        common |= {
            "last_round": period.last_round, "rounds": period.rounds, "event": period.event or None
        }  # fmt: skip
    by_question = {name: common | _facts(name, about) for name, about in results.about.items()}
    for question in results.of(period):
        facts = by_question[question.name] | {"floor": question.floor}
        records = _row_records(results, period, facts, question.rows, [question.name])
        changed = period.change.questions.get(question.name, ()) if period.change else ()
        changes = {difference.label: difference for difference in changed}
        for record in records:
            label = str(record["label"])
            made = smooth.get((question.name, period.round, label))
            values = {f"smoothed_{key}": getattr(made, key) for key in SMOOTHED if made}
            yield record | _change(changes.get(label)) | values
    for crossed in period.cross or ():
        pairs = [(TIMES, crossed.questions, crossed.rows, "cross")]
        pairs += [(" within ", (r.question, r.within), r.rows, "rate") for r in crossed.rates]
        for word, names, rows, kind in pairs:
            title = word.join(results.about[name].title for name in names)
            facts = common | {"question": word.join(names), "title": title, "kind": kind}
            yield from _row_records(results, period, facts, rows, names)
    for part in period.labels or ():
        for name, rows in part.questions.items():
            facts = by_question[name] | {"by": part.name, "value": part.value}
            yield from _row_records(results, period, facts, rows, [name])
            if part.effects:
                facts |= {"against": part.effects.against, "reports": part.reports}
                effects = part.effects.questions.get(name, ())
                yield from _row_records(results, period, facts, effects, [name])
    for median in period.medians or ():
        facts = by_question[median.question] | {"by": median.by, "value": median_name(median)}
        yield from _row_records(results, period, facts, median.rows, [median.question])
    if period.rows_left_out:
        listed = (f"{count:,} of {name}" for name, count in period.rows_left_out.items())
        words = f"rows with the lowest estimates left out: {', '.join(listed)}"
        yield source | {"round": period.round, "note": words}


def _change(difference: Difference | None) -> Record:
    """Return the columns about the change since the period before."""
    if difference is None:
        return {}
    numbers = msgspec.structs.asdict(difference)
    return {f"change_{key}".replace("_estimate", ""): value for key, value in numbers.items()}


def _facts(name: str, about: About) -> Record:
    return {
        "question": name, "title": about.title, "kind": about.kind, "epsilon": about.epsilon,
        "mechanism": about.mechanism, "leverage": about.leverage,
    }  # fmt: skip


def _row_records(
    results: Results,
    period: Round,
    facts: Record,
    rows: Iterable[Row | Effect],
    questions: Sequence[str],
) -> Iterator[Record]:
    bad = isinstance(period, Period) and period.forged_rounds
    forged = FORGED if bad or any(period.fit[name].forged for name in questions) else None
    for row in rows:
        cells = msgspec.structs.asdict(row)
        note = "; ".join(filter(None, (forged, cells.get("note"), period.note)))
        called = _called(results, questions, row.label)
        error = None if row.low is None or row.high is None else (row.high - row.low) / (2 * Z)
        yield facts | cells | {"called": called, "standard_error": error, "note": note}


def _called(results: Results, names: Sequence[str], label: str) -> str:
    """Return a label, or the labels of a pair, as shown to people."""
    parts = label.split(TIMES) if len(names) > 1 else [label]
    if len(parts) != len(names):  # a label contains the sign
        return label
    called = [results.about[name].called or {} for name in names]
    return TIMES.join(words.get(part, part) for words, part in zip(called, parts, strict=True))


# Text for a terminal


def report_lines(results: Results, rounds: Iterable[Round] | None = None) -> Iterator[str]:
    """Yield the lines about these rounds, or about all rounds of `results`."""
    yield f"{results.name}: {results.title}"
    each = f"for {results.repeat_rounds} rounds" if results.repeat_rounds else "a round"
    yield f"{results.survey}, {results.state}, ε {results.epsilon} {each}"
    if results.left_out:
        yield f"\nOnly the newest rounds; use --until N for {results.left_out:,} earlier ones."
    yield from _period_lines(results)
    period = None
    listed = results.rounds if rounds is None else rounds
    for period in () if results.periods else listed:
        yield ""
        yield from _round_lines(results, period)
    for name, rows in (results.trends or {}).items():
        for row in rows:
            if period is not None and row.round == period.round:
                label = f"{name} {row.label}" if len(period.questions[name]) > 1 else name
                model = results.period, results.most_change or 0.0
                yield from _wrapped(smoothed(row, results.about[name], label, *model))
    if period is None and not results.periods:
        yield "\nNo round has begun yet, so there is nothing to show."
    yield ""
    yield from PERIOD_READING if results.periods else READING
    if results.follows:
        yield "Results of another survey chose these questions, so every interval is about exactly"
        yield "these people, and none is about the population."
    if results.ask:
        yield f"Each install was asked one of the {len(results.about)} questions, drawn at random."
        yield "A question's results describe all who reported; only the interval for “these people”"
        yield "refers to those who were asked the question."
    if results.by:
        yield f"Intervals by {' and by '.join(results.by)} hold jointly for all values of a label."
    if period is not None and period.cross:
        yield "Pairs of questions (×) are counted from the same reports, which adds no ε. The"
        yield "intervals of one question's rates within another hold jointly."
    if results.repeat_rounds:
        yield f"Each install sends one report for {results.repeat_rounds} rounds at a time. Such"
        yield "rounds contain the same reports, so they are not independent, and a change is only"
        yield "visible in later rounds."


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    this = f"{comparison.name}, {_rounds(comparison.round, comparison.last_round)}"
    other = _rounds(comparison.against_round, comparison.against_last_round)
    other = f"{comparison.against_name}, {other}"
    yield f"{this}, compared with {other}: differences, with 95 % intervals"
    for name, differences in comparison.questions.items():
        yield from _difference_lines(name, comparison.about[name], differences)
    yield "The intervals are valid even if the same people answered in both. “These people” refers"
    yield "to exactly the respondents, for whom only the privacy noise is random."


def _rounds(first: int, last: int | UnsetType) -> str:
    return f"rounds {first} to {last}" if last else f"round {first}"


def _period_lines(results: Results) -> Iterator[str]:
    """Yield a table for each question, with a line for each period and label."""
    periods = results.periods or ()
    for name, about in results.about.items() if periods else ():
        shown = period_figures(periods, name, about)[:MAX_PERIOD_ROWS]
        yield f"\n{name} (ε {about.epsilon})" + ("" if shown else ": no estimate yet")
        rows = [
            (period_name(row.period), row.value.label, row.value.whole, row.value.interval,
             row.change_text, f"{row.reports:,}")
            for row in shown
        ]  # fmt: skip
        yield from _aligned(PERIOD_HEADINGS, rows) if rows else ()
    for name, changes in (results.changes or {}).items():
        for change in changes:
            yield f"{name}, {change.label}: {change_words(change)}."
    for period in periods:
        if period.warning:
            yield from _wrapped(f"WARNING: {period_name(period)}: {period.warning}.")


def _round_lines(results: Results, period: Round) -> Iterator[str]:
    first, last = period.first_day, period.last_day
    days = first if first == last else f"{first} to {last}"
    shown = "" if period.state == "final" else " shown"
    reports = quantity(period.reports, "report")
    yield f"Round {period.round}, {days}, {period.state}: {reports}{shown}"
    if period.warning:
        yield from _wrapped(f"WARNING: {period.warning}.")
    if period.note:
        yield from _wrapped(period.note)
    for name, made in (period.forecasts or {}).items():
        about, asked = results.about[name], name
        if len(period.questions[name]) > 1:
            asked = f"{name}, {made.label}"
        yield f"  {asked}: {forecast_sentence(made, STYLES[about.statistic], about.unit)}"
    if period.covers != "nothing" and period.reports:
        yield from _wrapped(_verdict(period))
    for sentence in shuffle_sentences(period, results.epsilon):
        yield from _wrapped(sentence)
    rows = list[tuple[str, ...]]()
    for question in results.of(period):
        title = f"{question.name} (ε {question.about.epsilon})"
        rows += _table(title, question.rows, question.about, _floor(question))
    for crossed in period.cross or ():
        rows += _table(TIMES.join(crossed.questions), crossed.rows, None, "--csv")
        for rates in crossed.rates:
            title = f"{rates.question} within {rates.within}"
            rows += _table(title, rates.rows, None, "--csv", joint=True)
    for part in period.labels or ():
        for name, part_rows in part.questions.items():
            title = f"{name}, {part.name} {part.value}"
            rows += _table(title, part_rows, results.about[name], "--csv", joint=True)
    for median in period.medians or ():
        title = f"{median.question}, {median.by} {median_name(median)}"
        about = results.about[median.question]
        rows += _table(title, median.rows, about, "--csv", joint=True)
    yield from _aligned(HEADINGS, rows)
    for median in period.medians or ():
        for sentence in disagreements(median):
            yield from _wrapped(f"{median.question}: {sentence}.")
    for sentence in _effect_lines(results, period):
        yield from _wrapped(sentence)
    for name, distribution in (period.distributions or {}).items():
        quartiles = [quartile for quartile in distribution.quantiles if quartile.level in QUARTILES]
        listed = "; ".join(quantile_text(part, results.about[name].unit) for part in quartiles)
        yield from _wrapped(f"{name}: {listed}. All intervals hold jointly; --json has the rest.")
    for name, vector in (period.vectors or {}).items():
        yield f"  {name}: {whole_text(vector)}"
    for name, floor in (period.floors or {}).items():
        yield from _wrapped(f"{name}: {floor.words}")
    if change := period.change:
        if change.note:
            yield from _wrapped(f"No comparison with round {change.since}: {change.note}.")
        for name, differences in change.questions.items():
            title = f"{name}, since round {change.since}"
            yield from _difference_lines(title, results.about[name], differences)


def _aligned(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for cells in (headings, *rows):
        texts = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        numbers = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        yield f"  {'  '.join(texts[:FIRST_NUMBER] + numbers[FIRST_NUMBER:])}".rstrip()


def _effect_lines(results: Results, period: Round) -> Iterator[str]:
    """Yield sentences about the differences between the values of each label."""
    yield from empty_labels(results.by or (), period, results.minimum_reports)
    for label, members in groupby(period.labels or (), lambda part: part.name):
        parts = [*members]
        notes = (part.effects.note for part in parts if part.effects and part.effects.note)
        yield from (f"{label}: {note}." for note in dict.fromkeys(notes))
        for name, about in results.about.items():
            sentences = effect_sentences(parts, name, about)
            yield from (f"{name}, by {label}: {sentence}" for sentence in sentences)


def _verdict(period: Round) -> str:
    """Summarize the forgery checks of a round."""
    p_values = ", ".join(f"{name} {fit.p_value:.2g}" for name, fit in period.fit.items())
    if any(fit.forged for fit in period.fit.values()):
        return f"Forgery check: failed. Honest reports rarely give these counts (p: {p_values})."
    return (
        f"Forgery check: passed (p: {p_values}). Forgeries that mimic honest reports cannot be "
        "detected."
    )


def _difference_lines(title: str, about: About, differences: Sequence[Difference]) -> Iterator[str]:
    style = STYLES[about.statistic]
    unit = style.behind_margin(about.unit)
    clear = [row for row in differences if row.low > 0 or row.high < 0]
    shown = differences if len(differences) == 1 else clear[:MAX_ROWS_SHOWN]
    for row in shown:
        places = decimals(style.factor * (row.high - row.low) / 2)
        estimate, low, high, low_these, high_these = (
            style.text(value, places)
            for value in (row.estimate, row.low, row.high, row.low_these, row.high_these)
        )
        label = f" {row.label}:" if len(differences) > 1 else ":"
        yield (
            f"  {title}{label} {estimate}{unit} ({low} to {high}; these people {low_these} to "
            f"{high_these})"
        )
    if others := len(differences) - len(shown):
        what = "not shown" if len(clear) > len(shown) else "no clear change"
        yield f"  {title}: {what} in the other {quantity(others, style.labels or 'label')}"


def _table(
    title: str, rows: Sequence[Row], about: About | None, others: str, joint: bool = False
) -> Iterator[tuple[str, ...]]:
    """Yield a line per row, the first with the title. Intervals of a long table hold jointly."""
    statistic, unit = (about.statistic, about.unit) if about else ("share", "")
    is_long = len(rows) > MAX_IN_ORDER
    joint, listed = joint or is_long, _clear(rows) if is_long else rows
    for number, row in enumerate(listed[:MAX_ROWS_SHOWN]):
        cells = _cells(figures(row, statistic, unit, joint), row.note)
        yield "" if number else title, row.label, *cells, f"{row.reports:,}"
    if len(listed) > MAX_ROWS_SHOWN:
        yield "", f"… {len(listed) - MAX_ROWS_SHOWN:,} more: --csv", *EMPTY
    if len(rows) > len(listed):
        yield (
            "" if listed else title,
            f"… {quantity(len(rows) - len(listed), 'other')}: {others}",
            *EMPTY,
        )


def _clear(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rows clearly above 0, highest first, or the first row if none is estimated."""
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


def _wrapped(text: str) -> Iterator[str]:
    return (f"  {line}" for line in wrap(text, WIDTH))
