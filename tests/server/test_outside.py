"""Behind a proxy: addresses as the world sees them, said by whom the operator trusts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

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
    """Whatever comes from loopback comes from the proxy, which has the pages below /stats."""
    folder = tmp_path_factory.mktemp("behind")
    yield from servers(folder, "--proxy", "127.0.0.1", "--base-path", "/stats/")


def page(server: Server, path: str, headers: dict[str, str]) -> str:
    token = {"Authorization": f"Bearer {server.token}"}
    answer = requests.get(f"{server.url}{path}", headers=headers | token, timeout=60)
    assert answer.status_code == 200
    return answer.text


def address(text: str) -> str:
    found = re.search(r'Client\(&#34;(.*?)&#34;|Client\("(.*?)"', text)
    assert found, "the page says how an app reaches the server"
    return found[1] or found[2]


@pytest.mark.parametrize(("headers", "expected"), PAIRS, ids=range(len(PAIRS)))
def test_the_snippet_has_the_address_that_the_world_uses(
    behind: tuple[Server, PublishedSurvey], headers: dict[str, str], expected: str
) -> None:
    server, asked = behind
    assert address(page(server, f"/surveys/{asked.id}", headers)).startswith(expected)


def test_every_link_stays_below_the_base_path(behind: tuple[Server, PublishedSurvey]) -> None:
    server, asked = behind
    for path in ("/", f"/surveys/{asked.id}", "/operate", f"/surveys/{asked.id}/close"):
        found = re.findall(r'(?:href|action|src)="(/[^"]*)"', page(server, path, {}))
        assert found
        assert [each for each in found if not each.startswith("/stats/")] == []


def test_signing_in_goes_on_below_it_and_the_cookie_is_for_nothing_else(
    behind: tuple[Server, PublishedSurvey],
) -> None:
    server, asked = behind
    signed = requests.get(
        f"{server.url}/surveys/{asked.id}?token={server.token}", allow_redirects=False, timeout=60
    )
    assert signed.headers["Location"] == f"/stats/surveys/{asked.id}"
    assert "Path=/stats;" in signed.headers["Set-Cookie"] + ";"
    out = requests.post(f"{server.url}/sign-out", allow_redirects=False, timeout=60)
    assert out.headers["Location"] == "/stats/"


def test_nobody_else_is_believed(tmp_path: Path) -> None:
    for server, asked in servers(tmp_path / "data", "--proxy", "192.0.2.7"):
        for headers, _ in PAIRS:
            text = page(server, f"/surveys/{asked.id}", headers)
            assert address(text) == server.url
