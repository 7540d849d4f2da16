"""Status of intake, which the reader reads from memory that both processes share.

Intake writes its status twice a second. The reader shows it on pages and in /metrics, and uses it
to decide whether reports can be accepted.
"""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from multiprocessing.sharedctypes import RawArray
from struct import Struct as Layout

import msgspec
from msgspec import Struct

from deniable.server.store import PublishedSurvey, Store
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.errors import StoreUnusable
from deniable.shared.survey.keys import mark_of

BOARD_BYTES = 2**20
WRITE_SECONDS = 0.5
STALE_SECONDS = 10.0
READ_ATTEMPTS = 5
HEAD = Layout("<II")  # length and CRC-32 of the rest, which detect a torn read
STOPPED = "the writer has stopped because the disk failed; restart once the disk is well"
SILENT = "the intake process is not running; it may be starting"
MISSING_KEY = (
    "reports of {} are sealed to a key that this server lacks: deniable serve --sealing-key FILE"
)

log = logging.getLogger("deniable.server")


class IntakeStatus(Struct, frozen=True, kw_only=True):
    """Status of intake as the reader sees it."""

    written: float  # time of writing, by the clock that all processes of a machine share
    running: bool  # True while the writer runs
    doubt: str | None  # the reason why the clock is not trusted
    waiting: int  # requests that wait for the disk
    commits: list[tuple[str, str]]  # cumulative shares of commits, and their longest duration
    sealing_marks: list[str]  # of the keys that open sealed reports, in hex
    metrics: str  # for Prometheus


NO_STATUS = IntakeStatus(
    written=float("-inf"),
    running=False,
    doubt=None,
    waiting=0,
    commits=[],
    sealing_marks=[],
    metrics="",
)


class StatusBoard:
    """Shared memory with the newest status: one process writes, others read. Made before both."""

    def __init__(self) -> None:
        self._memory = RawArray("B", BOARD_BYTES)

    def write(self, status: IntakeStatus) -> None:
        content = msgspec.json.encode(status)
        if len(content) > BOARD_BYTES - HEAD.size:
            content = msgspec.json.encode(msgspec.structs.replace(status, metrics=""))
        packed = HEAD.pack(len(content), zlib.crc32(content)) + content
        memoryview(self._memory).cast("B")[: len(packed)] = packed

    def read(self) -> IntakeStatus:
        """Return the newest status; one that is not running if there is none, or an old one."""
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
        """Write the status twice a second, in a thread, for as long as the process lives."""

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
    """Return why reports cannot be taken; None if the writer runs and the store can be written."""
    if status is NO_STATUS:
        return SILENT
    if not status.running:
        return STOPPED
    if status.doubt is not None:
        return status.doubt
    marks = {bytes.fromhex(mark) for mark in status.sealing_marks}
    if unreadable := [survey.name for _, survey in missing_keys(catalogue, marks, now)]:
        return MISSING_KEY.format(unreadable[0])
    try:
        store.check_writable()
    except StoreUnusable as error:
        return str(error)
    return None


def missing_keys(
    catalogue: Catalogue, marks: Collection[bytes], now: datetime
) -> Iterable[tuple[bytes, PublishedSurvey]]:
    """Return the surveys whose reports are sealed to another key than these, with its mark."""
    for published in catalogue.surveys():
        if (public := published.survey.sealed_to) and not published.closed:
            taken = now < published.survey.taken_until(published.survey.last_round)
            if taken and (mark := mark_of(public)) not in marks:
                yield mark, published
