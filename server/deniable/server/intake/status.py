"""Status of intake, which the reader reads from shared memory.

Intake writes its status twice a second. The reader shows it on pages and in /metrics, and uses it
to decide whether reports can be accepted. The status includes figures for Prometheus: waiting
requests and commit times, in steps that show no single report.
"""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from multiprocessing.sharedctypes import RawArray
from struct import Struct as Layout

import msgspec
from msgspec import Struct
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest

from deniable.server.intake.writer import Writer
from deniable.server.store import PublishedSurvey, Store
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.errors import StoreUnusable
from deniable.shared.survey.document import DEFAULT_STEP

BOARD_BYTES = 2**20
WRITE_SECONDS = 0.5
STALE_SECONDS = 10.0
READ_ATTEMPTS = 5
HEAD = Layout("<II")  # length and CRC-32 of the rest, which detect a torn read
STOPPED = "the writer has stopped because the disk failed; restart the server once the disk works"
SILENT = "the intake process is not running; it may be starting"
MISSING_KEY = (
    "reports of {} are sealed to a key that this server does not have; run deniable serve "
    "--sealing-key FILE"
)

log = logging.getLogger("deniable.server")


class IntakeStatus(Struct, frozen=True, kw_only=True):
    written: float  # time of writing, by the machine's monotonic clock
    running: bool = False  # whether the writer is running
    clock_fault: str | None = None  # why the clock is not trusted
    waiting: int = 0  # requests that wait for the disk
    sealing_keys: list[str] = []  # public halves of the keys that unseal reports
    metrics: str = ""  # for Prometheus


NO_STATUS = IntakeStatus(written=float("-inf"))


class StatusBoard:
    """Shared memory with the latest status, created before the processes that write and read it."""

    def __init__(self) -> None:
        self._memory = RawArray("B", BOARD_BYTES)

    def write(self, status: IntakeStatus) -> None:
        content = msgspec.json.encode(status)
        if len(content) > BOARD_BYTES - HEAD.size:
            content = msgspec.json.encode(msgspec.structs.replace(status, metrics=""))
        packed = HEAD.pack(len(content), zlib.crc32(content)) + content
        memoryview(self._memory).cast("B")[: len(packed)] = packed

    def read(self) -> IntakeStatus:
        """Return the latest status, or NO_STATUS if it is missing or stale."""
        memory = memoryview(self._memory).cast("B")
        for _ in range(READ_ATTEMPTS):
            length, checksum = HEAD.unpack(memory[: HEAD.size])
            content = bytes(memory[HEAD.size : HEAD.size + length])
            if length and zlib.crc32(content) == checksum:
                status = msgspec.json.decode(content, type=IntakeStatus)
                return status if time.monotonic() - status.written < STALE_SECONDS else NO_STATUS
            time.sleep(0.001)
        return NO_STATUS

    def keep_writing(self, status: Callable[[], IntakeStatus]) -> None:
        """Start a thread that writes the status twice a second until the process ends."""

        def run() -> None:
            while True:
                try:
                    self.write(status())
                except Exception:
                    log.exception("the status of intake could not be written; trying again")
                time.sleep(WRITE_SECONDS)

        threading.Thread(target=run, name="status", daemon=True).start()


def unready_reason(
    status: IntakeStatus, store: Store, catalogue: Catalogue, now: datetime
) -> str | None:
    """Return why reports cannot be accepted, or None if they can."""
    if status is NO_STATUS:
        return SILENT
    if not status.running:
        return STOPPED
    if status.clock_fault is not None:
        return status.clock_fault
    if unreadable := [p.name for p in unreadable_surveys(catalogue, status.sealing_keys, now)]:
        return MISSING_KEY.format(unreadable[0])
    try:
        store.check_writable()
    except StoreUnusable as error:
        return str(error)
    return None


def unreadable_surveys(
    catalogue: Catalogue, keys: Collection[str], now: datetime
) -> Iterator[PublishedSurvey]:
    """Yield the sealed surveys that accept reports, but whose key is missing."""
    for published in catalogue.surveys():
        survey, public = published.survey, published.survey.sealed_to
        is_open = not published.closed and now < survey.taken_until(survey.last_round)
        if public and public not in keys and is_open:
            yield published


METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COMMIT_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class Metrics:
    """Prometheus metrics of one writer; separate registries let several share a process."""

    def __init__(self, writer: Writer) -> None:
        self._registry = CollectorRegistry()
        waiting = Gauge(
            "deniable_writer_waiting",
            f"Requests waiting for the disk, in steps of {DEFAULT_STEP}.",
            registry=self._registry,
        )
        waiting.set_function(lambda: writer.waiting - writer.waiting % DEFAULT_STEP)
        self._commits = Histogram(
            "deniable_commit_seconds",
            f"Duration of group commits, in steps of {DEFAULT_STEP} commits.",
            buckets=COMMIT_BUCKETS,
            registry=self._registry,
        )
        self._new_commits = list[float]()
        writer.observe_commit = self._observe_commit

    def _observe_commit(self, seconds: float) -> None:
        """Count commits in steps: while few reports arrive, each commit is one report."""
        self._new_commits.append(seconds)
        if len(self._new_commits) == DEFAULT_STEP:
            for duration in self._new_commits:
                self._commits.observe(duration)
            self._new_commits.clear()

    def text(self) -> str:
        return generate_latest(self._registry).decode()
