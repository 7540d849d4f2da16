"""Relay: it stores reports on disk, shuffles them, forwards whole batches, and sees only counts."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import requests

from deniable.server.disk import sync
from deniable.server.http import front
from deniable.server.relay import forwarder, held_batches, survey_list
from deniable.server.relay.forwarder import Forwarder, Settings, bodies
from deniable.server.relay.held_batches import Arrival, Full, Holding
from deniable.server.relay.relay_process import RelayFront
from deniable.server.relay.survey_list import FRESH_SECONDS, USABLE_SECONDS, SurveyList
from deniable.shared.envelope import Envelope
from deniable.shared.sealed_envelope import (
    SEALED_TYPE,
    Batch,
    SealedEnvelope,
    parse_batch,
    parse_sealed,
)
from deniable.shared.survey.keys import public_hex
from tests.client.scripted import Answer, Script
from tests.client.scripted import serving as scripted
from tests.command import run_alone
from tests.eventually import PATIENCE
from tests.server.relays import (
    ALWAYS,
    LISTED,
    MARK,
    MIB,
    OTHER,
    KnownList,
    aggregating,
    arrived,
    holding,
    listed,
    relaying,
    sealed,
)
from tests.server.world import Hands, Server


def as_set(envelopes: Sequence[SealedEnvelope]) -> set[bytes]:
    return {envelope.pack() for envelope in envelopes}


# Storage


@pytest.fixture
def held(tmp_path: Path) -> Holding:
    return holding(tmp_path)


def gathered(held: Holding) -> int:
    return held.gathered().get(MARK, 0)


def keep(held: Holding, envelopes: Sequence[SealedEnvelope]) -> None:
    assert held.keep(arrived(envelopes)) == [None] * len(envelopes)


def leaving(held: Holding) -> list[SealedEnvelope]:
    batch = held.leaving()
    return [] if batch is None else list(batch.envelopes)


def delete(held: Holding) -> None:
    if batch := held.leaving():
        held.delete(batch)


def test_held_envelopes_survive_a_restart(held: Holding, tmp_path: Path) -> None:
    first, second = sealed(3), sealed(2, 3)
    keep(held, first)
    keep(held, second)
    again = holding(tmp_path)
    assert gathered(again) == 5
    again.close_batch(MARK)
    assert as_set(leaving(again)) == as_set([*first, *second])


def test_the_same_bytes_are_held_once_even_after_a_restart(held: Holding, tmp_path: Path) -> None:
    """Otherwise one device that retries would look like a crowd."""
    some = sealed(3)
    keep(held, [*some, some[0]])
    keep(holding(tmp_path), some)
    again = holding(tmp_path)
    assert gathered(again) == 3
    again.close_batch(MARK)
    assert len(leaving(again)) == 3


def test_a_batch_stays_the_same_until_all_of_it_is_accepted(held: Holding, tmp_path: Path) -> None:
    """In a batch that was partly sent before, later arrivals would stand out."""
    first, later = sealed(3), sealed(2, 3)
    keep(held, first)
    held.close_batch(MARK)
    keep(held, later)
    again = holding(tmp_path)
    assert as_set(leaving(again)) == as_set(first)
    delete(again)
    assert (leaving(again), gathered(again)) == ([], 2)


def test_a_half_written_group_is_dropped_and_never_acknowledged(
    held: Holding, tmp_path: Path
) -> None:
    keep(held, sealed(1))
    unfinished = tmp_path / "held/gathering" / MARK.hex() / "abc.part"
    unfinished.write_bytes(sealed(1)[0].pack()[:100])
    assert gathered(holding(tmp_path)) == 1
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("step", range(18))  # in the last case, nothing is killed
def test_a_kill_at_any_step_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The process is killed after each call that changes the folder, in turn."""
    some = sealed(4)
    held = holding(tmp_path)
    for one in some:
        keep(held, [one])
    left, taken = step, set[bytes]()

    def dying(real: Any) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            nonlocal left
            if not left:
                raise KeyboardInterrupt
            left -= 1
            return real(*given, **more)

        return call

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        for owner, name in ((Path, "rename"), (Path, "mkdir"), (shutil, "rmtree")):
            patch.setattr(owner, name, dying(getattr(owner, name)))
        patch.setattr(held_batches, "sync", dying(sync))
        held.close_batch(MARK)
        taken = as_set(leaving(held))
        delete(held)
    assert (left > 0) == (step == 17)
    again = holding(tmp_path)
    whole = as_set(leaving(again))
    delete(again)
    if gathered(again):
        again.close_batch(MARK)
    whole |= as_set(leaving(again))
    assert whole == as_set(some) or (whole == set() and taken == as_set(some))


def test_damage_is_reported_and_delays_nothing(
    held: Holding, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keep(held, sealed(1))
    held.close_batch(MARK)
    (file,) = (tmp_path / "held/leaving").glob("*/*")
    file.write_bytes(b"DNS1 and no more")
    again = holding(tmp_path)
    assert leaving(again) == []
    assert "is damaged" in caplog.text
    delete(again)
    keep(again, sealed(2))
    again.close_batch(MARK)
    assert len(leaving(again)) == 2


def test_a_full_relay_accepts_nothing_until_a_batch_has_left(tmp_path: Path) -> None:
    some = sealed(10)
    held = holding(tmp_path, 5 * len(some[0].pack()))
    keep(held, some[:5])
    assert [type(problem) for problem in held.keep(arrived(some[5:6]))] == [Full]
    held.close_batch(MARK)
    assert [type(problem) for problem in held.keep(arrived(some[5:6]))] == [Full]
    delete(held)
    keep(held, some[5:])
    assert gathered(held) == 5


def test_files_reveal_neither_time_nor_order_of_arrival(held: Holding, tmp_path: Path) -> None:
    """A group of 40 is in the order of its arrival with probability 1 / 40!."""
    some = sealed(40)
    keep(held, some)
    folder = tmp_path / "held/gathering" / MARK.hex()
    (file,) = folder.iterdir()
    assert {path.stat().st_mtime_ns for path in (file, folder)} == {0}
    written = parse_sealed(file.read_bytes())
    assert as_set(written) == as_set(some)
    assert written != some


def test_groups_are_mixed_within_a_batch(held: Holding) -> None:
    """The two groups are mixed; two of the C(40, 20) arrangements would fail."""
    first, second = sealed(20), sealed(20, 20)
    keep(held, first)
    keep(held, second)
    held.close_batch(MARK)
    whose = [batch.pack() in as_set(first) for batch in leaving(held)]
    assert sum(a != b for a, b in pairwise(whose)) > 1


# Forwarding


@dataclass
class Played:
    """Forwarder that talks to a scripted aggregator, with pauses that take no time."""

    script: Script
    settings: Settings
    pauses: list[float] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)  # envelopes of the batch, at each pause

    def __post_init__(self) -> None:
        self.clock = Hands()
        self.held = Holding(self.settings.folder, MIB, 10**6)
        self.script.list_reply = Answer(body=LISTED)
        surveys = SurveyList(self.script.url, self.clock)
        self.forwarder = Forwarder(self.held, surveys, self.settings, self.clock, self.pause)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.kept.append(len(leaving(self.held)))

    def batches(self) -> list[tuple[Batch, bytes]]:
        relays = [public_hex(self.settings.key())]
        return [parse_batch(post.body, relays) for post in self.script.posts]

    def sent(self) -> list[SealedEnvelope]:
        return [envelope for _, packed in self.batches() for envelope in parse_sealed(packed)]


@pytest.fixture
def played(tmp_path: Path) -> Iterator[Played]:
    with scripted() as script:
        settings = Settings(
            script.url, "the-token", tmp_path / "held", batch=20, last_seconds=3600 * ALWAYS
        )
        yield Played(script, settings)


def taken(accepted: int, duplicates: int = 0) -> Answer:
    body = {"accepted": accepted, "duplicates": duplicates, "refused": []}
    return Answer(body=json.dumps(body).encode())


def test_an_incomplete_batch_waits_and_a_complete_one_leaves_shuffled(played: Played) -> None:
    some = sealed(20)
    keep(played.held, some[:19])
    assert not played.forwarder.turn()
    keep(played.held, some[19:])
    played.script.always = taken(20)
    assert played.forwarder.turn()
    assert as_set(played.sent()) == as_set(some)
    assert played.sent() != some
    ((batch, _),) = played.batches()
    assert (batch.mark, batch.size, batch.dropped) == (MARK, 20, 0)
    assert not played.forwarder.turn()


@pytest.mark.parametrize(
    "trouble",
    [
        Answer(500),
        Answer(401),
        Answer(302, headers={"Location": "http://127.0.0.1:9/"}),
        Answer(503, headers={"Retry-After": "7"}),
        Answer(body=b"<html>a proxy's page</html>"),
        Answer(body=b'{"accepted": 3, "duplicates": 0, "refused": []}'),
        Answer(body=b'{"accepted": "x", "duplicates": 0, "refused": []}'),
    ],
    ids=["500", "401", "302", "503", "page", "count", "words"],
)
def test_a_batch_is_sent_until_every_envelope_has_an_outcome(
    played: Played, trouble: Answer
) -> None:
    some = sealed(20)
    keep(played.held, some)
    played.script.replies, played.script.always = [trouble, trouble], taken(20)
    assert played.forwarder.turn()
    assert len(played.script.posts) == 3
    assert len({post.body for post in played.script.posts}) == 1
    assert played.kept == [20, 20]
    assert all(pause >= 7 for pause in played.pauses) == ("Retry-After" in trouble.headers)
    assert leaving(played.held) == []


def test_pauses_are_random_and_grow(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "uniform", lambda low, high: high)
    keep(played.held, sealed(20))
    played.script.replies, played.script.always = [Answer(500)] * 12, taken(20)
    assert played.forwarder.turn()
    assert played.pauses == [*(2.0**n for n in range(10)), 900.0, 900.0]


def test_the_aggregator_receives_only_a_token_and_the_envelopes(played: Played) -> None:
    keep(played.held, sealed(20))
    played.script.always = taken(18, 2)
    played.forwarder.turn()
    (post,) = played.script.posts
    names = {name.lower() for name, _ in post.headers}
    assert names == {
        "accept-encoding", "authorization", "connection", "content-length", "content-type", "host",
        "user-agent",
    }  # fmt: skip
    assert dict(post.headers)["Authorization"] == "Bearer the-token"


def test_bodies_are_bounded_in_number_and_bytes() -> None:
    small, large = sealed(1)[0], SealedEnvelope(bytes(8), bytes(262_144 + 48))
    assert [len(body) for body in bodies([small] * 2_500)] == [1_000, 1_000, 500]
    assert [len(body) for body in bodies([large] * 3)] == [1, 1, 1]
    assert list(bodies([])) == []


# Requests


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with (
        aggregating() as script,
        relaying(tmp_path_factory.mktemp("relay"), script.url, batch=1_000) as server,
    ):
        yield server


def ask(server: Server, method: str, path: str, body: bytes = b"", **headers: str) -> Any:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request(method, path, body, {"Content-Type": SEALED_TYPE} | headers)
        reply = connection.getresponse()
        said = reply.read()
        return reply.status, said, {name.lower(): value for name, value in reply.headers.items()}
    finally:
        connection.close()


def test_only_uploads_are_open_to_pages_of_other_origins(relay: Server) -> None:
    body, path = sealed(1)[0].pack(), "/v1/envelopes"
    asked = [("OPTIONS", path, b""), ("POST", path, body), ("POST", path, b""), ("GET", path, b"")]
    for method, address, sent in [*asked, ("GET", "/healthz", b""), ("OPTIONS", "/", b"")]:
        _, _, headers = ask(relay, method, address, sent, Origin="https://app.example.org")
        allowed = {name: value for name, value in headers.items() if "access-control" in name}
        opened = {
            "access-control-allow-origin": "*",
            "access-control-expose-headers": "Retry-After",
        }
        if method == "OPTIONS":
            opened |= {
                "access-control-allow-headers": "Content-Type",
                "access-control-max-age": "86400",
            }
        assert allowed == (opened if address == path else {})


def test_a_sealed_envelope_is_held_once(relay: Server) -> None:
    body = sealed(1)[0].pack()
    for _ in range(2):
        status, said, _ = ask(relay, "POST", "/v1/envelopes", body)
        assert (status, said) == (202, b'{"held":1}')
    assert ask(relay, "GET", "/healthz")[0] == 200


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (400, b"", {}),
        (400, b"DNS1", {}),
        (400, Envelope("ab" * 32, 1, bytes(16), 1, b"\1").pack(), {}),
        (413, b"".join(envelope.pack() for envelope in sealed(2)), {}),
        (413, b"", {"Content-Length": str(MIB)}),  # refused before the body arrives
        (415, sealed(1)[0].pack(), {"Content-Type": "application/vnd.deniable.envelopes"}),
        (415, b"{}", {"Content-Type": "application/json"}),
    ],
    ids=["empty", "short", "plain", "two", "long", "type", "json"],
)
def test_anything_but_one_sealed_envelope_is_refused(
    relay: Server, status: int, body: bytes, headers: dict[str, str]
) -> None:
    got, said, told = ask(relay, "POST", "/v1/envelopes", body, **headers)
    problem = json.loads(said)
    assert (got, problem["status"]) == (status, status)
    assert told["content-type"] == "application/problem+json"


def test_a_relay_serves_no_other_address(relay: Server) -> None:
    for path in ("/v1/register", "/v1/surveys/app-health", "/public/app-health", "/metrics"):
        assert ask(relay, "GET", path)[0] == 404
    assert ask(relay, "GET", "/v1/envelopes")[0] == 405


def test_a_full_relay_keeps_its_envelopes_and_states_when_to_retry(tmp_path: Path) -> None:
    """A flood is stopped by the quota and displaces no acknowledged envelope."""
    (first, *_), room = sealed(1), 2**20 // 64  # for one network
    count = room // len(first.pack())
    with (
        aggregating() as script,
        relaying(tmp_path, script.url, batch=10**6, more=["--most", "1"]) as server,
    ):
        bodies = [envelope.pack() for envelope in sealed(count + 2)]
        answers = [ask(server, "POST", "/v1/envelopes", body) for body in bodies]
        assert Counter(status for status, _, _ in answers) == {202: count, 503: 2}
        assert answers[-1][2]["retry-after"] == "600"
        assert ask(server, "POST", "/v1/envelopes", bodies[0])[0] == 202


@dataclass
class Arriving:
    """Request whose body arrives in parts and may never end."""

    parts: Sequence[bytes]
    stuck: bool = False
    status: int = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            yield part
        if self.stuck:
            await asyncio.sleep(60)

    def response_bytes(self, status: int, headers: Any, body: bytes) -> None:
        self.status = status


def relay_of(held: Holding) -> RelayFront:
    return RelayFront(held, KnownList())


def played_to(relay: RelayFront, *requests: Arriving) -> list[int]:
    headers = {"content-type": SEALED_TYPE}
    request = {"method": "POST", "path": "/v1/envelopes", "headers": headers}
    scope = cast(Any, SimpleNamespace(client="127.0.0.1:5", **request))

    async def play() -> None:
        relay.__rsgi_init__(asyncio.get_running_loop())
        await asyncio.gather(*(relay(scope, cast(Any, request)) for request in requests))

    asyncio.run(play())
    return [request.status for request in requests]


def test_an_endless_body_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "BODY_SECONDS", 0.05)
    monkeypatch.setattr(front, "SWEEP_SECONDS", 0.01)
    held = holding(tmp_path)
    endless = Arriving([sealed(1)[0].pack()[:40]], stuck=True)
    chunks = Arriving([bytes(MIB // 4)] * 5)
    assert played_to(relay_of(held), endless, chunks) == [
        408,
        413,
    ]
    assert gathered(held) == 0


def test_simultaneous_envelopes_are_written_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, groups = holding(tmp_path), list[int]()
    real = held.keep

    def slow(arrivals: Sequence[Arrival]) -> list[Exception | None]:
        groups.append(len(arrivals))
        time.sleep(0.05)
        return real(arrivals)

    monkeypatch.setattr(held, "keep", slow)
    requests = [Arriving([envelope.pack()]) for envelope in sealed(30)]
    assert played_to(relay_of(held), *requests) == [202] * 30
    assert sum(groups) == 30
    assert len(groups) <= 2


def test_bodies_waiting_for_a_slow_disk_count_towards_the_memory_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = sealed(30)
    monkeypatch.setattr(front, "MAX_HELD_BYTES", 10 * len(some[0].pack()))
    held, most = holding(tmp_path), list[int]()
    real = held.keep

    def slow(arrivals: Sequence[Arrival]) -> list[Exception | None]:
        time.sleep(0.05)
        most.append(len(arrivals))
        return real(arrivals)

    monkeypatch.setattr(held, "keep", slow)
    relay = relay_of(held)
    for _ in range(2):  # refused and accepted bodies both free their memory
        assert Counter(played_to(relay, *(Arriving([envelope.pack()]) for envelope in some))) == {
            202: 10,
            503: 20,
        }
    assert sum(most) == 20


def test_a_failing_disk_is_reported_and_nothing_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = holding(tmp_path)

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    requests = [Arriving([envelope.pack()]) for envelope in sealed(3)]
    assert played_to(relay_of(held), *requests) == [503] * 3
    monkeypatch.undo()
    assert (gathered(held), list((tmp_path / "held/gathering").glob("*/*"))) == (0, [])


# The command


def test_a_relay_is_started_with_a_server_and_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DENIABLE_TOKEN", raising=False)
    base = ["relay", "--data", tmp_path / "held"]
    assert run_alone(*base, "--to", "https://stats.example.org").returncode == 2
    said = run_alone(*base, "--to", "http://stats.example.org", "--token", "x")
    assert (said.returncode, "--to must be an https URL" in said.stderr) == (2, True)
    said = run_alone(*base, "--to", "https://stats.example.org", "--token", "x", "--batch", "0")
    assert (said.returncode, "--batch" in said.stderr) == (2, True)


def test_a_folder_belongs_to_one_relay(relay: Server, tmp_path: Path) -> None:
    base = ["relay", "--to", "http://127.0.0.1:9", "--token", "x"]
    with relaying(tmp_path, "http://127.0.0.1:9"):
        said = run_alone(*base, "--data", tmp_path / "held")
        assert (said.returncode, "another server is using" in said.stderr) == (3, True)


# The list of surveys


@pytest.mark.parametrize("compressed", [False, True])
def test_a_relay_serves_the_list_of_its_aggregator(
    played: Played, tmp_path: Path, compressed: bool
) -> None:
    """Many devices ask; the aggregator is asked once, and sees nothing of them."""
    listed = b'{"surveys": []}'
    content = gzip.compress(listed) if compressed else listed
    headers = {"Content-Encoding": "gzip"} if compressed else {}
    played.script.list_reply = Answer(body=content, headers=headers)
    with relaying(tmp_path, played.script.url) as relay:
        for accepted in ("gzip", "identity"):
            reply = requests.get(
                f"{relay.url}/v1/surveys",
                headers={"Accept-Encoding": accepted, "X-Device": "secret"},
                timeout=PATIENCE,
            )
            assert (reply.status_code, reply.content) == (200, listed)
            assert reply.headers.get("Content-Encoding") == ("gzip" if accepted == "gzip" else None)
            assert reply.headers["Access-Control-Allow-Origin"] == "*"
    assert {get.path for get in played.script.gets} == {"/v1/surveys"}
    assert len(played.script.gets) <= 2
    assert "secret" not in str([get.headers for get in played.script.gets])


def test_a_list_is_kept_for_a_minute_and_for_an_hour_without_an_aggregator(played: Played) -> None:
    clock = played.clock
    surveys, second = SurveyList(played.script.url, clock), listed(OTHER)
    played.script.list_reply = Answer(body=LISTED)
    assert plain(surveys) == LISTED
    played.script.list_reply = Answer(body=second)
    clock.pass_(seconds=FRESH_SECONDS - 1)
    assert plain(surveys) == LISTED
    clock.pass_(seconds=1)
    assert plain(surveys) == second
    for broken in (Answer(503), Answer(302, headers={"Location": "http://127.0.0.1:9/"})):
        played.script.list_reply = broken
        clock.pass_(seconds=FRESH_SECONDS)
        assert plain(surveys) == second
    clock.pass_(seconds=USABLE_SECONDS)
    assert plain(surveys) is None


@pytest.mark.parametrize(
    "body",
    [b"not gzip", gzip.compress(bytes(2_000)), gzip.compress(b"cut off")[:-4]],
    ids=["no gzip", "too long", "cut off"],
)
def test_an_unusable_list_is_not_served(
    played: Played, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few compressed bytes could take gigabytes of memory."""
    monkeypatch.setattr(survey_list, "MAX_LIST_BYTES", 1_000)
    played.script.list_reply = Answer(body=body, headers={"Content-Encoding": "gzip"})
    assert plain(SurveyList(played.script.url, played.clock)) is None


def plain(surveys: SurveyList) -> bytes | None:
    listed = surveys.get()
    return None if listed is None else listed.plain
