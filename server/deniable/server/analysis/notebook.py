"""Results for notebooks: answers whose `repr` is a sentence, rows, and a pandas table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from deniable.server.results import Results, Round
from deniable.server.results.display import known_figures
from deniable.server.results.document import About, Difference, Distribution, Row
from deniable.shared.errors import Refused, WrongUse

if TYPE_CHECKING:
    import pandas as pd

MAX_LABELS_IN_REPR = 5


class Answer:
    """One question's result in one round: rows by label, each with its intervals.

    Made by `SurveyResults.estimate`; its `repr` is a sentence.
    """

    def __init__(self, question: str, about: About, period: Round, rows: tuple[Row, ...]) -> None:
        self.question, self.about, self.round, self.rows = question, about, period, rows

    def __getitem__(self, label: str) -> Row:
        return {row.label: row for row in self.rows}[label]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __repr__(self) -> str:
        joint = len(self.rows) > MAX_LABELS_IN_REPR  # then the labels are picked
        known = known_figures(self.rows, self.about.statistic, self.about.unit, joint)
        start = f"{self.question}, round {self.round.round}: "
        reports = f"{self.rows[0].reports:,} reports"
        if not known:
            return f"{start}{reports}, {self.rows[0].note}"
        ordered = sorted(known, key=lambda row: -row.estimate) if joint else known
        shown = ordered[:MAX_LABELS_IN_REPR]
        listed = "; ".join(f"{row.label} {row.whole} ({row.interval})" for row in shown)
        return (
            f"{start}{listed}{_lower(len(known) - len(shown))}. {reports}; 95 % intervals for the "
            f"population{', jointly' if joint else ''}"
            f"{', for repeated looks' if self.round.open else ''}."
        )

    @property
    def distribution(self) -> Distribution | None:
        """The distribution of a number; None where reports are too few for its table."""
        return (self.round.distributions or {}).get(self.question)

    @property
    def change(self) -> tuple[Difference, ...]:
        """Differences from the round before, where both have an estimate."""
        change = self.round.change
        return change.questions.get(self.question, ()) if change else ()

    def people_needed(self, error: float) -> int:
        """Return how many reports are needed until half of each 95 % interval is at most `error`.

        The error is in the question's own measure. The number assumes that people answer as these
        did.
        """
        if not error > 0:
            raise WrongUse(f"the error must be above 0, got {error}")
        known = known_figures(self.rows, self.about.statistic, self.about.unit)
        if not known:
            raise Refused(f"{self.question} has no estimate to start from: {self.rows[0].note}")
        largest = max(row.half for row in known)
        return math.ceil(self.rows[0].reports * (largest / error) ** 2)


class SurveyResults:
    """All results of a survey; `document` is what the JSON holds. Made by `open_results`."""

    def __init__(self, document: Results) -> None:
        self.document = document

    def estimate(self, question: str, *, round: int | None = None) -> Answer:  # noqa: A002 - the protocol's word
        """Return the answer in this round, or in the newest round that has an estimate."""
        if question not in self.document.about:
            known = ", ".join(self.document.about)
            raise Refused(f"{self.document.name} has no question {question!r}; it asks {known}")
        answers = [
            Answer(question, self.document.about[question], period, period.questions[question])
            for period in self.document.rounds
            if round in (None, period.round)
        ]
        if not answers:
            raise Refused(f"{self.document.name} has no such round yet")
        return ([answer for answer in answers if _is_known(answer)] or answers)[-1]

    def over_rounds(self, question: str) -> list[Answer]:
        """Return the answers of all rounds that have an estimate, the oldest first."""
        answers = (
            self.estimate(question, round=period.round)
            for period in self.document.rounds
            if period.questions.get(question)
        )
        return [answer for answer in answers if _is_known(answer)]

    def people_needed(self, error: float, question: str | None = None) -> int:
        """Return how many reports one question needs, or all of them."""
        names = [question] if question is not None else list(self.document.about)
        return max(self.estimate(name).people_needed(error) for name in names)

    def rows(self) -> Iterator[dict[str, Any]]:  # Any: what a row holds
        """Yield one row for each label of each question of each round."""
        for period in self.document.rounds:
            for name, rows in period.questions.items():
                for row in rows:
                    facts = {"round": period.round, "open": period.open, "question": name}
                    yield facts | msgspec.structs.asdict(row)

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a table. Pandas is not a dependency of this package."""
        try:
            import pandas as pd
        except ImportError:
            raise WrongUse("to_pandas needs pandas: pip install pandas") from None
        return pd.DataFrame(list(self.rows()))

    def __repr__(self) -> str:
        return "\n".join(map(repr, map(self.estimate, self.document.about)))


def _is_known(answer: Answer) -> bool:
    return answer.rows[0].estimate is not None


def _lower(others: int) -> str:
    if not others:
        return ""
    return f"; {others:,} other option{' is' if others == 1 else 's are'} lower"
