"""What the store holds, as plain frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question

Cells = npt.NDArray[np.int64]
State = Literal["open", "closed"]
UploadKey = tuple[int, int, bytes]


@dataclass(frozen=True)
class SurveyRow:
    """A survey as it was published: its exact bytes, and who signed them."""

    sequence: int  # order of publication, from 1
    id: str
    document: bytes
    signature: str
    key: str
    closed: bool

    @property
    def state(self) -> State:
        """Closed means by the operator; a survey whose days are over only stops being asked."""
        return "closed" if self.closed else "open"


@dataclass(frozen=True)
class PublishedSurvey(SurveyRow):
    """The same, with what the bytes say."""

    survey: Survey

    @property
    def name(self) -> str:
        return self.survey.name


class Annotation(NamedTuple):
    """Something that happened beside a survey: a release, an outage."""

    day: date
    words: str


@dataclass(frozen=True, eq=False)
class RoundTally:
    """The counts of one round: each question's cells one after another, in the survey's order;
    then those of each pair that the survey crosses; or, where each install is asked one question,
    how many reports each question has."""

    round: int
    reports: int
    cells: Cells

    def of(self, survey: Survey, question: Question) -> tuple[int, Cells]:
        """How many reports one question has, and its cells."""
        place = survey.questions.index(question)
        first = sum(other.mechanism.cells for other in survey.questions[:place])
        asked = survey.asks_one
        reports = int(self.cells[place - len(survey.questions)]) if asked else self.reports
        return reports, self.cells[first : first + question.mechanism.cells]

    def crossed(self, survey: Survey, pair: tuple[Question, Question]) -> Cells:
        """A row for each cell of the one question, a column for each of the other."""
        sizes = [(one.mechanism.cells, other.mechanism.cells) for one, other in survey.crossed]
        place = survey.crossed.index(pair)
        rows, columns = sizes[place]
        first = sum(question.mechanism.cells for question in survey.questions)
        first += sum(one * other for one, other in sizes[:place])
        return self.cells[first : first + rows * columns].reshape(rows, columns)


@dataclass(frozen=True, slots=True, eq=False)
class Upload:
    """An envelope whose payload has been found good for its survey."""

    survey: PublishedSurvey
    round: int
    id: bytes
    count: int
    payload: bytes
    cells: Cells | None = None  # the payload's counts, where checking it has counted it

    @property
    def size(self) -> int:
        """Bytes that it takes while it waits."""
        return len(self.payload) + (0 if self.cells is None else self.cells.nbytes)

    @property
    def key(self) -> UploadKey:
        """Two uploads with the same key are the same: only one of them counts."""
        return self.survey.sequence, self.round, self.id


class Kept(NamedTuple):
    """An envelope as it is stored."""

    id: bytes
    reports: int
    payload: bytes


class Purged(NamedTuple):
    """What a slice of a purge has deleted; where there was no row, none is left."""

    envelopes: int
    rows: int  # in which they were: several in one, or one in several


class Unsettled(NamedTuple):
    """An envelope that was acknowledged and may not be in the tables."""

    survey: str  # its id: a sequence may mean another survey by now
    round: int
    kept: Kept


@dataclass(frozen=True)
class Token:
    """A token as the store knows it: by its hash, so nobody who reads the store can use it."""

    id: str  # the first digits of the hash, to name it by
    role: str
    created: datetime
    expires: datetime
