"""Views of a survey page: one question, or one cross table, in one round of the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from statistics import median_low
from typing import Any, cast

import msgspec

from deniable.server.pages import charts
from deniable.server.results import Round
from deniable.server.results import SurveyEstimates as Estimates
from deniable.server.results.answers import TIMES
from deniable.server.results.display import (
    STYLES,
    Figures,
    Style,
    aligned,
    difference_figures,
    figures,
    known_figures,
    quantile_figures,
    quantile_places,
    whole_text,
)
from deniable.server.results.document import Crossed, Difference, Floor, QuestionResult
from deniable.server.results.headlines import (
    change,
    one_label,
    privacy_cost,
    several_labels,
    texts_found,
)
from deniable.shared.privacy.promises import odds_factor
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.phrases import upper_first

MAX_TABLE_ROWS = 1_024  # of a table on a page; the CSV has more
MAX_TREND_ROUNDS = 60

Record = Mapping[str, Any]  # Any: what a field of the results holds


@dataclass(frozen=True)
class PageContext:
    """The results that a page shows, its round, and what charts show next to the estimates."""

    estimates: Estimates
    period: Round | None
    events: Mapping[int, str]  # by round
    references: Mapping[tuple[str, int, str], float]  # by question, round and label

    @property
    def survey(self) -> Survey:
        return self.estimates.survey

    @property
    def period_name(self) -> str:
        return self.survey.round_title(self.period.round) if self.period else ""

    @cached_property
    def results(self) -> Mapping[str, QuestionResult]:
        """The results of the round, by question."""
        if self.period is None:
            return {}
        return {result.name: result for result in self.estimates.header.of(self.period)}


@dataclass(frozen=True)
class FigureFile:
    """One of a question's figures, to download."""

    name: str
    title: str
    python: str  # the expression that reads the same numbers
    records: Callable[[], Iterable[Record]]


@dataclass(frozen=True)
class QuestionView:
    question: Question
    context: PageContext

    # Texts

    @property
    def style(self) -> Style:
        return STYLES[self.question.statistic]

    @property
    def range(self) -> str:
        return self.style.range.format(*self.question.range)

    @property
    def odds(self) -> str:
        return odds_factor(self.question.epsilon.billionths)

    @property
    def example_in_javascript(self) -> str:
        return json.dumps(self.question.example, ensure_ascii=False)

    @property
    def forgery(self) -> str:
        return upper_first(self.question.mechanism.forgery())

    # The round that is shown

    @property
    def result(self) -> QuestionResult:
        return self.context.results[self.question.name]

    @property
    def reports(self) -> int:
        return self.result.rows[0].reports

    @property
    def joint(self) -> bool:
        """Return whether labels are picked by their estimates, so that intervals hold jointly.

        The intervals of texts allow for their selection.
        """
        return len(self.question.labels) > charts.MAX_MARKS

    @cached_property
    def rows(self) -> Sequence[Figures]:
        return self._figures(self.joint) if self.context.period else ()

    @property
    def headline(self) -> str:
        if not self.rows:
            return ""
        if not self.question.labels:
            return texts_found(len(self.rows))
        if len(self.question.labels) == 1 and self.style.sentence:
            return one_label(self.rows[0])
        if self.result.whole:
            return whole_text(self.result.whole)
        rows = self.rows if self.joint else self._figures(joint=True)
        return several_labels(rows, charts.MAX_MARKS)

    @cached_property
    def privacy_cost(self) -> str:
        """Empty without estimates; texts have their floor instead."""
        if not self.rows or not self.question.labels:
            return ""
        survey = self.context.survey
        asked_one_of = len(survey.questions) if survey.asks_one else 1
        return privacy_cost(self.question, self.reports, asked_one_of)

    @property
    def text_floor(self) -> Floor | None:
        return cast("Floor | None", self._of_round("floors"))

    @cached_property
    def _picked(self) -> tuple[Sequence[Figures], Sequence[Figures]]:
        return charts.picked(self.rows)

    @property
    def drawn(self) -> Sequence[Figures]:
        return self._picked[0]

    @property
    def others(self) -> Sequence[Figures]:
        """The rows that are not drawn, as many as a table holds."""
        return self._picked[1][:MAX_TABLE_ROWS]

    @property
    def left_out(self) -> int:
        return max(0, len(self._picked[1]) - MAX_TABLE_ROWS) + self.result.left_out

    @property
    def others_summary(self) -> str:
        floor, clear = self.result.floor, sum(row.is_clear for row in self._picked[1])
        number = f"{len(self._picked[1]) + self.result.left_out:,} others"
        if clear:
            return f"{number}, {clear:,} of them clearly above zero"
        if floor is None:
            return number
        return (
            f"{number}: too rare to measure (below {self.rows[0].text(floor)}{self.rows[0].unit})"
        )

    @cached_property
    def chart(self) -> charts.Chart | None:
        return charts.chart(self.drawn, self.question.axis)

    # Its distribution

    @cached_property
    def curve(self) -> charts.Curve | None:
        distribution = self._of_round("distributions")
        return charts.curve(distribution) if distribution else None

    @cached_property
    def quantiles(self) -> Sequence[tuple[str, tuple[str, str, str]]]:
        """The quantiles, each with its estimate, low and high."""
        distribution = self._of_round("distributions")
        quantiles = distribution.quantiles if distribution else ()
        places = median_low([quantile_places(each) for each in quantiles] or [0])
        return [(f"{100 * each.level:g} %", quantile_figures(each, places)) for each in quantiles]

    # Other rounds

    @cached_property
    def trends(self) -> Sequence[charts.Trend]:
        """Trends of the highest labels.

        A list so long that its labels are picked has none: each round would pick others.
        """
        if self.joint or not self.question.labels:
            return ()
        highest = sorted(self.rows, key=lambda row: -row.prominence)[: charts.MAX_PANELS]
        panels: dict[str, list[charts.RoundFigures]] = {
            row.label: [] for row in self.rows if row in highest
        }
        for number, result in self.history:
            for row in self._renamed(self._referenced(number, result.rows)):
                if row.label in panels:
                    name = self.context.survey.round_short_title(number)
                    panels[row.label].append(charts.RoundFigures(number, name, row))
        return charts.trends([*map(_aligned, panels.values())], self.context.events)

    @cached_property
    def history(self) -> Sequence[tuple[int, QuestionResult]]:
        return self.context.estimates.history(self.question, MAX_TREND_ROUNDS)

    @property
    def since(self) -> str:
        """The name of the earlier round that this one is compared with."""
        change = self.context.period and self.context.period.change
        return self.context.survey.round_title(change.since) if change else ""

    @property
    def differences(self) -> Sequence[Difference]:
        """The change of each label; none for a long list, whose intervals do not hold jointly."""
        change = self.context.period and self.context.period.change
        return change.questions.get(self.question.name, ()) if change and not self.joint else ()

    @cached_property
    def changes(self) -> Sequence[Figures]:
        asked = self.question
        return self._renamed(difference_figures(self.differences, asked.statistic, asked.unit))

    @property
    def change_headline(self) -> str:
        """The change of a single label, or the reason why there is none."""
        period = self.context.period
        if period and period.change and period.change.note:
            return f"No comparison: {period.change.note}."
        return change(self.changes[0], self.since) if len(self.changes) == 1 else ""

    @cached_property
    def change_chart(self) -> charts.Chart | None:
        return charts.chart(self.changes, (0.0, 0.0)) if len(self.changes) > 1 else None

    # Files

    def files(self) -> list[FigureFile]:
        """Return the figures that exist, to download."""
        period, name = self.context.period, self.question.name
        if not self.rows or period is None:
            return []
        round_name = self.context.period_name
        estimate = f'results.estimate("{name}", round={period.round})'
        offered = [
            (self.chart, "round", round_name, estimate, lambda: _records(self.result.rows)),
            (self.trends, "trend", "over time", f'results.over_rounds("{name}")',
             self._history_records),
            (self.change_chart, "change", f"change since {self.since}", f"{estimate}.change",
             lambda: _records(self.differences)),
            (self.curve, "distribution", f"share at or below each value, {round_name}",
             f"{estimate}.distribution",
             lambda: _records(self._of_round("distributions").points)),
        ]  # fmt: skip
        return [
            FigureFile(kind, f"{self.question.title} – {words}", line, records)
            for exists, kind, words, line, records in offered
            if exists
        ]

    def _history_records(self) -> Iterable[Record]:
        for number, result in self.history:
            for row in result.rows:
                if row.estimate is not None:
                    yield {"round": number, **msgspec.structs.asdict(row)}

    # What a legend explains

    @cached_property
    def has_reference(self) -> bool:
        return any(row.reference is not None for row in self._everything_drawn)

    @cached_property
    def shows_noise(self) -> bool:
        return any(row.noise_alone for row in self._everything_drawn)

    @property
    def _everything_drawn(self) -> Iterable[Figures]:
        points = (point.text for trend in self.trends for point in trend.points)
        return (*self.drawn, *points)

    def _of_round(self, key: str) -> Any:  # Any: what this key of a round holds
        return (getattr(self.context.period, key, None) or {}).get(self.question.name)

    def _figures(self, joint: bool) -> list[Figures]:
        period = self.context.period
        assert period is not None
        rows = self._referenced(period.round, self.result.rows, joint)
        return self._renamed(aligned(rows))

    def _referenced(self, number: int, rows: Iterable[Any], joint: bool = False) -> list[Figures]:
        """Return the rows that have an estimate, with their reference values."""
        asked, references = self.question, self.context.references
        made = (figures(row, asked.statistic, asked.unit, joint) for row in rows)
        if not references:
            return [row for row in made if row]
        return [
            replace(row, reference=references.get((asked.name, number, row.label)))
            for row in made
            if row
        ]

    def _renamed(self, rows: Iterable[Figures]) -> list[Figures]:
        """Give labels the names that people call them by."""
        if not self.question.display.options:
            return list(rows)
        names = dict(zip(self.question.labels, self.question.called, strict=True))
        return [replace(row, label=names.get(row.label, row.label)) for row in rows]


@dataclass(frozen=True)
class CrossedView:
    name: str
    figures: Sequence[Figures]  # as many as a table holds
    left_out: int
    joint: bool  # whether the intervals hold jointly


def crossed_view(survey: Survey, crossed: Crossed) -> CrossedView:
    asked = {question.name: question for question in survey.questions}
    pair = [asked[name] for name in crossed.questions]
    keys = product(*(question.answer_labels for question in pair))
    names = product(*(question.display.options or question.answer_labels for question in pair))
    called = {TIMES.join(key): TIMES.join(name) for key, name in zip(keys, names, strict=True)}
    joint = len(crossed.rows) > charts.MAX_MARKS
    known = known_figures(crossed.rows, "share", joint=joint)
    if joint:
        known.sort(key=lambda row: -row.estimate)
    return CrossedView(
        name=TIMES.join(question.title for question in pair),
        figures=[replace(row, label=called[row.label]) for row in known[:MAX_TABLE_ROWS]],
        left_out=max(0, len(known) - MAX_TABLE_ROWS),
        joint=joint,
    )


def _aligned(panel: Sequence[charts.RoundFigures]) -> list[charts.RoundFigures]:
    rows = aligned([each.text for each in panel])
    return [replace(each, text=row) for each, row in zip(panel, rows, strict=True)]


def _records(listed: Iterable[Any]) -> Iterable[Record]:
    return map(msgspec.structs.asdict, listed)
