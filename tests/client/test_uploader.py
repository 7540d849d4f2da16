"""Uploader: the fate of an envelope after every reply that a server may give."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path

import pytest

from deniable.client import Client
from deniable.client.disclosure import read_summary
from deniable.client.net.delivery import delivery_result, retry_after_seconds
from deniable.client.net.transport import Reply
from deniable.client.net.uploader import FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS, Backoff
from deniable.client.state import Transaction, outbox
from tests.client.conftest import MakeClient
from tests.client.scripted import (
    ACCEPTED,
    ANSWERS,
    LATER,
    Answer,
    Clock,
    Script,
    Ticks,
    bit,
    document,
    problem,
)
from tests.eventually import PATIENCE, eventually


def refusal(code: str) -> Answer:
    refused = [{"index": 0, "code": code, "detail": ""}]
    body = {"accepted": 0, "duplicates": 0, "refused": refused}
    return Answer(body=json.dumps(body).encode())


def deliveries(folder: Path) -> list[tuple[str, str]]:
    return [(entry.delivery, entry.detail) for entry in read_summary(folder).entries]


# Replies


def test_queued_reports_are_sent_without_a_flush(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    script.publish(document())
    client_of().answer("app-health", **ANSWERS)
    eventually(lambda: deliveries(tmp_path / "state") == [("accepted", "")])


def test_a_duplicate_counts_as_accepted(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    script.publish(document())
    script.always = Answer(body=b'{"accepted": 0, "duplicates": 1, "refused": []}')
    client = client_of()
    client.answer("app-health", **ANSWERS)
    assert client.flush(PATIENCE) == 0
    assert deliveries(tmp_path / "state") == [("accepted", "")]


@pytest.mark.parametrize("code", ["unknown-survey", "closed", "late", "bad-payload", "too-many"])
def test_a_refused_report_is_recorded_and_not_sent_again(
    script: Script, client_of: MakeClient, tmp_path: Path, code: str
) -> None:
    script.publish(document())
    script.always = refusal(code)
    client = client_of()
    client.answer("app-health", **ANSWERS)
    assert client.flush(PATIENCE) == 0
    assert deliveries(tmp_path / "state") == [("refused", code)]
    assert client.flush(PATIENCE) == 0
    assert len(script.posts) == 1


@pytest.mark.parametrize("status", [400, 405, 413, 415, 422])
def test_a_report_with_a_permanent_error_is_dropped(
    script: Script, client_of: MakeClient, tmp_path: Path, status: int
) -> None:
    script.publish(document())
    script.always = problem(status)
    client = client_of()
    client.answer("app-health", **ANSWERS)
    assert client.flush(PATIENCE) == 0
    assert deliveries(tmp_path / "state") == [("refused", f"status {status}")]


PASSING = {
    "overload": Answer(503),
    "too many requests": Answer(429),
    "a fault": Answer(500),
    "a proxy's": Answer(407),
    "not there yet": Answer(404),
    "a login page": Answer(200, b"<html>Welcome to the hotel</html>"),
    "a redirect": Answer(302, headers={"Location": "http://127.0.0.1:9/login"}),
    "no count": Answer(200, b'{"accepted": 0, "duplicates": 0, "refused": []}'),
    "half a reply": Answer(200, b'{"accepted": 1}'),
    "not json": Answer(200, b"\xff"),
    "a clock that differs": refusal("early"),
    "a proxy's own 400": Answer(400, b"<html>Bad Request</html>"),
    "a proxy's own 405": Answer(405),
    "a proxy's own 411": Answer(411, b"{}", {"Content-Type": "application/json"}),
    "a proxy's own 413": problem(413, b"<html>Too Large</html>"),
    "a problem of another status": problem(413, b'{"status": 400}'),
    "a problem that is no object": problem(400, b"[400]"),
    "a problem too deep to read": problem(400, b"[" * 50_000),
    "not called a problem": problem(400, kind="application/json"),
}


@pytest.mark.parametrize("name", PASSING)
def test_a_report_with_a_temporary_error_is_sent_again_unchanged(
    script: Script, client_of: MakeClient, tmp_path: Path, name: str
) -> None:
    script.publish(document())
    script.replies = [PASSING[name], PASSING[name]]
    client = client_of()
    client.answer("app-health", **ANSWERS)
    eventually(lambda: client.flush(0.5) == 0)
    assert deliveries(tmp_path / "state") == [("accepted", "")]
    assert len({post.body for post in script.posts}) == 1
    assert len(script.posts) == 3


def test_a_server_that_recovers_gets_the_waiting_reports(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    script.publish(document())
    offline = client_of()
    script.always = LATER
    offline.answer("app-health", **ANSWERS)
    assert offline.flush(PATIENCE) == 1
    offline.close()
    script.always = ACCEPTED
    client_of(consent=False)
    eventually(lambda: deliveries(tmp_path / "state") == [("accepted", "")])


# Pauses


def test_retry_after_is_a_minimum_even_for_flush(
    script: Script, client_of: MakeClient, ticks: Ticks
) -> None:
    """It also gives up immediately if waiting has no effect, because its clock stands still."""
    script.publish(document())
    script.replies = [LATER]
    client = client_of(monotonic=ticks)
    client.answer("app-health", **ANSWERS)
    assert client.flush(599.0) == 1
    ticks.seconds += 599.5
    assert client.flush(0.4) == 1
    assert len(script.posts) == 1
    ticks.seconds += 600.5  # a random pause of up to the same length is added
    assert client.flush(PATIENCE) == 0
    assert len(script.posts) == 2


def failed(client: Client, times: int) -> bool:
    return client._uploader._backoff._failures == times


def test_failures_cause_pauses(script: Script, client_of: MakeClient, ticks: Ticks) -> None:
    """Nothing is retried while the clock stands still; after the longest pause, one try follows."""
    script.publish(document())
    script.always = Answer(500)
    client = client_of(monotonic=ticks)
    client.answer("app-health", **ANSWERS)
    for tries in range(1, 6):
        eventually(partial(failed, client, tries), f"failure {tries}")
        client._uploader.wake()
        assert len(script.posts) == tries
        ticks.seconds += 2.0 ** (tries - 1)
        client._uploader.wake()


def test_backoff_is_exponential_with_full_jitter(ticks: Ticks) -> None:
    bounds = list[tuple[float, float]]()

    def drawn(low: float, high: float) -> float:
        bounds.append((low, high))
        return high / 4

    backoff = Backoff(1.0, 3600.0, ticks, drawn)
    rests = []
    for _ in range(14):
        backoff.fail()
        rests.append(backoff.rest)
    assert bounds == [(0, min(2.0**n, 3600.0)) for n in range(14)]
    assert rests == [high / 4 for _, high in bounds]
    backoff.reset()
    assert backoff.rest <= 0
    backoff.fail()
    assert bounds[-1] == (0, 1.0), "a success resets the backoff"


def test_the_pauses_of_the_uploader_have_their_limits() -> None:
    assert (FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS) == (1.0, 3600.0)


def test_the_pause_requested_by_the_server_is_a_minimum(ticks: Ticks) -> None:
    backoff = Backoff(1.0, 3600.0, ticks, lambda low, high: high)
    backoff.fail(0.25)
    assert backoff.rest == 60.25, "plus up to a minute at random"
    backoff.hurry()
    assert backoff.rest == 60.25
    backoff.fail(70.0)
    assert backoff.rest == 140.0, "or plus up to the same time"
    ticks.seconds += 3
    backoff.hurry()
    assert backoff.rest == 137.0


def test_no_number_of_failures_overflows(ticks: Ticks) -> None:
    backoff = Backoff(1.0, 3600.0, ticks)
    for _ in range(3000):
        backoff.fail()
    assert 0 <= backoff.rest <= 3600


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, 0),
        ("", 0),
        ("soon", 0),
        ("-5", 0),
        ("1.5", 0),
        ("²", 0),
        ("0", 0),
        ("120", 120),
        ("3599", 3599),
        ("3601", 3600),
        ("99999999999", 3600),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", 3600),
    ],
)
def test_retry_after_is_read_with_a_ceiling(text: str | None, seconds: float) -> None:
    assert retry_after_seconds(text) == seconds


def test_retry_after_may_be_a_date() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 90 < retry_after_seconds(soon) <= 100


@pytest.mark.parametrize(
    "body",
    [
        b"null",
        b"[]",
        b"1",
        b'{"accepted": "x", "duplicates": 0, "refused": []}',
        b'{"accepted": 1, "duplicates": 0, "refused": [7]}',
        b'{"accepted": 1, "duplicates": 0, "refused": {"a": 1}}',
        b"[" * 100_000,
    ],
)
def test_the_uploader_survives_every_odd_reply(body: bytes) -> None:
    assert delivery_result(Reply(200, body)).settled is None


# Bounds


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_died_is_replaced(
    script: Script, client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After any failure, the next wake starts another thread, and no flush waits for a dead one."""
    script.publish(document())
    client = client_of()
    with monkeypatch.context() as patch:
        patch.setattr("deniable.client.net.uploader.delivery_result", lambda _: 1 / 0)
        assert client.answer("app-health", **ANSWERS).status == "queued"
        eventually(lambda: client._uploader._thread is None and script.posts)
    assert client.flush(PATIENCE) == 0


def test_flush_keeps_to_its_timeout(script: Script, client_of: MakeClient) -> None:
    """The server does not reply during the test; flush and close return nevertheless."""
    script.publish(document())
    script.always = Answer(hold=threading.Event())
    client = client_of(timeout=3600.0)
    client.answer("app-health", **ANSWERS)
    assert client.flush(0.5) == 1
    client.close()


def test_flush_does_not_wait_for_later_reports(
    script: Script, client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush waits only for reports queued before it.

    Eleven answers come after it, and the server holds the first of them until flush has returned.
    """
    fenced, queued, flushed = threading.Event(), threading.Event(), threading.Event()
    newest = outbox.newest

    def fence(db: Transaction) -> int:
        number = newest(db)
        fenced.set()
        return number

    def answer_the_others() -> None:
        fenced.wait(PATIENCE)
        for number in range(1, 12):
            client.answer(f"s{number}", **{f"q{number}": True})
        queued.set()

    monkeypatch.setattr(outbox, "newest", fence)
    for number in range(12):
        script.publish(document(f"s{number}", questions=bit(f"q{number}", "0.1")))
    script.replies = [replace(ACCEPTED, hold=queued), replace(ACCEPTED, hold=flushed)]
    client = client_of()
    client.answer("s0", q0=True)
    eventually(lambda: script.posts, "the first report is on its way, before any other is there")
    writer = threading.Thread(target=answer_the_others)
    writer.start()
    assert client.flush(PATIENCE) == 0
    flushed.set()
    writer.join()
    assert client.flush(PATIENCE) == 0
    assert len({post.body for post in script.posts}) == 12


def test_the_outbox_is_bounded_and_its_losses_are_counted(
    script: Script,
    client_of: MakeClient,
    clock: Clock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "MAX_WAITING", 3)
    script.publish(document(period="day", questions=bit("crashed", "0.1")))
    script.always = LATER
    client = client_of()
    for _ in range(5):
        assert client.answer("app-health", crashed=True).status == "queued"
        clock.now += timedelta(days=1)
    record = read_summary(tmp_path / "state")
    assert record.dropped == 2
    assert [entry.delivery for entry in record.entries] == ["dropped"] * 2 + ["waiting"] * 3
    assert client.flush(0) == 3


def test_a_report_past_its_grace_is_given_up(
    script: Script, client_of: MakeClient, clock: Clock, tmp_path: Path
) -> None:
    script.publish(document())
    script.always = LATER
    client = client_of()
    client.answer("app-health", **ANSWERS)
    clock.now = datetime(2027, 1, 14, 23, 59, tzinfo=UTC)
    assert client.flush(0) == 1
    clock.now = datetime(2027, 1, 15, tzinfo=UTC)
    assert client.flush(0) == 0
    assert deliveries(tmp_path / "state") == [("given-up", "it could not be sent in time")]


def test_the_thread_gives_up_late_reports(
    script: Script, client_of: MakeClient, clock: Clock, tmp_path: Path
) -> None:
    script.publish(document())
    script.always = Answer(500)
    client_of().answer("app-health", **ANSWERS)
    eventually(lambda: script.posts)
    clock.now = datetime(2027, 1, 15, tzinfo=UTC)
    eventually(lambda: deliveries(tmp_path / "state")[0][0] == "given-up")


# Threads and exits


def uploaders() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "deniable-uploader"}


def test_the_thread_ends_when_no_report_is_left(script: Script, client_of: MakeClient) -> None:
    script.publish(document())
    client, before = client_of(), uploaders()
    client.answer("app-health", **ANSWERS)
    client.flush(PATIENCE)
    eventually(lambda: uploaders() <= before)


def test_close_ends_the_thread_and_keeps_waiting_reports(
    script: Script, client_of: MakeClient
) -> None:
    script.publish(document())
    script.always = LATER
    client, before = client_of(), uploaders()
    client.answer("app-health", **ANSWERS)
    assert uploaders() - before
    client.close()
    client.close()
    assert uploaders() <= before
    assert client.flush(0) == 1


LEAVING = """
import json, sys, time
from datetime import datetime, UTC
from deniable.client import Client, Policy
url, state, key = sys.argv[1:4]
now = lambda: datetime(2026, 12, 10, tzinfo=UTC)
client = Client(url, policy=Policy(keys=[key], per="lifetime"), state=state, now=now)
client.consent(True)
print(client.answer("app-health", crashed=True).status)
"""


@pytest.mark.parametrize(
    "reply", [ACCEPTED, Answer(hold=threading.Event())], ids=["prompt", "silent"]
)
def test_the_end_of_the_process_allows_a_last_short_try(
    script: Script, tmp_path: Path, policy_key: str, reply: Answer
) -> None:
    script.publish(document(questions=bit("crashed", "0.5")))
    script.always = reply
    ran = subprocess.run(
        [sys.executable, "-c", LEAVING, script.url, str(tmp_path / "state"), policy_key],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("queued\n", "", 0)
    expected = "waiting" if reply.hold else "accepted"
    assert deliveries(tmp_path / "state") == [(expected, "")]


def test_a_report_without_consent_wakes_no_thread(
    script: Script, client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A withdrawal deletes the person's reports.

    If one were left, it would not be counted as waiting, and neither the thread nor a flush would
    keep looking for it.
    """
    script.publish(document())
    client = client_of(send_within=3600.0)
    client.person("ann").consent(True)
    assert client.person("ann").answer("app-health", **ANSWERS).status == "queued"
    monkeypatch.setattr(outbox, "withdraw_all", lambda *_: None)
    client.person("ann").consent(False)
    passes = count_passes(client, monkeypatch)
    assert client.flush(PATIENCE) == 0
    assert len(passes) <= 2
    eventually(lambda: client._uploader._thread is None)
    assert script.posts == []


def test_a_flush_ends_when_a_pass_finds_nothing_to_send(
    script: Script, client_of: MakeClient, ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flush ends even if the clock stands still and reports are counted as waiting."""
    script.publish(document())
    client = client_of(send_within=3600.0, monotonic=ticks)
    assert client.answer("app-health", **ANSWERS).status == "queued"
    monkeypatch.setattr(outbox, "take", lambda *_: None)
    monkeypatch.setattr(outbox, "seconds_until_due", lambda *_: 0.0)
    passes = count_passes(client, monkeypatch)
    assert client.flush(PATIENCE) == 1
    assert len(passes) <= 2
    client._uploader.stop(PATIENCE)


def count_passes(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that grows with each pass of the uploader's thread."""
    results, send_one = list[object](), client._uploader._send_one

    def counted() -> object:
        results.append(send_one())
        return results[-1]

    monkeypatch.setattr(client._uploader, "_send_one", counted)
    return results
