"""Requests on the wire: what each contains, and what no reply can make the client do."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from deniable.client import Client, Policy
from deniable.client.net import surveys
from deniable.client.net.surveys import FETCH_SECONDS
from deniable.client.net.transport import HttpTransport, Unreachable, checked_address
from deniable.shared.envelope import HEADER
from deniable.shared.errors import InvalidPolicy
from tests.client.conftest import MakeClient
from tests.client.scripted import ANSWERS, Answer, Script, Ticks, document
from tests.eventually import PATIENCE, eventually

PLAIN = {
    "User-Agent": "deniable",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "Connection": "close",
}


def test_requests_contain_nothing_about_their_sender(
    script: Script, client_of: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the environment nor the server's last reply adds a header."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login someone password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    tracking = {"Set-Cookie": "who=you; Path=/", "ETag": '"you"', "Last-Modified": "yesterday"}
    script.publish(document())
    script.publish(document("second"))
    client = client_of()
    for _ in range(2):
        client.answer("unknown")
        client.answer("app-health", **ANSWERS)
        client.answer("second", **ANSWERS)
        assert client.flush(PATIENCE) == 0
        script.always = Answer(body=script.always.body, headers=tracking)
    assert len(script.gets) >= 2
    assert len(script.posts) == 2
    host = {"Host": script.url.removeprefix("http://")}
    for get in script.gets:
        assert (get.path, get.body, dict(get.headers)) == ("/v1/surveys", b"", PLAIN | host)
    for post in script.posts:
        sent = {
            "Content-Type": "application/vnd.deniable.envelopes",
            "Content-Length": str(len(post.body)),
        }
        assert (post.path, dict(post.headers)) == ("/v1/envelopes", PLAIN | host | sent)
        assert len(post.body) == HEADER.size + 3


def test_a_request_carries_one_envelope(script: Script, client_of: MakeClient) -> None:
    for number in range(3):
        script.publish(document(f"s{number}"))
    client = client_of()
    for number in range(3):
        assert client.answer(f"s{number}", **ANSWERS).status == "queued"
    assert client.flush(PATIENCE) == 0
    assert len(script.posts) == len(script.envelopes()) == 3


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(
    script: Script, client_of: MakeClient, tmp_path: Path, status: int
) -> None:
    script.publish(document())
    script.always = Answer(status, headers={"Location": f"{script.url}/elsewhere"})
    client = client_of()
    client.answer("app-health", **ANSWERS)
    eventually(lambda: script.posts)
    assert client.flush(0.1) == 1
    script.list_reply = script.always
    assert client_of(state=tmp_path / "other").answer("app-health").status == "unavailable"
    assert {request.path for request in script.requests} == {"/v1/surveys", "/v1/envelopes"}


@pytest.mark.parametrize(
    "address",
    [
        "http://stats.example.org",
        "http://10.0.0.1",
        "http://127.0.0.1.example.org",
        "http://localhost.example.org",
        "http://[::2]:8000",
        "http://0.0.0.0",
        "ftp://stats.example.org",
        "file:///etc",
        "stats.example.org",
        "https://",
        "https://user:word@stats.example.org",
        "https://stats.example.org/?who=you",
        "https://stats.example.org/#you",
        "https://stats.example.org:port",
        "",
    ],
)
def test_an_address_that_is_not_private_is_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidPolicy, match="server"):
        Client(address, policy=Policy(keys=["ab" * 32]), state=tmp_path / "state")


@pytest.mark.parametrize(
    "address",
    [
        "https://stats.example.org",
        "https://stats.example.org/telemetry/",
        "http://localhost:8000",
        "http://127.0.0.1:8000",
        "http://127.9.9.9",
        "http://[::1]:8000",
    ],
)
def test_https_and_loopback_addresses_are_accepted(address: str) -> None:
    assert checked_address(address) == address.rstrip("/")


def test_a_huge_reply_is_not_read_to_its_end(script: Script) -> None:
    script.list_reply = Answer(body=b" " * (32 * 2**20 + 1))
    with pytest.raises(Unreachable):
        HttpTransport(script.url).request("GET", "/v1/surveys", None, None, 10.0)
    script.list_reply = Answer(body=b" " * 2**20)
    reply = HttpTransport(script.url).request("GET", "/v1/surveys", None, None, 10.0)
    assert len(reply.body) == 2**20


def test_a_compressed_reply_is_not_unpacked(script: Script) -> None:
    script.list_reply = Answer(body=b"\x1f\x8b bomb", headers={"Content-Encoding": "gzip"})
    reply = HttpTransport(script.url).request("GET", "/v1/surveys", None, None, 10.0)
    assert reply.body == b"\x1f\x8b bomb"


@pytest.mark.parametrize(
    "slow", [Answer(hold=threading.Event()), Answer(drip=True)], ids=["silent", "dripping"]
)
def test_callers_do_not_wait_for_a_slow_server(
    script: Script,
    client_of: MakeClient,
    ticks: Ticks,
    slow: Answer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Callers wait for an endless list for a while, and not again immediately."""
    monkeypatch.setattr(surveys, "FETCH_SECONDS", 0.1)
    script.list_reply = slow
    client = client_of(monotonic=ticks, timeout=0.05)
    fetcher = client._surveys._fetcher
    fetched = [(client.answer("app-health", **ANSWERS).status, fetcher._fetch) for _ in range(4)]
    assert {status for status, _ in fetched} == {"unavailable"}
    assert fetched[1][1] is fetched[2][1] is fetched[3][1], "fetched before the pause was over"
    ticks.seconds += 2
    eventually(lambda: fetcher._fetch is not None and fetcher._fetch.done.wait())
    client.answer("app-health", **ANSWERS)
    assert fetcher._fetch is not fetched[3][1], "no new fetch after the pause"


def test_callers_wait_two_seconds_for_a_fetch() -> None:
    assert FETCH_SECONDS == 2.0


def test_a_reply_that_drips_is_cut_off_in_time(script: Script) -> None:
    """The next byte always arrives soon; only a deadline for the whole reply ends it."""
    script.list_reply = Answer(drip=True)
    with pytest.raises(Unreachable):
        HttpTransport(script.url).request("GET", "/v1/surveys", None, None, 0.5)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>sign in</html>",
        b"[]",
        b"{}",
        b'{"surveys": 7}',
        b'{"surveys": [7, {}, []]}',
        b'{"surveys": [{"id": 1}]}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_an_invalid_list_raises_nothing(script: Script, client_of: MakeClient, body: bytes) -> None:
    script.list_reply = Answer(body=body)
    assert client_of().answer("app-health", **ANSWERS).status in ("unavailable", "no-survey")


@pytest.mark.parametrize("status", [204, 400, 401, 403, 404, 429, 500, 503])
def test_a_refused_list_raises_nothing(script: Script, client_of: MakeClient, status: int) -> None:
    script.list_reply = Answer(status)
    assert client_of().answer("app-health", **ANSWERS).status == "unavailable"
