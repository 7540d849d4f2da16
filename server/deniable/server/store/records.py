"""Records that a store holds, and the rows of its tallies.

Each row of `tallies` carries a digest of its other columns. A row whose digest does not match has
been damaged by a disk: it is never shown, added to, or sealed. numpy is imported only where cells
are read, so that listings are fast.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from deniable.server.store.protocol import Damaged
from deniable.shared.errors import UntrustedSurvey

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from deniable.shared.survey.document import Period, Survey
    from deniable.shared.survey.kinds.base import Question

Cells: TypeAlias = "npt.NDArray[np.int64]"
State = Literal["waiting", "open", "closed"]
UploadKey = tuple[int, int, bytes]


@dataclass(frozen=True)
class SurveyRow:
    """Survey as it was published: its exact bytes, their signature and the key that signed them."""

    sequence: int  # order of publication, from 1
    id: str
    document: bytes
    signature: str
    key: str
    closed: bool

    @property
    def state(self) -> Literal["open", "closed"]:
        """Return "closed" only if the operator closed the survey, not if it has ended."""
        return "closed" if self.closed else "open"

    def state_between(self, opens: date, closes: date, calendar: Period, now: datetime) -> State:
        """Return whether a survey with these days is waiting to begin, is open, or has ended."""
        if self.closed or now >= calendar.ends(calendar.round_of(closes), closes):
            return "closed"
        return "open" if now >= calendar.starts(calendar.round_of(opens), opens) else "waiting"

    def header(self) -> Mapping[str, str]:
        """Return the document's name, days and period, without parsing its questions.

        The document was parsed strictly when it was published; only its hash is checked here.
        """
        self._check_id("; `deniable doctor` says more")
        header: Mapping[str, str] = json.loads(self.document)["survey"]
        return header

    def check_signed(self) -> None:
        """Raise Damaged if this is not what was published and signed: a disk may flip bits."""
        from deniable.shared.survey.keys import verify

        self._check_id()
        try:
            verify(self.document, self.signature, self.key, [self.key])
        except UntrustedSurvey as error:
            raise Damaged(f"survey {self.id[:12]} is not what was signed: {error}") from None

    def _check_id(self, advice: str = "") -> None:
        # Not `survey_id`: importing it would make every listing load the survey parser.
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

    def state_at(self, now: datetime) -> State:
        survey = self.survey
        return self.state_between(survey.opens, survey.closes, survey.calendar, now)


class Annotation(NamedTuple):
    """Event that may explain a change in a survey's results, such as a release or an outage."""

    day: date
    words: str


@dataclass(frozen=True, eq=False)
class RoundTally:
    """Counts of one round.

    `cells` holds each question's cells, in the survey's order, followed by those of each pair that
    the survey crosses or, if each install is asked one question, each question's number of reports.
    """

    round: int
    reports: int
    cells: Cells

    def __add__(self, other: RoundTally) -> RoundTally:
        """Return the sum of two nodes' counts for the same round."""
        return RoundTally(self.round, self.reports + other.reports, self.cells + other.cells)

    def of(self, survey: Survey, question: Question) -> tuple[int, Cells]:
        """Return the number of reports that answer one question, and its cells."""
        place = survey.questions.index(question)
        first = sum(other.mechanism.cells for other in survey.questions[:place])
        asked = survey.asks_one
        reports = int(self.cells[place - len(survey.questions)]) if asked else self.reports
        return reports, self.cells[first : first + question.mechanism.cells]

    def crossed(self, survey: Survey, pair: tuple[Question, Question]) -> Cells:
        """Return the table of a pair: one question's cells as rows, the other's as columns."""
        sizes = [(one.mechanism.cells, other.mechanism.cells) for one, other in survey.crossed]
        place = survey.crossed.index(pair)
        rows, columns = sizes[place]
        first = sum(question.mechanism.cells for question in survey.questions)
        first += sum(one * other for one, other in sizes[:place])
        return self.cells[first : first + rows * columns].reshape(rows, columns)


@dataclass(frozen=True, slots=True, eq=False)
class Upload:
    """Envelope whose payload is valid for its survey."""

    survey: PublishedSurvey
    round: int
    id: bytes
    count: int
    payload: bytes
    cells: Cells | None = None  # the payload's counts, if validation computed them

    @property
    def size(self) -> int:
        """Bytes of memory that the upload needs until it is on disk."""
        return len(self.payload) + (0 if self.cells is None else self.cells.nbytes)

    @property
    def key(self) -> UploadKey:
        """Key of an upload; of several uploads with the same key, only one counts."""
        return self.survey.sequence, self.round, self.id


class PublicPage(NamedTuple):
    """Page that anyone may read at its path."""

    content_type: str
    body: bytes


class Kept(NamedTuple):
    """Envelope as it is stored."""

    id: bytes
    reports: int
    payload: bytes


class Purged(NamedTuple):
    """Number of envelopes and rows that one slice of a purge deleted; no rows once it is done."""

    envelopes: int
    rows: int  # a row may hold several envelopes, and a large envelope may take several rows


class Unsettled(NamedTuple):
    """Acknowledged envelope that may not be in the tables."""

    survey: str  # its id, since its sequence may be another survey's by now
    round: int
    kept: Kept


@dataclass(frozen=True)
class Token:
    """Stored form of a token: only its hash, so that a reader of the store cannot use it."""

    id: str  # the first digits of the hash
    role: str
    created: datetime
    expires: datetime


Round = tuple[int, int]  # a survey's sequence, and the number of a round
DIGEST_BYTES = 8  # damage goes unnoticed with probability 2**-64
CELL_TYPE = "<i8"

ROW = "survey, round, node, reports, sealed, cells, digest"
OF_NODE = f"SELECT {ROW} FROM tallies WHERE survey = ? AND round = ? AND node = ?"
OF_ROUND = f"SELECT {ROW} FROM tallies WHERE survey = ? AND round = ?"
IS_SEALED = "SELECT 1 FROM tallies WHERE survey = ? AND round = ? AND sealed LIMIT 1"
PUT = f"""
INSERT INTO tallies ({ROW}) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (survey, round, node) DO UPDATE SET reports = excluded.reports,
sealed = excluded.sealed, cells = excluded.cells, digest = excluded.digest
"""


class Cursor(Protocol):
    """Cursor methods that both stores use."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...  # Any: columns of many types
    def fetchall(self) -> list[Any]: ...  # Any: the same
    def __iter__(self) -> Iterator[Any]: ...  # Any: the same


class Connection(Protocol):
    """Connection that runs SQL; `?` is the placeholder in either store."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Cursor: ...  # Any: values
    def close(self) -> None: ...


class TallyRow(NamedTuple):
    survey: int
    round: int
    node: str
    reports: int
    sealed: bool
    cells: bytes
    digest: bytes


def digest_of(*values: int | str | bytes) -> bytes:
    """Return the digest of a row's values, including its key: it detects misplaced rows too."""
    parts: list[bytes] = []
    for value in values:
        content = value if isinstance(value, bytes) else str(value).encode()
        parts += (len(content).to_bytes(8, "little"), content)
    return hashlib.blake2b(b"".join(parts), digest_size=DIGEST_BYTES).digest()


def tally_row(
    survey: int, number: int, node: str, reports: int, sealed: bool, cells: bytes
) -> TallyRow:
    """Return a row with its digest."""
    sealed = bool(sealed)  # SQLite returns an integer
    digest = digest_of(survey, number, node, reports, sealed, cells)
    return TallyRow(survey, number, node, reports, sealed, cells, digest)


def is_whole(row: TallyRow) -> bool:
    return tally_row(*row[:6]).digest == row.digest


def read_tally(row: TallyRow) -> RoundTally | None:
    """Return the counts of a row, or None if it is damaged."""
    return RoundTally(row.round, row.reports, _unpacked(row.cells)) if is_whole(row) else None


def checked_tally(row: TallyRow) -> RoundTally:
    if (tally := read_tally(row)) is None:
        raise Damaged(
            f"the tally of round {row.round} of survey {row.survey} in the store is damaged, so no "
            "result is shown; stop the server and run `deniable doctor --data DIR --repair`, or "
            "restore a dump of a database, as DEPLOYING.md says"
        )
    return tally


def is_sealed(connection: Connection, sequence: int, number: int) -> bool:
    """Return whether any node has sealed the round."""
    return connection.execute(IS_SEALED, (sequence, number)).fetchone() is not None


def add_to_tally(
    connection: Connection, key: tuple[int, int, str], reports: int, cells: Cells
) -> None:
    """Add counts to the row of one node; a damaged row stays damaged, with its envelopes kept."""
    kept = connection.execute(OF_NODE, key).fetchone()
    if kept is not None:
        row = TallyRow(*kept)
        if not is_whole(row):
            return
        reports, cells = row.reports + reports, _unpacked(row.cells) + cells
    connection.execute(PUT, tally_row(*key, reports, False, packed_cells(cells)))


def seal_rounds(connection: Connection, sequence: int, numbers: Sequence[int]) -> None:
    """Seal the rounds whose rows are intact: a damaged round still needs its envelopes."""
    for number in numbers:
        for row in map(TallyRow._make, connection.execute(OF_ROUND, (sequence, number)).fetchall()):
            if is_whole(row):
                connection.execute(PUT, tally_row(*row[:4], True, row.cells))


def rounds_to_purge(connection: Connection, tables: Sequence[str]) -> Iterator[Round]:
    """Yield the sealed rounds with envelopes in these tables; a damaged one still needs them."""
    # Not EXISTS: PostgreSQL would scan whole tables.
    kept = " OR ".join(
        f"(SELECT 1 FROM {table} AS kept WHERE kept.survey = tallies.survey "
        "AND kept.round = tallies.round LIMIT 1) IS NOT NULL"
        for table in tables
    )
    query = f"SELECT DISTINCT survey, round FROM tallies WHERE sealed AND ({kept})"
    for survey, number in sorted(connection.execute(query).fetchall()):
        rows = connection.execute(OF_ROUND, (survey, number)).fetchall()
        if all(is_whole(TallyRow(*row)) for row in rows):
            yield survey, number


def packed_cells(cells: Cells) -> bytes:
    return cells.astype(CELL_TYPE).tobytes()


def _unpacked(cells: bytes) -> Cells:
    import numpy as np

    return np.frombuffer(cells, CELL_TYPE).astype(np.int64)
