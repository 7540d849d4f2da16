"""What the store holds, as plain frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from deniable.shared.survey.document import Survey

Cells = npt.NDArray[np.int64]
State = Literal["open", "closed"]


@dataclass(frozen=True)
class PublishedSurvey:
    """A survey as it was published: its exact bytes, who signed them, and what they say."""

    id: str
    document: bytes
    signature: str
    key: str
    closed: bool
    survey: Survey
    sequence: int  # order of publication, from 1

    @property
    def name(self) -> str:
        return self.survey.name

    @property
    def state(self) -> State:
        """Closed means by the operator; a survey whose days are over only stops being asked."""
        return "closed" if self.closed else "open"

    @cached_property
    def cells(self) -> int:
        """How many counts one of its tallies has."""
        return sum(question.mechanism.cells for question in self.survey.questions)


@dataclass(frozen=True, eq=False)
class RoundTally:
    """The counts of one round: each question's cells one after another, in the survey's order."""

    round: int
    reports: int
    cells: Cells


@dataclass(frozen=True, slots=True)
class Upload:
    """An envelope whose payload has been found good for its survey."""

    survey: PublishedSurvey
    round: int
    id: bytes
    count: int
    payload: bytes

    @property
    def key(self) -> tuple[int, int, bytes]:
        """Two uploads with the same key are the same: only one of them counts."""
        return self.survey.sequence, self.round, self.id


@dataclass(frozen=True)
class Token:
    """A token as the store knows it: by its hash, so nobody who reads the store can use it."""

    id: str  # the first digits of the hash, to name it by
    role: str
    created: datetime
    expires: datetime
