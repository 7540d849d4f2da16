"""Batches: with an app token, reports of many people leave in one body, and settle one by one."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from deniable.client import Client, Summary
from deniable.client.net import batches, uploader
from deniable.client.net.batches import Batches
from deniable.client.net.delivery import batch_results
from deniable.client.net.transport import AppTransport, HttpTransport, Reply, Unreachable
from deniable.client.state import outbox
from deniable.client.state.ledger import Identity
from deniable.client.state.outbox import QueuedEnvelope
from deniable.client.state.store import open_state
from deniable.server.http.tokens import new_token
from deniable.shared import envelope as wire
from deniable.shared.envelope import parse_envelopes
from deniable.shared.errors import InvalidPolicy
from tests.client.conftest import MakeClient
from tests.client.scripted import (
    ACCEPTED,
    Answer,
    Clock,
    QuietServer,
    Request,
    Script,
    answering,
    bit,
    document,
    handler,
    problem,
)
from tests.client.shared_state import STATE_KEY
from tests.eventually import PATIENCE
from tests.server.postgres import Cluster

TOKEN = "0123456789abcdef" * 4


class Counting(Script):
    """Server that accepts every envelope, except those that a test refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: Callable[[int, Any], str | None] = lambda index, envelope: None
        self.connections = set[tuple[str, int]]()

    def reply(self, request: Request) -> Answer:
        answer = super().reply(request)
        if request.method == "GET" or answer is not ACCEPTED:
            return answer
        codes = enumerate(map(self.refuses, range(10**6), parse_envelopes(request.body)))
        results = [(index, code) for index, code in codes]
        refused = [{"index": index, "code": code, "detail": ""} for index, code in results if code]
        counts = {"accepted": len(results) - len(refused), "duplicates": 0, "refused": refused}
        return Answer(body=json.dumps(counts).encode())


@pytest.fixture
def server() -> Iterator[Counting]:
    """A server that keeps connections open, and records them."""
    script = Counting()

    class Handler(handler(script)):  # type: ignore[misc] # a class from a function
        def play(self) -> None:
            script.connections.add(self.client_address)
            super().play()

    with answering(QuietServer(("127.0.0.1", 0), Handler)) as script.url:
        try:
            yield script
        finally:
            script.ended.set()


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The state of a client: a folder, or a database."""
    if request.param == "sqlite":
        return {"state": tmp_path / "state"}
    cluster: Cluster = request.getfixturevalue("cluster")
    return {"state": cluster.new_database().url, "state_key": STATE_KEY}


@pytest.fixture
def backend(server: Counting, client_of: MakeClient, kept: dict[str, Any]) -> Callable[..., Client]:
    def make(**changes: Any) -> Client:
        options = {"server": server.url, "token": TOKEN, "send_within": 3600.0, **kept, **changes}
        return client_of(**options)

    return make


def answer_all(client: Client, people: int, *surveys: str, **answers: object) -> None:
    for number in range(people):
        person = client.person(f"person {number}")
        person.consent(True)
        for survey in surveys:
            given = answers or {"crashed": True}
            assert person.answer(survey, **given).status == "queued"


def fates(client: Client, people: int) -> Counter[tuple[str, str]]:
    return Counter(fate for number in range(people) for fate in fates_of(client, number))


def fates_of(client: Client, number: int) -> list[tuple[str, str]]:
    sent = client.person(f"person {number}").sent()
    assert isinstance(sent, Summary)
    return [(entry.delivery, entry.detail) for entry in sent.entries]


def publish(server: Counting, *names: str) -> None:
    for name in names:
        server.publish(document(name, questions=bit("crashed", "0.5")))


def test_a_body_holds_the_reports_of_many_people_about_one_survey(
    server: Counting, backend: Callable[..., Client]
) -> None:
    """Each person's report of each survey is sent once, over one connection."""
    publish(server, "one", "two")
    client = backend()
    answer_all(client, 30, "one", "two")
    assert server.posts == []
    assert client.flush(PATIENCE) == 0
    bodies = [parse_envelopes(post.body) for post in server.posts]
    assert [len(body) for body in bodies] == [30, 30]
    assert [len({(e.survey, e.round) for e in body}) for body in bodies] == [1, 1]
    assert len({envelope.id for body in bodies for envelope in body}) == 60
    assert len({*server.connections}) == 1 + 1, "one for the list, one for the bodies"
    assert fates(client, 30) == {("accepted", ""): 60}


def test_a_token_is_sent_with_bodies_and_with_nothing_else(
    server: Counting, backend: Callable[..., Client]
) -> None:
    publish(server, "one")
    client = backend()
    answer_all(client, 2, "one")
    client.flush(PATIENCE)
    headers = [dict(post.headers) for post in server.posts]
    assert {(h["Authorization"], h["Connection"]) for h in headers} == {
        (f"Bearer {TOKEN}", "keep-alive")
    }
    assert all("Authorization" not in dict(get.headers) for get in server.gets)
    assert TOKEN not in repr(client) + repr(vars(client))


@pytest.mark.parametrize("token", [None, TOKEN])
def test_a_withdrawal_that_fails_withholds_only_that_person_s_reports(
    server: Counting, client_of: MakeClient, cluster: Cluster, token: str | None
) -> None:
    """Some people withdraw while another machine uses their rows. All other reports are sent."""
    publish(server, "one")
    kept = {"state": cluster.new_database().url, "state_key": STATE_KEY}
    client = client_of(server=server.url, token=token, send_within=3600.0, **kept)
    answer_all(client, 8, "one")
    leaving = random.sample(range(8), random.randrange(1, 4))
    other = open_state(kept["state"], STATE_KEY)
    with other.transaction() as db:
        for number in leaving:
            Identity(f"person {number}").person(db)
            assert not client.person(f"person {number}").consent(False)
    other.close()
    assert client.flush(PATIENCE) == len(leaving)
    assert sum(len(parse_envelopes(post.body)) for post in server.posts) == 8 - len(leaving)
    assert fates(client, 8) == {("accepted", ""): 8 - len(leaving), ("waiting", ""): len(leaving)}
    for number in leaving:
        assert fates_of(client, number) == [("waiting", "")]
        assert client.person(f"person {number}").consent(False)
        assert fates_of(client, number) == [("withdrawn", "")]
    assert client.flush(PATIENCE) == 0
    assert not client._state.consents.unwritten


def test_a_client_without_a_token_sends_single_reports(
    server: Counting, backend: Callable[..., Client]
) -> None:
    publish(server, "one")
    client = backend(token=None)
    answer_all(client, 5, "one")
    assert client.flush(PATIENCE) == 0
    assert [len(parse_envelopes(post.body)) for post in server.posts] == [1] * 5
    assert len(server.connections) == 6
    assert all("Authorization" not in dict(post.headers) for post in server.posts)


def test_each_report_settles_by_itself(server: Counting, backend: Callable[..., Client]) -> None:
    """One that is early waits, one that is refused is dropped, and the others are accepted."""
    publish(server, "one")
    codes = {0: "late", 3: "early", 4: "bad-payload"}
    server.refuses = lambda index, envelope: codes.get(index) if len(server.posts) == 1 else None
    client = backend()
    answer_all(client, 8, "one")
    assert client.flush(PATIENCE) in (0, 1)  # 1 if the pause after the early one is long
    (body, *later) = [parse_envelopes(post.body) for post in server.posts]
    settled = fates(client, 8)
    assert settled["refused", "late"] == settled["refused", "bad-payload"] == 1
    assert settled["accepted", ""] + settled["waiting", ""] == 6
    assert [[e.id for e in again] for again in later] in ([], [[body[3].id]])


def test_people_s_order_in_a_body_is_random(
    server: Counting, backend: Callable[..., Client]
) -> None:
    """The order of the answers has a probability of 1 in 20! ≈ 4e-19."""
    publish(server, "one")
    client = backend()
    answer_all(client, 20, "one")
    with client._state.read() as db:
        found = db.execute("SELECT envelope FROM outbox ORDER BY due, number").fetchall()
    before = [parse_envelopes(bytes(packed))[0].id for (packed,) in found]
    assert client.flush(PATIENCE) == 0
    (body,) = (parse_envelopes(post.body) for post in server.posts)
    assert {e.id for e in body} == {*before}
    assert [e.id for e in body] != before


def test_reports_leave_within_send_within_and_a_person_s_surveys_at_different_moments(
    server: Counting, backend: Callable[..., Client], clock: Clock
) -> None:
    publish(server, "one", "two")
    client = backend(send_within=100.0)
    answer_all(client, 50, "one", "two")
    with client._state.read() as db:
        dues = {
            (row[0], row[1]): row[2] for row in db.execute("SELECT person, survey, due FROM outbox")
        }
    begin = clock.now.timestamp()
    assert all(begin <= due <= begin + 100 for due in dues.values())
    people, surveys = {person for person, _ in dues}, sorted({survey for _, survey in dues})
    apart = [abs(dues[person, surveys[0]] - dues[person, surveys[1]]) for person in people]
    assert max(apart) > 50
    assert min(apart) > 0
    clock.now += timedelta(seconds=40)
    with client._state.transaction() as db:
        due = outbox.due_batch(db, server.url, clock.now, 0, 100.0, 4096)
    assert {e.number for e in due} <= {e.number for e in due if e.due <= begin + 40}
    assert len({e.survey for e in due}) == 1


class Statements:
    """Transaction that counts the updates of the outbox."""

    def __init__(self, db: Any) -> None:
        self._db, self.updates = db, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def execute(self, statement: str, values: Any = ()) -> Any:
        self.updates += statement.startswith("UPDATE outbox")
        return self._db.execute(statement, values)


@pytest.mark.parametrize(("within", "updates"), [(100.0, 3), (0.0, 0)])
def test_a_backlog_is_rescheduled_in_few_statements(
    server: Counting,
    backend: Callable[..., Client],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    within: float,
    updates: int,
) -> None:
    """One statement for each report made a backlog of 100,000 wait for minutes."""
    publish(server, "one")
    client = backend(send_within=100.0)
    answer_all(client, 25, "one")
    client._uploader.stop(PATIENCE)
    monkeypatch.setattr(outbox, "MAX_DUES", 10)
    clock.now += timedelta(days=1)
    query = "SELECT number, due FROM outbox ORDER BY number"
    with client._state.transaction() as db:
        before, counted = db.execute(query).fetchall(), Statements(db)
        outbox.reschedule(counted, server.url, clock.now, within, 0)
        after = db.execute(query).fetchall()
    assert counted.updates == updates
    if not within:
        assert after == before
        return
    moments = [due - clock.now.timestamp() for _, due in after]
    assert len(set(moments)) == 25
    assert all(0 <= moment <= within for moment in moments)


@pytest.mark.parametrize("limit", ["envelopes", "bytes"])
def test_a_body_keeps_to_the_limits(
    server: Counting, backend: Callable[..., Client], monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    publish(server, "one")
    client = backend()
    answer_all(client, 10, "one")
    size = len(wire.Envelope("0" * 64, 1, bytes(16), 1, b"\0").pack())
    if limit == "bytes":
        monkeypatch.setattr(batches, "MAX_BODY_BYTES", 4 * size + 1)
    else:
        monkeypatch.setattr(batches, "MAX_ENVELOPES", 4)
        client._uploader._batches._most = 4  # type: ignore[union-attr] # it has a token
    assert client.flush(PATIENCE) == 0
    assert [len(parse_envelopes(post.body)) for post in server.posts] == [4, 4, 2]


def test_the_limits_are_those_of_the_protocol() -> None:
    assert (batches.MAX_ENVELOPES, batches.MAX_BODY_BYTES) == (
        wire.MAX_ENVELOPES,
        wire.MAX_BODY_BYTES,
    )


def test_a_body_that_is_refused_as_a_whole_costs_no_report(
    server: Counting, backend: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Smaller bodies follow, and only a report that is refused alone is dropped."""
    publish(server, "one")
    bad: list[bytes] = []
    script_reply = server.reply

    def reply(request: Request) -> Answer:
        answer = script_reply(request)
        if request.method == "POST":
            ids = [envelope.id for envelope in parse_envelopes(request.body)]
            bad[:] = bad or ids[:1]
            return problem(400) if bad[0] in ids else answer
        return answer

    monkeypatch.setattr(server, "reply", reply)
    monkeypatch.setattr(uploader, "MAX_PAUSE_SECONDS", 0.01)
    client = backend()
    answer_all(client, 6, "one")
    assert client.flush(PATIENCE) == 0
    assert fates(client, 6) == {("accepted", ""): 5, ("refused", "status 400"): 1}


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"accepted": 2, "duplicates": 0, "refused": []}',
     b'{"accepted": 4, "duplicates": 0, "refused": []}',
     b'{"accepted": 4, "duplicates": -1, "refused": []}',
     b'{"accepted": 2, "duplicates": 0, "refused": [{"index": 3, "code": "late"}]}',
     b'{"accepted": 2, "duplicates": 0, "refused": [{"index": -1, "code": "late"}]}',
     b'{"accepted": 2, "duplicates": 0, "refused": [{"index": true, "code": "late"}]}',
     b'{"accepted": 2, "duplicates": 0, "refused": [{"index": 1}]}',
     b'{"accepted": 2, "duplicates": 0, "refused": ["late"]}',
     (b'{"accepted": 1, "duplicates": 0, "refused":'
     b' [{"index": 1, "code": "a"}, {"index": 1, "code": "b"}]}'),
     b'{"accepted": 2.0, "duplicates": 1, "refused": []}'],
)  # fmt: skip
def test_a_reply_without_an_outcome_for_each_report_settles_none(body: bytes) -> None:
    assert [result.settled for result in batch_results(Reply(200, body), 3)] == [None] * 3


def test_a_reply_settles_each_report() -> None:
    body = b'{"accepted": 1, "duplicates": 1, "refused": [{"index": 1, "code": "late"}]}'
    assert [result.settled for result in batch_results(Reply(200, body), 3)] == [
        "accepted",
        "refused",
        "accepted",
    ]


def test_a_reply_that_refuses_every_report_of_a_body_settles_them(server: Counting) -> None:
    """A reply to a single report, or to more than a body holds, has a limit as before."""
    refused = [
        {"index": n, "code": "unknown-survey", "detail": "x" * 60}
        for n in range(batches.MAX_ENVELOPES)
    ]
    counts = {"accepted": 0, "duplicates": 0, "refused": refused}
    server.always = Answer(body=json.dumps(counts, separators=(",", ":")).encode())
    assert len(server.always.body) > 400_000
    carrier, request = AppTransport(server.url, TOKEN), ("POST", "/v1/envelopes", b"", None)
    reply = carrier.request(*request, PATIENCE)
    assert {r.settled for r in batch_results(reply, batches.MAX_ENVELOPES)} == {"refused"}
    with pytest.raises(Unreachable):
        HttpTransport(server.url).request(*request, PATIENCE)
    server.always = Answer(body=b" " * (2**20 + 1))
    with pytest.raises(Unreachable):
        carrier.request(*request, PATIENCE)
    carrier.close()


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_passing_failure_keeps_every_report_and_counts_its_try(
    server: Counting, backend: Callable[..., Client], status: int
) -> None:
    publish(server, "one")
    server.always = problem(status)
    client = backend()
    answer_all(client, 3, "one")
    assert client.flush(0.5) == 3
    client._uploader.stop(PATIENCE)
    with client._state.read() as db:
        tries = db.execute("SELECT tries FROM outbox").fetchall()
    assert len(server.posts) > 0
    assert tries == [(len(server.posts),)] * 3


def test_a_backend_that_is_offline_uses_up_no_try(
    server: Counting, backend: Callable[..., Client]
) -> None:
    publish(server, "one")
    client = backend()
    answer_all(client, 3, "one")

    class Offline:
        def request(self, *_: object) -> Reply:
            raise Unreachable("nobody there")

    client._uploader._batches._transport = Offline()  # type: ignore[union-attr] # it has a token
    assert client.flush(0.5) == 3
    with client._state.read() as db:
        assert db.execute("SELECT tries, earliest FROM outbox").fetchall() == [(0, 0.0)] * 3


def test_a_batch_that_is_being_sent_is_taken_by_no_other_process(
    server: Counting, backend: Callable[..., Client], kept: dict[str, Any], clock: Clock
) -> None:
    """After a kill it is reserved for some seconds, and then sent again."""
    publish(server, "one")
    client = backend()
    answer_all(client, 6, "one")
    place, key = kept["state"], kept.get("state_key")
    first, second = (open_state(place, key, clock) for _ in range(2))
    with first.transaction() as db:
        batch = Batches(first, AppTransport(server.url, TOKEN), 10.0).take(
            db, server.url, clock.now, outbox.MAX_NUMBER, 0.0
        )
    with second.transaction() as db:
        again = Batches(second, AppTransport(server.url, TOKEN), 10.0)
        assert again.take(db, server.url, clock.now, outbox.MAX_NUMBER, 0.0) == []
        clock.now += timedelta(seconds=31)
        assert {
            e.packed for e in again.take(db, server.url, clock.now, outbox.MAX_NUMBER, 0.0)
        } == {e.packed for e in batch}
    for state in (first, second):
        state.close()


in_a_database = pytest.mark.parametrize("kept", ["postgres"], indirect=True)


@in_a_database
@pytest.mark.parametrize("end", ["close", "exit"])
def test_a_process_that_ends_sends_its_own_reports_of_one_survey(
    server: Counting, backend: Callable[..., Client], end: str
) -> None:
    """Two bodies that arrive together would link one person's reports of two surveys."""
    publish(server, "one", "two")
    web, function = backend(), backend()
    answer_all(web, 10, "one", "two")
    web._uploader.stop(PATIENCE)
    for survey in ("one", "two"):
        assert function.answer(survey, crashed=True).status == "queued"
    if end == "close":
        function.close()
    else:
        uploader._exit_hook()
    assert [len(parse_envelopes(post.body)) for post in server.posts] == [1]


@pytest.mark.parametrize("end", ["close", "exit"])
def test_a_process_with_a_folder_sends_only_one_survey_at_its_end(
    server: Counting, client_of: MakeClient, tmp_path: Path, end: str
) -> None:
    """The reports of the other survey wait for their own moments, and a flush still sends them."""
    publish(server, "one", "two")
    options = {"server": server.url, "token": TOKEN, "send_within": 3600.0}
    client = client_of(state=tmp_path / "state", **options)
    answer_all(client, 10, "one", "two")
    if end == "close":
        client.close()
    else:
        uploader._exit_hook()
    (body,) = [parse_envelopes(post.body) for post in server.posts]
    assert (len(body), len({envelope.survey for envelope in body})) == (10, 1)
    assert fates(client, 10) == {("accepted", ""): 10, ("waiting", ""): 10}
    assert client.flush(PATIENCE) == 0
    assert fates(client, 10) == {("accepted", ""): 20}


@pytest.mark.parametrize("obstacle", ["draft", "tries"])
def test_a_report_that_must_wait_keeps_no_other_back_at_the_end(
    server: Counting, client_of: MakeClient, tmp_path: Path, obstacle: str
) -> None:
    """The first report is a draft before its moment, or waits for the next day after ten tries."""
    over = "last" if obstacle == "draft" else "first"
    questions = bit("crashed", "0.5").replace('"first"', f'"{over}"')
    server.publish(document("slow", questions=questions))
    publish(server, "one")
    options = {"server": server.url, "token": TOKEN, "send_within": 3600.0}
    client = client_of(state=tmp_path / "state", **options)
    answer_all(client, 5, "slow")
    with client._state.transaction() as db:
        if obstacle == "tries":
            db.execute("UPDATE outbox SET tries = ?, due = due + 86400", (outbox.MAX_TRIES,))
        query = "SELECT number, due FROM outbox WHERE number <= 5 ORDER BY number"
        before = db.execute(query).fetchall()
    answer_all(client, 5, "one")
    client.close()
    assert [len(parse_envelopes(post.body)) for post in server.posts] == [5]
    with client._state.read() as db:
        assert db.execute(query).fetchall() == before


@in_a_database
@pytest.mark.parametrize("token", [TOKEN, None])
def test_a_flush_sends_no_report_of_another_process(
    server: Counting,
    backend: Callable[..., Client],
    token: str | None,
) -> None:
    publish(server, "one", "two")
    web, function = (backend(token=token) for _ in range(2))
    answer_all(web, 10, "one")
    for survey in ("one", "two"):
        assert function.answer(survey, crashed=True).status == "queued"
    assert function.flush(PATIENCE) == 0
    assert len(server.envelopes()) == 2
    assert web.flush(PATIENCE) == 0
    assert len(server.envelopes()) == 12


@in_a_database
def test_a_flush_waits_for_reports_that_another_process_is_sending(
    server: Counting, backend: Callable[..., Client], kept: dict[str, Any], clock: Clock
) -> None:
    """After a kill, it sends them itself once they are no longer reserved."""
    publish(server, "one")
    client = backend()
    answer_all(client, 3, "one")
    clock.now += timedelta(hours=1)  # all are due
    other = open_state(kept["state"], kept["state_key"], clock)
    with other.transaction() as db:
        batch = Batches(other, AppTransport(server.url, TOKEN), 10.0).take(
            db, server.url, clock.now, outbox.MAX_NUMBER, 0.0
        )
    other.close()
    assert len(batch) == 3
    later = threading.Timer(0.5, setattr, (clock, "now", clock.now + timedelta(seconds=33)))
    later.start()
    assert client.flush(PATIENCE) == 0
    assert len(server.envelopes()) == 3


@in_a_database
def test_a_flush_waits_for_a_look_that_began_before_it(
    server: Counting, backend: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that found no due report does not end a flush that has since made some due."""
    publish(server, "one")
    client, looked, hurried = backend(), threading.Event(), threading.Event()
    due_batch, hurry = outbox.due_batch, client._uploader._hurry

    def slow(*limits: Any) -> list[QueuedEnvelope]:
        if looked.is_set():
            time.sleep(0.5)  # for a flush that would end too early
        batch = due_batch(*limits)
        looked.set()
        hurried.wait(PATIENCE)
        return batch

    def noted(*reports: Any) -> None:
        hurry(*reports)
        hurried.set()

    monkeypatch.setattr(outbox, "due_batch", slow)
    monkeypatch.setattr(client._uploader, "_hurry", noted)
    answer_all(client, 3, "one")
    assert looked.wait(PATIENCE)
    assert client.flush(PATIENCE) == 0


@in_a_database
def test_a_single_report_that_is_being_sent_is_taken_by_no_other_process(
    server: Counting, backend: Callable[..., Client], kept: dict[str, Any], clock: Clock
) -> None:
    """After a kill it is reserved for some seconds, and then sent again."""
    publish(server, "one")
    answer_all(backend(token=None), 1, "one")
    first, second = (open_state(kept["state"], kept["state_key"], clock) for _ in range(2))
    limits = server.url, clock.now, outbox.MAX_NUMBER, 0.0
    with first.transaction() as db:
        taken = outbox.take(db, *limits, reserved=30.0)
        with second.transaction() as other:
            assert outbox.take(other, *limits, reserved=30.0) is None
    later = server.url, clock.now + timedelta(seconds=31), outbox.MAX_NUMBER, 0.0
    with second.transaction() as db:
        assert outbox.take(db, *limits, reserved=30.0) is None
        again = outbox.take(db, *later, reserved=30.0)
    assert taken is not None
    assert again is not None
    assert taken.packed == again.packed
    for state in (first, second):
        state.close()


@in_a_database
def test_processes_that_flush_together_send_each_report_once(
    server: Counting, backend: Callable[..., Client]
) -> None:
    publish(server, "one")
    clients = [backend(token=None) for _ in range(2)]
    answer_all(clients[0], 60, "one")
    clients[1]._state.queued.extend(clients[0]._state.queued)  # type: ignore[attr-defined] # of a database
    threads = [threading.Thread(target=client.flush, args=(PATIENCE,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sent = [envelope.id for envelope in server.envelopes()]
    assert len(sent) == len({*sent}) == 60


def test_a_connection_that_the_server_has_closed_is_replaced(
    server: Counting, backend: Callable[..., Client], clock: Clock
) -> None:
    publish(server, "one")
    carrier = AppTransport(server.url, TOKEN)
    assert carrier.request("GET", "/v1/surveys", None, None, PATIENCE).status == 200
    kept = carrier._kept
    assert kept is not None
    kept.shutdown(2)
    assert carrier.request("GET", "/v1/surveys", None, None, PATIENCE).status == 200
    assert carrier._kept is not kept
    kept.close()
    carrier.close()


def test_a_forked_child_uses_a_connection_of_its_own(server: Counting) -> None:
    carrier = AppTransport(server.url, TOKEN)
    carrier.request("GET", "/v1/surveys", None, None, PATIENCE)
    child = os.fork()
    if child == 0:
        ended = carrier.request("GET", "/v1/surveys", None, None, PATIENCE).status
        os._exit(0 if ended == 200 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert carrier.request("GET", "/v1/surveys", None, None, PATIENCE).status == 200
    assert len(server.connections) == 2
    carrier.close()


@pytest.mark.parametrize(
    "token", ["", "short", "x" * 201, "with space" * 3, b"x" * 30, "é" * 30, "a" * 30 + "\r\nX: y"]
)
def test_a_token_that_no_server_makes_is_refused_and_not_repeated(
    client_of: MakeClient, token: object
) -> None:
    with pytest.raises(InvalidPolicy, match="deniable token create") as refused:
        client_of(token=token, consent=False)
    assert not token or str(token) not in str(refused.value)


def test_the_server_s_tokens_are_accepted(client_of: MakeClient) -> None:
    client_of(token=new_token(), consent=False)


def test_a_relay_and_a_token_exclude_each_other(client_of: MakeClient) -> None:
    with pytest.raises(InvalidPolicy, match="a relay takes no batches"):
        client_of(token=TOKEN, relay="http://127.0.0.1:1", consent=False)
