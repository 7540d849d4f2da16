"""Results of each question in each round: rows, changes since an earlier round, forgery checks.

If a round has fewer reports than the survey's `minimum_reports`, its rows have a note in place of
an estimate. A forgery check gives a lower bound on the number of forged reports, and on how far
they can move an estimate. It cannot detect forged reports that look honest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, Literal

import numpy as np
from msgspec import UNSET

from deniable.server.estimation import ESTIMATORS, estimates, forgery_test
from deniable.server.estimation.change_points import (
    change_points,
    comparisons_of,
    mean_factor,
    share_factor,
)
from deniable.server.estimation.frequent_texts import FALSE_DISCOVERY
from deniable.server.estimation.statements import (
    CONFIDENCE,
    Estimate,
    RoundSize,
    Side,
    Statements,
    differences,
    halved,
)
from deniable.server.estimation.trend import Window, largest_error, period_confidence, windows
from deniable.server.planning.display_gate import (
    Plan,
    at_worst,
    is_enough,
    margins,
    reports_needed,
)
from deniable.server.results.display import STYLES
from deniable.server.results.document import (
    About,
    Change,
    ChangePoint,
    Difference,
    Fit,
    Floor,
    Forecast,
    QuestionResult,
    Row,
    Smoothed,
    WholeVector,
)
from deniable.server.results.estimate_cache import (
    Counts,
    EstimateCache,
    Manner,
    Pool,
    batches,
    round_sizes,
    stack,
    where_enough,
)
from deniable.server.results.periods import joint_reading
from deniable.server.store import RoundTally
from deniable.shared.errors import quantity
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Estimation, Question

NO_REPORT = Fit(p_value=1.0, forged=0, shift=0.0, sentence="No counts have been checked yet.")
NOTHING_FOUND = "no answer is common enough to be found"
NOT_YET = "no result is shown yet"
ROWS_PER_TEXT = 4  # size of a text in the cache, in rows
MAX_LABELS_WITH_CHANGES = 20  # changes of longer lists are not located
# the largest variance factor of a report, by the way of estimating; Any: the family of its name
FACTORS: Mapping[Estimation, Callable[[Any], float]] = {"shares": share_factor, "mean": mean_factor}

SHARED_NOISE = "both rounds contain the same reports, so their difference has no interval"

Differences = tuple[Difference, ...]
Tallies = Sequence[RoundTally | None]


def about(question: Question, survey: Survey | None = None) -> About:
    """Return the facts about a question that are the same in every round of its survey."""
    shown = question.display.options
    return About(
        title=question.title,
        called=dict(zip(question.labels, shown, strict=True)) if shown else UNSET,
        kind=question.kind,
        epsilon=str(question.epsilon),
        mechanism=question.mechanism.name,
        leverage=question.mechanism.leverage,
        method=ESTIMATORS[question.estimation].method,
        statistic=question.statistic,
        unit=question.unit,
        range=question.range,
        people="respondents" if survey and survey.follows else UNSET,
        **question.facts(),
    )


def question_rounds(
    cache: EstimateCache,
    survey: Survey,
    question: Question,
    rounds: Sequence[Counts],
    max_rows: int | None = None,
    fewest: int = 0,
    values: int = 1,
) -> list[QuestionResult]:
    """Return one question's result in each round, with at most `max_rows` rows each.

    `fewest` is the number of reports that an estimate needs, if the survey asks for fewer. The
    joint intervals hold for this many `values` of a label.
    """
    facts, labels = about(question, survey), question.labels or ("",)

    def make(enough: Sequence[Counts]) -> Iterable[QuestionResult]:
        if question.labels:
            return _labelled(cache, question, facts, enough, max_rows, values)
        return _texts(cache, question, facts, enough)

    def refuse(counts: Counts) -> QuestionResult:
        plan = at_worst(question, counts.reading, values, counts.sizes)
        rows = too_few(survey, plan, labels, counts, fewest)
        return QuestionResult(question.name, facts, rows, None)

    made = zip(where_enough(rounds, make), rounds, strict=True)
    return [result or refuse(counts) for result, counts in made]


def floors(survey: Survey, tally: RoundTally | None) -> dict[str, Floor]:
    """Return the floor of each text question in a round that has enough reports."""
    by_question = dict[str, Floor]()
    for question in survey.questions if tally else ():
        reports = Counts.of(survey, question, tally).reports
        share = None if question.labels else question.mechanism.floor(reports)
        if share is not None and reports >= survey.minimum_reports:
            people = math.ceil(share * reports)
            floor = Floor(share=share, people=people, false_discovery=FALSE_DISCOVERY)
            by_question[question.name] = floor
    return by_question


def forecast(cache: EstimateCache, question: Question, counts: Counts) -> Forecast | None:
    """Return the margins of the highest estimate now, and if the same counts were final."""
    if not counts.enough or not question.labels:
        return None
    final = replace(counts, reading=counts.reading._replace(any_time=False))
    now, then = cache.statements(question, [counts, final])
    index = int(np.argmax(now.estimate))
    margins = (float(made.like[1][index] - made.like[0][index]) / 2 for made in (now, then))
    return Forecast(question.labels[index], *margins)


# Rows


def _labelled(
    cache: EstimateCache,
    question: Question,
    facts: About,
    rounds: Sequence[Counts],
    max_rows: int | None,
    values: int,
) -> Iterator[QuestionResult]:
    """Yield each round's result, with only the `max_rows` highest estimates."""
    all_labels = question.labels
    for made, counts in zip(cache.statements(question, rounds, values=values), rounds, strict=True):
        labels, columns = all_labels, made.columns
        if max_rows is not None and len(all_labels) > max_rows:
            kept = np.sort(np.argsort(-made.estimate, kind="stable")[:max_rows])
            labels, columns = [all_labels[index] for index in kept], columns[:, kept]
        *ends, error, consistent = columns.tolist()
        numbers = repeat(None) if counts.respondents else error, repeat(counts.reports), consistent
        rows = map(Row, labels, *ends, *numbers, repeat(None))
        floor = None if math.isnan(made.floor) else float(made.floor)
        vector = ESTIMATORS[question.estimation].whole(question, counts.cells, counts.reports)
        whole = WholeVector(**vector._asdict()) if vector else None
        left_out = len(all_labels) - len(labels)
        yield QuestionResult(question.name, facts, tuple(rows), floor, whole, left_out)


def _texts(
    cache: EstimateCache, question: Question, facts: About, rounds: Sequence[Counts]
) -> Iterator[QuestionResult]:
    """Yield the texts that stand out in each round."""
    listed = cache.per_round(
        ("texts", question),
        question.mechanism.cells,
        rounds,
        lambda batch: [
            estimates(question, counts.cells, counts.reports, counts.reading.confidence)
            for counts in batch
        ],
        lambda made: ROWS_PER_TEXT * len(made),
    )
    for texts, counts in zip(listed, rounds, strict=True):
        rows = tuple(_text_row(text, counts) for text in texts)
        rows = rows or _without_estimate(("",), counts.reports, NOTHING_FOUND)
        yield QuestionResult(question.name, facts, rows, None)


def _text_row(text: Estimate, counts: Counts) -> Row:
    """Return the row of a text.

    Its interval allows for the selection of the text, but does not hold jointly with those of other
    texts. It also holds for the respondents, for whom less is random; in several rounds, where the
    same people may be in all of them, only for the respondents.
    """
    low, high = (None, None) if counts.sizes else (text.low, text.high)
    ends = low, high, text.low, text.high, None, None
    error = None if counts.respondents else text.standard_error
    return Row(text.label, text.estimate, *ends, error, text.reports, text.consistent, text.note)


def _without_estimate(labels: Sequence[str], reports: int, note: str) -> tuple[Row, ...]:
    unknown = repeat(None)
    return tuple(map(Row, labels, *[unknown] * 8, repeat(reports), unknown, repeat(note)))


def too_few(
    survey: Survey, plan: Plan | None, labels: Sequence[str], counts: Counts, fewest: int = 0
) -> tuple[Row, ...]:
    """Return rows with the reason why no estimate is shown."""
    if counts.reading.covers == "nothing":
        return _without_estimate(labels, counts.reports, NOT_YET)
    by_count = needed = max(fewest, survey.minimum_reports)
    if survey.show_when is not None:
        needed = max(fewest, reports_needed(survey, plan))
    note = f"no estimate below {quantity(needed, 'report')}"
    if plan and needed > by_count and counts.reports:
        style, unit = STYLES[plan.question.statistic], plan.question.unit
        both = margins(survey, plan, counts.reports)
        now, wanted = (style.margin(margin, unit) for margin in both)
        note = f"too few yet: {now} now, {wanted} at {quantity(needed, 'report')}"
    return _without_estimate(labels, counts.reports, note)


# Changes since an earlier round or period


def changes(
    cache: EstimateCache, survey: Survey, pools: Sequence[Pool], earlier: Sequence[Pool | None]
) -> list[Change | None]:
    """Return the change of each round or period since the earlier one, if there is one."""
    made = [_change(survey, now, then) for now, then in zip(pools, earlier, strict=True)]
    sides = [
        (change, now, then)
        for change, now, then in zip(made, pools, earlier, strict=True)
        if then and change and not change.note
    ]
    for question in survey.questions:
        now_counts = [now.counts(survey, question) for _, now, _ in sides]
        then_counts = [then.counts(survey, question) for *_, then in sides]
        rows_by_pair = compared(cache, question, now_counts, question, then_counts)
        for (change, *_), rows in zip(sides, rows_by_pair, strict=True):
            if rows:
                change.questions[question.name] = rows
    return made


def _change(survey: Survey, now: Pool, then: Pool | None) -> Change | None:
    """Return a change without its differences."""
    if then is None:
        return None
    note = SHARED_NOISE if now.shares_reports(survey, then) else None
    last = then.rounds[-1] if len(then.rounds) > 1 else UNSET
    return Change(since=then.rounds.start, since_last=last, note=note, questions={})


def compared(
    cache: EstimateCache,
    question: Question,
    now: Sequence[Counts],
    other: Question,
    then: Sequence[Counts],
) -> list[Differences]:
    """Return the differences of common labels for each pair of rounds with estimates."""
    made: list[Differences] = [()] * len(now)
    other_labels = set(other.labels)
    labels = [label for label in question.labels if label in other_labels]
    if not labels:  # a text has no labels in advance
        return made
    enough = [index for index, counts in enumerate(now) if counts.enough and then[index].enough]

    def manner(index: int) -> tuple[Manner, ...]:
        return now[index].manner, then[index].manner

    for batch in batches(enough, manner, question.mechanism.cells):
        kinds = [reading for reading, _ in manner(batch[0])]
        any_time = any(kind.any_time for kind in kinds)
        later, earlier = (
            _side(cache, asked, [rounds[index] for index in batch], labels, any_time)
            for asked, rounds in ((question, now), (other, then))
        )
        difference = differences(later, earlier, max(kind.confidence for kind in kinds))
        arrays = difference.estimate, *difference.like, *difference.these
        columns = np.stack(arrays, axis=-1)
        for index, numbers in zip(batch, columns.tolist(), strict=True):
            made[index] = tuple(
                Difference(label, *row) for label, row in zip(labels, numbers, strict=True)
            )
    return made


def _side(
    cache: EstimateCache,
    question: Question,
    rounds: Sequence[Counts],
    labels: Sequence[str],
    any_time: bool,
) -> Side:
    sides = [_read_at(counts, halved(counts.reading.confidence)) for counts in rounds]
    like = cache.limits(question, sides, "like")
    these = cache.limits(question, sides, "these") if any_time else None
    side = Side(Statements.of_rounds(cache.statements(question, rounds)), like, these)
    if len(labels) == len(question.labels):
        return side
    indexes = {label: index for index, label in enumerate(question.labels)}
    return side.of([indexes[label] for label in labels])


def _read_at(counts: Counts, confidence: float) -> Counts:
    return replace(counts, reading=counts.reading._replace(confidence=confidence))


def located_changes(
    survey: Survey, question: Question, series: Sequence[Pool]
) -> tuple[ChangePoint, ...]:
    """Return the changes of each label over a series without common reports, oldest first."""
    if not has_trend(question) or len(series) < 2:
        return ()
    cells, reports = stack([pool.counts(survey, question) for pool in series])
    known = np.flatnonzero(reports)
    points = np.zeros((len(series), len(question.labels)))
    if len(known):
        made = ESTIMATORS[question.estimation](question, cells[known], reports[known])
        points[known] = made.points.estimate
    factor = FACTORS[question.estimation](question.mechanism) * question.span**2
    error, largest_drift = (1 - CONFIDENCE) / len(question.labels), drift(survey, question)
    compared_windows = comparisons_of(survey.rounds)
    located = change_points(points.T, reports, factor, compared_windows, error, largest_drift)
    return tuple(
        ChangePoint(
            label=label,
            direction="higher" if change.rises else "lower",
            round=series[change.at].rounds[0],
            day=survey.round_days(series[change.at].rounds[0])[0],
            earliest=survey.round_days(series[change.first].rounds[0])[0],
            latest=survey.round_days(series[change.last].rounds[-1])[1],
        )
        for label, changed in zip(question.labels, located, strict=True)
        for change in changed
    )


def has_trend(question: Question) -> bool:
    """Return whether changes are located in the question's estimates."""
    return question.estimation in FACTORS and len(question.labels) <= MAX_LABELS_WITH_CHANGES


def drift(survey: Survey, question: Question) -> float:
    """Return the largest drift of a true value per round that is not listed; usually 0."""
    return (survey.most_change or 0) / 100 * question.span


def smoothed(
    cache: EstimateCache, survey: Survey, question: Question, series: Sequence[Pool]
) -> tuple[Smoothed, ...]:
    """Return the smoothed estimates of each round with reports, and of each label."""
    if not has_trend(question) or not series:
        return ()
    cells, reports = stack([pool.counts(survey, question) for pool in series])
    everyone = [RoundSize(n, p.reports) for n, p in zip(reports.tolist(), series, strict=True)]
    sums, people = (np.cumsum([0 * part[0], *part], axis=0) for part in (cells, reports))
    _, noise = question.mechanism.variances(None)
    found = windows(reports, drift(survey, question), noise * question.span**2)
    used = list[tuple[int, Window, Counts]]()
    for last in np.flatnonzero(reports).tolist():
        members = slice(last + 1 - found[last].rounds, last + 1)
        read = joint_reading([pool.reading for pool in series[members]], survey)
        n = int(people[last + 1] - people[members.start])
        sizes = round_sizes(everyone[members])
        plan = at_worst(question, read, sizes=sizes)
        if read.covers != "nothing" and is_enough(survey, plan, n):
            pooled = Counts(sums[last + 1] - sums[members.start], n, read, sizes=sizes)
            used.append((last, found[last], pooled))
    return tuple(_smoothed(cache, question, series, used)) if used else ()


def _smoothed(
    cache: EstimateCache,
    question: Question,
    series: Sequence[Pool],
    used: Sequence[tuple[int, Window, Counts]],
) -> Iterator[Smoothed]:
    _, found, counts = zip(*used, strict=True)
    estimator = ESTIMATORS[question.estimation](question, *stack(counts))

    def limits(about: Literal["like", "these"]) -> list[Any]:  # Any: arrays
        read = []
        for window, pooled in zip(found, counts, strict=True):
            sampling = about == "like"
            rounds = max(1, len(pooled.sizes))
            error = largest_error(estimator, pooled.reports, rounds, sampling=sampling)
            bias = window.bias / question.span
            read.append(_read_at(pooled, period_confidence(pooled.reading, bias, error)))
        bias = np.array([[window.bias] for window in found])
        low, high = cache.limits(question, read, about)
        return [low - bias, high + bias]

    arrays = estimator.points.estimate, *limits("like"), *limits("these")
    rows = np.stack(arrays, axis=-1).tolist()
    for (last, window, _), labelled in zip(used, rows, strict=True):
        for label, numbers in zip(question.labels, labelled, strict=True):
            yield Smoothed(series[last].rounds[-1], window.rounds, label, *numbers)


# Forgery checks


def round_fits(survey: Survey, tallies: Tallies, cache: EstimateCache) -> list[dict[str, Fit]]:
    """Return the forgery checks of every question in each round."""
    checks = {
        question.name: _question_fits(survey, question, tallies, cache)
        for question in survey.questions
    }
    return [dict(zip(checks, row, strict=True)) for row in zip(*checks.values(), strict=True)]


def warning(survey: Survey, tally: RoundTally | None, checks: Mapping[str, Fit]) -> str | None:
    """Return the warning about forged reports, or None if honest reports can explain the counts."""
    parts = [
        f"{question.name}: at least {fit.forged:,} of {tally.of(survey, question)[0]:,} reports "
        f"cannot be honest; these alone can move an estimate by up to {_shift(question, fit.shift)}"
        for question in survey.questions
        if tally is not None and (fit := checks[question.name]).forged
    ]
    if not parts:
        return None
    return (
        "this round contains forged reports; do not rely on its figures. "
        f"{'; '.join(parts)}. There may be more that look like honest ones"
    )


def _question_fits(
    survey: Survey, question: Question, tallies: Tallies, cache: EstimateCache
) -> list[Fit]:
    def check(batch: Sequence[Counts]) -> list[Fit]:
        fits = forgery_test.fits(question.mechanism, *stack(batch), len(survey.questions))
        pairs = zip(batch, fits, strict=True)
        return [_fit(question, counts.reports, fit) for counts, fit in pairs]

    counts = [Counts.of(survey, question, tally) for tally in tallies if tally]
    key = "fit", len(survey.questions), question
    checks = iter(cache.per_round(key, question.mechanism.cells, counts, check, lambda _: 1))
    return [next(checks) if tally else NO_REPORT for tally in tallies]


def _fit(question: Question, reports: int, fit: forgery_test.Fit) -> Fit:
    share = fit.forged / reports if fit.forged else 0.0
    shift = share * question.mechanism.leverage * question.span
    probability = "1" if fit.p_value >= 1 else f"below {fit.p_value:.1g}"
    if fit.forged:
        sentence = (
            f"Honest reports give such counts with probability {probability}: at least "
            f"{fit.forged:,} of {reports:,} are forged, and these alone can move an estimate by up "
            f"to {_shift(question, shift)}."
        )
    else:
        sentence = (
            f"Honest reports can give these counts (p {probability}). Forgeries that mimic honest "
            "reports cannot be detected."
        )
    return Fit(p_value=fit.p_value, forged=fit.forged, shift=shift, sentence=sentence)


def _shift(question: Question, shift: float) -> str:
    style = STYLES[question.statistic]
    return f"{style.factor * shift:,.3g}{style.behind_margin(question.unit)}"
