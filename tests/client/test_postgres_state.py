"""State in PostgreSQL: one ledger for many machines, whatever is killed, cut off or slow."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from deniable.client import Client, Outcome
from deniable.client.signal_safety import LOCK_WAIT_SECONDS
from deniable.client.state.ledger import Identity, Ledger, read_ledger
from deniable.client.state.postgres_state import KEY_VARIABLE, PostgresState
from deniable.client.state.store import open_state
from deniable.server.store import Database
from deniable.shared.envelope import parse_envelopes
from deniable.shared.errors import InvalidPolicy
from deniable.shared.privacy.mechanism import kernel_draw
from deniable.shared.survey.document import parse_document
from deniable.shared.survey.keys import public_hex
from tests.client.conftest import MakeClient
from tests.client.scripted import KEY, LATER, Clock, Script, bit, document, lifetime_policy
from tests.client.shared_state import CAP, STATE_KEY, SURVEYS
from tests.documents import blocks
from tests.eventually import PATIENCE, eventually
from tests.server.postgres import Cluster

ROOT = Path(__file__).resolve().parents[2]
SLOW = 12 * LOCK_WAIT_SECONDS  # for a busy machine; without a limit, a call waits 10 s or forever
SHARED: dict[str, Any] = {"state_key": STATE_KEY}  # with the database, the state of a client


@pytest.fixture
def address(cluster: Cluster) -> str:
    return cluster.new_database().url


@pytest.fixture
def shared(address: str) -> dict[str, Any]:
    return {"state": address, **SHARED}


@pytest.fixture
def published(script: Script) -> None:
    script.always = LATER
    script.publish(document(period="day", questions=bit("crashed", "0.5")))


# Opening


@pytest.mark.parametrize("key", [None, "", "ab", "xy" * 32, "ab" * 31])
def test_a_database_without_a_key_is_refused(address: str, key: str | None) -> None:
    with pytest.raises(InvalidPolicy, match=r"64 hex digits.*kept outside it"):
        open_state(address, key)


def test_the_key_may_come_from_the_environment(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, STATE_KEY)
    assert isinstance(open_state(address), PostgresState)


def test_a_folder_takes_no_key(tmp_path: Path) -> None:
    with pytest.raises(InvalidPolicy, match="leave state_key out"):
        open_state(tmp_path, STATE_KEY)


@pytest.mark.parametrize("wrong", ["postgresql://[::1/hunter2", "postgresql://h?secret=hunter2"])
def test_a_wrong_address_is_refused_and_not_repeated(wrong: str) -> None:
    with pytest.raises(InvalidPolicy, match="not a database's address") as refused:
        open_state(wrong, STATE_KEY)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://db.example.org/app?sslmode=disable",
        "postgresql://db.example.org/app?sslmode=prefer",
        "postgresql://127.0.0.1,db.example.org/app?sslmode=allow",
        "postgresql://localhost/app?hostaddr=192.0.2.1&sslmode=disable",
        "postgresql:///app?host=/tmp,db.example.org&sslmode=disable",
    ],
)
def test_a_remote_database_without_tls_is_refused(address: str) -> None:
    with pytest.raises(InvalidPolicy, match="sslmode=verify-full"):
        open_state(address, STATE_KEY)


@pytest.mark.parametrize(
    ("address", "mode"),
    [
        ("postgresql://db.example.org/app", "require"),
        ("postgresql://127.0.0.1,db.example.org/app", "require"),
        ("postgresql://db.example.org/app?sslmode=verify-full", "verify-full"),
        ("postgresql://127.0.0.1/app", None),
        ("postgresql://[::1]/app?sslmode=disable", "disable"),
        ("postgresql://localhost/app", None),
        ("postgresql:///app?host=/run/postgresql", None),
        ("postgresql:///app", None),
    ],
)
def test_a_remote_database_needs_tls(address: str, mode: str | None) -> None:
    state = open_state(address, STATE_KEY)
    assert isinstance(state, PostgresState)
    assert state._parameters.get("sslmode") == mode


def test_the_environment_may_name_a_remote_database_and_a_stronger_mode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for given, mode in (("prefer", "require"), ("verify-ca", "verify-ca")):
        monkeypatch.setenv("PGHOST", "db.example.org")
        monkeypatch.setenv("PGSSLMODE", given)
        state = open_state("postgresql:///app", STATE_KEY)
        assert isinstance(state, PostgresState)
        assert state._parameters["sslmode"] == mode


def test_no_password_is_shown(script: Script) -> None:
    address = "postgresql://app:hunter2@127.0.0.1:1/app"
    with Client(script.url, policy=lifetime_policy(), state=address, **SHARED) as client:
        shown = f"{client!r} {client.answer('app-health', crashed=True)}"
    assert "hunter2" not in shown
    assert "127.0.0.1:1/app" in shown


def test_a_machine_with_another_key_is_refused(
    client_of: MakeClient, shared: dict[str, Any], published: None
) -> None:
    """It would store each person under another hash, and so give everyone a second budget."""
    assert client_of(**shared).answer("app-health", crashed=True).status == "queued"
    other = client_of(**shared | {"state_key": "77" * 32}, consent=False)
    assert other.person("ann").consented is False
    assert not other.person("ann").consent(True)
    outcome = other.answer("app-health", crashed=True)
    assert (outcome.status, "another state key" in outcome.detail) == ("unavailable", True)


def test_tables_of_another_version_are_left_alone(address: str, client_of: MakeClient) -> None:
    client_of(state=address, **SHARED).close()
    with psycopg.connect(address) as other:
        other.execute("UPDATE deniable.about SET value = '999' WHERE name = 'schema'")
    outcome = client_of(state=address, consent=False, **SHARED).answer("s", crashed=True)
    assert (outcome.status, "another version" in outcome.detail) == ("unavailable", True)


def test_the_role_s_defaults_do_not_matter(
    client_of: MakeClient, address: str, published: None
) -> None:
    """A commit is durable, and each statement sees what others have committed."""
    with psycopg.connect(address, autocommit=True) as other:
        name = other.info.dbname
        for setting in (
            "default_transaction_isolation = 'repeatable read'",
            "synchronous_commit = off",
        ):
            other.execute(f"ALTER DATABASE {name} SET {setting}".encode())
    client = client_of(state=address, **SHARED)
    with client._state.transaction() as db:
        rows = [
            db.execute(f"SHOW {name}").fetchone()
            for name in ("transaction_isolation", "synchronous_commit")
        ]
    assert rows == [("read committed",), ("on",)]


def test_the_recipe_for_several_machines_works_as_shown(
    script: Script, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls of one process find what another has stored. The survey is open today."""
    today = datetime.now(UTC).date()
    script.always = LATER
    script.publish(document("app-health", str(today), str(today + timedelta(days=1)), "once"))
    section = "Web apps on several machines"
    (block,) = (b.text for b in blocks("client/RECIPES.md") if b.section == section)
    shown = block.replace("postgresql://app@db.example.org/app", address)
    shown = shown.replace("https://stats.example.org", script.url)
    shown = shown.replace("<public key>", public_hex(KEY)).replace("<app token>", "0" * 64)
    monkeypatch.setenv(KEY_VARIABLE, STATE_KEY)
    for expected in ("no-consent", "queued"):
        names: dict[str, Any] = {}
        exec(shown, names)  # a snippet of this repository
        assert names["outcome"].status == expected
        assert names["client"].person("user-17").consent(True)
        names["client"].close()


# What the database reveals


def test_the_database_names_no_person_and_holds_no_key(
    client_of: MakeClient, address: str, published: None
) -> None:
    person = client_of(state=address, **SHARED).person("ann@example.org")
    person.consent(True)
    assert person.answer("app-health", crashed=True).status == "queued"
    rows = everything(address)
    assert len(rows["charges"]) == len(rows["outbox"]) == 1
    shown = repr(rows).encode()
    for secret in (b"ann@example.org", STATE_KEY.encode(), bytes.fromhex(STATE_KEY)):
        assert secret not in shown
        assert repr(secret)[2:-1].encode() not in shown


def test_no_column_shows_when_or_in_which_order_people_answered(
    client_of: MakeClient, clock: Clock, address: str, script: Script
) -> None:
    """No column counts over all people, and no day is more precise than the round."""
    script.always = LATER
    script.publish(document(questions=bit("crashed", "0.5")))
    client = client_of(state=address, send_within=3600.0, **SHARED)
    for number in range(40):
        person = client.person(str(number))
        person.consent(True)
        assert person.answer("app-health", crashed=True).status == "queued"
        clock.now += timedelta(hours=6)
    with psycopg.connect(address) as db:
        query = """SELECT count(*) FROM information_schema.columns WHERE table_schema = 'deniable'
            AND (is_identity = 'YES' OR column_default IS NOT NULL AND column_name = 'number'
            OR data_type LIKE 'timestamp%')"""
        assert db.execute(query).fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM pg_sequences").fetchone() == (0,)
        assert {row[0] for row in db.execute("SELECT day FROM deniable.history")} == {"2026-12-01"}
        for table in ("charges", "history"):
            query = f"SELECT DISTINCT number FROM deniable.{table}"
            assert db.execute(query.encode()).fetchall() == [(1,)]
        query = "SELECT number FROM deniable.outbox ORDER BY ctid"
        numbers = [row[0] for row in db.execute(query)]
    assert numbers != sorted(numbers), "their order is that of the answers"


def everything(address: str) -> dict[str, list[Any]]:
    with psycopg.connect(address) as db:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'deniable'"
        names = [name for (name,) in db.execute(query)]
        return {
            name: db.execute(f"SELECT * FROM deniable.{name}".encode()).fetchall() for name in names
        }


@pytest.mark.parametrize("over", ["last", "any", "all"])
def test_reports_that_may_still_change_are_refused(
    client_of: MakeClient, clock: Clock, shared: dict[str, Any], script: Script, over: str
) -> None:
    """A database keeps old versions of a row. The answer about the ended round never changes."""
    script.always = LATER
    questions = bit("crashed", "0.5").replace('"first"', f'"{over}"')
    script.publish(document(opens="2026-11-01", questions=questions))
    client = client_of(**shared)
    outcome = client.answer("app-health", crashed=True)
    assert (outcome.status, "keeps old versions" in outcome.detail) == ("refused", True)
    assert client.answer("app-health", of="ended", crashed=True).status == "queued"
    assert [len(everything(shared["state"])[name]) for name in ("charges", "outbox")] == [1, 1]


# Clocks


def test_a_clock_that_goes_back_opens_no_earlier_round_or_quarter(
    client_of: MakeClient, clock: Clock, shared: dict[str, Any], script: Script
) -> None:
    script.always = LATER
    script.publish(document(opens="2026-09-01", period="month", questions=bit("crashed", "0.5")))
    clock.now = datetime(2026, 12, 31, 23, tzinfo=UTC)
    ahead = datetime(2027, 1, 1, 1, tzinfo=UTC)
    behind, right = client_of(**shared), client_of(now=lambda: ahead, **shared)
    assert right.answer("app-health", crashed=True).round == 684
    earlier = [datetime(2026, month, 5, tzinfo=UTC) for month in (12, 11, 9)]
    for moment in (clock.now, *earlier):
        clock.now = moment
        outcome = behind.answer("app-health", crashed=True)
        assert (outcome.status, outcome.round) == ("already-answered", 684)
        person = behind.person(str(clock.now))
        person.consent(True)
        assert (person.answer("app-health", crashed=True).round) == 684


def test_the_database_s_clock_decides_the_day(
    address: str, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine's own clock does not matter."""

    class Wrong:
        fromtimestamp = datetime.fromtimestamp

        @staticmethod
        def now(tz: Any) -> datetime:
            return datetime.now(tz) - timedelta(days=400)

    script.always = LATER
    today = datetime.now(UTC).date()
    opens, closes = today - timedelta(days=3), today + timedelta(days=3)
    text = document(
        opens=str(opens), closes=str(closes), period="day", questions=bit("crashed", "0.5")
    )
    script.publish(text)
    monkeypatch.setattr("deniable.client.state.postgres_state.datetime", Wrong)
    with Client(script.url, policy=lifetime_policy(), state=address, **SHARED) as client:
        client.consent(True)
        outcome = client.answer("app-health", crashed=True)
        days = {outcome.round, parse_document(text).round_of(datetime.now(UTC).date())}
        assert abs((client._state.now() - datetime.now(UTC)).total_seconds()) < PATIENCE
    assert outcome.status == "queued"
    assert len(days) == 1


# Failures


@contextmanager
def proxy(upstream: Database, cut_at: bytes = b"\0no such bytes") -> Iterator[str]:
    """Yield the address of a loopback proxy, which passes these bytes on and then goes silent."""
    parameters = upstream.parameters()
    target = f"{parameters['host']}/.s.PGSQL.{parameters['port']}"
    listener = socket.create_server(("127.0.0.1", 0))
    silent = threading.Event()

    def pump(source: socket.socket, sink: socket.socket, watched: bool) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                if silent.is_set():
                    continue
                sink.sendall(piece)
                if watched and cut_at in piece:
                    silent.set()
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.socket(socket.AF_UNIX)
                opened.extend((client, server))
                server.connect(target)
                for ends in ((client, server, True), (server, client, False)):
                    threads.append(threading.Thread(target=pump, args=ends, daemon=True))
                    threads[-1].start()

    opened, threads = [listener], [threading.Thread(target=accept, daemon=True)]
    threads[0].start()
    host = f"127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield f"postgresql://postgres@{host}/{parameters['dbname']}?sslmode=disable&gssencmode=disable"
    finally:
        for end in opened.copy():
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(PATIENCE)
        for end in opened:
            end.close()


def public_calls(client: Client) -> Iterator[tuple[str, object, float]]:
    """Yield the name of each public method, its result and its seconds."""
    person = client.person("ann")
    calls: dict[str, Any] = {
        "consented": lambda: person.consented,
        "consent": lambda: person.consent(True),
        "answer": lambda: person.answer("app-health", crashed=True),
        "arm": lambda: person.arm("app-health"),
        "sent": person.sent,
        "budget": person.budget,
        "describe": lambda: client.describe("app-health"),
        "survey": lambda: client.survey("app-health"),
        "prefetch": lambda: client.prefetch(0.0),
        "flush": lambda: client.flush(0.0),
        "forget": person.forget,
        "close": client.close,
    }
    for name, call in calls.items():
        begin = time.monotonic()
        result = call()
        yield name, result, time.monotonic() - begin


@pytest.mark.usefixtures("real_lock_wait")
@pytest.mark.parametrize("failure", ["silent", "nobody there", "refused"])
def test_a_database_that_does_not_answer_harms_no_call(
    script: Script, cluster: Cluster, failure: str
) -> None:
    """No call raises an error, or waits for much longer than a quarter second."""
    silent = socket.create_server(("127.0.0.1", 0))
    port = silent.getsockname()[1]
    if failure == "nobody there":
        silent.close()
    address = f"postgresql://postgres@127.0.0.1:{port}/app"
    if failure == "refused":
        address = cluster.address("postgres", "wrong")
    begin = time.monotonic()
    client = Client(script.url, policy=lifetime_policy(), state=address, **SHARED)
    assert time.monotonic() - begin < SLOW
    seen = {}
    for name, result, seconds in public_calls(client):
        seen[name] = result.status if isinstance(result, Outcome) else result
        assert seconds < SLOW, name
    silent.close()
    assert (seen["consented"], seen["consent"], seen["forget"]) == (False, False, False)
    assert {seen[name] for name in ("answer", "sent", "budget")} == {"unavailable"}


@pytest.mark.usefixtures("real_lock_wait")
def test_a_connection_that_falls_silent_harms_no_call(
    script: Script, client_of: MakeClient, address: str, published: None
) -> None:
    """A report that is charged is kept in memory, and nothing is drawn twice."""
    with proxy(Database(address), b"INSERT INTO outbox") as slow:
        client = client_of(state=slow, **SHARED)
        outcome = client.answer("app-health", crashed=True)
        assert (outcome.status, "once it can be" in outcome.detail) == ("queued", True)
        for name, _, seconds in public_calls(client):
            assert seconds < SLOW, name


@pytest.mark.usefixtures("published")
def test_a_commit_whose_result_is_unknown_draws_no_noise(
    client_of: MakeClient, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = list[int]()

    def draw(bits: int) -> int:
        draws.append(bits)
        return kernel_draw(bits)

    client_of(state=address, **SHARED).answer("app-health", crashed=True)  # stores list and consent
    first = client_of(state=address, **SHARED).person("ann")
    first.consent(True)
    with proxy(Database(address), b"INSERT INTO survey_keys") as slow:
        client = client_of(state=slow, draw=draw, consent=False, **SHARED)
        assert client._state.begun
        with psycopg.connect(address) as db:
            before = db.execute("SELECT count(*) FROM deniable.charges").fetchone()
        outcome = client.person("ann").answer("app-health", crashed=True)
    assert (outcome.status, draws) == ("unavailable", [])
    assert before == (1,)


@pytest.mark.usefixtures("published")
def test_a_commit_that_no_standby_has_confirmed_draws_no_noise(
    client_of: MakeClient, address: str, cluster: Cluster
) -> None:
    """If the wait for a standby is cancelled, the database warns, and still answers COMMIT."""
    draws = list[int]()

    def draw(bits: int) -> int:
        draws.append(bits)
        return kernel_draw(bits)

    client_of(state=address, **SHARED).answer("app-health", crashed=True)  # stores list and consent
    with psycopg.connect(address, autocommit=True) as other:
        name = other.info.dbname
        other.execute(f"ALTER DATABASE {name} SET client_min_messages = error".encode())
    client = client_of(state=address, draw=draw, consent=False, **SHARED)
    ann = client.person("ann")
    assert ann.consent(True)
    cancelled, ended = list[bool](), threading.Event()

    def cancel() -> None:
        waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = %s"
        with psycopg.connect(cluster.database("postgres").url, autocommit=True) as db:
            while not ended.wait(0.005):
                query = f"SELECT pg_cancel_backend(pid) {waiting}".encode()
                cancelled.extend(done for (done,) in db.execute(query, [name]))

    canceller = threading.Thread(target=cancel)
    standbys(cluster, "missing")
    canceller.start()
    try:
        outcome = ann.answer("app-health", crashed=True)
    finally:
        ended.set()
        canceller.join()
        standbys(cluster, "")
    assert (bool(cancelled), outcome.status, draws) == (True, "unavailable", [])
    assert "not confirmed" in outcome.detail


def standbys(cluster: Cluster, names: str) -> None:
    cluster.say(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
    cluster.say("SELECT pg_reload_conf()")
    query = "SHOW synchronous_standby_names"
    eventually(lambda: cluster.connection.execute(query).fetchone() == (names,), "reloaded")


def test_a_cut_connection_is_replaced(
    client_of: MakeClient, cluster: Cluster, address: str, clock: Clock, published: None
) -> None:
    client = client_of(state=address, **SHARED)
    for _ in range(3):
        assert client.answer("app-health", crashed=True).status == "queued"
        clock.now += timedelta(days=1)
        query = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s"
        name = psycopg.conninfo.conninfo_to_dict(address)["dbname"]
        assert cluster.connection.execute(
            query + " AND pid <> pg_backend_pid()", [name]
        ).fetchone() != (0,)


@pytest.mark.usefixtures("published")
def test_a_person_who_is_in_use_elsewhere_is_unavailable_and_no_one_else(
    client_of: MakeClient, address: str
) -> None:
    client = client_of(state=address, **SHARED)
    for name in ("ann", "bob"):
        client.person(name).consent(True)
    other = open_state(address, STATE_KEY)
    with other.transaction() as db:
        Identity("ann").person(db)
        assert client.person("ann").answer("app-health", crashed=True).status == "unavailable"
        outcome = client.person("bob").answer("app-health", crashed=True)
        assert outcome.status == "queued", outcome.detail
        assert client.person("ann").consented is True, "a read waits for no writer"
    other.close()
    assert client.person("ann").answer("app-health", crashed=True).status == "queued"


def test_one_person_s_calls_in_many_threads_charge_once(
    client_of: MakeClient, address: str, published: None
) -> None:
    clients, statuses = [client_of(state=address, **SHARED) for _ in range(3)], list[str]()
    ready = threading.Barrier(12)

    def answer(client: Client) -> None:
        ready.wait()
        statuses.append(client.answer("app-health", crashed=True).status)

    threads = [threading.Thread(target=answer, args=(client,)) for client in clients * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(statuses) == {"queued": 1, "already-answered": 11}


def test_an_edited_ledger_makes_no_report(
    client_of: MakeClient, clock: Clock, address: str, published: None
) -> None:
    client = client_of(state=address, **SHARED)
    assert client.answer("app-health", crashed=True).status == "queued"
    with psycopg.connect(address) as db:
        db.execute("UPDATE deniable.charges SET costs = '{\"crashed\": 1}'")
    clock.now += timedelta(days=1)
    outcome = client.answer("app-health", crashed=True)
    assert (outcome.status, "changed the ledger" in outcome.detail) == ("unavailable", True)


def test_the_cost_of_an_answer_is_independent_of_the_number_of_people(
    script: Script, client_of: MakeClient, clock: Clock, address: str, published: None
) -> None:
    """The database has not yet counted the rows of others: its plans must not depend on it."""
    with client_of(state=address, **SHARED) as client:
        assert client.answer("app-health", crashed=True).status == "queued"
    with psycopg.connect(address, autocommit=True) as db:
        db.execute("SET search_path = deniable")
        for table in ("survey_keys", "kept_reports", "acknowledged", "outbox", "settings"):
            query = "SELECT column_name, data_type FROM information_schema.columns"
            columns = db.execute(f"{query} WHERE table_name = '{table}'".encode()).fetchall()
            assert columns
            due = (clock.now + timedelta(days=2)).timestamp()
            own = VALUES | {"server": f"'{script.url}'", "due": f"{due} + n"}
            values = ", ".join(own.get(name, own[kind]) for name, kind in columns)
            names = ", ".join(name for name, _ in columns)
            rows = f"INSERT INTO {table} ({names}) SELECT {values} FROM generate_series(1, 9000) n"
            db.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
            db.execute(rows.encode())
        before = rows_scanned(db)
        clock.now += timedelta(days=1)
        with client_of(state=address, **SHARED) as client:
            assert client.answer("app-health", crashed=True).status == "queued"
        assert rows_scanned(db) - before < 1_000


VALUES = {  # of other people's rows, by column or by type
    "person": "sha256(n::text::bytea)",
    "until": "4000000000 + n",
    "number": "n",
    "name": "'consent'",
    "value": "'yes'",
    "bytea": "'x'",
    "text": "'x'",
    "bigint": "0",
    "integer": "0",
    "double precision": "4e9 + n",
}


def rows_scanned(db: psycopg.Connection) -> int:
    """Count the rows that were read without an index, once every other connection has closed."""
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    eventually(lambda: db.execute(others.encode()).fetchone() == (1,), "closed")
    query = "SELECT sum(seq_tup_read)::int FROM pg_stat_user_tables"
    (read,) = db.execute(query.encode()).fetchone() or (0,)
    return int(read)


# Machines, killed at any moment


@pytest.mark.parametrize(
    ("people", "processes", "kills", "crashes", "ahead"),
    [
        (90, 1, 5, 1, timedelta(days=40)),
        pytest.param(100_000, 4, 50, 5, timedelta(minutes=1), marks=pytest.mark.long),
    ],
)
def test_machines_spend_no_more_than_the_cap_and_draw_once_for_a_person_and_round(
    script: Script,
    cluster: Cluster,
    tmp_path: Path,
    people: int,
    processes: int,
    kills: int,
    crashes: int,
    ahead: timedelta,
) -> None:
    """Three machines, whose clocks differ, answer for the same people, and are killed and cut off.

    Most people are answered for by two of them. Each report takes the same number of draws.
    """
    for name in SURVEYS:
        script.publish(document(name, questions=bit("crashed", "0.5")))
    address, draws = cluster.new_database().url, tmp_path / "draws"
    with Client(
        script.url, policy=lifetime_policy(max_epsilon=CAP), state=address, **SHARED
    ) as client:
        client.consent(True)
        client.answer("unheard-of")  # stores the list
    third, skew = people // 3, round(ahead.total_seconds())
    machines = [(0, 2 * third, 0), (third, people, -skew), (third // 2, 2 * third, skew)]
    ranges = [(a + n, b, processes, skew) for a, b, skew in machines for n in range(processes)]
    running = [start(script, address, draws, *given) for given in ranges]
    try:
        for number in range(kills):
            time.sleep(random.uniform(0.1, 0.4) if people < 1_000 else random.uniform(2, 6))
            if number % (kills // crashes) == kills // crashes // 2:
                cluster.stop()
                cluster.start()
            killed = number % len(running)
            running[killed].kill()
            running[killed].wait()
            running[killed] = start(script, address, draws, *ranges[killed])
        assert [process.wait(100 * PATIENCE) for process in running] == [0] * len(ranges)
    finally:
        for process in running:
            process.kill()
            process.wait()
    check_ledgers(script, address, people, draws.stat().st_size, crashes)


def start(script: Script, address: str, draws: Path, *people: int) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-m", "tests.client.shared_state", script.url, address, str(draws)]
    return subprocess.Popen([*program, *map(str, people)], cwd=ROOT)


def check_ledgers(script: Script, address: str, people: int, draws: int, crashes: int) -> None:
    """Most reports were sent, because a machine whose clock is ahead finds them due."""
    state = open_state(address, STATE_KEY)
    spent = list[Ledger]()
    for first in range(0, people, 1_000):  # a transaction lasts for some seconds at most
        with state.read() as db:
            names = (f"person {n}" for n in range(first, min(first + 1_000, people)))
            spent += [read_ledger(db, Identity(name).person(db)) for name in names]
    with state.read() as db:
        rows = db.execute("SELECT person, survey, round, envelope FROM outbox").fetchall()
    state.close()
    charges = sum(ledger.charges for ledger in spent)
    assert {(ledger.charges, ledger.total) for ledger in spent} == {(2, 10**9)}
    made = {(e.survey, e.round, e.id, e.payload) for e in script.envelopes()}
    for *_, packed in rows:
        (envelope,) = parse_envelopes(packed)
        made.add((envelope.survey, envelope.round, envelope.id, envelope.payload))
    assert len({(survey, id_) for survey, _, id_, _ in made}) == len(made) <= charges
    kept = 0.9 * charges - REPORTS_OF_A_MOMENT * crashes
    assert len(made) > kept, "a crash loses a moment's reports, and no more"
    assert draws <= DRAWS_PER_REPORT * charges
    print(f"{charges} charges, {len(made)} reports, {draws} draws")


REPORTS_OF_A_MOMENT = 100  # PostgreSQL writes them to disk within .6 s
DRAWS_PER_REPORT = 2  # for a bit: the report, and the value in place of one that does not fit
