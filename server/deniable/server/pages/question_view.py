"""Views of a survey page: one question in one round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from statistics import median_low
from typing import Any, NamedTuple

import msgspec

from deniable.server.estimation.statements import MAX_SEPARATE_LABELS, Statement
from deniable.server.pages import charts
from deniable.server.results import Round
from deniable.server.results import SurveyEstimates as Estimates
from deniable.server.results.answers import about
from deniable.server.results.display import (
    STYLES,
    Figures,
    PeriodFigures,
    Style,
    days_text,
    difference_figures,
    figures,
    known_figures,
    of_respondents,
    period_figures,
    period_name,
    quantile_figures,
    quantile_places,
    smoothed_figures,
    whole_text,
)
from deniable.server.results.document import (
    Change,
    Difference,
    Period,
    QuestionResult,
    Row,
    Smoothed,
)
from deniable.server.results.sentences import (
    change,
    forecast_sentence,
    one_label,
    privacy_cost,
    several_labels,
    smoothed,
    texts_found,
)
from deniable.shared.errors import quantity
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.phrases import ENGLISH, day_and_month

MAX_CHANGES = 3  # in a headline
MAX_TABLE_ROWS = 1_024  # maximum rows of a table on a page; the CSV has more
MAX_INTERVAL_SHARE = 0.9  # of the possible values; a wider interval has no figure
FORGED = "Some of these reports are forged, so the figures do not answer the question."
TOO_WIDE = "Too few reports to answer: the 95 % interval covers almost all possible values."
MAX_TREND_ROUNDS = 60  # without periods

Record = Mapping[str, Any]  # Any: the value of a field of the results


@dataclass(frozen=True)
class PageContext:
    """Results and round that a page shows, with events and reference values for charts."""

    estimates: Estimates
    period: Round | None
    periods: Sequence[Period]  # including the one that is shown; none if the page shows a round
    events: Mapping[int, str]  # keyed by round
    references: Mapping[tuple[str, int, str], float]  # keyed by question, round and label

    @property
    def survey(self) -> Survey:
        return self.estimates.survey

    @property
    def period_name(self) -> str:
        if isinstance(self.period, Period):
            return period_name(self.period)
        return self.survey.round_title(self.period.round) if self.period else ""


class FigureFile(NamedTuple):
    """Figure of a question, for download."""

    name: str
    title: str
    python: str  # Python expression for the same numbers
    records: Callable[[], Iterable[Record]]


@dataclass(frozen=True)
class QuestionView:
    """One question in the round that a page shows."""

    question: Question
    context: PageContext

    @property
    def style(self) -> Style:
        return STYLES[self.question.statistic]

    @property
    def over(self) -> str:
        return ENGLISH[f"over_{self.question.over}"]

    @property
    def example_in_javascript(self) -> str:
        return self.question.javascript_example

    @property
    def reports(self) -> int:
        period = self.context.period
        return period.questions[self.question.name][0].reports if period else 0

    @property
    def note(self) -> str:
        """Reason why the round has no estimate, or an empty text."""
        period = self.context.period
        listed = period.questions[self.question.name] if period and self.question.labels else ()
        return reason_for_no_estimate(listed)

    @property
    def joint(self) -> bool:
        """True if the page picks labels by their estimates, so that intervals must hold jointly.

        The intervals of texts already allow for their selection.
        """
        return len(self.question.labels) > MAX_SEPARATE_LABELS

    @cached_property
    def rows(self) -> Sequence[Figures]:
        return self._figures(self.joint)

    @property
    def is_doubted(self) -> bool:
        """True if the figures include forged reports."""
        period = self.context.period
        return bool(period and period.warning and not self.over_periods)

    @property
    def is_too_wide(self) -> bool:
        """True if the intervals cover almost all possible values."""
        limit = MAX_INTERVAL_SHARE * self.question.span
        return bool(self.rows) and all(row.high - row.low >= limit for row in self.rows)

    @cached_property
    def headline(self) -> str:
        if not self.rows:
            return ""
        if len(self.question.labels) == 1 and (said := self._period_changes):
            return said
        if self.context.period and self.context.period.warning:
            return FORGED
        if not self.question.labels:
            return texts_found(len(self.rows))
        if self.is_too_wide:
            return TOO_WIDE
        if len(self.question.labels) == 1 and self.style.sentence:
            return one_label(self.rows[0])
        if whole := self._of_round("vectors"):
            return whole_text(whole)
        rows = self.rows if self.joint else self._figures(joint=True)
        return several_labels(rows, charts.MAX_MARKS)

    @cached_property
    def forecast(self) -> str:
        """Margin now and when final, while late reports arrive; empty for joint intervals."""
        made, period = self._of_round("forecasts"), self.context.period
        if made is None or period is None or period.warning or self.joint:
            return ""
        until = day_and_month(self.context.survey.taken_until(period.round))
        margins = forecast_sentence(made, self.style, self.question.unit)
        label = f"{made.label} " if len(self.rows) > 1 else ""
        return f"Collecting late reports until {until}: {label}{margins}."

    @property
    def _period_changes(self) -> str:
        """Sentences about the newest changes of a single label."""
        most = MAX_CHANGES if any(period.event for period in self.context.periods) else 1
        changed = [row for row in self.over_periods if row.change][-most:]
        return "\n".join(
            change(row.change, self._begins(row.period)) for row in changed if row.change
        )

    def _begins(self, period: Period) -> str:
        """Return the words for the time since which a period is compared with the one before."""
        if period.event:
            return f"{period.event} ({days_text(period.first_day, period.first_day, False)})"
        assert period.change is not None
        since = {one.round: one for one in self.context.periods}
        return period_name(since[period.change.since], False)

    @cached_property
    def over_periods(self) -> Sequence[PeriodFigures]:
        """Figures of every period and label, for exactly the reports in it."""
        if self.joint or not self.question.labels:
            return ()
        facts = about(self.question)
        made = period_figures(self.context.periods, self.question.name, facts)
        if not self._names:
            return made
        names = self._renamed([row.value for row in made])
        return [row._replace(value=value) for row, value in zip(made, names, strict=True)]

    @cached_property
    def privacy_cost(self) -> str:
        """Privacy cost as a sentence; empty without estimates, for texts and for follow-ups."""
        survey, period = self.context.survey, self.context.period
        if not self.rows or not self.question.labels or period is None or period.warning:
            return ""
        if survey.follows:  # its intervals are not about the population
            return ""
        asked_one_of = len(survey.questions) if survey.asks_one else 1
        row, read = max(self.rows, key=lambda row: row.half), (period.confidence, period.any_time)
        joint = len(self.question.labels) if self.joint else 1
        ends = row.estimate, row.low, row.high
        shown = Statement(*ends, self.reports, "population", *read, joint)
        label = row.label if len(self.question.labels) > 1 else ""
        return privacy_cost(self.question, shown, label, asked_one_of)

    @property
    def text_floor(self) -> str:
        floor = self._of_round("floors")
        return floor.words if floor else ""

    @cached_property
    def _picked(self) -> tuple[Sequence[Figures], Sequence[Figures]]:
        return charts.picked(self.rows)

    @property
    def drawn(self) -> Sequence[Figures]:
        return self._picked[0]

    @property
    def others(self) -> Sequence[Figures]:
        """Rows that are not drawn, up to the limit of a table."""
        return self._picked[1][:MAX_TABLE_ROWS]

    @property
    def beyond_limit(self) -> int:
        """Number of rows that the results leave out."""
        return self._of_round("rows_left_out") or 0

    @property
    def left_out(self) -> int:
        return len(self._picked[1]) - len(self.others) + self.beyond_limit

    @property
    def others_summary(self) -> str:
        others, floor, first = self._picked[1], self._of_round("floor"), self.rows[0]
        number = quantity(len(others) + self.beyond_limit, "other")
        if clear := sum(row.is_clear for row in others):
            return f"{number}, {clear:,} of them clearly above zero"
        if floor is None:
            return number
        return f"{number}: too rare to measure (below {first.text(floor)}{first.unit})"

    @cached_property
    def chart(self) -> charts.Chart | None:
        return None if self.is_too_wide else charts.chart(self.drawn, self.question.axis)

    @cached_property
    def curve(self) -> charts.Curve | None:
        distribution = self._of_round("distributions")
        return charts.curve(distribution) if distribution else None

    @cached_property
    def quantiles(self) -> Sequence[tuple[str, tuple[str, str, str]]]:
        """Quantiles whose intervals exclude some values, each with its estimate and interval."""
        distribution = self._of_round("distributions")
        limit = MAX_INTERVAL_SHARE * self.question.span
        quantiles = distribution.quantiles if distribution else ()
        located = [quantile for quantile in quantiles if quantile.high - quantile.low < limit]
        places = median_low([quantile_places(quantile) for quantile in located] or [0])
        return [(f"{100 * q.level:g} %", quantile_figures(q, places)) for q in located]

    @property
    def unlocated(self) -> Sequence[str]:
        """Levels of the other quantiles."""
        distribution, shown = self._of_round("distributions"), {name for name, _ in self.quantiles}
        levels = [f"{100 * q.level:g} %" for q in distribution.quantiles] if distribution else []
        return [level for level in levels if level not in shown]

    @cached_property
    def trends(self) -> Sequence[charts.Trend]:
        """Trends of the highest labels.

        A list with joint intervals has none, because each round would pick different labels.
        """
        if self.joint or not self.question.labels or self.is_too_wide:
            return ()
        highest = sorted(self.rows, key=lambda row: -row.prominence)[: charts.MAX_PANELS]
        panels: dict[str, list[tuple[int, Figures]]] = {
            row.label: [] for row in self.rows if row in highest
        }
        asked, names = self.question, self._names
        for number, result in self.history:
            for row in result.rows:
                label = names.get(row.label, row.label)
                if label not in panels:
                    continue
                shown = of_respondents(row) if self.context.periods else row
                if made := figures(shown, asked.statistic, asked.unit):
                    panels[label].append((number, made))
        bands: dict[str, list[charts.PeriodMark]] = {}
        for period, value, *_ in self.over_periods:
            ends, forged = (period.round, period.last_round), bool(period.forged_rounds)
            begins = self._short_title(period.round)
            marked = charts.PeriodMark(*ends, period_name(period), value, forged, begins)
            bands.setdefault(value.label, []).append(marked)
        drawn = [self._panel(label, rounds) for label, rounds in panels.items()]
        smooth: dict[str, list[charts.RoundFigures]] = {}
        for one in self._smoothed:
            label, value = names.get(one.label, one.label), smoothed_figures(one, about(asked))
            smooth.setdefault(label, []).append(charts.RoundFigures(one.round, "", value))
        return charts.trends(drawn, self.context.events, bands, smooth)

    @cached_property
    def _smoothed(self) -> Sequence[Smoothed]:
        """Smoothed estimates; next to periods, with intervals for exactly the respondents."""
        made = self.context.estimates.trends.get(self.question.name, ())
        return [*map(of_respondents, made)] if self.context.periods else made

    @cached_property
    def smoothed(self) -> str:
        """Smoothed estimate of the highest label in the last round; empty without one."""
        shown, survey = self.context.period, self.context.survey
        top = max(self.rows, key=lambda row: row.prominence).label if self.rows else ""
        for one in self._smoothed:
            label = self._names.get(one.label, one.label)
            last = shown.last_round if isinstance(shown, Period) else shown and shown.round
            if (one.round, label) == (last, top):
                facts, several = about(self.question), len(self.rows) > 1
                change = survey.most_change or 0.0
                text = smoothed(one, facts, label if several else "", survey.period, change)
                return text + self._larger_changes(one.label)
        return ""

    def _larger_changes(self, label: str) -> str:
        """Return a sentence about changes that contradict the model of the trend, if any."""
        located = self.context.estimates.changes[self.question.name]
        days = [days_text(change.day, change.day) for change in located if change.label == label]
        return (
            f" Larger changes were found: {', '.join(days)}. The band does not hold there."
            if days
            else ""
        )

    @cached_property
    def _short_title(self) -> Callable[[int], str]:
        """Function that returns a round's short name, cached because all panels use it."""
        return cache(self.context.survey.round_short_title)

    def _panel(
        self, label: str, rounds: Sequence[tuple[int, Figures]]
    ) -> list[charts.RoundFigures]:
        """Return the points of one label, all with the same number of decimals."""
        places = median_low([row.meaningful for _, row in rounds] or [0])
        name, references = self.question.name, self.context.references
        return [
            charts.RoundFigures(
                number,
                self._short_title(number),
                replace(
                    row,
                    label=label,
                    places=places,
                    reference=references.get((name, number, row.label)),
                ),
                number in self.context.estimates.forged,
            )
            for number, row in rounds
        ]

    @cached_property
    def history(self) -> Sequence[tuple[int, QuestionResult]]:
        """Results of the question by round; only the newest, for several labels or without periods.

        The page draws one panel for each label.
        """
        is_whole = self.context.periods and len(self.question.labels) == 1
        most = None if is_whole else MAX_TREND_ROUNDS
        return self.context.estimates.history(self.question, most)

    @property
    def _change(self) -> Change | None:
        return self.context.period.change if self.context.period else None

    @property
    def since(self) -> str:
        """Name of the earlier round in the comparison."""
        return self.context.survey.round_title(self._change.since) if self._change else ""

    @property
    def differences(self) -> Sequence[Difference]:
        """Change of each label; empty for a long list, because these intervals are not joint."""
        if self._change is None or self.joint:
            return ()
        return self._change.questions.get(self.question.name, ())

    @cached_property
    def changes(self) -> Sequence[Figures]:
        asked = self.question
        return self._renamed(difference_figures(self.differences, asked.statistic, asked.unit))

    @property
    def change_headline(self) -> str:
        """Change of a single label, or the reason why there is no comparison."""
        if self._change and self._change.note:
            return f"No comparison: {self._change.note}."
        return change(self.changes[0], self.since) if len(self.changes) == 1 else ""

    @cached_property
    def change_chart(self) -> charts.Chart | None:
        return charts.chart(self.changes, (0.0, 0.0)) if len(self.changes) > 1 else None

    def files(self) -> list[FigureFile]:
        """Return the figures that can be downloaded."""
        period, name = self.context.period, self.question.name
        if not self.rows or period is None:
            return []
        round_name = self.context.period_name
        estimate = f'results.estimate("{name}", round={period.round})'
        if isinstance(period, Period):
            estimate = f'results.periods("{name}")[{[*self.context.periods].index(period)}]'
        offered = [
            (self.chart, "round", round_name, estimate,
             lambda: self._records(period.questions[name])),
            (self.trends, "trend", "over time", f'results.over_rounds("{name}")',
             self._history_records),
            (self.change_chart, "change", f"change since {self.since}", f"{estimate}.change",
             lambda: self._records(self.differences)),
            (self.curve, "distribution", f"share at or below each value, {round_name}",
             f"{estimate}.distribution",
             lambda: map(msgspec.structs.asdict, self._of_round("distributions").points)),
        ]  # fmt: skip
        return [
            FigureFile(kind, f"{self.question.title} – {words}", line, records)
            for figure, kind, words, line, records in offered
            if figure
        ]

    def _history_records(self) -> Iterable[Record]:
        for number, result in self.history:
            known = [row for row in result.rows if row.estimate is not None]
            yield from ({"round": number, **record} for record in self._records(known))

    def _records(self, rows: Sequence[Row | Difference]) -> Iterator[Record]:
        """Yield rows without the standard error at one look, which the intervals do not use."""
        for row in rows:
            record = msgspec.structs.asdict(row)
            record.pop("standard_error", None)
            yield record | {"called": self._names.get(row.label, row.label)}

    @property
    def has_reference(self) -> bool:
        return any(mark.reference is not None for mark in self._marks)

    @property
    def shows_noise(self) -> bool:
        return any(mark.these for mark in self._marks)

    @property
    def _marks(self) -> Iterable[charts.Mark]:
        """Marks on the page, where the trend of a single label replaces its chart."""
        points = [point for trend in self.trends for point in trend.points]
        is_replaced = points and len(self.question.labels) == 1
        return points if is_replaced or not self.chart else (*self.chart.marks, *points)

    def _of_round(self, key: str) -> Any:  # Any: the type depends on the key
        return (getattr(self.context.period, key, None) or {}).get(self.question.name)

    def _figures(self, joint: bool) -> list[Figures]:
        period = self.context.period
        if period is None:
            return []
        return self._shown(period.round, period.questions[self.question.name], joint)

    def _shown(self, number: int, rows: Sequence[Row], joint: bool) -> list[Figures]:
        """Return the rows that have an estimate, with their names and reference values."""
        asked, references = self.question, self.context.references
        shown = [
            replace(row, reference=references.get((asked.name, number, row.label)))
            for row in known_figures(rows, asked.statistic, asked.unit, joint)
        ]
        return self._renamed(shown)

    def _renamed(self, rows: list[Figures]) -> list[Figures]:
        """Replace labels by their display names."""
        if not (names := self._names):
            return rows
        return [replace(row, label=names.get(row.label, row.label)) for row in rows]

    @cached_property
    def _names(self) -> Mapping[str, str]:
        """Display name of each label, where it has one."""
        if not self.question.display.options:
            return {}
        return dict(zip(self.question.labels, self.question.called, strict=True))


def reason_for_no_estimate(rows: Iterable[Row]) -> str:
    return next((row.note for row in rows if row.note and row.estimate is None), "")
