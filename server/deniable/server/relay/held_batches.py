"""Envelopes that the relay holds on disk: a gathering batch and a leaving batch.

    gathering/*         groups of envelopes that arrived together, each in random order
    gathering/waiting   how long the batch has waited, in whole hours (`Wait`)
    leaving/*           the batch that is being sent: nothing is added to it

Each group is one file. It is written completely and synced before it gets its random name, so
acknowledged envelopes survive a kill. Its modification time is set to 0. The relay sends a batch as
a whole, because envelopes added to a partly sent batch would stand out, and deletes it once all of
it is delivered. If a kill makes the relay send envelopes again, the aggregator recognises them by
the ids inside them.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import SystemRandom
from secrets import token_hex

from deniable.server.disk import PRIVATE_FOLDER, sync
from deniable.server.surveys.clock import Clock
from deniable.shared.errors import DeniableError, InvalidEnvelope
from deniable.shared.sealed_envelope import SealedEnvelope, parse_sealed

GATHERING, LEAVING, GONE = "gathering", "leaving", "gone"
WAITING = "waiting"
UNFINISHED = ".part"
DIGEST_BYTES = 16  # length of digests that recognise repeated envelopes
HOUR = 3_600  # seconds
KEPT_WAIT = re.compile(rb"(\d{1,9}) (\d{1,9})")

log = logging.getLogger("deniable.relay")
shuffle = SystemRandom().shuffle


class Full(DeniableError):
    """Raised for envelopes that a relay has no room for, until a batch has been sent."""


class Holding:
    """Folder of waiting envelopes; thread-safe."""

    def __init__(self, folder: Path, max_bytes: int, clock: Clock | None = None) -> None:
        self._folder, self._max_bytes, self._clock = folder, max_bytes, clock or Clock()
        self._lock = threading.Lock()
        for name in (GATHERING, LEAVING):
            (folder / name).mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            for part in (folder / name).glob(f"*{UNFINISHED}"):
                part.unlink()
        shutil.rmtree(folder / GONE, ignore_errors=True)
        sync(folder)
        self._bytes = sum(path.stat().st_size for path in self._files(GATHERING, LEAVING))
        self._known = {_digest(envelope) for envelope in self._read(GATHERING)}
        kept_wait = b""
        with suppress(OSError):
            kept_wait = (folder / GATHERING / WAITING).read_bytes()
        self._wait = Wait(self._clock, kept_wait)
        if self._known:
            self._keep_wait()

    @property
    def gathered(self) -> int:
        """Number of distinct envelopes in the gathering batch."""
        return len(self._known)

    def waited(self) -> float:
        """Return how many seconds the first gathered envelope has waited.

        The wait is saved at each full hour of the machine's clock. If it were saved at full hours
        of the batch, the file's time would show the minute in which the batch began.
        """
        with self._lock:
            if not self._known:
                return 0.0
            if self._hour != self._clock.seconds() // HOUR:
                self._keep_wait()
            return self._wait.seconds()

    def keep(self, envelopes: Iterable[SealedEnvelope]) -> None:
        """Write envelopes to disk, without duplicates, before returning."""
        with self._lock:
            new = {_digest(envelope): envelope for envelope in envelopes}
            group = [envelope for digest, envelope in new.items() if digest not in self._known]
            if not group:
                return
            shuffle(group)
            content = b"".join(envelope.pack() for envelope in group)
            if self._bytes + len(content) > self._max_bytes:
                raise Full("the relay is full; send the same body again later")
            _write(self._folder / GATHERING / token_hex(16), content)
            self._bytes += len(content)
            if not self._known:
                self._wait = Wait(self._clock)
                self._keep_wait()
            self._known |= new.keys()

    def leaving(self) -> Sequence[SealedEnvelope]:
        """Return the leaving batch, shuffled; empty if there is none."""
        batch = list(self._read(LEAVING))
        shuffle(batch)
        return batch

    def close_batch(self) -> None:
        """Turn the gathering batch into the leaving batch; there must be none yet."""
        with self._lock:
            shutil.rmtree(self._folder / LEAVING)  # empty, or only damaged files
            (self._folder / GATHERING).rename(self._folder / LEAVING)
            (self._folder / GATHERING).mkdir(mode=PRIVATE_FOLDER)
            sync(self._folder)
            self._known = set()

    def delete_batch(self) -> None:
        """Delete the leaving batch, which has been delivered completely."""
        with self._lock:
            self._bytes -= sum(path.stat().st_size for path in self._files(LEAVING))
            shutil.rmtree(self._folder / GONE, ignore_errors=True)
            (self._folder / LEAVING).rename(self._folder / GONE)
            (self._folder / LEAVING).mkdir(mode=PRIVATE_FOLDER)
            sync(self._folder)
            shutil.rmtree(self._folder / GONE)

    def _keep_wait(self) -> None:
        """Save how long the batch has waited; without this, it may wait longer after a restart."""
        self._hour = self._clock.seconds() // HOUR
        try:
            _write(self._folder / GATHERING / WAITING, self._wait.pack())
        except OSError as error:
            log.warning("the waiting time of a batch cannot be saved: %s", error.strerror)

    def _read(self, name: str) -> Iterator[SealedEnvelope]:
        for path in self._files(name):
            try:
                yield from parse_sealed(path.read_bytes())
            except InvalidEnvelope:
                log.error("%s is damaged: its envelopes are lost", path)

    def _files(self, *names: str) -> list[Path]:
        paths = [path for name in names for path in sorted((self._folder / name).iterdir())]
        return [path for path in paths if path.name != WAITING]


class Wait:
    """Waiting time of a batch, kept across restarts and changes of the calendar.

        "494663 13"    the hour in which it began, counted from 1970; the hours measured since

    A running relay measures with a monotonic clock; only the calendar shows how much time passed
    while no relay ran. After a restart, the longer of the two waits counts, each rounded down to
    whole hours. The batch therefore waits for up to an hour more, and is sent early only if the
    calendar has jumped ahead. If the calendar was set back, unmeasured hours are lost. If the saved
    wait cannot be read, the wait begins now.
    """

    def __init__(self, clock: Clock, kept: bytes = b"") -> None:
        self._clock, self._begun, self._before = clock, clock.seconds(), 0.0
        calendar = clock.now().timestamp()
        self._hour = int(calendar // HOUR)
        if numbers := KEPT_WAIT.fullmatch(kept):
            self._hour, seen = map(int, numbers.groups())
            self._before = max(calendar - HOUR * (self._hour + 1), float(HOUR * seen))

    def seconds(self) -> float:
        return self._before + self._clock.seconds() - self._begun

    def pack(self) -> bytes:
        return b"%d %d" % (self._hour, self.seconds() // HOUR)


def _digest(envelope: SealedEnvelope) -> bytes:
    return hashlib.sha256(envelope.pack()).digest()[:DIGEST_BYTES]


def _write(path: Path, content: bytes) -> None:
    """Write a file completely or not at all."""
    unfinished = path.with_name(path.name + UNFINISHED)
    try:
        with unfinished.open("xb") as file:
            file.write(content)
            file.flush()
            os.utime(file.fileno(), ns=(0, 0))
            os.fsync(file.fileno())
        unfinished.rename(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    os.utime(path.parent, ns=(0, 0))  # the folder's time would show when the last envelope arrived
    sync(path.parent)
