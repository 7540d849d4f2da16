"""Separation of reader and intake: memory, and the rate of honest uploads during other requests.

No request by any role to any address may increase memory by more than 64 MB, or cut honest intake
to less than half of its rate.

The tests go through all addresses of both processes. Rates are compared within one run: the flood
is stopped and continued, and each round measures the honest rate without and with it. The median
over the rounds decides. If other work on the machine makes the median too low, more rounds are
added.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

import pytest
import requests

from deniable.server.app import create_app
from deniable.server.http.context import Parts
from deniable.server.http.intake_front import ROUTES
from deniable.server.http.tokens import ROLES, new_token
from deniable.server.intake.status import NO_STATUS
from deniable.server.process.roles import IMPORT_DELAY_SECONDS
from deniable.server.store import PublishedSurvey, create_store
from deniable.server.surveys.catalogue import Catalogue
from tests.bench.load import ask
from tests.bench.measure import seconds
from tests.eventually import PATIENCE
from tests.server.surveys import envelope, published
from tests.server.test_kills import this_month, this_round
from tests.server.test_overload import head
from tests.server.world import JSON, Server, serving

MAX_GROWTH_BYTES = 64 * 2**20
LEAST_SHARE = 0.5
ATTACKERS, DEVICES, REPORTS_EACH = 16, 16, 20
ROUNDS, MAX_ROUNDS = 5, 25  # odd numbers, so that the median is one of the rounds
SETTLE_SECONDS = 0.05  # time to respond to requests that a stopped flood has sent
WARM_SECONDS = IMPORT_DELAY_SECONDS + 4.0  # time for the reader to import its slow libraries
COSTLY_JSON = b'{"envelopes":[{"survey":"","round":0,"id":"","reports":[' + b"{}," * 21_000
COSTLY = [
    ("POST", "/v1/envelopes"), ("GET", "/v1/surveys"), ("GET", "/v1/register"), ("GET", "/nothing"),
    ("GET", "/v1/openapi.json"), ("GET", "/metrics"), ("GET", "/v1/surveys/{id}/results"),
    ("GET", "/surveys/{id}"), ("GET", "/plan.json"),
]  # fmt: skip


@dataclass(frozen=True)
class Scene:
    server: Server
    asked: PublishedSurvey
    tokens: Mapping[str, str]
    numbers: Iterator[int]
    addresses: Sequence[tuple[str, str, str]]  # method, path, and the role of the process

    def upload(self) -> bytes:
        number = next(self.numbers)
        body = envelope(self.asked, number, round_number=this_round(self.asked)).pack()
        return head(len(body)) + body

    def honest_seconds(self) -> float:
        return seconds(partial(ask, self.server.port, DEVICES, REPORTS_EACH, self.upload))

    def port(self, process: str) -> int:
        return self.server.port if process == "intake" else self.server.dashboard_port


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("separation") / "data"
    now, tokens = datetime.now(UTC), {role: new_token() for role in ROLES}
    with create_store(folder) as store:
        asked = published(store, this_month())
        for role, token in tokens.items():
            store.add_token(token, role, now, now + timedelta(days=1))
        app = create_app(Parts(store, Catalogue(store), lambda: NO_STATUS))
        rules = [(rule.rule, rule.methods or set()) for rule in app.url_map.iter_rules()]
    reader = [(re.sub(r"<(?:[a-z]+:)?([a-z]+)>", r"{\1}", rule), methods, "reader")
              for rule, methods in rules]  # fmt: skip
    intake = [(path, {*route.methods}, "intake") for path, route in ROUTES.items()]
    nowhere = [("/nothing", {"GET"}, process) for process in ("intake", "reader")]
    addresses = [
        (method, path, process)
        for path, methods, process in (*intake, *reader, *nowhere)
        for method in ("GET", "POST")
        if method in methods
    ]
    with serving(folder, more=["--public"]) as server:
        made = Scene(server, asked, tokens, count(), addresses)
        for _ in range(10):  # fill the pages
            made.honest_seconds()
        time.sleep(WARM_SECONDS)
        yield made


def path_of(scene: Scene, path: str) -> str:
    names = {"id": scene.asked.id, "identifier": scene.asked.id, "kind": "404"}
    names |= {"file": "style.css", "filename": "style.css"}
    return re.sub(r"{([a-z]+)}", lambda found: names.get(found[1], "x"), path)


def resident_bytes(scene: Scene, process: str) -> int:
    (worker,) = scene.server.workers(process)
    status = Path(f"/proc/{worker}/status").read_text("ascii", "replace")
    return 1_024 * int(status.split("VmRSS:")[1].split()[0])


def test_no_request_of_any_role_increases_memory_by_more_than_64_mb(scene: Scene) -> None:
    grown = {}
    for method, path, process in scene.addresses:
        if path.endswith("/close"):
            continue  # closing has no output, and later requests need the survey
        for role in (None, *scene.tokens):
            headers = {"Authorization": f"Bearer {scene.tokens[role]}"} if role else {}
            before = resident_bytes(scene, process)
            url = f"http://127.0.0.1:{scene.port(process)}{path_of(scene, path)}"
            body = COSTLY_JSON if method == "POST" else None
            headers |= {"Content-Type": JSON}
            requests.request(method, url, data=body, headers=headers, timeout=PATIENCE)
            grown[method, path, role] = resident_bytes(scene, process) - before
    assert len(grown) > 100
    assert {asked: size for asked, size in grown.items() if size > MAX_GROWTH_BYTES} == {}


@contextmanager
def flooded(
    scene: Scene, method: str, path: str, process: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Flood one address, with an operator's token where a role is needed."""
    body = COSTLY_JSON if method == "POST" else b""
    token = "" if process == "intake" else f"Authorization: Bearer {scene.tokens['operator']}\r\n"
    request = (
        f"{method} {path_of(scene, path)} HTTP/1.1\r\nHost: x\r\n{token}Content-Type: {JSON}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    with flooding(scene.port(process), request) as attacker:
        yield attacker


@contextmanager
def flooding(port: int, request: bytes) -> Iterator[subprocess.Popen[bytes]]:
    """Repeat a request over 16 connections."""
    command = [sys.executable, "-m", "tests.server.flood", str(port), str(ATTACKERS)]
    attacker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert attacker.stdin is not None
    assert attacker.stdout is not None
    try:
        attacker.stdin.write(request)
        attacker.stdin.close()
        attacker.stdout.readline()
        yield attacker
        assert attacker.poll() is None, "the flood ended early"
    finally:
        attacker.kill()
        attacker.wait()
        attacker.stdout.close()


def check_share(scene: Scene, method: str, path: str, process: str) -> None:
    with flooded(scene, method, path, process) as attacker:
        check_rate(attacker, scene.honest_seconds, f"{method} {path} of {process}")


def check_rate(
    attacker: subprocess.Popen[bytes], honest_seconds: Callable[[], float], named: str
) -> None:
    """Check the honest rate during a flood, relative to the rate without it."""
    shares = list[float]()
    while len(shares) < ROUNDS or (median(shares) < LEAST_SHARE and len(shares) < MAX_ROUNDS):
        attacker.send_signal(signal.SIGSTOP)
        time.sleep(SETTLE_SECONDS)
        alone = honest_seconds()
        attacker.send_signal(signal.SIGCONT)
        shares.append(alone / honest_seconds())
    rates = ", ".join(f"{share:.2f}" for share in sorted(shares))
    print(f"{named}: honest rate {median(shares):.2f} times that alone: {rates}")
    assert median(shares) >= LEAST_SHARE, rates


@pytest.mark.parametrize(("method", "path"), COSTLY)
def test_no_costly_request_cuts_honest_intake_below_half(
    scene: Scene, method: str, path: str
) -> None:
    known = {(m, re.sub("{identifier}", "{id}", p)): role for m, p, role in scene.addresses}
    check_share(scene, method, path, known[method, path] if path != "/nothing" else "intake")


@pytest.mark.long
def test_no_request_of_any_kind_cuts_honest_intake_below_half(scene: Scene) -> None:
    for method, path, process in scene.addresses:
        if not path.endswith("/close"):
            check_share(scene, method, path, process)
