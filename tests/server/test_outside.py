"""Servers behind a proxy: their public addresses come from headers that the operator trusts."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import requests
from werkzeug.datastructures import Headers
from werkzeug.test import EnvironBuilder
from werkzeug.wrappers import Request

from deniable.server.http.middleware import OutsideView
from deniable.server.store import PublishedSurvey, create_store
from tests.server.surveys import published
from tests.server.test_kills import this_month
from tests.server.world import Server, serving

PAIRS = [
    ({"X-Forwarded-Proto": "https"}, "https://127.0.0.1:"),
    ({"X-Forwarded-Proto": "https", "X-Forwarded-Host": "a.example"}, "https://a.example/stats"),
    ({"X-Forwarded-Proto": "http, https", "X-Forwarded-Host": "b, c.example"}, "https://c.example"),
    ({"Forwarded": "for=192.0.2.1;proto=https;host=a.example"}, "https://a.example/stats"),
    (
        {"Forwarded": 'for=x;proto=http, proto=https;host="a.example:8443"'},
        "https://a.example:8443",
    ),
    ({"Forwarded": 'proto=https;host="[2001:db8::1]:1"'}, "https://[2001:db8::1]:1/stats"),
    ({"Forwarded": "proto=gopher;host=a b"}, "http://127.0.0.1:"),
    ({"X-Forwarded-Host": 'a"><script>'}, "http://127.0.0.1:"),
    ({"X-Forwarded-Proto": "javascript"}, "http://127.0.0.1:"),
]


def servers(folder: Path, *more: str) -> Iterator[tuple[Server, PublishedSurvey]]:
    with create_store(folder) as store:
        asked = published(store, this_month())
    with serving(folder, more=more) as server:
        yield server, asked


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, PublishedSurvey]]:
    """Yield a server that treats loopback as a proxy, which serves the pages below /stats."""
    folder = tmp_path_factory.mktemp("behind")
    yield from servers(folder, "--proxy", "127.0.0.1", "--base-path", "/stats/")


def page(server: Server, path: str, headers: dict[str, str]) -> str:
    token = {"Authorization": f"Bearer {server.token}"}
    answer = requests.get(f"{server.dashboard}{path}", headers=headers | token, timeout=60)
    assert answer.status_code == 200
    return answer.text


def url_root(environ: dict[str, Any], proxies: Sequence[str]) -> str:  # Any: as in WSGI
    """Return the root address that the application sees."""
    seen = list[str]()

    def application(environ: Any, _: Any) -> Iterable[bytes]:
        assert "REMOTE_ADDR" not in environ, "the application can read the sender's address"
        seen.append(Request(environ).url_root)
        return []

    OutsideView(application, proxies, "/stats")(environ, lambda *_: lambda _: None)
    return seen[0]


@pytest.mark.parametrize(("headers", "expected"), PAIRS, ids=range(len(PAIRS)))
def test_the_application_sees_its_public_address(headers: dict[str, str], expected: str) -> None:
    builder = EnvironBuilder("/", "http://127.0.0.1:8001", headers=Headers(headers))
    builder.environ_overrides = {"REMOTE_ADDR": "192.0.2.7", "REMOTE_PORT": "9"}
    assert url_root(builder.get_environ(), ["192.0.2.7"]).startswith(expected)
    assert url_root(builder.get_environ(), ["192.0.2.8"]) == "http://127.0.0.1:8001/stats/"


def test_the_snippet_has_the_address_for_devices(tmp_path: Path) -> None:
    url = "https://stats.example.org/devices"
    for number, more in enumerate([(), ("--device-url", f"{url}/")]):
        for server, asked in servers(tmp_path / str(number), *more):
            text = page(server, f"/surveys/{asked.id}", {})
            assert f'Client("{url if more else server.url}"' in html.unescape(text)


def test_every_link_stays_below_the_base_path(behind: tuple[Server, PublishedSurvey]) -> None:
    server, asked = behind
    for path in ("/", f"/surveys/{asked.id}", "/operate", f"/surveys/{asked.id}/close"):
        found = re.findall(r'(?:href|action|src)="(/[^"]*)"', page(server, path, {}))
        assert found
        assert [address for address in found if not address.startswith("/stats/")] == []


def test_sign_in_and_session_cookie_stay_below_the_base_path(
    behind: tuple[Server, PublishedSurvey],
) -> None:
    server, asked = behind
    signed = requests.get(
        f"{server.dashboard}/surveys/{asked.id}?token={server.token}",
        allow_redirects=False,
        timeout=60,
    )
    assert signed.headers["Location"] == f"/stats/surveys/{asked.id}"
    assert "Path=/stats;" in signed.headers["Set-Cookie"] + ";"
    out = requests.post(f"{server.dashboard}/sign-out", allow_redirects=False, timeout=60)
    assert out.headers["Location"] == "/stats/"


def test_a_real_proxy_s_headers_reach_the_pages(
    behind: tuple[Server, PublishedSurvey], tmp_path: Path
) -> None:
    """The proxy alone determines whether a session cookie is restricted to https."""

    def is_secure(server: Server) -> bool:
        signed = requests.get(
            f"{server.dashboard}/?token={server.token}",
            headers={"Forwarded": "proto=https;host=a.example"},
            allow_redirects=False,
            timeout=60,
        )
        return "Secure" in signed.headers["Set-Cookie"]

    assert is_secure(behind[0])
    for server, _ in servers(tmp_path / "data", "--proxy", "192.0.2.7"):
        assert not is_secure(server)
