"""Malformed bodies sent to a real relay: none breaks it, is stored, or uses much memory.

A relay checks only the shape of a body, its mark and its length. Each body is a valid body with
random changes. If it is still one sealed envelope of a known survey it must be held, and otherwise
refused.
"""

from __future__ import annotations

import itertools
import json
import random
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from deniable.shared.sealed_envelope import (
    HEADER,
    LENGTHS,
    MAGIC,
    SEALED_TYPE,
    SealedEnvelope,
    parse_sealed,
)
from tests.bench.load import ask
from tests.bench.measure import seconds
from tests.eventually import PATIENCE
from tests.server.relays import MARK, MIB, OTHER, aggregating, relaying, sealed
from tests.server.test_hostile import ENDLESS, MAX_GROWTH_BYTES, mutated, refused_after
from tests.server.test_overload import head, peak_rss
from tests.server.test_relay_batches import fake
from tests.server.test_separation import DEVICES, REPORTS_EACH, check_rate, flooding
from tests.server.world import Server

FIELDS = (4, 8, 12)  # offsets of the key's mark, its second half, and the length
QUOTA = 2**20
MARKS = {MARK, sealed(1, asked=OTHER)[0].mark}
CHUNK = b"10000\r\n" + bytes(2**16) + b"\r\n"
LONGEST = HEADER.size + max(LENGTHS)


def hostile(how_many: int, seed: int) -> Iterator[bytes]:
    chance = random.Random(seed)
    good = [envelope.pack() for envelope in sealed(4)]
    good += [SealedEnvelope(MARK, chance.randbytes(size)).pack() for size in sorted(LENGTHS)]
    for _ in range(how_many):
        body, other = chance.choice(good), chance.choice(good)
        # a third have changes only in the header
        end = chance.choice((len(body), len(body), HEADER.size))
        whole = mutated(body[:end], other, chance, FIELDS) + body[end:]
        yield whole if chance.random() < 0.9 else body + other


def statuses(body: bytes) -> tuple[int, ...]:
    """Return the statuses that are right for a body."""
    length = int.from_bytes(body[12:16], "little")
    if body[:4] != MAGIC or length not in LENGTHS or len(body) != 16 + length:
        return (413,) if len(body) > LONGEST else (400, 413)
    if body[4:12] not in MARKS:
        return (503,)  # of a survey that the relay does not know yet
    return (202, 503) if length == min(LENGTHS) else (400,)


def framed(body: bytes, chance: random.Random) -> bytes:
    """Frame a body with its length, or split it into chunks."""
    if chance.random() < 0.5:
        return head(len(body), SEALED_TYPE) + body
    step = max(chance.choice((1, 16, 1_000, 100_000)), len(body) // 20)
    parts = [body[start : start + step] for start in range(0, len(body), step)]
    chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]
    return typed(ENDLESS) + b"".join(chunks) + b"0\r\n\r\n"


def typed(start: bytes) -> bytes:
    """Return a request head with the content type of sealed envelopes."""
    return start.replace(b".envelopes", b".sealed")


def answered(relay: Server, request: bytes) -> tuple[int, bytes]:
    """Return the status and the whole response."""
    with socket.create_connection(("127.0.0.1", relay.port), timeout=PATIENCE) as connection:
        with suppress(OSError):  # refused before all bytes were sent
            connection.sendall(request)
        answer = b""
        while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
            part = connection.recv(65_536)
            assert part, answer
            answer += part
    return int(answer.split(b" ", 2)[1]), answer


def assault(relay: Server, held: Path, how_many: int, seed: int) -> Counter[int]:
    chance, taken, found = random.Random(seed), set[bytes](), Counter[int]()
    for body in hostile(how_many, seed):
        status, answer = answered(relay, framed(body, chance))
        found[status] += 1
        if status == 202:
            taken.add(body)
        elif status == 503:
            pause = 600 if body[4:12] in MARKS else 60
            assert b"\r\nretry-after: %d\r\n" % pause in answer.lower()
        assert status in statuses(body), (status, answer, body[:64])
        assert status == 202 or json.loads(answer.partition(b"\r\n\r\n")[2])["status"] == status
    kept = [
        sealed_envelope.pack()
        for file in (held / "gathering").glob("*/*")
        for sealed_envelope in parse_sealed(file.read_bytes())
    ]
    assert set(kept) == taken
    assert len(kept) == len(taken)
    assert sum(map(len, kept)) <= QUOTA
    return found


def test_mutated_bodies_are_held_or_refused_even_by_a_full_relay(tmp_path: Path) -> None:
    with (
        aggregating() as script,
        relaying(tmp_path, script.url, batch=10**9, more=["--most", "1"]) as relay,
    ):
        before = peak_rss(relay)
        found = assault(relay, tmp_path / "held", 400, 1)
        assert peak_rss(relay) - before < MAX_GROWTH_BYTES
    assert min(found[status] for status in (202, 400, 413, 503)) > 5, found


@pytest.mark.long
def test_twenty_thousand_mutated_bodies_to_a_relay(tmp_path: Path) -> None:
    with (
        aggregating() as script,
        relaying(tmp_path, script.url, batch=10**9, more=["--most", "1"]) as relay,
    ):
        print(assault(relay, tmp_path / "held", 20_000, 2))


TOO_MUCH = {
    "10 MB": (typed(head(10_000_000)), bytes(10_000_000)),
    "a gigabyte, it says": (typed(head(2**30)), MAGIC),
    "endless": (typed(ENDLESS), CHUNK * 160),
    "endless, but short it says": (
        typed(ENDLESS).replace(b"\r\n\r\n", b"\r\nContent-Length: 9\r\n\r\n"),
        CHUNK * 160,
    ),
}


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with (
        aggregating() as script,
        relaying(tmp_path_factory.mktemp("relay"), script.url, batch=10**9) as server,
    ):
        yield server


@pytest.mark.parametrize("what", TOO_MUCH)
def test_oversized_bodies_use_no_memory_in_a_relay(relay: Server, what: str) -> None:
    refused_after(relay, *TOO_MUCH[what], 413)
    before = peak_rss(relay)
    for _ in range(9):
        refused_after(relay, *TOO_MUCH[what], 413)
    assert peak_rss(relay) - before < MAX_GROWTH_BYTES


MAX_FLOOD_BYTES = 128 * MIB  # 64 MB of bodies at a time, and what the relay needs to read them


@pytest.mark.long
def test_a_flood_of_large_bodies_takes_no_room_and_at_most_half_of_the_rate(tmp_path: Path) -> None:
    """The bodies have a known mark and a possible length. Honest people always get 202."""
    large = SealedEnvelope(MARK, bytes(max(LENGTHS))).pack()
    number = itertools.count()

    def report() -> bytes:
        order = next(number)
        (honest,) = fake(1, order)
        body, sender = honest.pack(), f"\r\nX-Forwarded-For: 10.{order // 250}.{order % 250}.1"
        return (
            head(len(body), SEALED_TYPE).replace(b"\r\n\r\n", f"{sender}\r\n\r\n".encode()) + body
        )

    with (
        aggregating() as script,
        relaying(
            tmp_path, script.url, batch=10**9, more=["--most", "64", "--proxy", "127.0.0.1"]
        ) as relay,
    ):
        before = peak_rss(relay)
        honest_seconds = partial(seconds, partial(ask, relay.port, DEVICES, REPORTS_EACH, report))
        request = typed(head(len(large))) + large
        with flooding(relay.port, request) as attacker:
            check_rate(attacker, honest_seconds, "large bodies to a relay")
        held = sum(path.stat().st_size for path in (tmp_path / "held").glob("*/*/*"))
        assert held == next(number) * len(fake(1, 0)[0].pack())
        grown = peak_rss(relay) - before
        print(f"memory grew by {grown / MIB:.1f} MiB, and the disk holds {held / MIB:.1f} MiB")
        assert grown < MAX_FLOOD_BYTES
