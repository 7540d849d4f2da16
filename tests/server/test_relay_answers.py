"""Responses of an aggregator or proxy: whatever they are, the relay keeps its batch and retries.

The responses come from a real socket, byte for byte.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.server.relay import forwarder
from deniable.server.relay.forwarder import Forwarder, Settings
from deniable.shared.sealed_envelope import (
    BATCH_HEADER,
    SIGNATURE_BYTES,
    SealedEnvelope,
    parse_sealed,
)
from tests.eventually import PATIENCE, eventually
from tests.server.relays import ALWAYS, LISTED, MARK, KnownList, arrived, holding, relaying
from tests.server.test_overload import PROGRAM
from tests.server.test_relay import ask
from tests.server.world import Server

PLANTED = Path(__file__).with_name("planted_relay.py")
FORWARDING = "from deniable.server.relay import forwarder as f"
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
GARBAGE = {
    "nothing": b"",
    "no HTTP": b"220 mail.example.org ESMTP\r\n\r\n",
    "another protocol": b"\x15\x03\x01\x00\x02\x02\x46",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "a head without an end": OK + b"X: " + b"x" * 70_000,
    "many headers": OK + b"X: x\r\n" * 200 + b"\r\n",
    "a chunk cut short": CHUNKED + b"64\r\n{}",
    "no chunk": CHUNKED + b"chunk\r\n{}",
    "a body cut short": OK + b"Content-Length: 100\r\n\r\n{}",
    "a way to nowhere": b"HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\n",
    "a strange pause": b"HTTP/1.1 503 x\r\nRetry-After: \xb2\r\nContent-Length: 0\r\n\r\n",
    "no text": OK + b"\r\n\xff\xfe\xfd",
    "no object": OK + b"\r\n[1]",
    "deep": OK + b"\r\n" + b"[" * 100_000,
    "endless numbers": OK + b'\r\n{"accepted": 1e999, "duplicates": 0, "refused": []}',
    "long numbers": OK
    + b'\r\n{"accepted": 1%s, "duplicates": 9%s, "refused": []}' % (b"0" * 4_299, b"0" * 4_299),
    "fewer than were sent": OK + b'\r\n{"accepted": 0, "duplicates": 0, "refused": []}',
    "more than were sent": OK + b'\r\n{"accepted": 99, "duplicates": 0, "refused": []}',
    "no code": OK + b'\r\n{"accepted": 0, "duplicates": 0, "refused": [1]}',
}

ENDLESS = b"HTTP/1.1 100 Continue\r\n\r\n"


def good(accepted: int, duplicates: int = 0) -> bytes:
    said = json.dumps({"accepted": accepted, "duplicates": duplicates, "refused": []}).encode()
    return OK + b"Content-Length: %d\r\n\r\n" % len(said) + said


@dataclass
class Aggregator:
    """Server that accepts each envelope once, but first responds with the bytes in `says`."""

    listener: socket.socket
    says: list[bytes] = field(default_factory=list)
    posts: list[bytes] = field(default_factory=list)
    taken: set[bytes] = field(default_factory=set)
    receipts: list[tuple[int, int]] = field(default_factory=list)  # accepted and duplicates

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return  # closed
            with connection, suppress(OSError):
                self.answer(connection)

    def answer(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as file:
            is_list, length = file.readline().startswith(b"GET"), 0
            while (line := file.readline()).strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            body = file.read(length)
        if len(body) < length:
            return  # the relay was killed
        if is_list:
            connection.sendall(OK + b"Content-Length: %d\r\n\r\n" % len(LISTED) + LISTED)
            return
        self.posts.append(body)
        packed = body[BATCH_HEADER.size + SIGNATURE_BYTES :]
        sent = {sealed_envelope.pack() for sealed_envelope in parse_sealed(packed)}
        known = len(sent & self.taken)
        self.taken |= sent
        if self.says:
            connection.sendall(said := self.says.pop(0))
            while said == ENDLESS:  # until the relay stops reading
                time.sleep(0.01)
                connection.sendall(said)
            return
        self.receipts.append((len(sent) - known, known))
        connection.sendall(good(*self.receipts[-1]))


@pytest.fixture
def aggregator() -> Iterator[Aggregator]:
    with listening() as made:
        yield made


@contextmanager
def listening() -> Iterator[Aggregator]:
    listener = socket.create_server(("127.0.0.1", 0))
    made = Aggregator(listener)
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        yield made
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(PATIENCE)


def some(count: int) -> list[SealedEnvelope]:
    return [SealedEnvelope(MARK, os.urandom(256 + 48)) for _ in range(count)]


# In this process


@dataclass
class Trying:
    """Forwarder that has its own batch and makes no pauses."""

    folder: Path
    url: str
    pauses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.held, self.surveys = holding(self.folder), KnownList()
        where = self.url, "a-token", self.folder / "held"
        self.settings = Settings(*where, batch=3, last_seconds=3600 * ALWAYS)
        self.forwarder = self.new_forwarder(self.pause)

    def new_forwarder(self, sleep: Callable[[float], None]) -> Forwarder:
        return Forwarder(self.held, self.surveys, self.settings, sleep=sleep)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        assert (batch := self.held.leaving()) is not None
        assert len(batch.envelopes) == 3

    def forward(self) -> set[bytes]:
        batch = some(3)
        self.held.keep(arrived(batch))
        assert self.forwarder.turn()
        assert self.held.leaving() is None
        return {envelope.pack() for envelope in batch}


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_is_never_mistaken_for_a_response(
    aggregator: Aggregator, tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    aggregator.says = [GARBAGE[what]] * 2
    trying = Trying(tmp_path, aggregator.url)
    with caplog.at_level(logging.WARNING, "deniable.relay"):
        batch = trying.forward()
    assert aggregator.taken == batch
    assert aggregator.receipts == [(0, 3)]
    assert len(trying.pauses) == len(caplog.messages) == 2
    assert all(len(line) < 200 and "a-token" not in line for line in caplog.messages)


def changed(answer: bytes, place: int, cut: int, put: bytes) -> bytes:
    place %= len(answer) + 1
    return answer[:place] + put + answer[place + cut :]


ANSWERS = st.binary(max_size=200) | st.builds(
    changed,
    st.sampled_from([good(3), good(0, 3), *GARBAGE.values(), CHUNKED + b"2\r\n{}\r\n0\r\n\r\n"]),
    st.integers(0, 200),
    st.sampled_from([0, 1, 4, 1_000]),
    st.binary(max_size=8) | st.sampled_from([b"\r\n", b"-", b"1e999", b"\0", b"[", b'"']),
)


@pytest.fixture(scope="module")
def trying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Aggregator, Trying]]:
    with listening() as made:
        yield made, Trying(tmp_path_factory.mktemp("trying"), made.url)


@given(answers=st.lists(ANSWERS, min_size=1, max_size=3))
def test_any_bytes_are_a_response_or_a_reason_to_retry(
    trying: tuple[Aggregator, Trying], answers: list[bytes]
) -> None:
    """A valid response ends the batch. After any other response, the same batch is sent again."""
    aggregator, tried = trying
    aggregator.says, aggregator.posts = list(answers), []
    aggregator.taken.clear()
    tried.pauses.clear()
    batch = tried.forward()
    assert aggregator.taken == batch
    assert len(set(aggregator.posts)) == 1
    assert len(aggregator.posts) == len(tried.pauses) + 1


def test_a_token_that_cannot_be_a_header_is_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The exception that refuses the token quotes it."""
    tried = Trying(tmp_path, "http://127.0.0.1:9")
    tried.held.keep(arrived(some(3)))

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    tried.settings = replace(tried.settings, token="a-secret\ntoken")
    with pytest.raises(KeyboardInterrupt):
        tried.new_forwarder(stop).turn()
    line = caplog.messages[-1]
    assert "secret" not in caplog.text
    assert line.endswith("with the aggregator failed: ValueError")


def test_an_unknown_outcome_of_an_aggregator_is_logged_in_one_line(
    aggregator: Aggregator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    refused = [{"code": "late\nforged: \ud800\u2028"}] * 3
    said = json.dumps({"accepted": 0, "duplicates": 0, "refused": refused}).encode()
    aggregator.says = [OK + b"\r\n" + said]
    with caplog.at_level(logging.INFO, "deniable.relay"):
        Trying(tmp_path, aggregator.url).forward()
    assert caplog.messages[-1].isascii()
    assert len(caplog.messages[-1].splitlines()) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_forwarder_that_waits_for_reports_counts_as_alive(
    aggregator: Aggregator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarder, "MAX_RESPONSE_SECONDS", 0.0)
    idle, end = threading.Event(), threading.Event()

    def sleep(_: float) -> None:
        idle.set()
        end.wait(PATIENCE)
        raise SystemExit

    tried = Trying(tmp_path, aggregator.url)
    tried.held.keep(arrived(some(3)))
    idler = tried.new_forwarder(sleep)
    idler.start()
    idle.wait(PATIENCE)
    assert aggregator.receipts == [(3, 0)]
    assert not idler.has_ended()
    end.set()
    eventually(idler.has_ended)


# A real relay


def altered(line: str) -> list[str]:
    """Return the command, with some limits of the forwarder set to small values."""
    return [sys.executable, "-c", PROGRAM.format(f"{FORWARDING}; {line}"), "relay"]


def sent(relay: Server, count: int) -> set[bytes]:
    batch = {envelope.pack() for envelope in some(count)}
    for body in batch:
        assert ask(relay, "POST", "/v1/envelopes", body)[0] == 202
    return batch


def test_after_garbage_responses_everything_is_forwarded_once(
    aggregator: Aggregator, tmp_path: Path
) -> None:
    aggregator.says = [GARBAGE["no HTTP"], GARBAGE["a chunk cut short"]]
    command = altered("f.FIRST_PAUSE = f.LOOK_SECONDS = 0.1")
    with relaying(tmp_path, aggregator.url, batch=3, command=command) as relay:
        first = sent(relay, 3)
        eventually(lambda: aggregator.receipts, "the first batch's end")
        second = sent(relay, 3)
        eventually(lambda: len(aggregator.receipts) == 2, "the second batch's end")
    assert aggregator.taken == first | second
    assert aggregator.receipts == [(0, 3), (3, 0)]
    assert len(aggregator.posts) == 4


def test_an_endless_response_is_cut_off_and_retried(aggregator: Aggregator, tmp_path: Path) -> None:
    """Each wait for a byte is short, but the bytes never end."""
    aggregator.says = [ENDLESS]
    command = altered("f.MAX_RESPONSE_SECONDS = f.POLL_INTERVAL_SECONDS = 0.2")
    with relaying(tmp_path, aggregator.url, batch=3, command=command) as relay:
        batch = sent(relay, 3)
        eventually(lambda: aggregator.receipts, "another worker")
    assert aggregator.taken == batch
    assert aggregator.receipts == [(0, 3)]


def test_a_relay_restarts_if_its_forwarder_has_died(aggregator: Aggregator, tmp_path: Path) -> None:
    """The relay must not continue to accept reports that it could never forward."""
    command = [sys.executable, str(PLANTED), "forwarder-dies", "relay"]
    with relaying(tmp_path, aggregator.url, batch=3, command=command) as relay:
        (worker,) = relay.workers()
        batch = sent(relay, 3)
        eventually(lambda: aggregator.receipts, "another worker")
        assert relay.workers() != [worker]
    assert aggregator.taken == batch
    assert aggregator.receipts == [(3, 0)]
