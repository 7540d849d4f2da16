"""Logs of the client: they explain why nothing was sent, and contain nothing private."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.client import Client, diagnostics
from deniable.client.net.transport import MAX_LIST_BYTES, Reply, Unreachable
from deniable.shared.survey.keys import public_hex
from tests.client.conftest import MakeClient
from tests.client.scripted import (
    ANSWERS,
    KEY,
    LATER,
    TODAY,
    Answer,
    Listing,
    Script,
    Ticks,
    document,
    lifetime_policy,
    problem,
    serving,
)
from tests.client.test_presence import KINDS, anything
from tests.eventually import PATIENCE, eventually


class Captured(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(record.levelname, record.getMessage()) for record in self.records]


@contextmanager
def captured() -> Iterator[Captured]:
    """Capture all log records, from the beginning of an hour."""
    handler, root = Captured(), logging.getLogger()
    level = root.level
    diagnostics._warned.clear()
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield handler
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


# Reasons for not fetching

REASONS = {
    "status": (Answer(503), "the server answered with status 503"),
    "another page": (Answer(body=b"<html>Sign in</html>"), "the reply is not a list of surveys"),
    "no list": (Answer(body=b'{"surveys": 1}'), "the reply is not a list of surveys"),
    "brackets": (Answer(body=b'{"surveys": [' + b"[" * 2**21), "list of surveys is too large"),
    "too large": (Answer(body=b" " * (MAX_LIST_BYTES + 1)), "the reply is too large"),
}


@pytest.mark.parametrize("name", REASONS)
def test_the_reason_for_a_missing_list_reaches_the_outcome_and_the_log(
    script: Script, client_of: MakeClient, ticks: Ticks, name: str
) -> None:
    script.list_reply, says = REASONS[name]
    client = client_of(monotonic=ticks)
    with captured() as log:
        outcome = client.answer("app-health", **ANSWERS)
        ticks.seconds += 1000
        client.answer("app-health", **ANSWERS)
    assert outcome.status == "unavailable"
    assert says in outcome.detail
    assert [level for level, _ in log.said] == ["WARNING", "INFO"], "more than one warning an hour"
    assert all(says in message for _, message in log.said)


def test_the_reason_is_repeated_while_fetching_pauses(client_of: MakeClient, ticks: Ticks) -> None:
    client = client_of(server="http://127.0.0.1:1", monotonic=ticks)
    told = {client.answer("app-health", **ANSWERS).detail for _ in range(5)}
    assert len(told) == 1
    assert "the connection was refused" in told.pop()


def test_network_errors_are_escaped(client_of: MakeClient) -> None:
    class Hostile(Listing):
        listing = False

        def request(self, method: str, *more: Any) -> Reply:
            if method == "GET" and self.listing:
                return super().request(method, *more)
            raise Unreachable("a new line\nand \x1b[31m red")

    carrier = Hostile(PUBLISHED)
    with captured() as log:
        client = client_of(transport=carrier)
        outcome = client.answer("app-health", **ANSWERS)
        carrier.listing = True
        assert client.answer("app-health", **ANSWERS).status == "queued"
        eventually(lambda: len(log.said) > 1, "the delivery has failed too")
    assert r"a new line\nand \x1b[31m red" in outcome.detail
    assert outcome.detail.isprintable()
    assert all(message.isprintable() for _, message in log.said)


def test_the_warning_is_repeated_after_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    with captured() as log:
        for seconds in (0, 3599, 3600):
            monkeypatch.setattr(time, "monotonic", lambda seconds=seconds: 50_000.0 + seconds)
            diagnostics.log_failure("dns", "it")
        diagnostics.log_failure("status", "another kind")
    assert [level for level, _ in log.said] == ["WARNING", "INFO", "WARNING", "WARNING"]


# Never logged

REPEATING = b'{"accepted": 0, "duplicates": 0, "refused": [{"index": 0, "code": "%s"}]}'


def test_a_whole_session_logs_no_answer_no_report_and_no_id(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    """The server returns the report as its refusal code, or asks to retry."""
    said = {"crashed": "yes-unmistakable", "minutes": 271828.18, "browser": "lynx-unmistakable"}
    script.publish(document())

    def replying(code: bytes) -> Answer:
        return Answer(body=REPEATING % code)

    with captured() as log:
        for number, reply in enumerate([replying(b"late"), problem(400), LATER, Answer(500)]):
            script.replies, script.always = [reply], LATER
            client = client_of(state=tmp_path / f"person-unmistakable-{number}")
            assert client.answer("app-health", **said).status == "queued"
            client.flush(PATIENCE)
            client.consent(False)
            client.forget()
            client.close()
        client = client_of(state=tmp_path / "last")
        client.answer("app-health", **said)
        (sent,) = script.envelopes()[-1:]
        script.replies = [replying(sent.payload.hex().encode() + sent.id.hex().encode())]
        client._uploader._backoff.reset()
        client.flush(PATIENCE)
        client.answer("unheard-of", **said)
        client.answer("app-health", crashed=True)
    everything = "".join(record.getMessage() + repr(vars(record)) for record in log.records)
    assert "the server refused a report" in everything
    assert "status 500" in everything
    for envelope in script.envelopes():
        assert envelope.id.hex() not in everything
        assert envelope.payload.hex() not in everything
    for trace in ("unmistakable", "271828", "lynx"):
        assert trace not in everything


def logged(values: dict[str, object]) -> list[tuple[str, str]]:
    """Return the log of an answer and its first delivery.

    The clock then stands still, so nothing is retried.
    """
    with TemporaryDirectory() as folder, captured() as log:
        client = Client(
            "https://stats.example.org",
            policy=lifetime_policy(questions=KINDS),
            state=folder,
            now=lambda: TODAY,
            transport=Listing(PUBLISHED),
            monotonic=Ticks(),
            send_within=0,
        )
        client.consent(True)
        assert client.answer("app-health", **values).status == "queued"
        eventually(lambda: client._uploader._backoff._failures == 1, "one failure")
        client.answer("app-health", **values)
        client._uploader.stop(PATIENCE)
        client._state.close()
    return log.said


PUBLISHED = document()
FITTING = [("WARNING", "a report was not sent, and will be tried again: nobody there")]


@settings(max_examples=40)
@given(st.fixed_dictionaries(dict.fromkeys(KINDS, anything)))
def test_any_values_leave_the_same_log(values: dict[str, object]) -> None:
    assert logged(values) == FITTING


# Logging as a library

ENDING = """
import atexit
@atexit.register
def last():  # registered first, so that it runs when `logging` has been shut down
    diagnostics.log_failure("late", "a thread that is still sending")
import io, logging
from deniable.client import Client, Policy, diagnostics
stream = io.StringIO()
logging.basicConfig(level=logging.DEBUG, stream=stream)
atexit.register(stream.close)
policy = Policy(keys=[{key!r}], per="lifetime")
from tests.client.scripted import TODAY
client = Client({url!r}, policy=policy, state={state!r}, send_within=0, now=lambda: TODAY)
client.consent(True)
print(client.answer("app-health", crashed=True, minutes=3, browser="firefox").status)
"""


def test_nothing_is_printed_at_the_end_of_a_process(tmp_path: Path) -> None:
    """The process ends during a try to send, after its log was closed."""
    with serving() as script:
        script.publish(document())
        script.always = Answer(500)
        code = ENDING.format(
            url=script.url,
            key=public_hex(KEY),
            state=str(tmp_path / "state"),
        )
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("queued\n", "")


def test_an_app_that_configures_no_logging_sees_nothing(tmp_path: Path) -> None:
    code = (
        "from deniable.client import Client, Policy\n"
        "policy = Policy(keys=['ab' * 32])\n"
        f"client = Client('http://127.0.0.1:1', policy=policy, state={str(tmp_path)!r})\n"
        "client.consent(True)\n"
        "print(client.answer('app-health', crashed=True).status)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("unavailable\n", "")


def test_the_library_adds_only_a_null_handler() -> None:
    log = logging.getLogger("deniable.client")
    assert [type(handler) for handler in log.handlers] == [logging.NullHandler]
    assert (log.level, log.propagate) == (logging.NOTSET, True)
