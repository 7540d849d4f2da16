"""The state in a PostgreSQL database, which any number of machines and processes share.

Transactions of different people run at the same time. One that writes first takes a lock of its
person, which the database releases with the transaction. So it sees what the last one committed
(READ COMMITTED, set for each transaction, whatever the role's defaults are). A commit of a charge
has reached the database's disk, and its synchronous standbys, when it returns. If the connection
breaks during a commit, or the database warns, its result is unknown: no noise is drawn, and the
round may be lost.

The database decides the day, so machines need not agree on the time. The latest day is stored with
the first write of each day and never goes back. A standby whose clock is behind opens no earlier
round and no earlier quarter.

A person is stored under a hash whose key is not in the database. The database holds a hash of that
key, and refuses a machine with another key, which would give everyone a second budget. No row
has the time of an answer (an unsent report has the random moment at which it is due), or a number
that counts over all people. The rows of one person are numbered, because the
seals of the ledger need it.

A database keeps old versions of a row: in dead rows, its log, backups and standbys. So no report
that may still change is kept here.

No call waits longer for the database than for a lock (LockWait). A thread opens each connection,
because a name may resolve slowly. If a statement is not answered in time, its connection is closed.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Any

import psycopg
from psycopg import conninfo
from psycopg.abc import RV, PQGen
from psycopg.errors import Diagnostic
from psycopg.pq import Conninfo

from deniable.client.environment import is_loopback
from deniable.client.signal_safety import LockWait, lock_wait_of_call
from deniable.client.state import Rows, Transaction
from deniable.client.state.ledger import KEY_BYTES, Identity, Ledger
from deniable.client.state.schema import INDEXES, TABLES
from deniable.client.state.store import Now, State, StateBlocked
from deniable.shared.errors import InvalidPolicy, StoreUnusable

KEY_VARIABLE = "DENIABLE_STATE_KEY"
KEY_FIX = (
    "state_key: a database needs a secret key of 64 hex digits, which is kept outside it and is "
    f"the same on every machine; pass state_key=, or set {KEY_VARIABLE}. To make one, run: "
    "python -c 'import secrets; print(secrets.token_hex(32))'"
)
FORM = "postgresql://USER@HOST:PORT/DATABASE"
TLS_MODES = ("require", "verify-ca", "verify-full")
TLS_FIX = "state: a database on another machine needs TLS; write sslmode=verify-full in its address"
OTHER_KEY = "{} was created with another state key; use the same key on every machine"
OTHER_VERSION = "{} holds another version's state; use the version of deniable that wrote it"
VERSION = "2"
MAX_CONNECTIONS = 4  # of one process
MAX_EXPIRED = 1_000  # rows that one transaction deletes from a table
STALLED_SECONDS = 10  # after which the database ends the transaction of a stopped process
SERVER_SHARE = 0.8  # of a wait, after which the database itself ends a statement
MAX_HURRIED = 10_000  # reports of this process that a flush may send early
MAX_STATEMENTS = 256  # whose translations are memoized
DEFAULTS = {"connect_timeout": 10, "application_name": "deniable-client"}
CORRUPT = ("XX001", "XX002")

CREATING = 1_145_979_443  # the lock of the process that creates the tables
# Each query has an index. Without statistics, PostgreSQL would still read whole tables.
_BEGIN = """
BEGIN ISOLATION LEVEL {level}; SET LOCAL search_path = deniable;
SET LOCAL lock_timeout = {wait}; SET LOCAL statement_timeout = {wait};
SET LOCAL idle_in_transaction_session_timeout = {stalled}; SET LOCAL synchronous_commit = {sync};
SET LOCAL client_min_messages = warning; SET LOCAL enable_seqscan = off;
SELECT (SELECT day FROM latest_day), extract(epoch FROM clock_timestamp())::float8
"""
_CREATE = """
BEGIN; SELECT pg_advisory_xact_lock({creating}); {schema}
SET LOCAL search_path = deniable;
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO about VALUES ('schema', '{version}'), ('key', '{key}') ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS latest_day (day DATE NOT NULL);  -- on which anything was written, UTC
INSERT INTO latest_day SELECT '0001-01-01' WHERE NOT EXISTS (SELECT FROM latest_day);
{tables}; COMMIT
"""
# PostgreSQL's names for SQLite's types, in this order. No number counts over all people.
_TYPES = {
    "INTEGER PRIMARY KEY AUTOINCREMENT": "BIGINT PRIMARY KEY",
    "INTEGER PRIMARY KEY": "BIGINT NOT NULL",
    "INTEGER": "BIGINT",
    "BLOB": "BYTEA",
    "REAL": "DOUBLE PRECISION",
}
_UNUSED = ("people_key", "slots")  # the key is elsewhere, and there are no drafts
_PLACEHOLDER = re.compile(r"\?|:([a-z_]+[0-9]*)")


class _Connection(psycopg.Connection[tuple[Any, ...]]):  # Any: PostgreSQL's kinds of value
    """Connection whose statements wait no longer than the call that uses it."""

    lock_wait: LockWait | None = None
    has_tables = False

    @cached_property
    def warnings(self) -> list[Diagnostic]:
        """The warnings since they were last cleared."""
        warnings = list[Diagnostic]()
        self.add_notice_handler(warnings.append)
        return warnings

    def __del__(self, *_: object) -> None:
        """Do not warn: a process ends, or a forked child drops what its parent still uses."""

    def wait(self, gen: PQGen[RV], interval: float = 0.0, timeout: float | None = None) -> RV:  # noqa: ARG002 - psycopg's own wait has no such limit
        begin, lock_wait = time.monotonic(), self.lock_wait
        deadline = begin + (STALLED_SECONDS if lock_wait is None else lock_wait.rest)
        try:
            needed = next(gen)
            with selectors.DefaultSelector() as selector:
                while True:
                    key = selector.register(self.pgconn.socket, needed)
                    ready = selector.select(max(0.0, deadline - time.monotonic()))
                    if not ready:
                        self.pgconn.finish()
                        raise psycopg.OperationalError("the database did not answer in time")
                    selector.unregister(key.fileobj)
                    needed = gen.send(ready[0][1])
        except StopIteration as result:
            value: RV = result.value
            return value
        finally:
            if lock_wait is not None:
                lock_wait.spend_since(begin)


class NoState(StoreUnusable):
    """Raised if the database does not hold the client's tables yet."""


class PostgresTransaction:
    """Transaction on one connection."""

    erased, reserving = False, "FOR UPDATE OF outbox SKIP LOCKED"
    numbered = "person = :person"
    normal_delay = 60.0  # other processes may be about to send it

    def __init__(
        self,
        connection: _Connection,
        key: bytes,
        today: date,
        queued: deque[int],
        unwritten: set[Identity],
    ) -> None:
        self._connection, self._key, self.writes = connection, key, False
        self._queued, self.unwritten = queued, unwritten
        self._locked = set[bytes]()
        self.verified: dict[bytes, Ledger] = {}  # empty, because others may have written
        self.today = today

    def execute(
        self,
        query: str,
        values: Sequence[Any] | Mapping[str, Any] = (),  # Any: PostgreSQL's kinds of value
        /,
    ) -> Rows:
        return self._connection.execute(_translated(query), values or None)

    def lock(self, person: bytes) -> None:
        if self.writes and person not in self._locked:
            number = int.from_bytes(person[:8], "big", signed=True)
            self.execute("SELECT pg_advisory_xact_lock(?)", (number,))
            self._locked.add(person)

    def people_key(self) -> bytes:
        return self._key

    def charges(self) -> int:
        return 0

    def expired(self, table: str) -> str:
        rows = f"SELECT ctid FROM {table} WHERE until <= :now LIMIT {MAX_EXPIRED}"  # noqa: S608
        return f"ctid IN ({rows} FOR UPDATE SKIP LOCKED)"

    def new_number(self) -> int:
        number = secrets.randbelow(2**63)
        self._queued.append(number)
        return number


class PostgresState(State):
    """State of a web app, in the schema `deniable` of a database."""

    is_shared = True

    def __init__(self, address: str, key: str | None = None, now: Now | None = None) -> None:
        """Use the database's clock, unless a test replaces it."""
        self._key = _checked_key(os.environ.get(KEY_VARIABLE) if key is None else key)
        parameters: dict[str, Any] = DEFAULTS | _with_tls(_parameters(address))  # libpq's own types
        host, port, name = (parameters.get(part, "") for part in ("host", "port", "dbname"))
        self.address = f"postgresql://{host}{port and f':{port}'}/{name}"
        self._parameters, self._made_by, self._begun = parameters, os.getpid(), False
        self.queued: deque[int] = deque(maxlen=MAX_HURRIED)
        self._ahead = timedelta()  # by which the database's clock is ahead of this machine's
        super().__init__(now or self._database_time)

    def remake(self) -> None:
        """Open new connections in a forked child: the existing ones belong to its parent."""
        self._pool = _Pool(self._connect)
        if self._made_by != os.getpid():
            self._postponed, self._made_by = [], os.getpid()  # the parent writes and sends them
            self.queued.clear()

    @property
    def begun(self) -> bool:
        try:
            if not self._begun:
                with self.read():
                    pass
        except NoState:
            return False
        except StoreUnusable:
            return True
        return True

    @property
    def can_begin(self) -> bool:
        return True  # `begun` has just asked the database

    @contextmanager
    def transaction(self, create: bool = False, durable: bool = True) -> Iterator[Transaction]:
        sync = "on" if durable else "off"
        with self._transaction("READ COMMITTED", sync, create) as (db, latest):
            if latest < db.today:
                db.execute("UPDATE latest_day SET day = ? WHERE day < ?", (db.today, db.today))
            db.writes = True
            yield db

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        with self._transaction("REPEATABLE READ READ ONLY", "off") as (db, _):
            yield db

    def close(self) -> None:
        self.same_process()
        pool, self._pool = self._pool, _Pool(self._connect)
        pool.close()

    @contextmanager
    def _transaction(
        self, level: str, sync: str, create: bool = False
    ) -> Iterator[tuple[PostgresTransaction, date]]:
        """Run a transaction, with the latest day that is stored. Close the connection on errors."""
        self.same_process()
        pool, wait = self._pool, lock_wait_of_call()
        with _as_unusable(self.address):
            connection, latest, second = self._begin(pool, wait, level, sync, create)
            try:
                self._ahead = datetime.fromtimestamp(second, UTC) - datetime.now(UTC)
                today = max(self.now().astimezone(UTC).date(), latest)
                unwritten = self.consents.unwritten
                db = PostgresTransaction(connection, self._key, today, self.queued, unwritten)
                yield db, latest
                connection.warnings.clear()
                if connection.execute("COMMIT").statusmessage != "COMMIT":
                    raise StateBlocked(f"{self.address} undid a transaction; nothing was sent")
                if sync == "on" and connection.warnings:  # the wait for a standby was cancelled
                    raise StateBlocked(
                        f"{self.address} has not confirmed a commit; nothing was sent"
                    )
            except BaseException:
                pool.drop(connection)
                raise
            pool.give(connection)

    def _begin(
        self, pool: _Pool, wait: LockWait, level: str, sync: str, create: bool
    ) -> tuple[_Connection, date, float]:
        """Begin on a connection that works. Others may have been cut while they were idle."""
        while True:
            connection = pool.take(wait)
            try:
                if not connection.has_tables:
                    self._find_tables(connection, create)
                limit = 1 + int(1000 * SERVER_SHARE * wait.rest)
                stalled = 1000 * STALLED_SECONDS
                head = _BEGIN.format(level=level, sync=sync, wait=limit, stalled=stalled)
                rows = connection.execute(head.encode())
                while rows.nextset():
                    pass
                latest, second = rows.fetchone() or (None, None)
            except psycopg.OperationalError:
                pool.drop(connection)
                if not wait.rest:
                    raise
            except BaseException:
                pool.drop(connection)
                raise
            else:
                return connection, latest, second

    def _find_tables(self, connection: _Connection, create: bool) -> None:
        """Check that the tables belong to this key and version, and create missing ones."""
        key = hmac.digest(self._key, b"deniable state key", "sha256").hex()
        query = "SELECT to_regclass('deniable.about')::text, to_regnamespace('deniable')::text"
        table, schema = connection.execute(query).fetchone() or (None, None)
        if table is None:
            if not create:
                raise NoState(f"{self.address} holds no state yet")
            connection.execute(_creation(key, schema is not None).encode())
        about = dict(connection.execute("SELECT name, value FROM deniable.about").fetchall())
        if about.get("schema") != VERSION:
            raise StoreUnusable(OTHER_VERSION.format(self.address))
        if not hmac.compare_digest(about.get("key", ""), key):
            raise StoreUnusable(OTHER_KEY.format(self.address))
        connection.has_tables = self._begun = True

    def _connect(self) -> _Connection:
        return _Connection.connect(**self._parameters, autocommit=True, prepare_threshold=None)

    def _database_time(self) -> datetime:
        """Return the database's time, as this process last read it."""
        return datetime.now(UTC) + self._ahead


class _Pool:
    """Open connections of one process."""

    def __init__(self, connect: Callable[[], _Connection]) -> None:
        self._connect, self._change = connect, threading.Condition()
        self._idle, self._count, self._closed = list[_Connection](), 0, False
        self._failures, self._failure = 0, ""

    def take(self, wait: LockWait) -> _Connection:
        """Return an idle connection. If there is none, open one, or wait for another call's."""
        begin, rest = time.monotonic(), wait.rest
        try:
            with self._change:
                seen = self._failures
                while not self._idle:
                    self._open_one()
                    if not self._change.wait(max(0.0, begin + rest - time.monotonic())):
                        raise StateBlocked("the database gave no connection in time")
                    if self._failures > seen:
                        raise psycopg.InterfaceError(self._failure)
                connection = self._idle.pop()
        finally:
            wait.spend_since(begin)
        connection.lock_wait = wait
        return connection

    def give(self, connection: _Connection) -> None:
        with self._change:
            if not self._closed:
                self._idle.append(connection)
                self._change.notify_all()
                return
        connection.close()

    def drop(self, connection: _Connection) -> None:
        connection.close()
        with self._change:
            self._count -= 1
            self._change.notify_all()

    def close(self) -> None:
        with self._change:
            self._closed, idle = True, self._idle
        for connection in idle:
            connection.close()

    def _open_one(self) -> None:
        if self._count < MAX_CONNECTIONS:
            name = "deniable-database"
            try:
                threading.Thread(target=self._open, name=name, daemon=True).start()
            except RuntimeError:  # too many threads, or the interpreter is ending
                raise StateBlocked("no thread could be started; nothing was sent") from None
            self._count += 1

    def _open(self) -> None:
        try:
            connection = self._connect()
        except Exception as error:  # noqa: BLE001 - the caller raises it
            with self._change:
                self._count -= 1
                self._failures += 1
                self._failure = str(error).partition("\n")[0]
                self._change.notify_all()
        else:
            self.give(connection)


@lru_cache(maxsize=MAX_STATEMENTS)
def _translated(query: str) -> bytes:
    """Replace SQLite's placeholders with psycopg's."""
    return _PLACEHOLDER.sub(lambda m: f"%({m[1]})s" if m[1] else "%s", query).encode()


def _creation(key: str, has_schema: bool) -> str:
    """Return the statements that create the tables of schema.py."""
    statements = []
    for table in (table for table in TABLES if table.name not in _UNUSED):
        columns = table.columns
        for type_, ours in _TYPES.items():
            columns = columns.replace(type_, ours)
        statements.append(f"CREATE TABLE IF NOT EXISTS {table.name} ({columns})")
    indexes = [index for index in INDEXES if "slot" not in index]
    statements += (index.replace("INDEX", "INDEX IF NOT EXISTS", 1) for index in indexes)
    schema = "" if has_schema else "CREATE SCHEMA IF NOT EXISTS deniable;"
    tables = ";\n".join(statements)
    return _CREATE.format(creating=CREATING, schema=schema, version=VERSION, key=key, tables=tables)


def _checked_key(text: str | None) -> bytes:
    try:
        key = bytes.fromhex(text or "")
    except (TypeError, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidPolicy(KEY_FIX)
    return key


def _parameters(address: str) -> dict[str, Any]:  # Any: libpq's own types
    """Return libpq's parameters for an address. No message repeats it: it may hold a password."""
    try:
        return dict(conninfo.conninfo_to_dict(address))
    except psycopg.Error:
        raise InvalidPolicy(f"state: that is not a database's address; write {FORM}") from None


def _with_tls(given: dict[str, Any]) -> dict[str, Any]:  # Any: libpq's own types
    """Demand TLS beyond this machine, as libpq alone does not. A service's host is not known."""
    default = {option.keyword: (option.val or b"").decode() for option in Conninfo.get_defaults()}
    hosts = ",".join(given.get(name) or default[name.encode()] for name in ("host", "hostaddr"))
    if "service" not in given and all(map(_is_local, hosts.split(","))):
        return given
    usual = default[b"sslmode"] if default[b"sslmode"] in TLS_MODES else TLS_MODES[0]
    mode = given.get("sslmode", "" if "service" in given else usual)
    if mode not in TLS_MODES:
        raise InvalidPolicy(TLS_FIX)
    return given | {"sslmode": mode}


def _is_local(host: str) -> bool:
    return host.startswith(("/", "@")) or host == "" or is_loopback(host)


@contextmanager
def _as_unusable(address: str) -> Iterator[None]:
    """Raise any database error as StoreUnusable, without details that could quote rows."""
    try:
        yield
    except psycopg.Error as error:
        reason = error.diag.message_primary or str(error).partition("\n")[0]
        kind = StoreUnusable if error.sqlstate in CORRUPT else StateBlocked
        raise kind(f"{address} cannot be used: {reason}; nothing was sent") from None
    except (TypeError, ValueError):  # a stored value of a type that this code never writes
        raise StoreUnusable(f"{address} is damaged; nothing was sent") from None
    except OSError as error:
        raise StateBlocked(
            f"{address} cannot be used: {error.strerror}; nothing was sent"
        ) from None
