"""Thousands of malformed bodies: none breaks the server, and none that is refused is counted.

Each body is a valid body with random changes: flipped bits, bytes set, removed or doubled, lengths
and numbers set to extremes, two bodies joined. If a changed body is still valid, it must be counted
as the reference decoder counts it.
"""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import pytest

from deniable.server.http.messages import HttpError
from deniable.server.http.tokens import new_token
from deniable.server.http.uploads import Intake, Sent, decide, parse
from deniable.server.store import PublishedSurvey, Upload, create_store, open_store
from deniable.shared.envelope import CONTENT_TYPE, HEADER, Envelope, decode_reports, json_envelope
from tests.eventually import PATIENCE
from tests.server.surveys import DECEMBER, envelope, mixed, published
from tests.server.test_kills import this_month, this_round
from tests.server.test_overload import head, peak_rss, status
from tests.server.world import JSON, Server, World, serving

ENDS = (0, 1, 2**16, 2**31, 2**32 - 1)
FIELDS = (36, 56, 60)  # offsets of round, count and length
TOGETHER = 500  # number of bodies whose uploads are written in one transaction
REFUSED_IN_SECONDS = 0.1
MAX_GROWTH_BYTES = 16 * 2**20


def bodies(asked: PublishedSurvey, number: int) -> list[tuple[str, bytes]]:
    """Return valid bodies of every form."""
    one = envelope(asked, 1, round_number=number)
    many = [envelope(asked, n, count=3, round_number=number) for n in (2, 3)]
    twin = {"envelopes": [json_envelope(asked.survey, envelope_) for envelope_ in (one, *many)]}
    return [
        (CONTENT_TYPE, one.pack()),
        (CONTENT_TYPE, b"".join(envelope_.pack() for envelope_ in many)),
        (JSON, json.dumps(twin).encode()),
    ]


def mutated(
    body: bytes, other: bytes, chance: random.Random, fields: Sequence[int] = FIELDS
) -> bytes:
    changed = bytearray(body)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        place = chance.randrange(len(changed) + 1)
        end = min(len(changed), place + chance.choice((1, 4, 16, 100)))
        match chance.randrange(7):
            case 0 if place < len(changed):
                changed[place] ^= 1 << chance.randrange(8)
            case 1 if place < len(changed):
                changed[place] = chance.randrange(256)
            case 2:
                del changed[place:end]
            case 3:
                changed[place:place] = changed[place:end]
            case 4:
                changed[place:end] = chance.randbytes(end - place)
            case 5 if len(changed) > HEADER.size:
                field = chance.choice(fields)
                changed[field : field + 4] = chance.choice(ENDS).to_bytes(4, "little")
            case _:
                changed[place:] = other[chance.randrange(len(other)) :]
    return bytes(changed)


def hostile(
    asked: PublishedSurvey, number: int, how_many: int, seed: int
) -> Iterator[tuple[str, bytes]]:
    chance, good = random.Random(seed), bodies(asked, number)
    for _ in range(how_many):
        (kind, body), (_, other) = chance.choice(good), chance.choice(good)
        yield kind, mutated(body, other, chance)


# In this process


def decided(here: Intake, token: str | None, kind: str, body: bytes) -> list[Upload]:
    """Return the uploads that would be counted. If there are none, the body must be refused."""
    try:
        sent = Sent(kind, token, body)
        decisions = decide(here, sent, parse(here, sent))
    except HttpError as error:
        if error.status >= 500:
            raise
        return []
    return [decision for decision in decisions if isinstance(decision, Upload)]


def attack(here: World, asked: PublishedSurvey, how_many: int) -> tuple[int, int]:
    """Return the numbers of bodies accepted and of reports counted, after checking them."""
    parts, app = here.front.intake, here.bearer("app")["Authorization"]
    taken, waiting, expected = 0, list[Upload](), dict[bytes, Upload]()
    for number, (kind, body) in enumerate(hostile(asked, DECEMBER, how_many, 1)):
        found = decided(parts, app if number % 8 else None, kind, body)
        taken += bool(found)
        waiting += found
        if number % TOGETHER == TOGETHER - 1 and waiting:
            here.writer.write(waiting)
            for answer in waiting:
                expected.setdefault(answer.id, answer)
            waiting.clear()
    cells = counted(asked, [*expected.values()])
    reports = sum(upload.count for upload in expected.values())
    assert here.tallies(asked) == {DECEMBER: (reports, cells)}
    return taken, reports


def counted(asked: PublishedSurvey, uploads: Sequence[Upload]) -> list[int]:
    """Count with the reference decoder, report by report."""
    totals = [[0] * question.mechanism.cells for question in asked.survey.questions]
    for upload in uploads:
        sent = Envelope(asked.id, upload.round, upload.id, upload.count, upload.payload)
        for symbols in decode_reports(asked.survey, sent):
            for cells, question, symbol in zip(
                totals, asked.survey.questions, symbols, strict=True
            ):
                for cell in question.mechanism.encoding.cells_of(symbol or 0):
                    cells[cell] += 1
    return [count for cells in totals for count in cells]


def test_mutated_bodies_break_nothing_and_valid_ones_are_counted(here: World) -> None:
    taken, reports = attack(here, here.publish(mixed()), 20_000)
    assert 2_000 < taken < 18_000
    assert reports > 500


@pytest.mark.long
def test_a_million_mutated_bodies_break_nothing(here: World) -> None:
    taken, reports = attack(here, here.publish(mixed()), 1_000_000)
    print(f"1,000,000 bodies, {taken:,} taken, {reports:,} reports, counted exactly")


# Over HTTP


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def asked(folder: Path) -> PublishedSurvey:
    with create_store(folder) as store:
        return published(store, this_month())


@pytest.fixture(scope="module")
def token(folder: Path, asked: PublishedSurvey) -> str:
    made, now = new_token(), datetime.now(UTC)
    with create_store(folder) as store:
        store.add_token(made, "app", now, now + timedelta(days=1))
    return made


@pytest.fixture(scope="module")
def server(folder: Path, asked: PublishedSurvey) -> Iterator[Server]:
    with serving(folder) as made:
        yield made


def answered(connection: socket.socket, token: str, kind: str, body: bytes) -> int:
    """Return how many reports were accepted."""
    request = head(len(body), kind).replace(
        b"\r\n\r\n", f"\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    )
    connection.sendall(request + body)
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(65_536)
    start, _, document = answer.partition(b"\r\n\r\n")
    length = int(start.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(document) < length:
        document += connection.recv(65_536)
    found = int(start.split(b" ", 2)[1])
    assert found == 200 or 400 <= found < 500, (found, body)
    return int(json.loads(document)["accepted"]) if found == 200 else 0


def assault(
    server: Server, folder: Path, asked: PublishedSurvey, token: str, how_many: int, seed: int
) -> None:
    def reports() -> int:
        with open_store(folder) as store:
            return sum(tally.reports for tally in store.tallies(asked.sequence))

    before, accepted = reports(), 0
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        for kind, body in hostile(asked, this_round(asked), how_many, seed):
            accepted += answered(connection, token, kind, body)
    assert reports() == before + accepted
    assert accepted > 0


def test_mutated_bodies_over_http_are_answered_and_counted_exactly(
    server: Server, folder: Path, asked: PublishedSurvey, token: str
) -> None:
    assault(server, folder, asked, token, 300, 2)


@pytest.mark.long
def test_twenty_thousand_mutated_bodies_over_http(
    server: Server, folder: Path, asked: PublishedSurvey, token: str
) -> None:
    assault(server, folder, asked, token, 20_000, 3)


ENDLESS = (
    f"POST /v1/envelopes HTTP/1.1\r\nHost: x\r\nContent-Type: {CONTENT_TYPE}\r\n"
    "Transfer-Encoding: chunked\r\n\r\n"
).encode()
CHUNK = b"10000\r\n" + bytes(2**16) + b"\r\n"
TOO_MUCH = {
    "10 MB": (head(10_000_000), bytes(10_000_000), 413),
    "a gigabyte, it says": (head(2**30), b"DNB1", 413),
    "endless": (ENDLESS, CHUNK * 160, 413),
    "endless, but short it says": (
        ENDLESS.replace(b"Transfer", b"Content-Length: 9\r\nTransfer"),
        CHUNK * 160,
        413,
    ),
    "compressed": (
        head(1_000).replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n"),
        bytes(1_000),
        415,
    ),
}


def refused_after(server: Server, start: bytes, rest: bytes, expected: int) -> float:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        began = time.perf_counter()
        try:
            connection.sendall(start)
            connection.sendall(rest)
        except OSError:
            pass  # the server has responded and stopped reading
        assert status(connection) == expected
        return time.perf_counter() - began


@pytest.mark.parametrize("what", TOO_MUCH)
def test_oversized_bodies_are_refused_fast_and_use_no_memory(server: Server, what: str) -> None:
    """Take the median of nine runs, because other processes share this machine."""
    assert refused_after(server, *TOO_MUCH[what]) < PATIENCE
    before = peak_rss(server)
    times = [refused_after(server, *TOO_MUCH[what]) for _ in range(9)]
    assert median(times) < REFUSED_IN_SECONDS
    assert peak_rss(server) - before < MAX_GROWTH_BYTES
    print(f"{what}: {1e3 * median(times):.1f} ms, {(peak_rss(server) - before) / 2**20:.1f} MiB")
