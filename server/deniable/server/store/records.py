"""Plain frozen records of what a store holds. numpy is not loaded by them: listings are fast."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from deniable.server.store.protocol import Damaged
from deniable.shared.errors import UntrustedSurvey

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from deniable.shared.survey.document import Survey
    from deniable.shared.survey.kinds.base import Question

Cells: TypeAlias = "npt.NDArray[np.int64]"
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

    def header(self) -> Mapping[str, str]:
        """Return name, days and period as the document has them, without reading its questions.

        The document was read strictly when it was published; only its hash is checked here.
        """
        self._check_id("; `deniable doctor` says more")
        header: Mapping[str, str] = json.loads(self.document)["survey"]
        return header

    def check_signed(self) -> None:
        """Raise Damaged if this is not what was published and signed: a disk may turn bits."""
        from deniable.shared.survey.keys import verify

        self._check_id()
        try:
            verify(self.document, self.signature, self.key, [self.key])
        except UntrustedSurvey as error:
            raise Damaged(f"survey {self.id[:12]} is not what was signed: {error}") from None

    def _check_id(self, advice: str = "") -> None:
        # Not by `survey_id`: a listing would load all that reads surveys.
        document = self.document
        if type(document) is not bytes or hashlib.sha256(document).hexdigest() != self.id:
            raise Damaged(
                f"survey {self.id[:12]} is not what was signed: its id is not the hash of its "
                f"document, so a disk has damaged it{advice}"
            )


@dataclass(frozen=True)
class PublishedSurvey(SurveyRow):
    """A published survey with its parsed document."""

    survey: Survey

    @property
    def name(self) -> str:
        return self.survey.name


class Annotation(NamedTuple):
    """An event that may explain a change in a survey's results: a release, an outage."""

    day: date
    words: str


@dataclass(frozen=True, eq=False)
class RoundTally:
    """The counts of one round.

    Each question's cells follow one another, in the survey's order; then come those of each pair
    that the survey crosses, or, if each install is asked one question, the number of reports of
    each question.
    """

    round: int
    reports: int
    cells: Cells

    def __add__(self, other: RoundTally) -> RoundTally:
        """Return the counts of two nodes for the same round."""
        return RoundTally(self.round, self.reports + other.reports, self.cells + other.cells)

    def of(self, survey: Survey, question: Question) -> tuple[int, Cells]:
        """Return the number of reports that answer one question, and its cells."""
        place = survey.questions.index(question)
        first = sum(other.mechanism.cells for other in survey.questions[:place])
        asked = survey.asks_one
        reports = int(self.cells[place - len(survey.questions)]) if asked else self.reports
        return reports, self.cells[first : first + question.mechanism.cells]

    def crossed(self, survey: Survey, pair: tuple[Question, Question]) -> Cells:
        """Return a table: a row for each cell of one question, a column for each of the other."""
        sizes = [(one.mechanism.cells, other.mechanism.cells) for one, other in survey.crossed]
        place = survey.crossed.index(pair)
        rows, columns = sizes[place]
        first = sum(question.mechanism.cells for question in survey.questions)
        first += sum(one * other for one, other in sizes[:place])
        return self.cells[first : first + rows * columns].reshape(rows, columns)


@dataclass(frozen=True, slots=True, eq=False)
class Upload:
    """An envelope whose payload is valid for its survey."""

    survey: PublishedSurvey
    round: int
    id: bytes
    count: int
    payload: bytes
    cells: Cells | None = None  # the payload's counts, if checking it has counted it

    @property
    def size(self) -> int:
        """Bytes of memory that it needs until it is on disk."""
        return len(self.payload) + (0 if self.cells is None else self.cells.nbytes)

    @property
    def key(self) -> UploadKey:
        """Uploads with the same key are the same upload: only one of them counts."""
        return self.survey.sequence, self.round, self.id


class PublicPage(NamedTuple):
    """Bytes that anyone may read at one path."""

    content_type: str
    body: bytes


class Kept(NamedTuple):
    """An envelope as it is stored."""

    id: bytes
    reports: int
    payload: bytes


class Purged(NamedTuple):
    """Number of envelopes and rows that one slice of a purge deleted; no rows: none is left."""

    envelopes: int
    rows: int  # a row may hold several envelopes, and a large envelope several rows


class Unsettled(NamedTuple):
    """An acknowledged envelope that may not be in the tables."""

    survey: str  # its id: a sequence may mean another survey by now
    round: int
    kept: Kept


@dataclass(frozen=True)
class Token:
    """A token as the store keeps it: by its hash, so that a reader of the store cannot use it."""

    id: str  # the first digits of the hash
    role: str
    created: datetime
    expires: datetime
