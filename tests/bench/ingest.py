"""What a durable upload costs over HTTP, beside a request that touches no disk."""

from __future__ import annotations

import http.client
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from deniable.server.store import Place
from deniable.shared.envelope import CONTENT_TYPE, Envelope
from deniable.shared.survey.document import parse_toml
from deniable.simulations.demo.running import deniable
from tests.bench.measure import Measurement, compare
from tests.server.postgres import cluster
from tests.server.world import Server, serving
from tests.survey_texts import ALWAYS, bit, survey_text

CONNECTIONS, EACH = 16, 60
SURVEY = survey_text(bit(), round="once", **ALWAYS)

Ask = Callable[[http.client.HTTPConnection], None]


def measurements() -> Iterator[Measurement]:
    with TemporaryDirectory() as name, cluster() as postgres:
        folder = Path(name)
        yield from into("SQLite", folder / "data", folder / "of-sqlite", 8)
        yield from into("PostgreSQL", postgres.new_database(), folder / "of-postgres", 16)


def into(store: str, place: Place, folder: Path, limit: float) -> Iterator[Measurement]:
    folder.mkdir()
    file, key = folder / "survey.toml", str(folder / "key.pem")
    file.write_text(SURVEY)
    deniable("keys", "new", key)
    where = ("--data", str(place)) if isinstance(place, Path) else ("--store", place.url)
    survey = deniable("survey", "publish", str(file), "--key", key, *where)["id"]
    app = deniable("token", "create", "--role", "app", *where)["token"]
    with serving(place) as server:
        for reports in (1, 1_000):
            yield compare(
                f"{CONNECTIONS} connections upload durable envelopes of {reports:,} to {store}",
                partial(load, server, upload(survey, reports, app)),
                partial(load, server, alive),
                unit="µs",
                per=1e6 / (CONNECTIONS * EACH),
                limit=limit,
                note="a request; beside GET /healthz",
            )


def load(server: Server, ask: Ask) -> None:
    """Every connection asks as often as it is allowed, one after the other."""
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(lambda _: connection(server, ask), range(CONNECTIONS)))


def connection(server: Server, ask: Ask) -> None:
    place = urlsplit(server.url)
    link = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    for _ in range(EACH):
        ask(link)
    link.close()


def alive(link: http.client.HTTPConnection) -> None:
    link.request("GET", "/healthz")
    read(link)


def upload(survey: str, reports: int, token: str) -> Ask:
    size = parse_toml(SURVEY).report_size
    headers = {"Content-Type": CONTENT_TYPE, "Authorization": f"Bearer {token}"}

    def ask(link: http.client.HTTPConnection) -> None:
        envelope = Envelope(survey, 0, os.urandom(16), reports, bytes(reports * size))
        link.request("POST", "/v1/envelopes", envelope.pack(), headers)
        read(link)

    return ask


def read(link: http.client.HTTPConnection) -> None:
    answer = link.getresponse()
    text = answer.read()
    assert answer.status == 200, text
