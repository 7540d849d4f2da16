"""`deniable relay` as a real process, and sealed envelopes of a survey that it knows."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from deniable.server.relay.forwarder import Settings
from deniable.server.relay.held_batches import Arrival, Holding
from deniable.server.relay.survey_list import Fetched, SurveyList
from deniable.server.surveys.clock import Clock
from deniable.shared.envelope import Envelope
from deniable.shared.sealed_envelope import SealedEnvelope, mark_of, seal
from deniable.shared.survey.document import Survey, render_document, survey_id
from deniable.shared.survey.keys import public_hex
from tests.client.scripted import Answer, Script
from tests.client.scripted import serving as scripted
from tests.command import DENIABLE
from tests.server.surveys import survey
from tests.server.world import Server, begun
from tests.shared.test_sealing import PUBLIC

YEARS: dict[str, Any] = {"round": "once", "opens": date(2026, 1, 1), "closes": date(2035, 12, 31)}
ASKED = survey(sealed_to=PUBLIC, **YEARS)
OTHER = survey(sealed_to=PUBLIC, name="other", **YEARS)
ALWAYS = 99_999.0  # hours before the end: batches leave as soon as they are large enough
MIB = 2**20


def id_of(asked: Survey) -> str:
    return survey_id(render_document(asked))


def listed(*surveys: Survey) -> bytes:
    """Return an aggregator's list."""
    rest = {"signature": "", "key": "", "state": "open"}
    entries = [
        {"id": id_of(asked), "document": render_document(asked).decode()} | rest
        for asked in surveys
    ]
    return json.dumps({"surveys": entries}).encode()


LISTED = listed(ASKED, OTHER)
MARK = mark_of(PUBLIC, id_of(ASKED), 0)


def sealed(count: int, first: int = 0, asked: Survey = ASKED) -> list[SealedEnvelope]:
    return [
        seal(Envelope(id_of(asked), 0, number.to_bytes(16, "big"), 1, b"\1"), PUBLIC)
        for number in range(first, first + count)
    ]


def arrived(envelopes: Iterable[SealedEnvelope], sender: bytes | None = None) -> list[Arrival]:
    return [Arrival(envelope, sender) for envelope in envelopes]


def holding(folder: Path, max_bytes: int = MIB, per_network: int = 10**6) -> Holding:
    return Holding(folder / "held", max_bytes, per_network)


class KnownList(SurveyList):
    """List that was fetched a moment ago, from an aggregator that no longer answers."""

    def __init__(self, clock: Clock | None = None, *surveys: Survey) -> None:
        super().__init__("http://127.0.0.1:9", clock)
        self._learn(listed(*surveys) if surveys else LISTED)
        self._rounds, self._list = self._accepted(), Fetched(gzip.compress(LISTED), self._seconds())
        self._first = -math.inf


def relay_key(folder: Path) -> str:
    """Return the public key with which a relay in this folder will sign."""
    (folder / "held").mkdir(exist_ok=True)
    return public_hex(Settings("", "", folder / "held").key())


@contextmanager
def aggregating() -> Iterator[Script]:
    """Serve a list of surveys, and accept no envelopes."""
    with scripted() as script:
        script.list_reply, script.always = Answer(body=LISTED), Answer(500)
        yield script


def start_relay(
    folder: Path,
    to: str,
    *,
    token: str = "a-token",
    port: int = 0,
    batch: int = 10,
    hours: float = ALWAYS,
    per_network: int = 10**6,
    command: Sequence[str] | None = None,
    more: Sequence[str] = (),
) -> Server:
    """Start a relay that stores its reports in a subfolder of `folder`."""
    where = ["--to", to, "--token", token, "--data", str(folder / "held"), "--port", str(port)]
    when = ["--batch", str(batch), "--hours", str(hours), "--per-network", str(per_network)]
    return begun([*(command or [*DENIABLE, "relay"]), *where, *when, "--json", *more])


@contextmanager
def relaying(folder: Path, to: str, **how: object) -> Iterator[Server]:
    server = start_relay(folder, to, **how)  # type: ignore[arg-type]  # passed on
    try:
        yield server
    finally:
        server.kill_group()
