"""Base of both stores: all tables except envelopes, in SQL that both databases understand.

`SqlReader` reads through the connection that its subclass provides; `SqlStore` also writes.
`TABLES` creates the tables, with each store's own types. Nothing in the tables identifies the
sender of a report: they hold no address, and no time finer than the round.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import astuple
from datetime import UTC, date, datetime
from itertools import groupby
from typing import Any, Generic, Self, TypeVar

from deniable.server.store.label_counts import KEY_BYTES, NO_LABELS, LabelCounts
from deniable.server.store.protocol import COMMAND, NO_SURVEY
from deniable.server.store.records import (
    ID_DIGITS,
    OF_ROUND,
    PUT,
    PUT_RELEASED,
    ROW,
    SETTLING,
    TOTAL,
    Annotation,
    AuditEntry,
    Connection,
    Crowd,
    Epoch,
    PublicPage,
    Released,
    Round,
    RoundTally,
    Share,
    SurveyRow,
    TallyRow,
    Token,
    Upload,
    UploadKey,
    checked_tally,
    is_whole,
    read_tally,
    row_of,
    seal_rounds,
)
from deniable.server.store.register_chain import Event, RegisterEntry, next_entry
from deniable.shared.errors import Refused, StoreUnusable

TABLES = """
CREATE TABLE about (
    key TEXT NOT NULL PRIMARY KEY,  -- `schema`, `day`, or a name that one store defines
    value TEXT NOT NULL             -- version of the tables; latest day on which a server ran; ...
);
CREATE TABLE surveys (
    sequence {sequence},            -- number in the order of publication, from 1; never reused
    id TEXT NOT NULL UNIQUE,        -- SHA-256 of the document, in hex
    document {bytes} NOT NULL,      -- the exact published bytes
    signature TEXT NOT NULL,        -- Ed25519 over the document, in hex
    key TEXT NOT NULL,              -- the public key that signed it, in hex
    closed TEXT,                    -- the day on which the operator closed it, such as 2026-12-01
    label_key {bytes} NOT NULL,     -- secret that ranks the values of labels, as in label_counts
    epochs TEXT NOT NULL            -- JSON: list of round, epoch and signature (records.Epoch)
);
CREATE TABLE keys (
    key TEXT NOT NULL PRIMARY KEY   -- a public key whose surveys may be published here
);
CREATE TABLE retired_keys (
    key TEXT NOT NULL PRIMARY KEY   -- a key that can never be enrolled again
);
CREATE TABLE register (
    number INTEGER NOT NULL PRIMARY KEY,  -- from 1, without gaps
    event TEXT NOT NULL,            -- published, page, reconciled, closed or deleted
    survey TEXT NOT NULL,           -- the survey's id, in hex
    key TEXT NOT NULL,              -- the public key that signed it; for a page, its files' digest
    head TEXT NOT NULL              -- SHA-256 of the previous head and this entry, in hex
);
CREATE TABLE tallies (
    survey INTEGER NOT NULL REFERENCES surveys (sequence),  -- the survey's sequence
    round BIGINT NOT NULL,          -- the round that was counted
    node TEXT NOT NULL,             -- the server that counted: each has its own row, so none waits
    reports BIGINT NOT NULL,        -- number of counted reports
    sealed BOOLEAN NOT NULL,        -- whether counting has ended; envelopes may then be purged
    cells {bytes} NOT NULL,         -- the counts, int64 little-endian, in the order of RoundTally
    labels {bytes} NOT NULL,        -- the counts by label value, as in label_counts
    digest {bytes} NOT NULL,        -- of the other columns, to detect damage
    PRIMARY KEY (survey, round, node)
);
CREATE TABLE released (             -- counts that readers see until the round is final
    survey INTEGER NOT NULL REFERENCES surveys (sequence),  -- other columns as in `tallies`
    round BIGINT NOT NULL,
    node TEXT NOT NULL,             -- the part of the counts: `total`, or a label's number
    reports BIGINT NOT NULL,        -- number of the round's reports when the part was copied
    sealed BOOLEAN NOT NULL,        -- always false
    cells {bytes} NOT NULL,         -- empty if the part is a label's
    labels {bytes} NOT NULL,
    digest {bytes} NOT NULL,
    PRIMARY KEY (survey, round, node)
);
CREATE TABLE counters (
    survey INTEGER NOT NULL,        -- the survey's sequence; 0: a survey not published here
    outcome TEXT NOT NULL,          -- accepted, duplicates, or the code of a refusal
    reports BIGINT NOT NULL,        -- number of reports with this outcome
    PRIMARY KEY (survey, outcome)
);
CREATE TABLE relay_batches (
    survey INTEGER NOT NULL REFERENCES surveys (sequence),  -- the survey's sequence
    round BIGINT NOT NULL,          -- the round of the reports
    batch {bytes} NOT NULL,         -- random number that a relay gave the batch
    labels {bytes} NOT NULL,        -- keyed hashes of the labels that these reports share
    reports BIGINT NOT NULL,        -- number of accepted reports of the batch with these labels
    dropped BIGINT NOT NULL,        -- number of envelopes that the relay dropped instead
    PRIMARY KEY (survey, round, batch, labels)
){unnumbered};
CREATE TABLE annotations (
    survey INTEGER NOT NULL REFERENCES surveys (sequence),  -- the survey's sequence
    day TEXT NOT NULL,              -- the day of the event, such as 2026-12-01
    words TEXT NOT NULL,            -- the event, in the operator's words
    PRIMARY KEY (survey, day, words)
);
CREATE TABLE tokens (
    hash TEXT NOT NULL PRIMARY KEY,  -- SHA-256 of the token, in hex
    role TEXT NOT NULL,             -- operator, analyst or app
    created BIGINT NOT NULL,        -- in seconds since 1970
    expires BIGINT NOT NULL,        -- in seconds since 1970; the token is invalid from then on
    name TEXT NOT NULL UNIQUE,      -- name in the audit log; the first digits of the hash if none
    used TEXT NOT NULL,             -- last day of use, such as 2026-12-01; empty if never used
    label TEXT NOT NULL,            -- label value that its reports may name: channel=ci; or empty
    reports BIGINT NOT NULL         -- most reports of one survey in an hour; 0: no limit
);
CREATE TABLE invitations (
    survey INTEGER NOT NULL REFERENCES surveys (sequence),  -- the survey's sequence
    code {bytes} NOT NULL,          -- SHA-256 of the code
    spent BOOLEAN NOT NULL,         -- whether a report was counted with the code
    PRIMARY KEY (survey, code)
){unnumbered};
CREATE TABLE audit (
    day TEXT NOT NULL,              -- the day of the action, such as 2026-12-01
    actor TEXT NOT NULL,            -- name of the token that acted, `command` or `server`
    action TEXT NOT NULL,           -- the action, such as `closed a survey`
    subject TEXT NOT NULL,          -- the survey, token or key that it changed; may be empty
    PRIMARY KEY (day, actor, action, subject)
){unnumbered};
CREATE TABLE alerts (
    survey INTEGER NOT NULL REFERENCES surveys (sequence),  -- the survey's sequence
    subject TEXT NOT NULL,          -- the alert, such as a rule
    state TEXT NOT NULL,            -- the state that was announced last
    PRIMARY KEY (survey, subject)
);
CREATE TABLE public_pages (
    path TEXT NOT NULL PRIMARY KEY,  -- the exact path at which anyone may read the page
    content_type TEXT NOT NULL,     -- the HTTP Content-Type of the body
    body {bytes} NOT NULL           -- the page as it is sent
);
CREATE TABLE shares (
    path TEXT NOT NULL PRIMARY KEY,  -- the secret path at which anyone may read the page
    survey INTEGER NOT NULL REFERENCES surveys (sequence),  -- the survey's sequence
    actor TEXT NOT NULL,            -- name of the token that shared it
    created TEXT NOT NULL,          -- the day on which it was shared, such as 2026-12-01
    expires TEXT NOT NULL,          -- the last day on which the page can be read
    division TEXT NOT NULL,         -- division of the rounds that the page shows; may be empty
    round BIGINT,                   -- the round that the page shows; NULL: the newest
    language TEXT NOT NULL,         -- language of the survey's texts; empty: the default
    linked BOOLEAN NOT NULL,        -- whether the respondent page links to it
    page {bytes} NOT NULL           -- the page as it is sent; empty until it is published
){unnumbered};
"""
OF_SURVEY = (
    "tallies", "released", "counters", "relay_batches", "annotations", "alerts", "shares",
    "invitations",
)  # fmt: skip
DAY = "day"  # key of `about`
CLOSINGS = "closings"  # key of `about`: seconds since 1970 by survey, of the last closings
MAX_ROUND = 2**32 - 1  # the greatest number in an envelope
IS_SEALED = "SELECT 1 FROM tallies WHERE survey = ? AND round = ? AND sealed LIMIT 1"
SURVEY = "sequence, id, document, signature, key, closed, label_key, epochs"
ENTRY = "number, event, survey, key, head"
SHARE = "path, survey, actor, created, expires, division, round, language, linked"
TOKEN = "hash, role, created, expires, name, used, label, reports"  # noqa: S105 # columns
AUDIT = "day, actor, action, subject"
PATIENCE_SECONDS = 10


Driver = TypeVar("Driver", bound=Connection)


class ConnectionPool(Generic[Driver]):
    """Thread-safe pool of a limited number of connections.

    If a block raises an error, its connection and all idle ones are closed, because a fault that
    breaks one connection to a database usually breaks all of them.
    """

    def __init__(self, connect: Callable[[], Driver], limit: int) -> None:
        self._connect = connect
        self._slots = threading.BoundedSemaphore(limit)
        self._idle: deque[Driver] = deque()

    @contextmanager
    def connection(self) -> Iterator[Driver]:
        if not self._slots.acquire(timeout=PATIENCE_SECONDS):
            raise StoreUnusable(
                f"the store has no free connection: all were in use for {PATIENCE_SECONDS} seconds"
            )
        try:
            try:
                driver = self._idle.pop()
            except IndexError:
                driver = self._connect()
            try:
                yield driver
            except BaseException:
                driver.close()
                self.close()
                raise
            self._idle.append(driver)
        finally:
            self._slots.release()

    def close(self) -> None:
        """Close the idle connections; the next caller gets a new connection."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


class SqlTransaction(ABC, Generic[Driver]):
    """Group of envelopes; `node` names the server that counts it."""

    def __init__(self, connection: Driver, node: str) -> None:
        self._connection, self._node = connection, node

    @abstractmethod
    def _insert_round(self, of: Round, uploads: Sequence[Upload]) -> set[bytes]:
        """Store those uploads of one round that are new, and return their ids."""

    @abstractmethod
    def _stored_ids(self, of: Round, identifiers: Sequence[bytes]) -> set[bytes]:
        """Return those ids of a round that are already stored."""

    def stored(self, uploads: Sequence[Upload]) -> set[UploadKey]:
        keys = sorted(upload.key for upload in uploads)
        return {
            (*of, identifier)
            for of, members in groupby(keys, key=lambda key: key[:2])
            for identifier in self._stored_ids(of, [member[2] for member in members])
        }

    def spend(self, sequence: int, codes: Sequence[bytes]) -> Mapping[bytes, bool]:
        """Change one byte of each row in place, so that the file does not show the order."""
        found = dict[bytes, bool]()
        for code in sorted(codes):
            row = self._connection.execute(INVITATION, (sequence, code)).fetchone()
            if row is not None:
                found[code] = not row[0]
                self._connection.execute(SPEND, (sequence, code))
        return found

    def is_sealed(self, sequence: int, number: int) -> bool:
        """Return whether any node has sealed the round."""
        return self._connection.execute(IS_SEALED, (sequence, number)).fetchone() is not None

    def insert(self, uploads: Sequence[Upload]) -> set[UploadKey]:
        """Insert uploads in the order of their keys, so that nodes never deadlock."""
        new: set[UploadKey] = set()
        ordered = sorted(uploads, key=lambda upload: upload.key)
        for of, members in groupby(ordered, key=lambda upload: upload.key[:2]):
            new |= {(*of, identifier) for identifier in self._insert_round(of, list(members))}
        return new

    def count_batches(
        self, sequence: int, number: int, counts: Mapping[tuple[bytes, bytes], int]
    ) -> None:
        """Add to the crowds in the order of their keys, so that nodes never deadlock."""
        for key, reports in sorted(counts.items()):
            self._connection.execute(COUNT_BATCH, (sequence, number, *key, reports))

    def add(self, sequence: int, tally: RoundTally) -> None:
        """Add counts to this node's row. A damaged row stays unchanged, for a recount."""
        key = (sequence, tally.round, self._node)
        row = self._connection.execute(f"{OF_ROUND} AND node = ?", key).fetchone()
        if row is not None:
            before = read_tally(TallyRow(*row))
            if before is None:
                return
            tally = before + tally
        self._connection.execute(PUT, row_of(sequence, self._node, tally))


INVITATION = "SELECT spent FROM invitations WHERE survey = ? AND code = ?"
SPEND = "UPDATE invitations SET spent = TRUE WHERE survey = ? AND code = ? AND NOT spent"
COUNT_BATCH = (
    "INSERT INTO relay_batches (survey, round, batch, labels, reports, dropped) "
    "VALUES (?, ?, ?, ?, ?, 0) ON CONFLICT (survey, round, batch, labels) "
    "DO UPDATE SET reports = relay_batches.reports + excluded.reports"
)
CROWDS = (
    "SELECT round, coalesce(min(reports) FILTER (WHERE reports > 0), 0), sum(reports), "
    "sum(dropped) FROM relay_batches WHERE survey = ? GROUP BY round"
)
MAX_LABEL_CROWDS = 50_000  # in all rounds; with more, only the smallest crowds of all are returned
LABEL_CROWDS = (
    "SELECT round, labels, min(reports) FROM relay_batches WHERE survey = ? AND reports > 0 "
    f"AND length(labels) > 0 GROUP BY round, labels ORDER BY 1, 2 LIMIT {MAX_LABEL_CROWDS + 1}"
)


class SqlReader(ABC):
    """Reading half of a store; `StoreReader` documents the methods."""

    @abstractmethod
    def _reading(self, *, reports: bool = False) -> AbstractContextManager[Connection]:
        """Return a connection in a snapshot transaction.

        With `reports`, the snapshot contains every report that this process has acknowledged.
        """

    def _rows(self, query: str, *values: object, reports: bool = False) -> list[Any]:
        with self._reading(reports=reports) as connection:
            return connection.execute(query, values).fetchall()

    def surveys_mark(self) -> int:
        return int(self._rows("SELECT coalesce(max(number), 0) FROM register")[0][0])

    def surveys(self, after: int = 0) -> list[SurveyRow]:
        query = f"SELECT {SURVEY} FROM surveys WHERE sequence > ? ORDER BY sequence"
        return [survey_row(row) for row in self._rows(query, after)]

    def survey_states(self) -> Mapping[int, date | None]:
        rows = self._rows("SELECT sequence, closed FROM surveys")
        return {sequence: _day(closed) for sequence, closed in rows}

    def epochs(self) -> Mapping[int, tuple[Epoch, ...]]:
        rows = self._rows("SELECT sequence, epochs FROM surveys WHERE epochs <> '[]'")
        return {sequence: _epochs(epochs) for sequence, epochs in rows}

    def closings(self) -> Mapping[int, datetime]:
        with self._reading() as connection:
            return _closings(connection)

    def register(self, after: int = 0, most: int | None = None) -> list[RegisterEntry]:
        query = f"SELECT {ENTRY} FROM register WHERE number > ? ORDER BY number"
        limit = "" if most is None else f" LIMIT {int(most)}"
        return [RegisterEntry(*row) for row in self._rows(query + limit, after)]

    def enrolled_keys(self) -> frozenset[str]:
        return frozenset(key for (key,) in self._rows("SELECT key FROM keys"))

    def retired_keys(self) -> frozenset[str]:
        return frozenset(key for (key,) in self._rows("SELECT key FROM retired_keys"))

    def tallies(
        self, sequence: int, first: int | None = None, last: int | None = None
    ) -> list[RoundTally]:
        sums = list[RoundTally]()
        for _, rows in groupby(self._round_rows("tallies", sequence, first, last), _round):
            parts = [checked_tally(row) for row in rows]
            sums.append(sum(parts[1:], parts[0]))
        return sums

    def released(
        self, sequence: int, first: int | None = None, last: int | None = None
    ) -> list[RoundTally]:
        rounds = list[RoundTally]()
        for number, rows in groupby(self._round_rows("released", sequence, first, last), _round):
            parts = {row.node: read_tally(row) for row in rows}
            intact = {part: tally for part, tally in parts.items() if tally}
            if TOTAL in intact and len(intact) == len(parts):
                total, labels = intact[TOTAL], NO_LABELS
                for tally in filter(lambda part: part.labels, intact.values()):
                    labels = LabelCounts(labels | tally.labels, tally.labels.key)
                rounds.append(RoundTally(number, total.reports, total.cells, labels))
        return rounds

    def _round_rows(
        self, table: str, sequence: int, first: int | None, last: int | None
    ) -> Iterator[TallyRow]:
        query = (
            f"SELECT {ROW} FROM {table} WHERE survey = ? AND round BETWEEN ? AND ? ORDER BY round"
        )
        numbers = first or 0, MAX_ROUND if last is None else last
        return map(TallyRow._make, self._rows(query, sequence, *numbers, reports=True))

    def report_totals(self, unfinished: Mapping[int, range] | None = None) -> Mapping[int, int]:
        totals, ranges = Counter[int](), unfinished or {}
        with self._reading(reports=True) as connection:
            for row in map(TallyRow._make, connection.execute(f"SELECT {ROW} FROM tallies")):
                reports = checked_tally(row).reports
                if row.round not in ranges.get(row.survey, ()):
                    totals[row.survey] += reports
            query = f"SELECT {ROW} FROM released WHERE node = ?"
            for row in map(TallyRow._make, connection.execute(query, (TOTAL,))):
                if row.round in ranges.get(row.survey, ()) and is_whole(row):
                    totals[row.survey] += row.reports
        return totals

    def unsealed_rounds(self) -> Mapping[int, Sequence[int]]:
        query = "SELECT DISTINCT survey, round FROM tallies WHERE NOT sealed ORDER BY round"
        rounds: dict[int, list[int]] = {}
        for sequence, number in self._rows(query, reports=True):
            rounds.setdefault(sequence, []).append(number)
        return rounds

    def annotations(self, sequence: int) -> list[Annotation]:
        query = "SELECT day, words FROM annotations WHERE survey = ? ORDER BY day, words"
        rows = self._rows(query, sequence)
        return [Annotation(date.fromisoformat(day), words) for day, words in rows]

    def crowds(self, sequence: int) -> Mapping[int, Crowd]:
        rows, by_labels = self._rows(CROWDS, sequence, reports=True), dict[int, list[Any]]()
        listed = self._rows(LABEL_CROWDS, sequence, reports=True)
        for number, labels, fewest in listed if len(listed) <= MAX_LABEL_CROWDS else ():
            by_labels.setdefault(number, []).append((bytes(labels), int(fewest)))
        return {
            number: Crowd(int(fewest), int(arrived), int(dropped), tuple(by_labels.get(number, ())))
            for number, fewest, arrived, dropped in rows
        }

    def public_page(self, path: str) -> PublicPage | None:
        rows = self._rows("SELECT content_type, body FROM public_pages WHERE path = ?", path)
        return PublicPage(str(rows[0][0]), bytes(rows[0][1])) if rows else None

    def shares(self) -> list[Share]:
        rows = self._rows(f"SELECT {SHARE} FROM shares ORDER BY expires, path")
        days = (map(date.fromisoformat, row[3:5]) for row in rows)
        return [
            Share._make((*row[:3], *of, *row[5:8], bool(row[8])))
            for row, of in zip(rows, days, strict=True)
        ]

    def shared_page(self, path: str, today: date) -> bytes | None:
        query = "SELECT page FROM shares WHERE path = ? AND expires >= ?"
        rows = self._rows(query, path, today.isoformat())
        return (bytes(rows[0][0]) or None) if rows else None

    def counters(self, sequence: int) -> Mapping[str, int]:
        return dict(self._rows("SELECT outcome, reports FROM counters WHERE survey = ?", sequence))

    def valid_token(self, token: str, now: datetime) -> Token | None:
        query = f"SELECT {TOKEN} FROM tokens WHERE hash = ? AND expires > ?"
        rows = self._rows(query, _token_hash(token), now.timestamp())
        return _token(*rows[0]) if rows else None

    def tokens(self) -> list[Token]:
        rows = self._rows(f"SELECT {TOKEN} FROM tokens ORDER BY created, hash")
        return [_token(*row) for row in rows]

    def audit(self) -> list[AuditEntry]:
        rows = self._rows(f"SELECT {AUDIT} FROM audit ORDER BY day DESC, actor, action, subject")
        return [AuditEntry(date.fromisoformat(day), *words) for day, *words in rows]

    def alert_states(self) -> Mapping[tuple[int, str], str]:
        rows = self._rows("SELECT survey, subject, state FROM alerts")
        return {(sequence, subject): state for sequence, subject, state in rows}

    def latest_day(self) -> date | None:
        with self._reading() as connection:
            return _day(noted(connection, DAY))


class SqlSnapshot(SqlReader):
    """Snapshot of the store: all methods read in the same transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _reading(self, *, reports: bool = False) -> AbstractContextManager[Connection]:  # noqa: ARG002  # `snapshot` passed it
        return nullcontext(self._connection)


class SqlStore(SqlReader):
    """Writing half of a store, except for envelopes; `Store` documents the methods."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _writing(self, aim: str) -> AbstractContextManager[Connection]:
        """Return a connection in a write transaction; error messages name its `aim`."""

    def _lock(self, connection: Connection, table: str) -> None:
        """Make other writers of a table wait until the transaction ends."""

    @contextmanager
    def snapshot(self) -> Iterator[SqlReader]:
        with self._reading(reports=True) as connection:
            yield SqlSnapshot(connection)

    def publish(self, document: bytes, signature: str, key: str, by: str = COMMAND) -> str:
        """Publish under a lock, so that readers see sequences in order and without gaps."""
        from deniable.shared.survey.document import survey_id

        identifier = survey_id(document)
        statement = (
            "INSERT INTO surveys (id, document, signature, key, closed, label_key, epochs) "
            "VALUES (?, ?, ?, ?, ?, ?, '[]') "
            "ON CONFLICT DO NOTHING RETURNING id"
        )
        row = (identifier, document, signature, key, None, os.urandom(KEY_BYTES))
        with self._writing("publish a survey") as connection:
            self._lock(connection, "surveys")
            if connection.execute(statement, row).fetchall():
                self._add_entry(connection, "published", identifier, key, by)
        return identifier

    def close_survey(self, sequence: int, now: datetime, by: str = COMMAND) -> None:
        statement = "UPDATE surveys SET closed = ? WHERE sequence = ? AND closed IS NULL"
        with self._writing("close a survey") as connection:
            row = now.astimezone(UTC).date().isoformat(), sequence
            rows = connection.execute(f"{statement} RETURNING id, key", row)
            for identifier, key in rows.fetchall():
                self._add_entry(connection, "closed", identifier, key, by)
                since = now - 2 * SETTLING
                recent = {n: at for n, at in _closings(connection).items() if at > since}
                moments = {n: at.timestamp() for n, at in (recent | {sequence: now}).items()}
                note(connection, CLOSINGS, json.dumps(moments))

    def reconcile(self, sequence: int, epochs: Sequence[Epoch], by: str = COMMAND) -> None:
        statement = "UPDATE surveys SET epochs = ? WHERE sequence = ? RETURNING id, key"
        values = json.dumps([astuple(epoch) for epoch in epochs]), sequence
        with self._writing("reconcile a round") as connection:
            for identifier, key in connection.execute(statement, values).fetchall():
                self._add_entry(connection, "reconciled", identifier, key, by)

    def _delete_survey(self, connection: Connection, sequence: int) -> None:
        """Delete a survey's rows except register entries; the caller has deleted its envelopes."""
        for table in OF_SURVEY:
            connection.execute(f"DELETE FROM {table} WHERE survey = ?", (sequence,))
        statement = "DELETE FROM surveys WHERE sequence = ? RETURNING id, key"
        for identifier, key in connection.execute(statement, (sequence,)).fetchall():
            self._add_entry(connection, "deleted", identifier, key, COMMAND)

    def _add_entry(
        self, connection: Connection, event: Event, survey: str, key: str, by: str
    ) -> None:
        if event != "page":  # no one acts here: the server registers the files that it ships
            _record(connection, by, f"{event} a survey", survey[:ID_DIGITS])
        self._lock(connection, "register")
        newest = f"SELECT {ENTRY} FROM register ORDER BY number DESC LIMIT 1"
        row = connection.execute(newest).fetchone()
        entry = next_entry(None if row is None else RegisterEntry(*row), event, survey, key)
        values = (entry.number, entry.event, entry.survey, entry.key, entry.head)
        connection.execute(f"INSERT INTO register ({ENTRY}) VALUES (?, ?, ?, ?, ?)", values)

    def enrol_key(self, key: str) -> None:
        with self._writing("enrol a key") as connection:
            retired = "SELECT 1 FROM retired_keys WHERE key = ?"
            if connection.execute(retired, (key,)).fetchone() is not None:
                raise Refused(
                    f"the key {key[:16]}… is retired and can never be enrolled again; publish "
                    f"with another key"
                )
            statement = "INSERT INTO keys (key) VALUES (?) ON CONFLICT DO NOTHING"
            if connection.execute(statement, (key,)).rowcount > 0:
                _record(connection, COMMAND, "enrolled a key", key[:ID_DIGITS])

    def retire_key(self, key: str) -> None:
        statement = "INSERT INTO retired_keys (key) VALUES (?) ON CONFLICT DO NOTHING"
        with self._writing("retire a key") as connection:
            connection.execute("DELETE FROM keys WHERE key = ?", (key,))
            if connection.execute(statement, (key,)).rowcount > 0:
                _record(connection, COMMAND, "retired a key", key[:ID_DIGITS])

    def release(
        self, sequence: int, number: int, change: Callable[[RoundTally, Released], Released]
    ) -> None:
        key = sequence, number
        query = f"SELECT {ROW} FROM released WHERE survey = ? AND round = ?"
        with self._writing("release a step of a round") as connection:
            self._lock(connection, "released")
            counts, released = (
                {row.node: read_tally(row) for row in map(TallyRow._make, rows)}
                for rows in (connection.execute(sql, key).fetchall() for sql in (OF_ROUND, query))
            )
            nodes = [tally for tally in counts.values() if tally]
            parts = {part: tally for part, tally in released.items() if tally}
            if nodes and len(nodes) == len(counts) and len(parts) == len(released):
                for part, tally in change(sum(nodes[1:], nodes[0]), parts).items():
                    connection.execute(PUT_RELEASED, row_of(sequence, part, tally))

    def seal(self, sequence: int, rounds: Sequence[int]) -> None:
        with self._writing("seal rounds") as connection:
            seal_rounds(connection, sequence, rounds)

    def annotate(self, sequence: int, annotation: Annotation) -> None:
        statement = "INSERT INTO annotations (survey, day, words) VALUES (?, ?, ?)"
        row = (sequence, annotation.day.isoformat(), annotation.words)
        with self._writing("annotate a survey") as connection:
            connection.execute(f"{statement} ON CONFLICT DO NOTHING", row)

    def remove_annotation(self, sequence: int, annotation: Annotation) -> bool:
        statement = "DELETE FROM annotations WHERE survey = ? AND day = ? AND words = ?"
        row = (sequence, annotation.day.isoformat(), annotation.words)
        with self._writing("remove an annotation") as connection:
            return connection.execute(statement, row).rowcount > 0

    def count_dropped(self, sequence: int, number: int, batch: bytes, dropped: int) -> None:
        statement = (
            "INSERT INTO relay_batches (survey, round, batch, labels, reports, dropped) "
            "VALUES (?, ?, ?, ?, 0, ?) ON CONFLICT DO NOTHING"
        )
        with self._writing("count dropped envelopes") as connection:
            connection.execute(statement, (sequence, number, batch, b"", dropped))

    def invite(self, sequence: int, codes: Collection[bytes], by: str = COMMAND) -> None:
        """Insert in the order of the codes, which is random."""
        statement = "INSERT INTO invitations (survey, code, spent) VALUES (?, ?, FALSE)"
        query = "SELECT id FROM surveys WHERE sequence = ?"
        with self._writing("save invitations") as connection:
            (identifier,) = connection.execute(query, (sequence,)).fetchone()
            _record(connection, by, "created invitations", identifier[:ID_DIGITS])
            for code in sorted(codes):
                connection.execute(statement, (sequence, code))

    def register_page(self, survey: str, digest: str) -> None:
        with self._writing("register a page") as connection:
            self._add_entry(connection, "page", survey, digest, COMMAND)

    def replace_public_pages(self, folder: str, pages: Mapping[str, PublicPage]) -> None:
        rows = self._rows("SELECT path, content_type, body FROM public_pages")
        kept = {
            path: PublicPage(content_type, bytes(body))
            for path, content_type, body in rows
            if path.startswith(folder)
        }
        if kept == pages:
            return
        statement = (
            "INSERT INTO public_pages (path, content_type, body) VALUES (?, ?, ?) "
            "ON CONFLICT (path) DO UPDATE SET content_type = excluded.content_type, "
            "body = excluded.body"
        )
        with self._writing("publish pages") as connection:
            for path in sorted(kept.keys() - pages.keys()):
                connection.execute("DELETE FROM public_pages WHERE path = ?", (path,))
            for path, page in sorted(pages.items()):
                if kept.get(path) != page:
                    connection.execute(statement, (path, *page))

    def share(self, share: Share) -> None:
        row = (*share[:3], share.created.isoformat(), share.expires.isoformat(), *share[5:])
        statement = f"INSERT INTO shares ({SHARE}, page) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        with self._writing("share a page") as connection:
            connection.execute(statement, (*row, b""))
            self._record_share(connection, share.actor, "shared results", share.survey)

    def set_shared_page(self, path: str, page: bytes) -> None:
        with self._writing("publish a shared page") as connection:
            connection.execute("UPDATE shares SET page = ? WHERE path = ?", (page, path))

    def revoke_share(self, path: str, by: str) -> bool:
        statement = "DELETE FROM shares WHERE path = ? RETURNING survey"
        with self._writing("revoke a shared page") as connection:
            rows = connection.execute(statement, (path,)).fetchall()
            for (sequence,) in rows:
                self._record_share(connection, by, "stopped sharing results", sequence)
        return bool(rows)

    def _record_share(self, connection: Connection, by: str, action: str, sequence: int) -> None:
        query = "SELECT id FROM surveys WHERE sequence = ?"
        (identifier,) = connection.execute(query, (sequence,)).fetchone()
        _record(connection, by, action, identifier[:ID_DIGITS])

    def purge_shares(self, before: date) -> None:
        with self._writing("purge its shared pages") as connection:
            connection.execute("DELETE FROM shares WHERE expires < ?", (before.isoformat(),))

    def add_counters(self, counts: Mapping[tuple[int, str], int]) -> None:
        """Add counts in the order of their keys, so that nodes never deadlock.

        Drop the counts of surveys that have been deleted.
        """
        statement = (
            "INSERT INTO counters (survey, outcome, reports) VALUES (?, ?, ?) ON CONFLICT "
            "(survey, outcome) DO UPDATE SET reports = counters.reports + excluded.reports"
        )
        with self._writing("add to its counters") as connection:
            rows = connection.execute("SELECT sequence FROM surveys").fetchall()
            known = {NO_SURVEY, *(sequence for (sequence,) in rows)}
            for (sequence, outcome), reports in sorted(counts.items()):
                if sequence in known:
                    connection.execute(statement, (sequence, outcome, reports))

    def add_token(
        self,
        token: str,
        role: str,
        now: datetime,
        expires: datetime,
        name: str = "",
        by: str = COMMAND,
        *,
        label: str = "",
        limit: int = 0,
    ) -> None:
        digest = _token_hash(token)
        name = name or digest[:ID_DIGITS]
        statement = f"INSERT INTO tokens ({TOKEN}) VALUES (?, ?, ?, ?, ?, '', ?, ?)"
        row = (digest, role, int(now.timestamp()), int(expires.timestamp()), name, label, limit)
        with self._writing("save a token") as connection:
            if connection.execute(f"{statement} ON CONFLICT DO NOTHING", row).rowcount < 1:
                raise Refused(f"a token has the name {name!r}; revoke it, or choose another name")
            _record(connection, by, "created a token", f"{name} ({role})")

    def revoke_token(self, identifier: str, by: str = COMMAND) -> None:
        with self._writing("revoke a token") as connection:
            those, values = "substr(hash, 1, ?) = ?", (len(identifier), identifier)
            rows = connection.execute(f"SELECT name, role FROM tokens WHERE {those}", values)
            named = rows.fetchall()
            is_over = "(label = '' OR expires <= created)"
            connection.execute(f"DELETE FROM tokens WHERE {those} AND {is_over}", values)
            end = "UPDATE tokens SET expires = created, name = substr(hash, 1, ?)"
            connection.execute(f"{end} WHERE {those}", (ID_DIGITS, *values))
            for name, role in named:
                _record(connection, by, "revoked a token", f"{name} ({role})")

    def note_use(self, identifier: str, day: date) -> None:
        statement = "UPDATE tokens SET used = ? WHERE substr(hash, 1, ?) = ?"
        with self._writing("note the use of a token") as connection:
            connection.execute(statement, (day.isoformat(), len(identifier), identifier))

    def record_sign_in(self, by: str) -> None:
        with self._writing("write its audit log") as connection:
            _record(connection, by, "signed in", "")

    def purge_audit(self, before: date) -> None:
        with self._writing("purge its audit log") as connection:
            connection.execute("DELETE FROM audit WHERE day < ?", (before.isoformat(),))

    def change_alert(self, sequence: int, subject: str, before: str, after: str) -> bool:
        delete = "DELETE FROM alerts WHERE survey = ? AND subject = ? AND state = ?"
        insert = "INSERT INTO alerts (survey, subject, state) VALUES (?, ?, ?)"
        with self._writing("save the state of an alert") as connection:
            key = (sequence, subject)
            if before and connection.execute(delete, (*key, before)).rowcount < 1:
                return False
            row = (*key, after)
            return connection.execute(f"{insert} ON CONFLICT DO NOTHING", row).rowcount > 0

    def keep_day(self, day: date) -> None:
        with self._writing("save the date") as connection:
            note(connection, DAY, day.isoformat())


def check_schema(place: str, version: str | None, ours: int) -> None:
    """Refuse tables of another version."""
    if version != str(ours):
        raise StoreUnusable(
            f"{place} has schema version {version}, and this deniable reads only version {ours}; "
            "use the version of deniable that wrote it. Nothing was changed."
        )


def survey_row(row: Sequence[Any]) -> SurveyRow:  # Any: columns of many types
    """Convert the columns of SURVEY to a record."""
    sequence, identifier, document, signature, key, closed, label_key, epochs = row
    begin = sequence, identifier, document, signature, key, _day(closed), bytes(label_key)
    return SurveyRow(*begin, _epochs(epochs))


def _epochs(text: str) -> tuple[Epoch, ...]:
    return tuple(Epoch(*fields) for fields in json.loads(text))


def noted(connection: Connection, key: str) -> str | None:
    """Return the value of a key in the table `about`."""
    row = connection.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def _closings(connection: Connection) -> dict[int, datetime]:
    moments = json.loads(noted(connection, CLOSINGS) or "{}")
    return {int(sequence): _moment(moment) for sequence, moment in moments.items()}


def note(connection: Connection, key: str, value: str) -> None:
    statement = (
        "INSERT INTO about (key, value) VALUES (?, ?) "
        "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    )
    connection.execute(statement, (key, value))


def _round(row: TallyRow) -> int:
    return row.round


def _record(connection: Connection, actor: str, action: str, subject: str) -> None:
    """Record an action, once a day at most; the row holds no time and no number."""
    row = (datetime.now(UTC).date().isoformat(), actor, action, subject)
    statement = f"INSERT INTO audit ({AUDIT}) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
    connection.execute(statement, row)


def _token(  # the columns of TOKEN
    digest: str, role: str, created: int, expires: int, name: str, used: str, label: str, limit: int
) -> Token:
    last = date.fromisoformat(used) if used else None
    moments = _moment(created), _moment(expires)
    return Token(digest[:ID_DIGITS], role, *moments, name, last, label, limit)


def _token_hash(token: str) -> str:
    """Return a plain hash, which suffices because tokens are 256 random bits."""
    return hashlib.sha256(token.encode()).hexdigest()


def _day(text: str | None) -> date | None:
    return None if text is None else date.fromisoformat(text)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
