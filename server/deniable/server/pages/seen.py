"""What a survey's page has before it: the rounds that were read, and what is known beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from deniable.server.results.change import round_before
from deniable.server.results.counts import Counts, counts_of
from deniable.server.store import RoundTally
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question


@dataclass(frozen=True)
class Seen:
    """The rounds of a survey that a page knows, and the one that it shows."""

    id: str
    survey: Survey
    tallies: Sequence[RoundTally]
    tally: RoundTally | None  # of that round, if it has reports
    open_rounds: frozenset[int]
    happened: Mapping[int, str]  # by round
    known: Mapping[tuple[str, int, str], float]  # by question, round and label

    def is_open(self, tally: RoundTally | None) -> bool:
        return tally is not None and tally.round in self.open_rounds

    def counts(self, question: Question, tally: RoundTally | None) -> Counts:
        return counts_of(self.survey, question, tally, self.is_open(tally))

    @cached_property
    def before(self) -> RoundTally | None:
        """The last earlier round with reports."""
        kept = {tally.round: tally for tally in self.tallies}
        number = round_before(self.tally.round, sorted(kept)) if self.tally else None
        return kept[number] if number is not None else None
