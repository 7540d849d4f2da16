"""Invitations: each code counts one report, exactly once, and no file links codes to reports."""

import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from deniable.server.http.messages import INVITATION_HEADER
from deniable.server.http.tokens import invitation_hash, invitation_in, new_invitation
from deniable.server.intake.commit import commit, open_recovered
from deniable.server.intake.limits import Limits
from deniable.server.intake.writer import Writer
from deniable.server.store import Database, PublishedSurvey, SqliteStore, Upload, create_store
from deniable.server.store.postgres.postgres_store import PostgresStore
from deniable.server.store.postgres.scrub import settle
from deniable.server.store.sql_store import SqlTransaction
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.envelope import Envelope
from deniable.shared.sealed_envelope import SEALED_TYPE, seal
from deniable.shared.survey.document import Survey
from deniable.shared.survey.keys import public_hex
from tests.eventually import eventually
from tests.server.surveys import BIT, published, survey
from tests.server.test_order import TOO_MANY, Watched, max_links
from tests.server.world import World, start, world


def invited(questions: str = BIT, **changes: object) -> Survey:
    return survey(questions, round="once", invitation=True, **changes)


def envelope(asked: PublishedSurvey, identifier: bytes, symbol: int = 1) -> Envelope:
    return Envelope(asked.id, 0, identifier, 1, bytes([symbol]))


def upload(asked: PublishedSurvey, identifier: bytes, code: bytes) -> Upload:
    return Upload(asked, 0, identifier, 1, b"\1", invitation=code)


def codes_of(store: Any, asked: PublishedSurvey, number: int, seed: int = 1) -> list[bytes]:
    codes = [random.Random(seed * 1_000 + n).randbytes(32) for n in range(number)]
    store.invite(asked.sequence, codes)
    return codes


# Over HTTP


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "data") as made:
        yield made


def send(here: World, sent: Envelope, code: str = "") -> dict[str, Any]:
    """Return the receipt, with only the problem codes of refused envelopes."""
    headers = {INVITATION_HEADER: code} if code else {}
    answer = here.post(sent.pack(), headers=headers)
    assert answer.status_code == 200
    return dict(answer.json) | {"refused": [one["code"] for one in answer.json["refused"]]}


ACCEPTED: dict[str, Any] = {"accepted": 1, "duplicates": 0, "refused": []}
AGAIN: dict[str, Any] = {"accepted": 0, "duplicates": 1, "refused": []}


def refused(code: str) -> dict[str, Any]:
    return {"accepted": 0, "duplicates": 0, "refused": [code]}


def test_a_code_counts_one_report(here: World) -> None:
    asked, code, other = here.publish(invited()), new_invitation(), new_invitation()
    here.store.invite(asked.sequence, [invitation_hash(code)])
    first, second = (envelope(asked, bytes([n]) * 16) for n in (1, 2))
    assert send(here, first) == refused("invitation-missing")
    assert send(here, first, other) == refused("invitation-unknown")
    assert send(here, first, code) == ACCEPTED
    assert send(here, first, code) == AGAIN
    assert send(here, second, code) == refused("invitation-spent")
    assert send(here, first, code.upper()) == AGAIN, "people may type a code"
    assert here.tallies(asked) == {0: (1, [0, 1])}


def test_a_code_is_valid_only_for_its_survey(here: World) -> None:
    asked, other, anyone = (
        here.publish(made)
        for made in (invited(), invited(name="other"), survey(name="open", round="once"))
    )
    code = new_invitation()
    here.store.invite(other.sequence, [invitation_hash(code)])
    assert send(here, envelope(asked, b"1" * 16), code) == refused("invitation-unknown")
    assert send(here, envelope(anyone, b"1" * 16), code) == refused("invitation-unknown")
    assert send(here, envelope(other, b"1" * 16), code) == ACCEPTED


def test_an_app_token_does_not_replace_an_invitation(here: World) -> None:
    asked = here.publish(invited())
    answer = here.send(envelope(asked, b"1" * 16), app=True)
    assert [one["code"] for one in answer.json["refused"]] == ["invitation-missing"]


def test_a_code_allows_one_envelope_of_one_report(here: World) -> None:
    asked, code = here.publish(invited()), new_invitation()
    here.store.invite(asked.sequence, [invitation_hash(code)])
    headers = {INVITATION_HEADER: code}
    pair = envelope(asked, b"1" * 16).pack() + envelope(asked, b"2" * 16).pack()
    assert here.post(pair, headers=headers).status_code == 413
    two = Envelope(asked.id, 0, b"1" * 16, 2, b"\1\1")
    assert send(here, two, code) == refused("too-many")
    assert here.post(pair, headers=here.bearer("app") | headers).status_code == 413, "nor a token"
    assert send(here, envelope(asked, b"1" * 16), code) == ACCEPTED


def test_a_class_behind_one_address_is_not_limited_but_a_false_code_helps_no_one(
    tmp_path: Path,
) -> None:
    with world(tmp_path / "data", limits=lambda clock: Limits(2, clock)) as here:
        asked, anyone = here.publish(invited()), here.publish(survey(name="open", round="once"))
        codes = [new_invitation() for _ in range(5)]
        here.store.invite(asked.sequence, [*map(invitation_hash, codes)])
        for n, code in enumerate(codes):
            assert send(here, envelope(asked, bytes([n]) * 16), code) == ACCEPTED
        sent = [envelope(anyone, bytes([n]) * 16) for n in range(3)]
        assert [here.post(one.pack()).status_code for one in sent] == [200, 200, 429]
        assert send(here, sent[2], new_invitation()) == refused("invitation-unknown")


def test_wrong_codes_count_against_their_sender(tmp_path: Path) -> None:
    """Unknown and spent codes count, accepted ones do not; the limit holds before a commit."""
    with world(tmp_path / "data", limits=lambda clock: Limits(2, clock)) as here:
        asked, code, late = here.publish(invited()), new_invitation(), new_invitation()
        here.store.invite(asked.sequence, [*map(invitation_hash, (code, late))])
        wrong = [envelope(asked, bytes([n]) * 16) for n in range(4)]
        assert send(here, wrong[0], code) == ACCEPTED
        assert send(here, wrong[1], new_invitation()) == refused("invitation-unknown")
        assert send(here, wrong[2], code) == refused("invitation-spent")
        for again in (new_invitation(), code, late):
            headers = {INVITATION_HEADER: again}
            assert here.post(wrong[3].pack(), headers=headers).status_code == 429
        here.clock.pass_(hours=1)
        assert send(here, wrong[3], late) == ACCEPTED


def test_a_code_with_a_sealed_report_exempts_nobody(tmp_path: Path) -> None:
    """No sealed survey has invitations, so the code is ignored and the report counts."""
    key = X25519PrivateKey.generate()
    public = public_hex(key)
    with world(
        tmp_path / "data", sealing={public: key}, limits=lambda clock: Limits(2, clock)
    ) as here:
        asked = here.publish(survey(round="once", sealed_to=public))
        statuses = []
        for n in range(3):
            body = seal(envelope(asked, bytes([n]) * 16), public).pack()
            headers = {INVITATION_HEADER: new_invitation()}
            statuses.append(here.post(body, SEALED_TYPE, headers=headers).status_code)
        assert statuses == [200, 200, 429]


@pytest.mark.parametrize("header", ["", "a" * 25, "a" * 27, "Bearer " + "a" * 26, "a" * 25 + "1"])
def test_other_headers_contain_no_code(header: str) -> None:
    assert invitation_in(header) == b""
    assert invitation_in("a" * 26) == invitation_hash("a" * 26)


def test_codes_are_random() -> None:
    """130 bits: two equal ones among 1,000 have probability below 2**-110."""
    assert len({new_invitation() for _ in range(1_000)}) == 1_000
    assert all(invitation_in(new_invitation()) for _ in range(100))


# Several servers


def test_two_nodes_count_one_report_of_a_code(database: Database) -> None:
    """Eight reports with one code go to two nodes at a time, for each of 20 codes."""
    with PostgresStore.create(database, "one") as one, PostgresStore.open(database, "two") as two:
        asked = published(one, invited())
        for number, code in enumerate(codes_of(one, asked, 20)):
            sent = [upload(asked, bytes([number, n]) * 8, code) for n in (0, 0, 1, 1, 2, 2, 3, 3)]
            gate = threading.Barrier(2)

            def take(store: PostgresStore, group: list[Upload], gate: Any = gate) -> list[str]:
                gate.wait()
                with store.transaction() as transaction:
                    return list(commit(transaction, group))

            with ThreadPoolExecutor(2) as pool:
                halves = pool.map(take, (one, two), (sent[::2], sent[1::2]))
                outcomes = sorted(outcome for half in halves for outcome in half)
            assert outcomes == ["accepted", "duplicates"] + ["invitation-spent"] * 6
        (tally,) = one.tallies(asked.sequence)
        assert tally.reports == 20


def test_groups_of_two_nodes_never_deadlock(database: Database) -> None:
    """Both nodes get reports of an open survey and of two by invitation at the same time."""
    with PostgresStore.create(database, "one") as one, PostgresStore.open(database, "two") as two:
        first = published(one, invited(name="first"))
        asked = published(one, survey(name="middle", round="once"))
        last = published(one, invited(name="last"))
        for turn in range(12):
            codes = [*codes_of(one, first, 1, 2 * turn), *codes_of(one, last, 1, 2 * turn + 1)]
            both = [upload(asked, bytes([turn, n]) * 8, b"") for n in range(200)]
            one_id = bytes([turn]) * 16
            groups = [
                [upload(first, one_id, codes[0]), *both],
                [*both, upload(last, one_id, codes[1])],
            ]
            gate = threading.Barrier(2)

            def take(store: PostgresStore, group: list[Upload], gate: Any = gate) -> None:
                gate.wait()
                with store.transaction() as transaction:
                    commit(transaction, group)

            with ThreadPoolExecutor(2) as pool:
                list(pool.map(take, (one, two), groups))


def test_unknown_and_spent_codes_delay_no_other_report(tmp_path: Path) -> None:
    """Groups with such codes stay in the redo file; otherwise, one sender could slow down all."""
    with SqliteStore.create(tmp_path / "data") as store:
        asked, anyone = published(store, invited()), published(store, survey(round="once"))
        (code,) = codes_of(store, asked, 1)
        assert commit_later(store, [upload(asked, b"0" * 16, code)]) == ["accepted"]
        assert not store._writer.redo.pending, "a spent code is in the tables"
        for n, wrong in enumerate((bytes(32), code)):
            group = [upload(anyone, bytes([n]) * 16, b""), upload(asked, b"1" * 16, wrong)]
            assert commit_later(store, group)[0] == "accepted"
            assert store._writer.redo.pending


def commit_later(store: SqliteStore, group: list[Upload]) -> list[str]:
    """Commit as the writer does under load: in one group, of one request for each upload."""
    writer, outcomes = Writer(store, Catalogue(store)), list[Any]()
    writer._state = "running"
    for one in group:
        writer.submit([one], outcomes.append)
    gathered = writer._next_group(0)
    assert gathered is not None
    writer._commit(gathered, later=True)
    return [outcome for (outcome,) in outcomes]


# Kills


@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.long)])
def test_kills_lose_no_code_and_count_none_twice(tmp_path: Path, kills: int) -> None:
    """People repeat a report until it is acknowledged, and then try the code once more."""
    data, people = tmp_path / "data", 20 * kills
    today = datetime.now(UTC).date()
    with create_store(data) as store:
        asked = published(store, invited(opens=today, closes=today + timedelta(days=9)))
        codes = [new_invitation() for _ in range(people)]
        store.invite(asked.sequence, [*map(invitation_hash, codes)])
    server, outcomes = start(data), list[str]()

    def post(identifier: bytes, code: str) -> str:
        headers = {
            "Content-Type": "application/vnd.deniable.envelopes",
            INVITATION_HEADER: code,
        }
        while True:
            connection = HTTPConnection("127.0.0.1", port, timeout=10)
            try:
                connection.request(
                    "POST", "/v1/envelopes", envelope(asked, identifier).pack(), headers
                )
                answer = connection.getresponse()
                text = answer.read().decode()
                if answer.status == 200:
                    return text
            except (OSError, HTTPException):
                pass
            finally:
                connection.close()
            time.sleep(0.02)

    def person(number: int) -> None:
        first = post(bytes([number]) * 16, codes[number])
        second = post(bytes([number, 255]) * 8, codes[number])
        outcomes.extend([first, second])

    port = server.port
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(person, number) for number in range(people)]
        for goal in range(10, 2 * people, 40):
            eventually(partial(reached, outcomes, goal), "progress")
            server.kill_group()
            server = start(data, port=port)
        for one in running:
            one.result(60)
    server.kill_group()
    assert sum("invitation-spent" in text for text in outcomes) == people
    with open_recovered(data) as store:
        (tally,) = store.tallies(asked.sequence)
    assert tally.reports == people
    with closing(sqlite3.connect(data / "deniable.sqlite3")) as driver:
        (spent,) = driver.execute("SELECT sum(spent) FROM invitations").fetchone()
    assert spent == people


def reached(outcomes: list[str], goal: int) -> bool:
    return len(outcomes) >= goal


# The attack: link codes to reports by time and order


def spend_one_by_one(store: SqliteStore, people: int = 120) -> list[tuple[bytes, bytes]]:
    """Send each report in its own group, and return each envelope's id with its code."""
    asked = published(store, invited())
    codes = codes_of(store, asked, people)
    chance = random.Random(7)
    pairs = [(chance.randbytes(16), code) for code in chance.sample(codes, people)]
    writer = Writer(store, Catalogue(store))
    writer.start()
    for identifier, code in pairs:
        assert writer.write([upload(asked, identifier, code)]) == ["accepted"]
    writer.stop()
    return pairs


def watched(data: Path) -> Watched:
    made = Watched.create(data)
    made.copies, made.wanted = [], set(range(9, 120, 30))
    return made


def test_no_copy_of_the_folder_links_codes_to_reports(tmp_path: Path) -> None:
    """False alarm below 2e-12, as in test_order."""
    with watched(tmp_path / "data") as store:
        pairs = spend_one_by_one(store)
        assert len(store.copies) >= 3
        for copy in (*store.copies, store.data):
            assert max_links(copy, pairs) < TOO_MANY, copy.name


def test_the_file_depends_only_on_which_codes_are_spent(tmp_path: Path) -> None:
    """The same codes, spent in another order, lead to the same bytes."""
    contents = [content_after(tmp_path / str(seed), seed) for seed in (1, 2)]
    assert contents[0] == contents[1]


def test_rows_written_when_a_code_is_spent_would_show_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqlTransaction, "spend", rewriting_spend)
    contents = [content_after(tmp_path / str(seed), seed) for seed in (1, 2)]
    assert contents[0] != contents[1]


def rewriting_spend(self: Any, sequence: int, codes: Any) -> dict[bytes, bool]:
    for code in codes:
        self._connection.execute("DELETE FROM invitations WHERE code = ?", (code,))
        self._connection.execute("INSERT INTO invitations VALUES (?, ?, TRUE)", (sequence, code))
    return dict.fromkeys(codes, True)


def content_after(data: Path, seed: int) -> bytes:
    """Return the database's rows of codes, page by page, after they were spent in some order."""
    with SqliteStore.create(data) as store:
        asked = published(store, invited())
        codes = codes_of(store, asked, 200)
        for code in random.Random(seed).sample(codes[:60], 60):
            with store.transaction() as transaction:
                assert transaction.spend(asked.sequence, [code]) == {code: True}
        eventually(store.forget_order, "the log is empty")
    content = (data / "deniable.sqlite3").read_bytes()
    pages = [content[start : start + 1_024] for start in range(0, len(content), 1_024)]
    return b"".join(page for page in pages if any(code in page for code in codes))


def test_postgresql_keeps_no_order_of_spent_codes(database: Database) -> None:
    """Position and transaction of a row: in the order of the codes, and one for all spent."""
    with PostgresStore.create(database) as store:
        asked = published(store, invited())
        codes = codes_of(store, asked, 60)
        spent = random.Random(3).sample(codes, 30)
        for number, code in enumerate(spent):
            with store.transaction() as transaction:
                sent = upload(asked, bytes([number]) * 16, code)
                assert commit(transaction, [sent]) == ["accepted"]
        by_place, by_transaction = rows_of(database)
        assert by_place[-30:] == spent, "before settling, rows are in the order of arrival"
        assert by_transaction == spent
        eventually(lambda: settle(store._pool), "settled")
        by_place, by_transaction = rows_of(database)
        assert by_place == sorted(codes)
        assert by_transaction == sorted(spent)
        with psycopg.connect(database.url) as connection:
            query = "SELECT count(DISTINCT xmin::text) FROM invitations WHERE spent"
            assert connection.execute(query).fetchone() == (1,)


def rows_of(database: Database) -> tuple[list[bytes], list[bytes]]:
    """Return all codes by position, and the spent ones by transaction, ties by code."""
    with psycopg.connect(database.url) as connection:
        by_place = connection.execute("SELECT code FROM invitations ORDER BY ctid").fetchall()
        query = "SELECT code FROM invitations WHERE spent ORDER BY xmin::text::bigint, code"
        by_transaction = connection.execute(query).fetchall()
    return [bytes(row[0]) for row in by_place], [bytes(row[0]) for row in by_transaction]


def test_deleting_a_survey_deletes_its_invitations(here: World) -> None:
    asked = here.publish(invited(closes=date(2026, 12, 31)))
    codes_of(here.store, asked, 3)
    here.store.delete_survey(asked.sequence)
    assert here.store._rows("SELECT count(*) FROM invitations")[0][0] == 0
