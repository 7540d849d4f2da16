"""What the tests of the server share: surveys, envelopes, an application, and real servers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flask import Flask

from deniable.server.app import create_app
from deniable.server.http.auth import new_token
from deniable.server.intake.writer import Writer
from deniable.server.store import PublishedSurvey, Store
from deniable.server.surveys.publishing import publish
from deniable.shared.envelope import CONTENT_TYPE, Envelope, encode_report
from deniable.shared.survey.document import Survey, parse_toml, render_document
from deniable.shared.survey.questions import Question
from deniable.shared.survey.signing import public_hex, sign

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = public_hex(KEY)
NOON = datetime(2026, 12, 15, 12, tzinfo=UTC)
DECEMBER = 683  # the round of the month of NOON
JSON = "application/json"
PROBLEM = "application/problem+json"
PATIENCE = 20.0  # seconds until a real process must have done what is waited for

BIT = '[[question]]\nname = "crashed"\nkind = "bit"\nepsilon = "1"\n'
NUMBER = (
    '[[question]]\nname = "minutes"\nkind = "number"\nlow = 0\nhigh = 120\nepsilon = "1"\n'
    'mechanism = "local-laplace"\ngrid = 64\n'
)


def choice(options: int, mechanism: str) -> str:
    texts = ", ".join(f'"option {number}"' for number in range(options))
    return (
        f'[[question]]\nname = "browser"\nkind = "choice"\noptions = [{texts}]\nepsilon = "1"\n'
        f'mechanism = "{mechanism}"\n'
    )


def survey(questions: str = BIT, **changes: object) -> Survey:
    """A monthly survey of this winter, unless told otherwise."""
    settings: dict[str, object] = {
        "name": "app-health",
        "title": "How is the app doing?",
        "purpose": "Find crashes.",
        "owner": "Example Ltd, privacy@example.org",
        "opens": date(2026, 12, 1),
        "closes": date(2027, 2, 28),
        "round": "month",
        "grace_days": 14,
        "retention_days": 90,
        "minimum_reports": 1,
    } | changes
    lines = [f"{key} = {_toml(value)}" for key, value in settings.items()]
    return parse_toml("\n".join(["[survey]", *lines, "", questions]))


def mixed() -> Survey:
    """One question of each kind and of each width on the wire."""
    named = choice(20, "unary").replace('"browser"', '"languages"')
    return survey(BIT + NUMBER + choice(300, "k-randomized-response") + named)


def published(store: Store, asked: Survey) -> PublishedSurvey:
    document = render_document(asked)
    store.enrol_key(PUBLIC)
    return publish(store, document, sign(document, KEY), PUBLIC)


def symbols(asked: Survey, number: int) -> tuple[int, ...]:
    """Some report: any symbols are ones that a client might send."""
    return tuple(number * 2654435761 % question.mechanism.symbols for question in asked.questions)


def envelope(
    asked: PublishedSurvey, number: int = 0, *, count: int = 1, round_number: int = DECEMBER
) -> Envelope:
    payload = b"".join(
        encode_report(asked.survey, symbols(asked.survey, number + n)) for n in range(count)
    )
    return Envelope(asked.id, round_number, number.to_bytes(16, "big"), count, payload)


def expected_cells(asked: Survey, numbers: Iterator[int] | range | list[int]) -> list[int]:
    """The tally of these reports, counted one by one and by other means than the server's."""
    totals = [[0] * question.mechanism.cells for question in asked.questions]
    for number in numbers:
        for cells, question, symbol in zip(
            totals, asked.questions, symbols(asked, number), strict=True
        ):
            for cell in _counted(question, symbol):
                cells[cell] += 1
    return [count for cells in totals for count in cells]


def _counted(question: Question, symbol: int) -> list[int]:
    if question.mechanism.name != "unary":
        return [symbol]
    return [bit for bit in range(question.mechanism.cells) if symbol >> bit & 1]


def _toml(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else str(value)


@dataclass
class Clock:
    """A time that tests set."""

    time: datetime = NOON

    def __call__(self) -> datetime:
        return self.time

    def pass_(self, **spans: float) -> None:
        self.time += timedelta(**spans)


@dataclass
class World:
    """The real application around a real store and a real writer, in this process."""

    store: Store
    writer: Writer
    app: Flask
    clock: Clock
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def client(self) -> Any:  # Any: of its answers' JSON
        return self.app.test_client()

    def publish(self, asked: Survey) -> PublishedSurvey:
        made = published(self.store, asked)
        self.app.extensions["deniable"].catalogue.refresh()
        return made

    def token(self, role: str, **lasts: float) -> dict[str, str]:
        """The header with a new token of this role."""
        token = new_token()
        end = self.clock() + timedelta(**(lasts or {"days": 1}))
        self.store.add_token(token, role, self.clock(), end)
        return {"Authorization": f"Bearer {token}"}

    def send(self, *envelopes: Envelope, app: bool = False) -> Any:  # Any: a test response
        body = b"".join(each.pack() for each in envelopes)
        return self.post(body, headers=self.token("app") if app else {})

    def post(self, body: bytes, content_type: str = CONTENT_TYPE, **more: Any) -> Any:
        return self.client.post("/v1/envelopes", data=body, content_type=content_type, **more)

    def tallies(self, asked: PublishedSurvey) -> dict[int, tuple[int, list[int]]]:
        return {t.round: (t.reports, t.cells.tolist()) for t in self.store.tallies(asked.id)}


@contextmanager
def world(data: Path) -> Iterator[World]:
    clock = Clock()
    with Store.create(data) as store:
        writer = Writer(store, now=clock)
        writer.start()
        try:
            yield World(store, writer, create_app(store, writer, now=clock), clock)
        finally:
            writer.stop()


# Real processes


@dataclass
class Server:
    """`deniable serve` in a process group of its own."""

    process: subprocess.Popen[str]
    url: str
    token: str | None

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def workers(self) -> list[int]:
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True
        )
        return [int(pid) for pid in listed.stdout.split()]

    def kill_group(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        self.close()

    def close(self) -> None:
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def stop(self) -> tuple[int, str]:
        """Ask it to stop: the exit code and what it said."""
        self.process.terminate()
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors


DENIABLE = [
    sys.executable,
    "-c",
    "from deniable.shared.cli.command import main; raise SystemExit(main())",
]


def start(data: Path, *, port: int = 0, command: list[str] | None = None) -> Server:
    process = subprocess.Popen(
        [*(command or [*DENIABLE, "serve"]), "--data", str(data), "--port", str(port), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        _, errors = process.communicate(timeout=PATIENCE)
        raise AssertionError(f"the server did not start: {errors}")
    ready = json.loads(line)
    return Server(process, ready["url"], ready["token"])


@contextmanager
def serving(data: Path, *, port: int = 0, command: list[str] | None = None) -> Iterator[Server]:
    server = start(data, port=port, command=command)
    try:
        yield server
    finally:
        server.kill_group()


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """One run of the command."""
    command = [*DENIABLE, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def eventually(condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> float:
    """Wait until it is so, and say for how long; an error if it never is."""
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < patience, f"after {patience} s still not: {what}"
        time.sleep(0.01)
    return time.monotonic() - begin
