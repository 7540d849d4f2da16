"""Acknowledged reports, which a device sends again when their round has a new epoch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deniable.client import Client, Policy
from deniable.client.net.survey_list import MAX_EPOCHS
from deniable.client.state import outbox
from deniable.shared.sealed_envelope import MAGIC
from deniable.shared.survey.keys import sign_epoch
from tests.client.conftest import MakeClient
from tests.client.scripted import (
    ANSWERS,
    KEY,
    LATER,
    OTHER_KEY,
    QUESTIONS,
    Clock,
    Script,
    bit,
    document,
    serving,
    sqlite_of,
)
from tests.client.shared_state import STATE_KEY
from tests.client.test_batches import TOKEN, Counting, answer_all, server
from tests.client.test_sealed import HELD
from tests.eventually import PATIENCE, eventually
from tests.server.postgres import Cluster
from tests.shared.test_sealing import PUBLIC
from tests.survey_texts import label

__all__ = ["server"]

Epoch = dict[str, Any]
DECEMBER = 683
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


def epoch(survey: str, number: int, round_: int = DECEMBER, key: Ed25519PrivateKey = KEY) -> Epoch:
    signature = sign_epoch(survey, round_, number, key)
    return {"round": round_, "epoch": number, "signature": signature}


def show(script: Script, client: Client, clock: Clock, *epochs: object) -> None:
    """Publish epochs, and let the client fetch the list of surveys."""
    script.surveys[0]["epochs"] = list(epochs)
    clock.now += timedelta(hours=2)
    assert client.prefetch(PATIENCE)


def sent_after(script: Script, client: Client, clock: Clock, **passed: float) -> list[bytes]:
    """Return the bodies that the client sends once this time has passed."""
    before = len(script.posts)
    clock.now += timedelta(**passed)
    client.flush(PATIENCE)
    return [post.body for post in script.posts[before:]]


def answered(script: Script, client: Client) -> str:
    """Publish a survey, answer it, and return its id once the report is acknowledged."""
    id_ = script.publish(document())
    answer(script, client)
    return id_


def answer(script: Script, client: Client, **answers: object) -> bytes:
    """Answer, and return the body once the report is acknowledged."""
    before = len(script.posts)
    assert client.answer("app-health", **(answers or ANSWERS)).status == "queued"
    assert client.flush(PATIENCE) == 0
    (post,) = script.posts[before:]
    return post.body


def test_each_of_two_epochs_sends_the_same_bytes_once(
    client_of: MakeClient, script: Script, clock: Clock
) -> None:
    client = client_of()
    id_ = answered(script, client)
    (first,) = [post.body for post in script.posts]
    assert sent_after(script, client, clock, days=1) == []
    for number, times in ((1, 1), (2, 1), (3, 0), (1, 0)):
        show(script, client, clock, epoch(id_, number))
        assert sent_after(script, client, clock) == [], "not before a random moment"
        assert sent_after(script, client_of(), clock, days=7.1) == [first] * times


def test_a_device_that_first_sees_the_second_epoch_sends_once(
    client_of: MakeClient, script: Script, clock: Clock
) -> None:
    client = client_of()
    id_ = answered(script, client)
    show(script, client, clock, epoch(id_, 2), epoch(id_, 1))
    assert len(sent_after(script, client, clock, days=7.1)) == 1
    for number in (1, 2):
        show(script, client, clock, epoch(id_, number))
        assert sent_after(script, client, clock, days=7.1) == []


def test_a_device_that_waits_sends_without_a_call_of_the_app(
    client_of: MakeClient, script: Script, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of()
    id_ = answered(script, client)
    client._uploader.stop(PATIENCE)
    monkeypatch.setattr(outbox, "uniform", lambda low, _: low)
    show(script, client, clock, epoch(id_, 1))
    eventually(lambda: len(script.posts) == 2, "the report is sent again")


def test_a_report_that_waits_while_an_epoch_is_listed_is_sent_once(
    client_of: MakeClient, script: Script, clock: Clock
) -> None:
    client = client_of()
    id_ = script.publish(document())
    show(script, client, clock, epoch(id_, 1))
    answer(script, client)
    show(script, client, clock, epoch(id_, 1))
    assert sent_after(script, client, clock, days=8) == []


def test_a_failed_second_delivery_is_tried_again_with_the_same_bytes(
    client_of: MakeClient, script: Script, clock: Clock
) -> None:
    client = client_of()
    id_ = answered(script, client)
    show(script, client, clock, epoch(id_, 1))
    script.replies = [LATER]
    assert len(sent_after(script, client, clock, days=8)) == 1
    client.close()
    other = client_of()
    assert other.flush(PATIENCE) == 0
    assert [post.body for post in script.posts] == [script.posts[0].body] * 3
    assert sent_after(script, other, clock, days=2) == []


FORGERIES: dict[str, Any] = {
    "other key": lambda id_: epoch(id_, 1, key=OTHER_KEY),
    "other round": lambda id_: epoch(id_, 1, DECEMBER - 1) | {"round": DECEMBER},
    "other epoch": lambda id_: epoch(id_, 1) | {"epoch": 2},
    "other survey": lambda _: epoch("ab" * 32, 1),
    "no signature": lambda id_: {"round": DECEMBER, "epoch": 1},
    "not hex": lambda id_: epoch(id_, 1) | {"signature": "x"},
    "true": lambda id_: epoch(id_, 1) | {"epoch": True},
    "zero": lambda id_: epoch(id_, 0),
    "text": lambda _: "epoch",
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_an_unsigned_or_forged_epoch_is_ignored(
    client_of: MakeClient, script: Script, clock: Clock, forgery: str
) -> None:
    client = client_of()
    id_ = answered(script, client)
    show(script, client, clock, FORGERIES[forgery](id_))
    assert sent_after(script, client, clock, days=8) == []
    show(script, client, clock, FORGERIES[forgery](id_), epoch(id_, 1))
    assert len(sent_after(script, client, clock, days=8)) == 1, "the others still count"


@pytest.mark.parametrize("listed", [{}, "epochs", 5, None])
def test_unreadable_epochs_hide_no_survey(
    client_of: MakeClient, script: Script, clock: Clock, listed: object
) -> None:
    client = client_of()
    id_ = script.publish(document())
    script.surveys[0]["epochs"] = listed
    assert client.answer("app-health", **ANSWERS).survey == id_


def test_no_epoch_counts_after_too_many(
    client_of: MakeClient, script: Script, clock: Clock
) -> None:
    client = client_of()
    id_ = answered(script, client)
    show(script, client, clock, *[{}] * MAX_EPOCHS, epoch(id_, 1))
    assert sent_after(script, client, clock, days=8) == []


def test_an_epoch_after_the_grace_period_does_nothing(
    client_of: MakeClient, script: Script, clock: Clock
) -> None:
    client = client_of()
    id_ = answered(script, client)
    clock.now += timedelta(days=37)  # the grace period of December ends on 15 January
    show(script, client, clock, epoch(id_, 1))
    assert sent_after(script, client, clock, days=8) == []
    assert kept(client) == 0


def test_a_latched_report_is_sent_again_within_its_span_only(
    client_of: MakeClient, script: Script, clock: Clock
) -> None:
    """The span of two weeks ends on 13 December."""
    client = client_of()
    question = bit("crashed", "0.5")
    id_ = script.publish(document(period="week", questions=question, repeat_rounds=2))
    answer(script, client, crashed=True)
    (first,) = script.envelopes()
    show(script, client, clock, epoch(id_, 1, first.round))
    assert len(sent_after(script, client, clock, days=2)) == 1
    clock.now += timedelta(days=2)
    show(script, client, clock, epoch(id_, 2, first.round))
    assert sent_after(script, client, clock, days=7.1) == []
    assert kept(client) == 0


@pytest.mark.parametrize("how", ["withdraw", "forget"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_withdrawing_or_forgetting_deletes_acknowledged_reports(
    client_of: MakeClient, script: Script, clock: Clock, tmp_path: Path, how: str, when: str
) -> None:
    client = client_of()
    id_ = answered(script, client)
    (body,) = [post.body for post in script.posts]
    assert kept(client) == len(body)
    if when == "after":
        show(script, client, clock, epoch(id_, 1))
    assert client.consent(False) if how == "withdraw" else client.forget()
    for file in (tmp_path / "state").iterdir():
        assert body not in file.read_bytes()
    client.consent(True)
    show(script, client, clock, epoch(id_, 1))
    assert sent_after(script, client, clock, days=8) == []


def test_neither_the_answer_nor_the_noise_changes_the_moments(
    client_of: MakeClient,
    script: Script,
    clock: Clock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bounds of the random moment are the same; only the kernel decides within them."""
    drawn: list[list[float]] = []
    id_ = script.publish(document())
    for value in (False, True):
        client = client_of(state=tmp_path / f"{value}")
        answer(script, client, **ANSWERS | {"crashed": value})
        bounds: list[float] = []
        monkeypatch.setattr(outbox, "uniform", lambda *of, bounds=bounds: bounds.extend(of) or 0.0)
        show(script, client, clock, epoch(id_, 1))
        client.flush(0.0)
        client.close()
        monkeypatch.undo()
        drawn.append(bounds)
        script.surveys[0].pop("epochs")
        clock.now -= timedelta(hours=2)
    assert drawn[0] == drawn[1]
    assert (drawn[0][0], drawn[0][1]) == (0, outbox.MAX_RESEND_SECONDS)


def test_two_machines_that_see_an_epoch_together_send_once(
    client_of: MakeClient, script: Script, clock: Clock, cluster: Cluster
) -> None:
    """One queues the report and sends it while the other is about to queue it."""
    client = client_of(state=cluster.new_database().url, state_key=STATE_KEY)
    id_ = answered(script, client)
    client.close()  # so that its thread does nothing
    state, server = client._state, client._server

    def send_again() -> None:
        with state.transaction() as db:
            outbox.send_again(db, server, clock())

    with state.transaction() as db:
        db.execute("INSERT INTO epochs VALUES (?, ?, ?, ?)", (server, id_, DECEMBER, 1))
    with ThreadPoolExecutor(1) as pool:
        with state.transaction() as db:
            outbox.send_again(db, server, clock())
            assert db.execute("DELETE FROM outbox").rowcount == 1
            other = pool.submit(send_again)
            eventually(lambda: cluster.value(WAITING) == 1, "the other waits")
        other.result(PATIENCE)
    with state.read() as db:
        assert outbox.newest(db) == 0


@pytest.mark.parametrize("limit", ["MAX_ACKNOWLEDGED_BYTES", "MAX_ACKNOWLEDGED_BYTES_IN_ALL"])
def test_acknowledged_reports_take_bounded_space_and_the_oldest_go_first(
    client_of: MakeClient, script: Script, clock: Clock, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """The limit for all people is checked now and then; here always."""
    monkeypatch.setattr(outbox, "COUNT_EVERY", 1)
    client = client_of()
    script.publish(document(period="day", questions=bit("crashed", "0.1")))
    sizes = set[int]()
    for _ in range(12):
        body = answer(script, client, crashed=True)
        sizes.add(len(body))
        monkeypatch.setattr(outbox, limit, 5 * len(body))
        clock.now += timedelta(days=1)
    (size,) = sizes
    assert kept(client) == 5 * size
    with sqlite_of(client).read() as db:
        rounds = [row[0] for row in db.execute("SELECT round FROM acknowledged ORDER BY round")]
    assert rounds == [envelope.round for envelope in script.envelopes()][-5:]


def test_sealed_reports_with_labels_return_to_the_relay(
    client_of: MakeClient, script: Script, clock: Clock, policy: Policy
) -> None:
    labelled = replace(policy, labels=("version",))
    with serving() as relay:
        relay.always = HELD
        version = label("version", values=["1", "2"])
        id_ = relay.publish(document(questions=version + QUESTIONS, sealed_to=PUBLIC))
        client = client_of(relay=relay.url, policy=labelled, labels={"version": "2"})
        first = answer(relay, client)
        show(relay, client, clock, epoch(id_, 1))
        assert sent_after(relay, client, clock, days=8) == [first]
        assert (first[:4], script.requests) == (MAGIC, [])


def test_many_people_s_reports_return_in_batches(
    server: Counting,
    client_of: MakeClient,
    clock: Clock,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The state is a database, so another process sends the reports again, a few at a time."""
    monkeypatch.setattr(outbox, "MAX_CANDIDATES", 2)
    monkeypatch.setattr(outbox, "COUNT_EVERY", 1)
    state = {"state": cluster.new_database().url, "state_key": STATE_KEY}
    shared = {"server": server.url, "token": TOKEN, "send_within": 3600.0, **state}
    id_ = server.publish(document())
    client = client_of(**shared)
    answer_all(client, 5, "app-health", **ANSWERS)
    assert client.flush(PATIENCE) == 0
    first = {envelope.id: envelope.pack() for envelope in server.envelopes()}
    assert len(first) == 5
    client.person("person 4").consent(False)
    show(server, client, clock, epoch(id_, 1))
    client.close()
    clock.now += timedelta(days=8)
    other = client_of(**shared | {"send_within": 0.0})
    eventually(lambda: len(server.envelopes()) == 9, "four more")
    again = {envelope.id: envelope.pack() for envelope in server.envelopes()[5:]}
    assert len(again) == 4
    assert again.items() < first.items()
    show(server, other, clock, epoch(id_, 1))
    assert sent_after(server, other, clock, days=8) == []


def kept(client: Client) -> int:
    """Return the number of bytes of acknowledged reports."""
    with sqlite_of(client).read() as db:
        query = "SELECT coalesce(sum(length(envelope)), 0) FROM acknowledged"
        return int(db.execute(query).fetchone()[0])
