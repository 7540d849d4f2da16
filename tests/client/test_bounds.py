"""Bounds of the client: their values, and that each holds to its last unit."""

from __future__ import annotations

import json
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from deniable.client import Client, Policy
from deniable.client import client as client_module
from deniable.client.net import delivery, survey_list, surveys, transport, uploader
from deniable.client.net.delivery import DeliveryResult, delivery_result
from deniable.client.net.survey_list import read_list
from deniable.client.net.transport import HttpTransport, Reply, Unreachable
from deniable.client.state import outbox
from deniable.client.state.database import SqliteState
from deniable.client.state.ledger import OWN
from deniable.client.state.outbox import HistoryEntry, ReportedSymbol
from deniable.shared.survey.keys import public_hex
from tests.client.conftest import MakeClient
from tests.client.scripted import ANSWERS, KEY, OTHER_KEY, Answer, Script, Ticks, document, entry

TIMEOUT = signature(Client).parameters["timeout"].default
POLICY = Policy(keys=[public_hex(KEY)])

BOUNDS = {
    "waiting envelopes of one person": (outbox.MAX_WAITING, 500),
    "waiting envelopes in all": (outbox.MAX_WAITING_IN_ALL, 100_000),
    "entries of the history": (outbox.MAX_HISTORY, 1_000),
    "listed surveys": (survey_list.MAX_LISTED, 1_000),
    "bytes of a list": (transport.MAX_LIST_BYTES, 32 * 2**20),
    "bytes of a reply": (transport.MAX_REPLY_BYTES, 64 * 2**10),
    "seconds of a fetch": (surveys.LIST_TIMES * TIMEOUT, 20.0),
    "seconds of a Retry-After": (delivery.MAX_RETRY_AFTER_SECONDS, 3600.0),
    "seconds between vain fetches": (surveys.MAX_PAUSE_SECONDS, 300.0),
    "seconds that a list is fresh": (surveys.FRESH_SECONDS, 3600),
    "seconds of one delivery": (TIMEOUT, 10.0),
    "seconds of close": (client_module.CLOSE_SECONDS, 1.0),
    "seconds at the exit": (uploader.EXIT_SECONDS, 2.0),
    "bytes of a survey's key": (outbox.KEY_BYTES, 32),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_agree_with_the_readme(name: str) -> None:
    actual, said = BOUNDS[name]
    assert actual == said


# The history


@pytest.fixture
def state(tmp_path: Path) -> SqliteState:
    return SqliteState(tmp_path / "state")


def report(number: int) -> HistoryEntry:
    said = (ReportedSymbol("crashed", "0.5", "yes", "the odds"),)
    return HistoryEntry("5a" * 32, "app-health", number, "2026-12-10", said)


def test_the_history_keeps_the_newest_entries(
    state: SqliteState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MAX_HISTORY", 3)
    with state.transaction(create=True) as db:
        for number in range(3):
            outbox.add_entry(db, report(number))
        assert outbox.history_of(db) == [report(number) for number in range(3)]
        outbox.add_entry(db, report(3))
        assert outbox.history_of(db) == [report(number) for number in range(1, 4)]


@pytest.mark.parametrize("final", ["accepted", "relayed", "refused"])
@pytest.mark.parametrize("later", ["accepted", "refused", "given-up", "dropped", "withdrawn"])
def test_a_recorded_reply_is_not_overwritten(
    state: SqliteState, final: outbox.Delivery, later: outbox.Delivery
) -> None:
    with state.transaction(create=True) as db:
        outbox.add_entry(db, report(1))
        outbox.settle(db, OWN, report(1).survey, 1, final, "the first word")
        outbox.settle(db, OWN, report(1).survey, 1, later, "another")
        (told,) = outbox.history_of(db)
    assert (told.delivery, told.detail) == (final, "the first word")


def test_a_reply_about_a_withdrawn_report_is_recorded(state: SqliteState) -> None:
    """The report was on its way when consent was withdrawn. Other reports are not affected."""
    with state.transaction(create=True) as db:
        for number in (1, 2):
            outbox.add_entry(db, report(number))
        outbox.settle(db, OWN, report(1).survey, 1, "withdrawn")
        outbox.settle(db, OWN, report(1).survey, 1, "accepted")
        assert [entry.delivery for entry in outbox.history_of(db)] == ["accepted", "waiting"]


# Replies


@pytest.mark.parametrize(
    ("method", "most"), [("GET", 32 * 2**20), ("POST", 64 * 2**10)], ids=["GET", "POST"]
)
def test_a_reply_of_the_maximum_size_is_read_whole(script: Script, method: str, most: int) -> None:
    def reply() -> Reply:
        return HttpTransport(script.url).request(method, "/v1/surveys", None, None, 60.0)

    script.list_reply = script.always = Answer(body=b" " * most)
    assert len(reply().body) == most
    script.list_reply = script.always = Answer(body=b" " * (most + 1))
    with pytest.raises(Unreachable):
        reply()


def test_only_permanent_errors_are_final() -> None:
    """Every other status is retried, whatever its body says."""

    def settled_by(status: int) -> str | None:
        body = {"accepted": 1, "duplicates": 0, "refused": [], "status": status}
        kind = "application/problem+json; charset=utf-8"
        return delivery_result(Reply(status, json.dumps(body).encode(), None, kind)).settled

    settled = {status: settled_by(status) for status in range(100, 600)}
    final = {400, 405, 406, 410, 411, 413, 414, 415, 422, 431}
    assert {status for status, what in settled.items() if what == "refused"} == final
    assert {status for status, what in settled.items() if what == "accepted"} == {200}


@pytest.mark.parametrize(
    ("accepted", "duplicates", "settled"),
    [(1, 0, "accepted"), (0, 1, "accepted"), (0, 0, None), (-1, 0, None), (True, 0, None),
     (1, True, None), (1.0, 0, None), (0, None, None)],
)  # fmt: skip
def test_counts_are_positive_whole_numbers(
    accepted: Any, duplicates: Any, settled: str | None
) -> None:
    body = {"accepted": accepted, "duplicates": duplicates, "refused": []}
    assert delivery_result(Reply(200, json.dumps(body).encode())).settled == settled


def test_the_code_of_a_server_is_truncated() -> None:
    """The code is shown to a person and stored on disk."""
    body = {"accepted": 0, "duplicates": 0, "refused": [{"code": "x" * 100_000}]}
    result = delivery_result(Reply(200, json.dumps(body).encode()))
    assert result == DeliveryResult("refused", "x" * 64 + "…")


# The list of surveys


def test_a_list_larger_than_four_mebibytes_is_read() -> None:
    entries = [entry(document()), entry(document("other")) | {"document": "x" * 10 * 2**20}]
    (good, bad) = read_list(Reply(200, json.dumps({"surveys": entries}).encode()), POLICY)
    assert (good.problem, bad.document) == (None, None)


@pytest.mark.parametrize(
    "body",
    [
        b'{"surveys": [' + b"[]," * 2**20 + b"[]]}",
        b'{"surveys": [' + b'"",' * 2**20 + b'""]}',
        b'{"surveys": [' + b"0," * 2**20 + b"0]}",
        b'{"surveys": [' + b'"\\"",' * 200_000 + b"0]}",
        b'{"surveys": [' + b'"' * 2**21 + b"0]}",
    ],
    ids=["brackets", "strings", "numbers", "escapes", "quotes"],
)
def test_a_list_that_would_grow_in_memory_is_not_read(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = list[object]()
    monkeypatch.setattr(json, "loads", loaded.append)
    with pytest.raises(Unreachable):
        read_list(Reply(200, body), POLICY)
    assert loaded == []


def test_a_longer_list_is_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_list, "MAX_LISTED", 2)
    entries = [entry(document(f"s{number}")) for number in range(3)]
    reply = Reply(200, json.dumps({"surveys": entries}).encode())
    assert [survey.name for survey in read_list(reply, POLICY)] == ["s0", "s1"]


@pytest.mark.parametrize(
    "change",
    [{"id": "AB" * 32}, {"id": "ab" * 31}, {"id": "ab" * 33}, {"state": "Open"}, {"key": 7}],
)
def test_an_invalid_entry_is_left_out(change: dict[str, Any]) -> None:
    entries = [entry(document("good")), entry(document("bad")) | change]
    reply = Reply(200, json.dumps({"surveys": entries}).encode())
    assert [survey.name for survey in read_list(reply, POLICY)] == ["good"]


def test_a_survey_that_cannot_be_answered_is_stored_without_its_document() -> None:
    entries = [entry(document("x" * 64), key=OTHER_KEY)]
    (listed,) = read_list(Reply(200, json.dumps({"surveys": entries}).encode()), POLICY)
    assert (listed.name, listed.document, listed.signature, listed.key) == ("x" * 64, None, "", "")
    assert "not a trusted key" in (listed.problem or "")


def test_an_unterminated_string_is_scanned_once() -> None:
    """Scanning again from each of its quotes would take hours."""
    with pytest.raises(Unreachable):
        read_list(Reply(200, b'{"surveys": ["' + b'\\"' * 2**22), POLICY)


def test_an_unverified_name_is_truncated() -> None:
    text = json.dumps({"survey": {"name": "x" * 1000}})
    entries = [entry(document()) | {"document": text}]
    (listed,) = read_list(Reply(200, json.dumps({"surveys": entries}).encode()), POLICY)
    assert (listed.name, listed.document) == ("x" * 64, None)


def test_failed_fetches_back_off_to_five_minutes(
    script: Script, client_of: MakeClient, ticks: Ticks
) -> None:
    client = client_of(monotonic=ticks)

    def fetches() -> int:
        client.answer("gone")
        return len(script.gets)

    assert [fetches(), fetches()] == [1, 2], "the first two fetches have no pause"
    for number, pause in enumerate([2, 4, 8, 16, 32, 64, 128, 256, 300, 300], 3):
        assert client._surveys._fetcher._pause_until == ticks.seconds + pause
        ticks.seconds += pause
        assert fetches() == number
    ticks.seconds += 299.5
    assert fetches() == 12
    script.publish(document())
    ticks.seconds += 0.5
    assert client.answer("app-health", **ANSWERS).status == "queued"
    assert [fetches(), fetches()] == [14, 15], "a success ends the pauses"


# The end of the process


def test_all_clients_share_two_seconds_at_the_exit(
    ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child process leaves the queue to its parent."""
    given = list[tuple[str, float]]()

    class Queued:
        def __init__(self, name: str, lasting: float) -> None:
            self.name, self.lasting = name, lasting

        def flush(self, timeout: float, ending: bool) -> int:
            assert ending
            given.append((self.name, timeout))
            ticks.seconds += self.lasting
            return 0

    clients: list[Any] = [Queued("one", 1.5), Queued("two", 0.5), Queued("three", 1.0)]
    monkeypatch.setattr(uploader, "_queued_in", dict.fromkeys(clients, -1))
    uploader._exit_hook(ticks)
    assert given == []
    for client in clients:
        uploader._send_at_exit(client)
    uploader._exit_hook(ticks)
    assert given == [("one", 2.0), ("two", 0.5)]


def test_a_client_closed_by_hand_is_not_flushed_at_the_exit(
    script: Script, client_of: MakeClient
) -> None:
    script.publish(document())
    client: Client = client_of()
    client.answer("app-health", crashed=True, minutes=3, browser="safari")
    assert client._uploader in uploader._queued_in
    client.close()
    assert client._uploader not in uploader._queued_in
