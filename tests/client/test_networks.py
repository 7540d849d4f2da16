"""Real networks: a company's certificate authority, a tunnelling proxy, slow lines."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deniable.client import Client, InvalidPolicy, Policy
from deniable.client.net.transport import HttpTransport, Unreachable, checked_proxy
from tests.client.certificates import certificate, tls
from tests.client.conftest import MakeClient
from tests.client.scripted import Script, bit, document, entry
from tests.client.slow_server import SlowServer, slow_server
from tests.client.test_deadline import ends
from tests.client.tunnels import tunnelling
from tests.eventually import PATIENCE

HOST = "stats.example.org"
PASSWORD = "unmistakable-word"
LISTED = json.dumps({"surveys": [entry(document(questions=bit("crashed", "0.5")))]}).encode()


@contextmanager
def server_with(file: Path) -> Iterator[SlowServer]:
    with slow_server("silence", listed=LISTED, tls=tls(file)) as server:
        server.healed.set()
        yield server


def asked(server: str, **how: Any) -> None:
    HttpTransport(server, **how).request("GET", "/v1/surveys", None, None, PATIENCE)


def why(server: str, **how: Any) -> Unreachable:
    with pytest.raises(Unreachable) as raised:
        asked(server, **how)
    return raised.value


# Certificate authority of a company


def test_the_authority_of_a_company_is_trusted_if_the_app_names_it(
    client_of: MakeClient, tmp_path: Path
) -> None:
    file = certificate(tmp_path)
    with server_with(file) as server:
        client = client_of(server=server.url, ca=file)
        assert client.answer("app-health", crashed=True).status == "queued"
        assert client.flush(PATIENCE) == 0
        assert why(server.url).kind == "certificate"


def test_a_named_authority_replaces_the_usual_ones(tmp_path: Path) -> None:
    ours, theirs = certificate(tmp_path), certificate(tmp_path, "elsewhere.example")
    with server_with(ours) as server:
        assert "none of the authorities in" in str(why(server.url, ca=str(theirs)))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read: No such file"),
        (b"", "no certificate"),
        (b"\xff\0", "no certificate"),
    ],
)
def test_a_file_without_a_certificate_is_refused_immediately(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidPolicy, match=says):
        Client(f"https://{HOST}", policy=Policy(keys=["ab" * 32]), state=tmp_path, ca=file)


def test_a_key_without_a_certificate_is_refused(tmp_path: Path) -> None:
    file = certificate(tmp_path)
    text = file.read_text()
    file.write_text(text[text.index("-----BEGIN PRIVATE") :])
    with pytest.raises(InvalidPolicy, match="no certificate"):
        HttpTransport(f"https://{HOST}", ca=file)


# A proxy


def test_everything_goes_through_the_proxy_without_it_seeing_a_request(
    client_of: MakeClient, tmp_path: Path
) -> None:
    """The host has no address on this machine: the proxy resolves its name."""
    file = certificate(tmp_path, HOST)
    with server_with(file) as server, tunnelling(server.server_address[1]) as proxy:
        client = client_of(server=f"https://{HOST}", ca=file, proxy=proxy.url)
        assert client.answer("app-health", crashed=True).status == "queued"
        assert client.flush(PATIENCE) == 0
        head = f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\nUser-Agent: deniable\r\n\r\n"
        assert proxy.heads == [head.encode()] * 2
        assert len(server.asked) == 2


def test_the_server_s_certificate_is_checked_behind_a_proxy(tmp_path: Path) -> None:
    """The owner of a proxy cannot replace the server with another."""
    other = certificate(tmp_path, "elsewhere.example")
    with server_with(other) as server, tunnelling(server.server_address[1]) as proxy:
        error = why(f"https://{HOST}", ca=str(other), proxy=proxy.url)
        assert (error.kind, error.sent) == ("certificate", False)
        assert "for another host" in str(error)
        assert server.asked == []


def test_a_password_reaches_the_proxy_and_nothing_else(
    client_of: MakeClient, tmp_path: Path
) -> None:
    file = certificate(tmp_path, HOST)
    refusal = b"HTTP/1.1 407 " + PASSWORD.encode() + b"\r\nContent-Length: 0\r\n\r\n"
    with server_with(file) as server, tunnelling(server.server_address[1]) as proxy:
        address = f"http://us%40er:{PASSWORD}@{proxy.address}"
        client = client_of(server=f"https://{HOST}", ca=file, proxy=address)
        assert client.answer("app-health", crashed=True).status == "queued"
        assert client.flush(PATIENCE) == 0
        assert b"Proxy-Authorization: Basic dXNAZXI6dW5taXN0YWthYmxlLXdvcmQ=\r\n" in proxy.heads[0]
        proxy.reply = refusal
        fresh = client_of(server=f"https://{HOST}", ca=file, proxy=address, state=tmp_path / "2")
        outcome = fresh.answer("app-health", crashed=True)
        error = why(f"https://{HOST}", ca=file, proxy=address)
    assert (error.kind, error.sent) == ("proxy", False)
    assert "the proxy answered 407" in str(error)
    shown = repr(outcome) + repr(vars(client)) + repr(error) + repr(checked_proxy(address))
    carrier: Any = client._uploader._transport
    shown += repr(vars(carrier))
    secrets = (PASSWORD, "us%40er", "us@er", "dXNAZXI6")
    assert not [secret for secret in secrets if secret in shown]


@pytest.mark.parametrize(
    "address",
    [
        f"https://user:{PASSWORD}@proxy.example:3128",
        f"socks5://user:{PASSWORD}@proxy.example",
        f"user:{PASSWORD}@proxy.example:3128",
        f"http://user:{PASSWORD}@proxy.example:port",
        f"http://user:{PASSWORD}@",
        f"http://user:{PASSWORD}@proxy.example/path",
        f"http://user:{PASSWORD}@[proxy",
        "",
        3128,
    ],
)
def test_an_invalid_proxy_is_refused_immediately_and_never_repeated(
    address: Any, tmp_path: Path
) -> None:
    with pytest.raises(InvalidPolicy, match="proxy: ") as raised:
        Client(f"https://{HOST}", policy=Policy(keys=["ab" * 32]), state=tmp_path, proxy=address)
    assert PASSWORD not in str(raised.value)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


@pytest.mark.parametrize("name", ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])
def test_no_proxy_is_taken_from_the_environment(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = certificate(tmp_path)
    with server_with(file) as server, tunnelling(server.server_address[1]) as proxy:
        monkeypatch.setenv(name, proxy.url)
        asked(server.url, ca=str(file))
        assert (len(server.asked), proxy.heads) == (1, [])


def test_loopback_is_not_reached_through_a_remote_proxy(script: Script, tmp_path: Path) -> None:
    """A remote proxy has another localhost.

    A proxy on this machine reaches this localhost, for https.
    """
    elsewhere = "http://user:word@proxy.example:3128"
    file = certificate(tmp_path)
    asked(script.url, proxy=elsewhere)
    with server_with(file) as server, tunnelling(server.server_address[1]) as proxy:
        asked(server.url, ca=str(file), proxy=elsewhere)
        asked(script.url, proxy=proxy.url)
        assert proxy.heads == []
        asked(server.url, ca=str(file), proxy=proxy.url)
        assert len(proxy.heads) == 1


@pytest.mark.parametrize("way", ["header", "headers", "continues", "silence", "flood"])
def test_a_proxy_that_drips_is_cut_off_in_time(way: str) -> None:
    with tunnelling(1, way=way) as proxy:
        (error,) = ends(HttpTransport(f"https://{HOST}", proxy=proxy.url))
    assert isinstance(error, Unreachable)
    assert not error.sent


def test_one_deadline_holds_for_tunnel_and_handshake_together(tmp_path: Path) -> None:
    """The tunnel opens late, and the handshake never completes."""
    with slow_server("silence") as server, tunnelling(server.server_address[1]) as proxy:
        begin = time.monotonic()
        (error,) = ends(HttpTransport(f"https://{HOST}", proxy=proxy.url), 0.3)
        assert time.monotonic() - begin < PATIENCE / 2
    assert isinstance(error, Unreachable)
    assert (error.kind, error.sent) == ("timeout", False)


# Time


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 3601])
def test_an_invalid_timeout_is_refused(seconds: float, tmp_path: Path) -> None:
    with pytest.raises(InvalidPolicy, match="timeout: "):
        Client(f"https://{HOST}", policy=Policy(keys=["ab" * 32]), state=tmp_path, timeout=seconds)


# Reasons for a missing reply


@pytest.mark.parametrize(
    ("days", "says"), [((-2, -1), "has expired"), ((1, 2), "is not valid yet")]
)
def test_an_expired_certificate_is_reported(
    tmp_path: Path, days: tuple[int, int], says: str
) -> None:
    file = certificate(tmp_path, begins=days[0], ends=days[1])
    with server_with(file) as server:
        assert says in str(why(server.url, ca=str(file)))


def test_each_failure_is_distinguished_from_the_others(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert why(f"http://127.0.0.1:{port}").kind == "refused"
    assert why("https://no-such-host.invalid").kind == "dns"
    file = certificate(tmp_path)
    with server_with(file) as server:
        named = server.url.replace("localhost", "127.0.0.1")
        assert "for another host" in str(why(named, ca=str(file)))
        spoken_to_plainly = why(server.url.replace("https", "http"))
        assert spoken_to_plainly.kind in ("not-http", "network")
    with slow_server("silence") as plain:
        (error,) = ends(HttpTransport(plain.url.replace("http", "https")))
        assert isinstance(error, Unreachable)
        assert error.kind == "timeout"


# Addresses and certificates of a server


@contextmanager
def swallowing_address() -> Iterator[tuple[str, int]]:
    """Yield an address that accepts no connection, because its queue is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield listener.getsockname()
        for one in waiting:
            one.close()


def test_a_host_is_reached_by_another_address_if_its_first_swallows_packets(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(script.url.rpartition(":")[2])
    with swallowing_address() as swallowing:
        addresses = [swallowing, ("127.0.0.1", port)]
        listed = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_: listed)
        HttpTransport(script.url).request("GET", "/v1/surveys", None, None, 4.0)
    assert len(script.gets) == 1


def test_authorities_are_read_again_only_when_their_file_changes(tmp_path: Path) -> None:
    file = certificate(tmp_path)
    transport = HttpTransport("https://localhost", ca=file)
    first = transport._tls_context()
    assert transport._tls_context() is first
    file.write_bytes(file.read_bytes() + b"\n")
    assert transport._tls_context() is not first
