"""Front of intake: small and large uploads, refusals, and the log of its own errors."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from granian.rsgi import Scope

from deniable.server.http import intake_front
from deniable.server.http.front import declared_length
from deniable.server.http.tokens import new_token
from deniable.server.store import PublishedSurvey, create_store
from deniable.shared.envelope import CONTENT_TYPE, Envelope, json_envelope
from tests.command import run
from tests.eventually import PATIENCE, eventually
from tests.server.surveys import envelope, published
from tests.server.test_kills import this_month, this_round
from tests.server.test_overload import altered, connections
from tests.server.world import JSON, Server, World, serving

Answer = tuple[int, dict[str, str], Any]  # Any: JSON


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("front")


@pytest.fixture(scope="module")
def asked(folder: Path) -> PublishedSurvey:
    with create_store(folder) as store:
        return published(store, this_month())


@pytest.fixture(scope="module")
def tokens(folder: Path, asked: PublishedSurvey) -> dict[str, str]:
    now, made = datetime.now(UTC), {role: new_token() for role in ("app", "analyst")}
    with create_store(folder) as store:
        for role, token in made.items():
            store.add_token(token, role, now, now + timedelta(days=1))
    return made


@pytest.fixture(scope="module")
def server(folder: Path, tokens: dict[str, str]) -> Iterator[Server]:
    with serving(folder) as made:
        yield made


def sent(server: Server, body: bytes, kind: str = CONTENT_TYPE, more: str = "") -> Answer:
    head = (
        f"POST /v1/envelopes HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\n{more}\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(head.encode() + body)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    first, _, rest = answer.partition(b"\r\n")
    lines, _, document = rest.partition(b"\r\n\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines.decode().splitlines())
    headers.pop("date")
    found = json.loads(document)
    found.pop("instance", None)
    return int(first.split()[1]), headers, found


def bodies(asked: PublishedSurvey) -> dict[str, tuple[bytes, str]]:
    """Return bodies by their fault; each is sent twice, so that the second is a duplicate."""
    number = this_round(asked)
    good, two = (envelope(asked, n, round_number=number) for n in (1, 2))
    many = envelope(asked, 3, round_number=number, count=100)
    twin = json.dumps({"envelopes": [json_envelope(asked.survey, two)]}).encode()
    return {
        "good": (good.pack(), CONTENT_TYPE),
        "JSON": (twin, JSON),
        "JSON with a charset": (twin, f"{JSON}; charset=utf-8"),
        "two": (good.pack() + two.pack(), CONTENT_TYPE),
        "many reports": (many.pack(), CONTENT_TYPE),
        "late": (envelope(asked, 4, round_number=1).pack(), CONTENT_TYPE),
        "unknown": (Envelope("ab" * 32, 1, bytes(16), 1, b"x").pack(), CONTENT_TYPE),
        "bad payload": (
            Envelope(asked.id, number, bytes(16), 1, b"\xff").pack(), CONTENT_TYPE,
        ),
        "cut": (good.pack()[:-1], CONTENT_TYPE),
        "empty": (b"", CONTENT_TYPE),
        "another type": (good.pack(), "text/plain"),
        "not JSON": (b"{", JSON),
    }  # fmt: skip


@pytest.mark.parametrize("who", ["", "app", "analyst", "unknown"])
def test_small_and_large_uploads_get_the_same_answers(
    here: World, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """Large uploads are validated in parts. In the second pass, each upload is treated as large."""
    asked = here.publish(this_month())
    headers = {}
    if who:
        token = here.token(who) if who != "unknown" else "x" * 43
        headers = {"Authorization": f"Bearer {token}"}

    def answered(body: bytes, kind: str) -> tuple[int, dict[str, str], Any]:  # Any: JSON
        answer = here.post(body, kind, headers=headers)
        document = {key: value for key, value in answer.json.items() if key != "instance"}
        return answer.status_code, dict(answer.headers) | {"Content-Length": ""}, document

    for name, (body, kind) in bodies(asked).items():
        # the next request is a duplicate
        answered(body, kind)
        whole = answered(body, kind)
        with monkeypatch.context() as patch:
            patch.setattr(intake_front, "is_cheap", lambda _: False)
            patch.setattr(intake_front, "ENVELOPES_AT_A_TIME", 1)
            in_parts = answered(body, kind)
        assert whole == in_parts, name
        assert whole[1]["Access-Control-Allow-Origin"] == "*", name


def test_a_content_length_next_to_chunks_is_ignored() -> None:
    """The HTTP server now drops the length; earlier versions used the header that came first."""
    headers = {"content-length": "9"}
    assert declared_length(cast(Scope, SimpleNamespace(headers=headers))) == 9
    headers["transfer-encoding"] = "chunked"
    assert declared_length(cast(Scope, SimpleNamespace(headers=headers))) == -1


SLOW = """
import deniable.server.http.front as front
front.BODY_SECONDS = front.SWEEP_SECONDS = 0.1
"""
BUSY = """
import deniable.server.http.intake_front as front, deniable.server.http.rate_limit as pace
async def once(self):
    first, self.asked = not hasattr(self, "asked"), True
    return first
pace.Pace.has_turn = once
front.MAX_UPLOADS_WAITING = 0
"""
REFUSED = {503: (BUSY, ""), 408: (SLOW, "x")}  # with the beginning of a body that never ends
CLOSED = {
    503: ["GET /v1/surveys", "POST /v1/surveys", "GET /v1/envelopes", "GET /", "GET /nowhere"],
    408: [],  # no other address reads a body
}
BROWSER = f"Host: x\r\nOrigin: https://app.example.org\r\nContent-Type: {CONTENT_TYPE}\r\n"


@pytest.mark.parametrize("status", REFUSED)
def test_pages_may_read_only_those_refusals_of_the_front_that_concern_reports(
    tmp_path: Path, status: int
) -> None:
    limits, begun = REFUSED[status]
    with serving(tmp_path, command=altered(limits)) as server:

        def opened(asked: str) -> list[str]:
            head = f"{asked} HTTP/1.1\r\n{BROWSER}Content-Length: {len(begun) * 9}\r\n"
            answer = ""
            for _ in range(2):  # the first request of a rate-limited kind is always accepted
                with connections(server, 1, f"{head}\r\n{begun}".encode()) as made:
                    answer = made[0].recv(4_096).decode().lower()
            assert answer.startswith(f"http/1.1 {status}"), asked
            return sorted(re.findall(r"access-control-[a-z-]+: [^\r]*", answer))

        assert opened("POST /v1/envelopes") == [
            "access-control-allow-origin: *", "access-control-expose-headers: retry-after"
        ]  # fmt: skip
        assert [opened(asked) for asked in CLOSED[status]] == [[]] * len(CLOSED[status])


def test_other_origins_cannot_read_the_health_check(server: Server) -> None:
    with connections(server, 1, f"GET /healthz HTTP/1.1\r\n{BROWSER}\r\n".encode()) as made:
        answer = made[0].recv(4_096).lower()
    assert answer.startswith(b"http/1.1 200")
    assert b"access-control" not in answer


def test_a_revoked_app_token_is_soon_refused(
    server: Server, folder: Path, asked: PublishedSurvey
) -> None:
    """Another process revokes the token while the app keeps sending."""
    made = json.loads(run("token", "create", "--role", "app", "--data", folder, "--json").stdout)
    authorization = f"Authorization: Bearer {made['token']}\r\n"
    body = envelope(asked, 9, round_number=this_round(asked)).pack()
    assert sent(server, body, more=authorization)[0] == 200
    listed = json.loads(run("token", "list", "--data", folder, "--json").stdout)["tokens"]
    # The operator's token may have the same expiry.
    apps = [entry for entry in listed if entry["role"] == "app"]
    newest = max(apps, key=lambda each: each["expires"])
    assert run("token", "revoke", newest["id"], "--data", folder).returncode == 0
    eventually(lambda: sent(server, body, more=authorization)[0] == 401, "the token has ended")


BROKEN = "import deniable.server.http.intake_front as front\nfront.parse = None"


@pytest.mark.parametrize("more", [(), ("--log-json",)], ids=["lines", "JSON"])
def test_the_log_names_the_problem_document_of_each_mistake(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    with serving(tmp_path, command=altered(BROKEN), more=more) as server:
        head = f"POST /v1/envelopes HTTP/1.1\r\n{BROWSER}Content-Length: 1\r\n\r\nx"
        with connections(server, 1, head.encode()) as (one,):
            answer = one.recv(4_096)
        assert answer.startswith(b"HTTP/1.1 500")
        instance = json.loads(answer.rpartition(b"\r\n\r\n")[2])["instance"]
        _, written = server.stop()
    (line,) = [line for line in written.splitlines() if "urn:uuid:" in line]
    assert json.loads(line)["request"] == instance if more else line.endswith(f" ({instance})")


def test_an_authorization_that_is_not_text_is_refused(
    server: Server, asked: PublishedSurvey
) -> None:
    """An unreadable token is refused as invalid. It must not be treated as missing."""
    body = envelope(asked, 1, round_number=this_round(asked)).pack()
    head = f"POST /v1/envelopes HTTP/1.1\r\nHost: x\r\nContent-Type: {CONTENT_TYPE}\r\n"
    length = f"Content-Length: {len(body)}\r\n\r\n"
    sent = head.encode() + b"Authorization: Bearer \xff\xfe\r\n" + length.encode() + body
    with connections(server, 1, sent) as (one,):
        assert one.recv(4_096).startswith(b"HTTP/1.1 401")
