"""The part that both stores share: every table but envelopes, in SQL that both databases know.

`SqlReader` reads, through the connection that its subclass gives it; `SqlStore` also writes. The
tables are made by `TABLES`, in which each store names its own types. Nothing in them says who sent
a report: there is no address, and no time finer than the round.
"""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, date, datetime
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from deniable.server.store.protocol import NO_SURVEY
from deniable.server.store.records import Annotation, PublicPage, RoundTally, SurveyRow, Token
from deniable.server.store.register_chain import Event, RegisterEntry, next_entry
from deniable.server.store.tally_rows import (
    ROW,
    Connection,
    TallyRow,
    checked_tally,
    seal_rounds,
)
from deniable.shared.errors import Refused, StoreUnusable

TABLES = """
CREATE TABLE about (
    key TEXT NOT NULL PRIMARY KEY,  -- `schema`, the version of these tables; `day`; a store's notes
    value TEXT NOT NULL             -- such as the latest day on which a server ran
);
CREATE TABLE surveys (
    sequence {sequence},            -- order of publication, from 1; never used again
    id TEXT NOT NULL UNIQUE,        -- SHA-256 of the document, in hex
    document {bytes} NOT NULL,      -- the published bytes, exactly
    signature TEXT NOT NULL,        -- Ed25519 over the document, in hex
    key TEXT NOT NULL,              -- the public key that signed it, in hex
    closed BOOLEAN NOT NULL         -- whether the operator has closed it
);
CREATE TABLE keys (
    key TEXT NOT NULL PRIMARY KEY   -- a public key whose surveys this server publishes
);
CREATE TABLE retired_keys (
    key TEXT NOT NULL PRIMARY KEY   -- a key that is never enrolled again
);
CREATE TABLE register (
    number INTEGER NOT NULL PRIMARY KEY,  -- from 1, without gaps
    event TEXT NOT NULL,            -- published, closed or deleted
    survey TEXT NOT NULL,           -- the survey's id, in hex
    key TEXT NOT NULL,              -- the public key that signed it, in hex
    head TEXT NOT NULL              -- SHA-256 of the head before and of this entry, in hex
);
CREATE TABLE tallies (
    survey INTEGER NOT NULL REFERENCES surveys (sequence),  -- the survey's sequence
    round BIGINT NOT NULL,          -- the round that was counted
    node TEXT NOT NULL,             -- which server counted: nodes never wait for each other
    reports BIGINT NOT NULL,        -- how many reports were counted
    sealed BOOLEAN NOT NULL,        -- whether its envelopes may be purged: nothing more is counted
    cells {bytes} NOT NULL,         -- the counts, int64 little-endian, in the order of RoundTally
    digest {bytes} NOT NULL,        -- of the other columns: damage is noticed
    PRIMARY KEY (survey, round, node)
);
CREATE TABLE counters (
    survey INTEGER NOT NULL,        -- the survey's sequence; 0: one that is not published here
    outcome TEXT NOT NULL,          -- accepted, duplicates, or the code of a refusal
    reports BIGINT NOT NULL,        -- how many reports had this outcome
    PRIMARY KEY (survey, outcome)
);
CREATE TABLE annotations (
    survey INTEGER NOT NULL REFERENCES surveys (sequence),  -- the survey's sequence
    day TEXT NOT NULL,              -- on which it happened, such as 2026-12-01
    words TEXT NOT NULL,            -- what happened, in an operator's words
    PRIMARY KEY (survey, day, words)
);
CREATE TABLE tokens (
    hash TEXT NOT NULL PRIMARY KEY,  -- SHA-256 of the token, in hex
    role TEXT NOT NULL,             -- operator, analyst or app
    created BIGINT NOT NULL,        -- in seconds since 1970
    expires BIGINT NOT NULL         -- in seconds since 1970; from then on it is worth nothing
);
CREATE TABLE public_pages (
    path TEXT NOT NULL PRIMARY KEY,  -- the exact path at which anyone may read the page
    content_type TEXT NOT NULL,  -- of the body, as HTTP states it
    body {bytes} NOT NULL  -- the page, ready to be sent
);
"""
DAY = "day"  # a key of `about`
TOKEN_ID_DIGITS = 12
SURVEY = "sequence, id, document, signature, key, closed"
ENTRY = "number, event, survey, key, head"
PATIENCE_SECONDS = 10
WAIT = f"wait for a connection: all were in use for {PATIENCE_SECONDS} seconds"


class Closable(Protocol):
    def close(self) -> None: ...


Driver = TypeVar("Driver", bound=Closable)


class ConnectionPool(Generic[Driver]):
    """Connections that stay open between transactions, for several threads, up to a limit.

    One that a block leaves by an error is closed, and so are those that are idle: what ended one
    connection to a database has usually ended them all.
    """

    def __init__(self, connect: Callable[[], Driver], limit: int) -> None:
        self._connect = connect
        self._slots = threading.BoundedSemaphore(limit)
        self._idle: deque[Driver] = deque()

    @contextmanager
    def connection(self) -> Iterator[Driver]:
        if not self._slots.acquire(timeout=PATIENCE_SECONDS):
            raise StoreUnusable(f"the store could not {WAIT}")
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
        """Close the connections that are idle; the next caller gets a new one."""
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return


class SqlReader(ABC):
    """The reading half of a store; `StoreReader` states what the methods return."""

    @abstractmethod
    def _reading(self, aim: str) -> AbstractContextManager[Connection]:
        """Return a connection within a transaction that sees one moment; `aim` is for errors."""

    def _reading_reports(self, aim: str) -> AbstractContextManager[Connection]:
        """Return the same, once all that this process has acknowledged is in the tables."""
        return self._reading(aim)

    def surveys_mark(self) -> int:
        with self._reading("read its surveys") as connection:
            query = "SELECT coalesce(max(number), 0) FROM register"
            return int(connection.execute(query).fetchone()[0])

    def surveys(self, after: int = 0) -> list[SurveyRow]:
        with self._reading("read its surveys") as connection:
            query = f"SELECT {SURVEY} FROM surveys WHERE sequence > ? ORDER BY sequence"
            rows = connection.execute(query, (after,)).fetchall()
        return [survey_row(row) for row in rows]

    def survey_states(self) -> Mapping[int, bool]:
        with self._reading("read its surveys") as connection:
            rows = connection.execute("SELECT sequence, closed FROM surveys").fetchall()
        return {sequence: bool(closed) for sequence, closed in rows}

    def register(self, after: int = 0, most: int | None = None) -> list[RegisterEntry]:
        query = f"SELECT {ENTRY} FROM register WHERE number > ? ORDER BY number"
        limit = "" if most is None else f" LIMIT {int(most)}"
        with self._reading("read its register") as connection:
            rows = connection.execute(query + limit, (after,)).fetchall()
        return [RegisterEntry(*row) for row in rows]

    def enrolled_keys(self) -> frozenset[str]:
        return self._keys("keys")

    def retired_keys(self) -> frozenset[str]:
        return self._keys("retired_keys")

    def _keys(self, table: str) -> frozenset[str]:
        with self._reading("read its keys") as connection:
            return frozenset(key for (key,) in connection.execute(f"SELECT key FROM {table}"))

    def tallies(
        self, sequence: int, first: int | None = None, last: int | None = None
    ) -> list[RoundTally]:
        query, values = f"SELECT {ROW} FROM tallies WHERE survey = ?", [sequence]
        for comparison, number in ((">=", first), ("<=", last)):
            if number is not None:
                query += f" AND round {comparison} ?"
                values.append(number)
        with self._reading_reports("read tallies") as connection:
            rows = connection.execute(f"{query} ORDER BY round", values).fetchall()
        rounds: dict[int, RoundTally] = {}
        for tally in (checked_tally(TallyRow(*row)) for row in rows):
            before = rounds.get(tally.round)
            rounds[tally.round] = tally if before is None else before + tally
        return list(rounds.values())

    def report_totals(self) -> Mapping[int, int]:
        totals: dict[int, int] = {}
        with self._reading_reports("read tallies") as connection:
            for row in map(TallyRow._make, connection.execute(f"SELECT {ROW} FROM tallies")):
                totals[row.survey] = totals.get(row.survey, 0) + checked_tally(row).reports
        return totals

    def unsealed_rounds(self) -> Mapping[int, Sequence[int]]:
        query = "SELECT DISTINCT survey, round FROM tallies WHERE NOT sealed ORDER BY round"
        rounds: dict[int, list[int]] = {}
        with self._reading_reports("read tallies") as connection:
            for sequence, number in connection.execute(query):
                rounds.setdefault(sequence, []).append(number)
        return rounds

    def annotations(self, sequence: int) -> list[Annotation]:
        query = "SELECT day, words FROM annotations WHERE survey = ? ORDER BY day, words"
        with self._reading("read its annotations") as connection:
            rows = connection.execute(query, (sequence,)).fetchall()
        return [Annotation(date.fromisoformat(day), words) for day, words in rows]

    def public_page(self, path: str) -> PublicPage | None:
        query = "SELECT content_type, body FROM public_pages WHERE path = ?"
        with self._reading("read its public pages") as connection:
            row = connection.execute(query, (path,)).fetchone()
        return None if row is None else PublicPage(str(row[0]), bytes(row[1]))

    def public_pages(self, folder: str) -> dict[str, PublicPage]:
        query = "SELECT path, content_type, body FROM public_pages"
        with self._reading("read its public pages") as connection:
            rows = connection.execute(query).fetchall()
        pages = {path: PublicPage(kind, bytes(body)) for path, kind, body in rows}
        return {path: page for path, page in pages.items() if path.startswith(folder)}

    def counters(self, sequence: int) -> Mapping[str, int]:
        query = "SELECT outcome, reports FROM counters WHERE survey = ?"
        with self._reading("read counters") as connection:
            return dict(connection.execute(query, (sequence,)).fetchall())

    def role_of(self, token: str, now: datetime) -> str | None:
        query = "SELECT role FROM tokens WHERE hash = ? AND expires > ?"
        with self._reading("look up a token") as connection:
            row = connection.execute(query, (_token_hash(token), now.timestamp())).fetchone()
        return None if row is None else str(row[0])

    def tokens(self) -> list[Token]:
        query = "SELECT hash, role, created, expires FROM tokens ORDER BY created, hash"
        with self._reading("read its tokens") as connection:
            rows = connection.execute(query).fetchall()
        return [
            Token(digest[:TOKEN_ID_DIGITS], role, _moment(created), _moment(expires))
            for digest, role, created, expires in rows
        ]

    def latest_day(self) -> date | None:
        with self._reading("read its latest day") as connection:
            day = noted(connection, DAY)
        return None if day is None else date.fromisoformat(day)


class SqlSnapshot(SqlReader):
    """A reader of one moment: all its methods use the same transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @contextmanager
    def _reading(self, aim: str) -> Iterator[Connection]:  # noqa: ARG002  # its opener has one
        yield self._connection


class SqlStore(SqlReader):
    """The writing half, without envelopes; `Store` states what the methods do."""

    def replace_public_pages(self, folder: str, pages: Mapping[str, PublicPage]) -> None:
        kept = self.public_pages(folder)
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

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @abstractmethod
    def _writing(self, aim: str) -> AbstractContextManager[Connection]:
        """Return a connection within a transaction that writes; `aim` is for errors."""

    def _lock(self, connection: Connection, table: str) -> None:
        """Keep other writers of a table waiting until the transaction ends."""

    @contextmanager
    def snapshot(self) -> Iterator[SqlReader]:
        with self._reading_reports("be read") as connection:
            yield SqlSnapshot(connection)

    def publish(self, document: bytes, signature: str, key: str) -> str:
        """Publish one survey at a time: a reader that knows a sequence knows all before it."""
        with self._writing("publish a survey") as connection:
            self._lock(connection, "surveys")
            return self._add_survey(connection, document, signature, key)

    def _add_survey(self, connection: Connection, document: bytes, signature: str, key: str) -> str:
        from deniable.shared.survey.document import survey_id

        identifier = survey_id(document)
        statement = (
            "INSERT INTO surveys (id, document, signature, key, closed) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT DO NOTHING RETURNING id"
        )
        row = (identifier, document, signature, key, False)
        if connection.execute(statement, row).fetchall():
            self._add_entry(connection, "published", identifier, key)
        return identifier

    def close_survey(self, sequence: int) -> None:
        statement = "UPDATE surveys SET closed = ? WHERE sequence = ? AND NOT closed"
        with self._writing("close a survey") as connection:
            rows = connection.execute(f"{statement} RETURNING id, key", (True, sequence))
            for identifier, key in rows.fetchall():
                self._add_entry(connection, "closed", identifier, key)

    def _delete_survey(self, connection: Connection, sequence: int) -> None:
        """Delete all but the envelopes, which must be gone, and the entries in the register."""
        for table in ("tallies", "counters", "annotations"):
            connection.execute(f"DELETE FROM {table} WHERE survey = ?", (sequence,))
        statement = "DELETE FROM surveys WHERE sequence = ? RETURNING id, key"
        for identifier, key in connection.execute(statement, (sequence,)).fetchall():
            self._add_entry(connection, "deleted", identifier, key)

    def _add_entry(self, connection: Connection, event: Event, survey: str, key: str) -> None:
        """Entries are added, one after the other, and never changed."""
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
                    f"the key {key[:16]}… is retired, and is never enrolled again: publish with "
                    "another one"
                )
            connection.execute("INSERT INTO keys (key) VALUES (?) ON CONFLICT DO NOTHING", (key,))

    def retire_key(self, key: str) -> None:
        statement = "INSERT INTO retired_keys (key) VALUES (?) ON CONFLICT DO NOTHING"
        with self._writing("retire a key") as connection:
            connection.execute("DELETE FROM keys WHERE key = ?", (key,))
            connection.execute(statement, (key,))

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

    def add_counters(self, counts: Mapping[tuple[int, str], int]) -> None:
        """Add them in the order of keys, so that nodes do not wait for each other in a circle.

        Counts of a survey that was deleted meanwhile are dropped.
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

    def add_token(self, token: str, role: str, now: datetime, expires: datetime) -> None:
        statement = "INSERT INTO tokens (hash, role, created, expires) VALUES (?, ?, ?, ?)"
        row = (_token_hash(token), role, int(now.timestamp()), int(expires.timestamp()))
        with self._writing("keep a token") as connection:
            connection.execute(statement, row)

    def revoke_token(self, identifier: str) -> None:
        with self._writing("revoke a token") as connection:
            statement = "DELETE FROM tokens WHERE substr(hash, 1, ?) = ?"
            connection.execute(statement, (len(identifier), identifier))

    def keep_day(self, day: date) -> None:
        with self._writing("keep the day") as connection:
            note(connection, DAY, day.isoformat())


def survey_row(row: Sequence[Any]) -> SurveyRow:  # Any: columns of many types
    """Return the columns of SURVEY as a record."""
    sequence, identifier, document, signature, key, closed = row
    return SurveyRow(sequence, identifier, document, signature, key, bool(closed))


def noted(connection: Connection, key: str) -> str | None:
    """Return what the table `about` holds under a key."""
    row = connection.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def note(connection: Connection, key: str, value: str) -> None:
    statement = (
        "INSERT INTO about (key, value) VALUES (?, ?) "
        "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    )
    connection.execute(statement, (key, value))


def _token_hash(token: str) -> str:
    """Return a plain hash, which is enough: tokens are 256 random bits, impossible to guess."""
    return hashlib.sha256(token.encode()).hexdigest()


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
