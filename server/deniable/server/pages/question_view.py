"""What a page shows of one question in one round: a sentence, figures, and what is behind them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median_low

from deniable.server.pages import charts
from deniable.server.pages.curves import Curve, curve
from deniable.server.pages.seen import Seen
from deniable.server.pages.trends import MOST_PANELS, Told, Trend, trends
from deniable.server.results import (
    Difference,
    Distribution,
    Floor,
    QuestionResult,
    floors,
    question_distributions,
    question_results,
)
from deniable.server.results.change import SHARED_NOISE, compared
from deniable.server.results.counts import Counts
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
from deniable.server.results.memory import Memory
from deniable.server.results.price import price
from deniable.server.results.saying import changed, said_of_one, said_of_shares, said_of_texts
from deniable.shared.privacy.promises import odds_factor
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.phrases import upper_first

MOST_ROWS = 1_024  # of a table on a page; the CSV has all
MOST_TREND_ROUNDS = 60

_REMEMBERED = Memory[QuestionResult](lambda found: len(found.rows))


@dataclass(frozen=True)
class QuestionView:
    question: Question
    seen: Seen

    # Words

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
    def example(self) -> str:
        """An answer as an app in Python would write it."""
        return self.question.shown_example

    @property
    def example_in_javascript(self) -> str:
        return json.dumps(self.question.example, ensure_ascii=False)

    @property
    def forgery(self) -> str:
        return upper_first(self.question.mechanism.forgery())

    # The round that is shown

    @cached_property
    def result(self) -> QuestionResult:
        (found,) = question_results(self.seen.survey, self.question, [self._counts])
        return found

    @property
    def _counts(self) -> Counts:
        return self.seen.counts(self.question, self.seen.tally)

    @property
    def reports(self) -> int:
        return self.result.rows[0].reports

    @property
    def joint(self) -> bool:
        """Whether labels are picked by their estimates, so that all intervals hold at once. Texts
        are found, and their intervals made for that."""
        return len(self.question.labels) > charts.MOST_MARKS

    @cached_property
    def rows(self) -> Sequence[Figures]:
        return self._known(self.joint)

    @property
    def sentence(self) -> str:
        if not self.rows:
            return ""
        if not self.question.labels:
            return said_of_texts(len(self.rows))
        if len(self.question.labels) == 1 and self.style.sentence:
            return said_of_one(self.rows[0])
        if self.result.whole:
            return whole_text(self.result.whole)
        told = self.rows if self.joint else self._known(joint=True)
        return said_of_shares(told, charts.MOST_MARKS)

    @cached_property
    def price(self) -> str:
        """Where there are estimates; a text's is its floor."""
        if not self.rows or not self.question.labels:
            return ""
        asked = self.seen.survey
        return price(self.question, self.reports, len(asked.questions) if asked.asks_one else 1)

    @cached_property
    def text_floor(self) -> Floor | None:
        return floors(self.seen.survey, self.seen.tally).get(self.question.name)

    @cached_property
    def _picked(self) -> tuple[Sequence[Figures], Sequence[Figures]]:
        return charts.picked(self.rows)

    @property
    def drawn(self) -> Sequence[Figures]:
        return self._picked[0]

    @property
    def others(self) -> Sequence[Figures]:
        """As many as a table holds of those that are not drawn."""
        return self._picked[1][:MOST_ROWS]

    @property
    def left_out(self) -> int:
        return max(0, len(self._picked[1]) - MOST_ROWS)

    @property
    def folded(self) -> str:
        """What is said of the others."""
        floor, told = self.result.floor, sum(row.told for row in self._picked[1])
        number = f"{len(self._picked[1]):,} others"
        if told:
            return f"{number}, of which {told:,} {'is' if told == 1 else 'are'} told from 0"
        if floor is None:
            return number
        return f"{number}, below {self.rows[0].text(floor)}{self.rows[0].unit} and not told from 0"

    @cached_property
    def chart(self) -> charts.Chart | None:
        return charts.chart(self.drawn, self.question.axis)

    # Its distribution

    @cached_property
    def distribution(self) -> Distribution | None:
        (found,) = question_distributions(self.question, [self._counts])
        return found

    @cached_property
    def curve(self) -> Curve | None:
        return curve(self.distribution) if self.distribution else None

    @cached_property
    def quantiles(self) -> Sequence[tuple[str, tuple[str, str, str]]]:
        """Each with its estimate, low and high."""
        found = self.distribution.quantiles if self.distribution else ()
        places = median_low([quantile_places(each) for each in found] or [0])
        return [(f"{100 * each.level:g} %", quantile_figures(each, places)) for each in found]

    # Other rounds

    @cached_property
    def trends(self) -> Sequence[Trend]:
        """Of the highest of up to as many labels as are drawn: of a longer list, whose labels are
        picked anew in each round, none."""
        if self.joint or not self.question.labels:
            return ()
        highest = sorted(self.rows, key=lambda row: -row.notable)[:MOST_PANELS]
        shown = [row.label for row in self.rows if row in highest]
        panels: dict[str, list[Told]] = {label: [] for label in shown}
        for number, result in self.rounds:
            for told in self._told(number, result, shown):
                panels[told.text.label].append(told)
        return trends([*map(_aligned, panels.values())], self.seen.happened)

    @cached_property
    def rounds(self) -> Sequence[tuple[int, QuestionResult]]:
        """What the last ones say, each with its number."""
        tallies = self.seen.tallies[-MOST_TREND_ROUNDS:]
        found = self._remembered([self.seen.counts(self.question, tally) for tally in tallies])
        return [(tally.round, each) for tally, each in zip(tallies, found, strict=True)]

    def _remembered(self, rounds: Sequence[Counts]) -> list[QuestionResult]:
        """Those whose counts are the same are not estimated again."""
        asked, question = self.seen.survey, self.question
        keys = [
            (self.seen.id, question.name, each.looks, each.reports, each.cells.tobytes())
            for each in rounds
        ]
        return _REMEMBERED.get(
            keys,
            lambda places: question_results(asked, question, [rounds[each] for each in places]),
        )

    def _told(self, number: int, result: QuestionResult, shown: Sequence[str]) -> Iterable[Told]:
        name = self.seen.survey.round_short_title(number)
        for row in result.rows:
            label = self._called.get(row.label, row.label)
            found = figures(row, self.question.statistic, self.question.unit)
            if found and label in shown:
                value = self.seen.known.get((self.question.name, number, row.label))
                yield Told(number, name, replace(found, label=label, known=value))

    @property
    def since(self) -> str:
        """The name of the earlier round that this one is held against."""
        before = self.seen.before
        return self.seen.survey.round_title(before.round) if before else ""

    @cached_property
    def differences(self) -> Sequence[Difference]:
        """Of each label; none of a longer list, whose intervals do not hold at once."""
        now, then = self.seen.tally, self.seen.before
        if now is None or then is None or self.joint or self._shares_noise:
            return ()
        asked, counts = (
            self.question,
            [self.seen.counts(self.question, each) for each in (now, then)],
        )
        (rows,) = compared(asked, counts[:1], asked, counts[1:])
        return rows

    @cached_property
    def changes(self) -> Sequence[Figures]:
        asked = self.question
        return self._renamed(difference_figures(self.differences, asked.statistic, asked.unit))

    @cached_property
    def changed(self) -> str:
        """The same of an only label, in words."""
        if self.seen.before and self._shares_noise:
            return f"Nothing is said of a change: {SHARED_NOISE}."
        return changed(self.changes[0], self.since) if len(self.changes) == 1 else ""

    @cached_property
    def change_chart(self) -> charts.Chart | None:
        return charts.chart(self.changes, (0.0, 0.0)) if len(self.changes) > 1 else None

    @property
    def _shares_noise(self) -> bool:
        now, then = self.seen.tally, self.seen.before
        return bool(now and then and then.round in self.seen.survey.span_of(now.round))

    # What a legend explains

    @cached_property
    def is_known(self) -> bool:
        """Whether anything drawn of it is known from elsewhere."""
        return any(row.known is not None for row in self._everything)

    @cached_property
    def is_noise_shown(self) -> bool:
        return any(row.noise_alone for row in self._everything)

    @property
    def _everything(self) -> Iterable[Figures]:
        points = (point.text for trend in self.trends for point in trend.points)
        return (*self.drawn, *points)

    # Labels as people call them

    @cached_property
    def _called(self) -> Mapping[str, str]:
        return dict(zip(self.question.labels, self.question.called, strict=True))

    def _known(self, joint: bool) -> list[Figures]:
        rows, asked = self.result.rows, self.question
        found = known_figures(rows, asked.statistic, asked.unit, joint)
        if self.seen.known and self.seen.tally:
            at = asked.name, self.seen.tally.round
            found = [replace(row, known=self.seen.known.get((*at, row.label))) for row in found]
        return self._renamed(found)

    def _renamed(self, rows: Iterable[Figures]) -> list[Figures]:
        called = self._called if self.question.display.options else {}
        if not called:
            return list(rows)
        return [replace(row, label=called.get(row.label, row.label)) for row in rows]


def _aligned(panel: Sequence[Told]) -> list[Told]:
    rows = aligned([told.text for told in panel])
    return [replace(told, text=row) for told, row in zip(panel, rows, strict=True)]
