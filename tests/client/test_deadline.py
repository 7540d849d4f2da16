"""Deadline of a whole exchange: no server can occupy the client for longer."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import certifi
import pytest

from deniable.client.net import exchange, surveys
from deniable.client.net.transport import HttpTransport, Reply, Unreachable
from tests.client.certificates import certificate, tls
from tests.client.conftest import MakeClient
from tests.client.scripted import ACCEPTED, Ticks, bit, document, entry
from tests.client.slow_server import WAYS, slow_server
from tests.eventually import PATIENCE, eventually

PUBLISHED = document(questions=bit("crashed", "0.5"))
PLAIN = [way for way in WAYS if way != "handshake"]
LISTED = json.dumps({"surveys": [entry(PUBLISHED)]}).encode()


def ends(transport: HttpTransport, timeout: float = 0.3) -> list[Exception]:
    """Run a request in a thread and return its error; an endless request fails the test."""
    raised, done = list[Exception](), threading.Event()

    def ask() -> None:
        try:
            transport.request("GET", "/v1/surveys", None, None, timeout)
        except Exception as error:  # noqa: BLE001 - the test says which
            raised.append(error)
        done.set()

    threading.Thread(target=ask, daemon=True).start()
    assert done.wait(PATIENCE / 2), "the request never ends"
    return raised


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    return certificate(tmp_path)


@pytest.mark.parametrize("way", PLAIN)
def test_every_drip_is_cut_off_in_time(way: str) -> None:
    with slow_server(way) as server:
        (raised,) = ends(HttpTransport(server.url))
    assert isinstance(raised, Unreachable)
    assert raised.sent


@pytest.mark.parametrize("way", WAYS)
def test_every_drip_is_cut_off_in_time_under_tls(
    way: str, authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certifi, "where", lambda: str(authority))
    with slow_server(way, tls=tls(authority)) as server:
        (raised,) = ends(HttpTransport(server.url))
        assert isinstance(raised, Unreachable)
        assert raised.sent == (way != "handshake")
        server.healed.set()
        assert ends(HttpTransport(server.url), PATIENCE) == []


@pytest.mark.parametrize("way", PLAIN)
def test_a_client_recovers_from_every_drip(
    client_of: MakeClient, ticks: Ticks, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fetch the list, then send the report: once the server is healed, the next try succeeds."""
    monkeypatch.setattr(surveys, "FETCH_SECONDS", 0.1)
    with slow_server(way, listed=LISTED) as server:
        client = client_of(server=server.url, monotonic=ticks, timeout=0.3)
        assert client.answer("app-health", crashed=True).status == "unavailable"
        fetch = client._surveys._fetcher._fetch
        assert fetch is not None
        assert fetch.done.wait(PATIENCE)
        assert not fetch.succeeded
        server.healed.set()
        monkeypatch.setattr(surveys, "FETCH_SECONDS", PATIENCE)
        client._surveys._fetcher.list_seconds = PATIENCE
        assert client.answer("unheard-of").status == "no-survey"
        server.healed.clear()
        assert client.answer("app-health", crashed=True).status == "queued"
        eventually(lambda: client._uploader._backoff.rest != 0, "the first try has failed")
        server.healed.set()
        client._uploader.send_seconds = PATIENCE
        assert client.flush(PATIENCE) == 0
    assert b"POST /v1/envelopes HTTP/1.1\r\n" in server.asked


def test_a_flood_of_interim_replies_ends_long_before_the_deadline() -> None:
    """The number of bytes is bounded, so the replies cost no processor time until then."""
    with slow_server("flood") as server:
        (raised,) = ends(HttpTransport(server.url), 100 * PATIENCE)
    assert isinstance(raised, Unreachable)


def test_a_truncated_body_is_an_error() -> None:
    with slow_server("cut_short") as server:
        (raised,) = ends(HttpTransport(server.url), PATIENCE)
    assert isinstance(raised, Unreachable)


def test_no_server_is_distinguished_from_no_reply() -> None:
    with slow_server("silence") as server:
        url = server.url
    (raised,) = ends(HttpTransport(url))
    assert isinstance(raised, Unreachable)
    assert not raised.sent


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_no_certificate_is_trusted_because_the_environment_says_so(
    authority: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, str(authority))
    with slow_server("silence", listed=LISTED, tls=tls(authority)) as server:
        server.healed.set()
        (raised,) = ends(HttpTransport(server.url), PATIENCE)
        assert isinstance(raised, Unreachable)
        assert server.asked == []


def test_a_certificate_is_for_its_own_name_only(
    authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twin of the two tests above: this certificate is trusted, and names localhost."""
    monkeypatch.setattr(certifi, "where", lambda: str(authority))
    with slow_server("silence", listed=LISTED, tls=tls(authority)) as server:
        server.healed.set()
        named_otherwise = server.url.replace("localhost", "127.0.0.1")
        (raised,) = ends(HttpTransport(named_otherwise), PATIENCE)
        assert isinstance(raised, Unreachable)
        assert ends(HttpTransport(server.url), PATIENCE) == []


def test_the_environment_cannot_log_the_connection_s_keys(
    authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certifi, "where", lambda: str(authority))
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    assert exchange.tls_context(None).keylog_filename is None


class Stuck:
    """Network whose first fetch never ends, and whose second is fast."""

    def __init__(self) -> None:
        self.asked, self.released = 0, threading.Event()

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply:
        if method == "POST":
            return Reply(200, ACCEPTED.body)
        self.asked += 1
        if self.asked > 1:
            return Reply(200, LISTED)
        self.released.wait()
        return Reply(200, b'{"surveys": []}')


def test_the_result_of_a_fetch_after_its_deadline_is_dropped(
    client_of: MakeClient, ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fetch may be waiting for a name server; the list that it returns late is not used."""
    monkeypatch.setattr(surveys, "FETCH_SECONDS", 0.05)
    network = Stuck()
    client = client_of(transport=network, monotonic=ticks)
    assert client.answer("app-health", crashed=True).status == "unavailable"
    first = client._surveys._fetcher._fetch
    assert first is not None
    ticks.seconds += 2 * PATIENCE - 0.5
    assert client.answer("app-health", crashed=True).status == "unavailable"
    assert network.asked == 1, "the first fetch is still running"
    ticks.seconds += 2
    monkeypatch.setattr(surveys, "FETCH_SECONDS", PATIENCE)
    assert client.answer("app-health", crashed=True).status != "unavailable"
    assert network.asked == 2
    network.released.set()
    assert first.done.wait(PATIENCE)
    assert client.answer("app-health", crashed=True).status == "already-answered"
    assert network.asked == 2, "the late result replaced the newer list"


def test_the_client_waits_for_a_connection_only_until_the_deadline() -> None:
    """The server's queue is full, so it neither accepts nor refuses the connection."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=0)) as server, ExitStack() as stack:
        for _ in range(4):
            waiting = stack.enter_context(closing(socket.socket()))
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        (raised,) = ends(HttpTransport(f"http://127.0.0.1:{server.getsockname()[1]}"))
    assert isinstance(raised, Unreachable)
    assert not raised.sent
