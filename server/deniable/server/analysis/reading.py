"""Results as Python has them: answers whose `repr` is a sentence, rows, a table of pandas."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from deniable.server.results import About, Difference, Distribution, Results, Round, Row
from deniable.server.results.display import known_figures
from deniable.shared.errors import Refused, WrongUse

if TYPE_CHECKING:
    import pandas as pd

MOST_SAID = 5  # labels in a sentence


class Answer:
    """What one round says of one question: rows by label, each with its intervals.

    Made by `SurveyResults.estimate`; its `repr` is a sentence.
    """

    def __init__(self, question: str, about: About, period: Round, rows: tuple[Row, ...]) -> None:
        self.question, self.about, self.round, self.rows = question, about, period, rows

    def __getitem__(self, label: str) -> Row:
        return {row.label: row for row in self.rows}[label]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __repr__(self) -> str:
        joint = len(self.rows) > MOST_SAID  # then they are picked
        known = known_figures(self.rows, self.about.statistic, self.about.unit, joint)
        shown = sorted(known, key=lambda row: -row.estimate)[:MOST_SAID] if joint else known
        said = "; ".join(f"{row.label} {row.whole} ({row.interval})" for row in shown)
        left = f"; {len(known) - len(shown):,} others are lower" if joint else ""
        reports = f"{self.rows[0].reports:,} reports"
        if not known:
            return f"{self.question}, round {self.round.round}: {reports}, {self.rows[0].note}"
        return (
            f"{self.question}, round {self.round.round}: {said}{left}. Of {reports}; 95 % "
            f"intervals about people like these{', all of them at once' if joint else ''}"
            f"{', at every look' if self.round.open else ''}."
        )

    @property
    def distribution(self) -> Distribution | None:
        """Of a number: None where its table or the number of reports does not tell it."""
        return (self.round.distributions or {}).get(self.question)

    @property
    def change(self) -> tuple[Difference, ...]:
        """Since the round before, where both have an estimate."""
        found = self.round.change
        return found.questions.get(self.question, ()) if found else ()

    def people_needed(self, error: float) -> int:
        """How many reports it takes until half of every 95 % interval is no more than this, in the
        question's own measure, where people answer as these did."""
        if not error > 0:
            raise WrongUse(f"an error to aim at is above 0, got {error}")
        known = known_figures(self.rows, self.about.statistic, self.about.unit)
        halves = [(row.high - row.low) / 2 for row in known]
        if not halves:
            raise Refused(f"{self.question} has no estimate to begin with: {self.rows[0].note}")
        return math.ceil(self.rows[0].reports * (max(halves) / error) ** 2)


class SurveyResults:
    """All that a survey says; `document` is the same as JSON has it. Made by `open_results`."""

    def __init__(self, document: Results) -> None:
        self.document = document

    def estimate(self, question: str, *, round: int | None = None) -> Answer:  # noqa: A002 - the protocol's word
        """Of the round that is named, or of the newest that has an estimate of it."""
        if question not in self.document.about:
            known = ", ".join(self.document.about)
            raise Refused(f"{self.document.name} has no question {question!r}; it asks {known}")
        answers = [
            Answer(question, self.document.about[question], period, period.questions[question])
            for period in self.document.rounds
            if round in (None, period.round)
        ]
        known_ones = [each for each in answers if each.rows[0].estimate is not None]
        if not answers:
            raise Refused(f"{self.document.name} has no such round yet")
        return (known_ones or answers)[-1]

    def over_rounds(self, question: str) -> list[Answer]:
        """Of each round that has an estimate, the oldest first."""
        known = (
            self.estimate(question, round=period.round)
            for period in self.document.rounds
            if period.questions.get(question)
        )
        return [answer for answer in known if answer.rows[0].estimate is not None]

    def people_needed(self, error: float, question: str | None = None) -> int:
        """For one question, or for each of them."""
        names = [question] if question is not None else list(self.document.about)
        return max(self.estimate(name).people_needed(error) for name in names)

    def rows(self) -> Iterator[dict[str, Any]]:  # Any: what a row holds
        """One for each label of each question of each round."""
        for period in self.document.rounds:
            for name, rows in period.questions.items():
                for row in rows:
                    facts = {"round": period.round, "open": period.open, "question": name}
                    yield facts | msgspec.structs.asdict(row)

    def to_pandas(self) -> pd.DataFrame:
        """The same as a table; pandas is not among this package's dependencies."""
        try:
            import pandas as pd
        except ImportError:
            raise WrongUse("to_pandas needs pandas: pip install pandas") from None
        return pd.DataFrame(list(self.rows()))

    def __repr__(self) -> str:
        return "\n".join(map(repr, map(self.estimate, self.document.about)))
