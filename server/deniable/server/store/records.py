"""Records that a store holds, and the rows of its tallies.

Each row of `tallies` carries a digest of its other columns. If the digest does not match, a disk
has damaged the row, and the row is never shown, added to or sealed. numpy is imported only where
cells are read, so that listings are fast.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from deniable.server.store.label_counts import (
    CELL_TYPE,
    NO_LABELS,
    LabelCounts,
    added,
    packed_labels,
    read_labels,
)
from deniable.server.store.protocol import Damaged
from deniable.shared.errors import UntrustedSurvey

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from deniable.shared.survey.document import Period, Survey
    from deniable.shared.survey.kinds.base import Question

Cells: TypeAlias = "npt.NDArray[np.int64]"
RoundState = Literal["open", "collecting", "final"]
State = Literal["waiting", "open", "collecting", "final"]
ID_DIGITS = 12  # of a survey, key or token, where its full id would be too long
UploadKey = tuple[int, int, bytes]
# The complete counts are shown so long after a round's end or a close: nodes notice a close within
# a quarter of a second, accepted reports may wait for the disk, and clocks of nodes differ.
SETTLING = timedelta(seconds=10)


@dataclass(frozen=True)
class Epoch:
    """Number that tells devices to send the reports of a round again, once for each number."""

    round: int
    epoch: int
    signature: str  # of the survey's key, in hex


@dataclass(frozen=True)
class SurveyRow:
    """Survey as published: the exact document, its signature and the key that signed it."""

    sequence: int  # order of publication, from 1
    id: str
    document: bytes
    signature: str
    key: str
    closed: date | None  # the day on which the operator closed it, in UTC
    label_key: bytes = field(default=b"", repr=False)  # ranks the values of labels (label_counts)
    epochs: tuple[Epoch, ...] = ()

    @property
    def state(self) -> Literal["open", "closed"]:
        """Return "closed" only if the operator closed the survey, as clients are told."""
        return "closed" if self.closed else "open"

    def state_between(
        self, opens: date, closes: date, grace_days: int, calendar: Period, now: datetime
    ) -> State:
        """Return the state of a survey with these first and last days."""
        ends = calendar.ends(calendar.round_of(closes), closes)
        if not self.closed and now < calendar.starts(calendar.round_of(opens), opens):
            return "waiting"
        return self.state_after(ends, ends + timedelta(days=grace_days), now)

    def state_after(self, ends: datetime, taken_until: datetime, now: datetime) -> RoundState:
        """Return the state of a round, given its end and the end of its grace period."""
        if self.closed or now >= taken_until:
            return "final"
        return "collecting" if now >= ends else "open"

    def header(self) -> Mapping[str, Any]:  # Any: the values of `survey` in a document
        """Return the document's name, days and period, without parsing its questions.

        The document was parsed strictly when it was published; only its hash is checked here.
        """
        self._check_id("; `deniable doctor` gives details")
        header: Mapping[str, Any] = json.loads(self.document)["survey"]
        return header

    def check_signed(self) -> None:
        """Raise Damaged if the survey differs from what was signed: a disk may flip bits."""
        from deniable.shared.survey.keys import verify

        self._check_id()
        try:
            verify(self.document, self.signature, self.key, [self.key])
        except UntrustedSurvey as error:
            raise Damaged(f"survey {self.id[:12]} is not what was signed: {error}") from None

    def _check_id(self, advice: str = "") -> None:
        # Importing `survey_id` would make every listing load the survey parser.
        document = self.document
        if type(document) is not bytes or hashlib.sha256(document).hexdigest() != self.id:
            raise Damaged(
                f"survey {self.id[:12]} is not what was signed: its id is not the hash of its "
                f"document, so a disk has damaged it{advice}"
            )


@dataclass(frozen=True)
class PublishedSurvey(SurveyRow):
    """Published survey with its parsed document."""

    _: KW_ONLY
    survey: Survey
    closing: datetime | None = field(default=None, compare=False)  # when it was closed, if recently

    @property
    def name(self) -> str:
        return self.survey.name

    def in_language(self, wanted: str) -> PublishedSurvey:
        """Return the survey with its texts in the closest of its languages."""
        return replace(self, survey=self.survey.in_language(wanted))

    @property
    def page_endings(self) -> tuple[str, ...]:
        """Endings of its public pages' addresses: .de for German, none for the default language."""
        return "", *(f".{language}" for language in self.survey.languages[1:])

    def state_at(self, now: datetime) -> State:
        survey = self.survey
        days = survey.opens, survey.closes, survey.grace_days
        return self.state_between(*days, survey.calendar, now)

    def unfinished(self, now: datetime) -> range:
        """Return the rounds whose counts may still change, including those that have not begun."""
        survey, now = self.survey, now - SETTLING
        first = survey.round_of((now - timedelta(days=survey.grace_days)).date())
        first = min(max(survey.first_round, first), survey.last_round)
        first += now >= survey.taken_until(first)
        is_settled = self.closed and (self.closing is None or now >= self.closing)
        return range(first, first if is_settled else survey.last_round + 1)

    def round_state(self, number: int, now: datetime) -> RoundState:
        survey = self.survey
        return self.state_after(survey.round_ends(number), survey.taken_until(number), now)


class Annotation(NamedTuple):
    """Event that may explain a change in a survey's results, such as a release or an outage."""

    day: date
    words: str


@dataclass(frozen=True, eq=False)
class RoundTally:
    """Counts of one round.

    `cells` holds each question's cells, in the survey's order, followed by the cells of each pair
    that the survey crosses or, if each install is asked one question, by each question's number of
    reports. `labels` holds the same counts for each value of each label, but without pairs.
    """

    round: int
    reports: int
    cells: Cells
    labels: LabelCounts = field(default_factory=LabelCounts)

    def __add__(self, other: RoundTally) -> RoundTally:
        """Return the sum of two nodes' counts for the same round."""
        reports, cells = self.reports + other.reports, self.cells + other.cells
        return RoundTally(self.round, reports, cells, added(self.labels, other.labels))

    def of(self, survey: Survey, question: Question) -> tuple[int, Cells]:
        """Return the number of reports that answer a question, and the question's cells."""
        index = survey.questions.index(question)
        first = sum(other.mechanism.cells for other in survey.questions[:index])
        asks_one = survey.asks_one
        reports = int(self.cells[index - len(survey.questions)]) if asks_one else self.reports
        return reports, self.cells[first : first + question.mechanism.cells]

    def crossed(self, survey: Survey, pair: tuple[Question, Question]) -> Cells:
        """Return a pair's table: the first question's cells as rows, the second's as columns."""
        sizes = [(one.mechanism.cells, other.mechanism.cells) for one, other in survey.crossed]
        index = survey.crossed.index(pair)
        rows, columns = sizes[index]
        first = sum(question.mechanism.cells for question in survey.questions)
        first += sum(one * other for one, other in sizes[:index])
        return self.cells[first : first + rows * columns].reshape(rows, columns)


@dataclass(frozen=True, slots=True, eq=False)
class Upload:
    """Envelope whose payload is valid for its survey."""

    survey: PublishedSurvey
    round: int
    id: bytes
    count: int
    payload: bytes
    cells: Cells | None = None  # the counts, if validation has computed them
    batch: bytes = b""  # number of the relay's batch; empty if the report came alone
    invitation: bytes = b""  # hash of the invitation code; empty if none came with the report

    @property
    def size(self) -> int:
        """Bytes of memory that the upload occupies until it is on disk."""
        return len(self.payload) + (0 if self.cells is None else self.cells.nbytes)

    @property
    def key(self) -> UploadKey:
        """Key of the upload: if several uploads have the same key, only one of them counts."""
        return self.survey.sequence, self.round, self.id


# For each combination of labels, a `label_hash` of each value, and the fewest reports of one batch.
LabelCrowds = tuple[tuple[bytes, int], ...]


class Crowd(NamedTuple):
    """People among whom a relay has hidden the reports of a round."""

    smallest: int = 0  # fewest accepted reports of one batch with the same labels; 0 if no batch
    reports: int = 0  # accepted reports that came in batches
    dropped: int = 0  # envelopes that relays dropped, because no batch would hide them
    by_labels: LabelCrowds = ()


class PublicPage(NamedTuple):
    """Page that anyone may read at its path."""

    content_type: str
    body: bytes


class Share(NamedTuple):
    """Read-only page of one survey's results, at a secret address."""

    path: str
    survey: int  # its sequence
    actor: str  # who shares it, as in the audit log
    created: date
    expires: date  # the last day on which the page can be read
    division: str  # of the rounds, as in the address of the survey's page; may be empty
    round: int | None
    language: str  # of the survey's texts; empty for the default
    is_linked: bool = False  # whether the respondent page links to it, after an answer


class Kept(NamedTuple):
    """Envelope as it is stored."""

    id: bytes
    reports: int
    payload: bytes


class Purged(NamedTuple):
    """Envelopes and rows that one slice of a purge deleted. No rows are left if it deleted none."""

    envelopes: int
    rows: int  # a row may hold several envelopes, and a large envelope may take several rows


class Unsettled(NamedTuple):
    """Acknowledged envelope that may not be in the tables."""

    survey: str  # its id, because the sequence may by now belong to another survey
    round: int
    kept: Kept


@dataclass(frozen=True)
class Token:
    """Token as listed: without its text, which the store does not keep."""

    id: str  # the first digits of the hash
    role: str
    created: datetime
    expires: datetime
    name: str  # the same as `id` if the operator gave none
    used: date | None  # last day of use
    label: str = ""  # the label value that its reports may name, such as channel=ci; or empty
    limit: int = 0  # maximum reports of each survey per hour; 0 if there is no limit

    @property
    def class_of_installs(self) -> tuple[str, str]:
        """Name and value of the label that its reports may name; both empty if there is none."""
        name, _, value = self.label.partition("=")
        return name, value


class AuditEntry(NamedTuple):
    """Action of an operator or analyst, known to the day."""

    day: date
    actor: str  # name of a token, or `command` for a command on the store
    action: str
    subject: str  # the survey or key, by its first digits, or the token, by name and role


def named_surveys(
    entries: Sequence[AuditEntry], surveys: Sequence[PublishedSurvey]
) -> list[AuditEntry]:
    """Add the names of surveys that still exist; a deleted survey leaves only its id."""
    names = {survey.id[:ID_DIGITS]: survey.name for survey in surveys}
    return [
        entry._replace(subject=f"{names[entry.subject]} ({entry.subject})")
        if entry.subject in names
        else entry
        for entry in entries
    ]


Round = tuple[int, int]  # a survey's sequence, and the number of a round
TOTAL = "total"  # the released part with a round's counts; a label's part is named by its number
Released = Mapping[str, RoundTally]  # by part; `reports` counts the round's when it was copied
DIGEST_BYTES = 8  # damage goes unnoticed with probability 2**-64

ROW = "survey, round, node, reports, sealed, cells, labels, digest"
OF_ROUND = f"SELECT {ROW} FROM tallies WHERE survey = ? AND round = ?"
PUT = f"""
INSERT INTO tallies ({ROW}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (survey, round, node) DO UPDATE SET reports = excluded.reports,
sealed = excluded.sealed, cells = excluded.cells, labels = excluded.labels,
digest = excluded.digest
"""
PUT_RELEASED = PUT.replace("INTO tallies", "INTO released")


class Cursor(Protocol):
    """Cursor methods that both stores use."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...  # Any: columns of many types
    def fetchall(self) -> list[Any]: ...  # Any: columns of many types
    def __iter__(self) -> Iterator[Any]: ...  # Any: columns of many types


class Connection(Protocol):
    """Connection that runs SQL; `?` is the placeholder in both stores."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Cursor: ...  # Any: values
    def close(self) -> None: ...


class TallyRow(NamedTuple):
    survey: int
    round: int
    node: str
    reports: int
    sealed: bool
    cells: bytes
    labels: bytes
    digest: bytes


def digest_of(*values: int | str | bytes) -> bytes:
    """Return the digest of a row's values. They include its key, to detect misplaced rows."""
    parts: list[bytes] = []
    for value in values:
        content = value if isinstance(value, bytes) else str(value).encode()
        parts += (len(content).to_bytes(8, "little"), content)
    return hashlib.blake2b(b"".join(parts), digest_size=DIGEST_BYTES).digest()


def tally_row(
    survey: int, number: int, node: str, reports: int, sealed: bool, cells: bytes, by_label: bytes
) -> TallyRow:
    sealed = bool(sealed)  # SQLite returns an integer
    digest = digest_of(survey, number, node, reports, sealed, cells, by_label)
    return TallyRow(survey, number, node, reports, sealed, cells, by_label, digest)


def row_of(survey: int, node: str, tally: RoundTally) -> TallyRow:
    """Return the row of a tally that is not sealed."""
    cells, labels = packed_cells(tally.cells), packed_labels(tally.labels)
    return tally_row(survey, tally.round, node, tally.reports, False, cells, labels)


def is_whole(row: TallyRow) -> bool:
    return tally_row(*row[:7]).digest == row.digest


def read_tally(row: TallyRow) -> RoundTally | None:
    """Return the counts of a row, or None if it is damaged."""
    import numpy as np

    if not is_whole(row):
        return None
    cells = np.frombuffer(row.cells, CELL_TYPE).astype(np.int64)
    labels = read_labels(row.labels) if row.labels else NO_LABELS
    return RoundTally(row.round, row.reports, cells, labels)


def checked_tally(row: TallyRow) -> RoundTally:
    if (tally := read_tally(row)) is None:
        raise Damaged(
            f"the tally of round {row.round} of survey {row.survey} in the store is damaged, so no "
            "result is shown; stop the server and run `deniable doctor --data DIR --repair`, or "
            "restore a dump of the database as described in RECIPES.md"
        )
    return tally


def seal_rounds(connection: Connection, sequence: int, numbers: Sequence[int]) -> None:
    """Seal the intact rows of rounds: a recount of a damaged row still needs its envelopes."""
    for number in numbers:
        for row in map(TallyRow._make, connection.execute(OF_ROUND, (sequence, number)).fetchall()):
            if is_whole(row):
                connection.execute(PUT, tally_row(*row[:4], True, row.cells, row.labels))


def rounds_to_purge(connection: Connection, tables: Sequence[str]) -> Iterator[Round]:
    """Yield the sealed, intact rounds with envelopes in these tables.

    A recount of a damaged round still needs its envelopes.
    """
    # With EXISTS, PostgreSQL would scan whole tables.
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
