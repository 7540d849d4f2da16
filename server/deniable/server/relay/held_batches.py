"""Envelopes that the relay holds on disk: gathering, waiting for a later batch, or leaving.

    gathering/MARK/*               groups that leave with the next batch of their survey and round
    later/MARK/*                   groups from networks that have filled their share of that batch
    leaving/NUMBER-MARK/*          a batch that is being sent: nothing is added to it
    leaving/NUMBER-MARK-dropped/*  envelopes that were too few, until the aggregator knows of it
    sent/MARK/*                    short digests of envelopes that have left, until the round ends

Each group is one file of envelopes that arrived together, in random order. It is written completely
and synced before it gets its random name, so acknowledged envelopes survive a kill. Its
modification time is set to 0. The relay sends a batch as a whole, because envelopes added to a
partly sent batch would stand out, and deletes it once all of it is delivered. If a kill makes the
relay send envelopes again, the aggregator recognises them by the ids inside them.

If a device sends an envelope again after its batch has left, the relay recognizes it by its digest:
in another batch, it would not add to the crowd.

The networks of senders are only in memory. After a restart, envelopes in `gathering` count for no
network, and those in `later` count for one network together.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom
from secrets import token_hex

from deniable.server.disk import PRIVATE_FOLDER, sync
from deniable.server.intake.limits import networks
from deniable.shared.errors import DeniableError, InvalidEnvelope
from deniable.shared.sealed_envelope import BATCH_NUMBER_BYTES, SealedEnvelope, parse_sealed

GATHERING, LATER, LEAVING, SENT, GONE = "gathering", "later", "leaving", "sent", "gone"
DROPPED = "dropped"
UNFINISHED = ".part"
DIGEST_BYTES = 16  # length of digests that recognise repeated envelopes
SHORT_BYTES = 8  # length of digests of envelopes that have left
MAX_SENT = 1_000_000  # digests of envelopes that have left: some 70 MB
QUOTA_SHARES = 64  # a network may fill one of these shares of the quota, and larger ones several
UNKNOWN = b""  # network of the envelopes in `later` after a restart

log = logging.getLogger("deniable.relay")
shuffle = SystemRandom().shuffle


class Full(DeniableError):
    """Raised for an envelope for which a relay has no room, until a batch has been sent."""


@dataclass(frozen=True)
class Arrival:
    """Envelope and the network of its sender; None if it counts for no network."""

    envelope: SealedEnvelope
    sender: bytes | None = None


@dataclass(frozen=True)
class LeavingBatch:
    """Batch that is being sent, or envelopes that were dropped."""

    folder: Path
    number: bytes
    mark: bytes
    was_dropped: bool
    envelopes: Sequence[SealedEnvelope]  # shuffled


@dataclass
class _Pool:
    """Digests and senders of the envelopes of one mark in one folder."""

    senders: dict[bytes, bytes | None] = field(default_factory=dict)
    counts: Counter[bytes] = field(default_factory=Counter)  # envelopes by network

    def has_room(self, sender: bytes | None, most: int) -> bool:
        return all(self.counts[net] < times * most for net, times in _networks(sender))

    def add(self, digest: bytes, sender: bytes | None) -> None:
        self.senders[digest] = sender
        self.counts.update(net for net, _ in _networks(sender))

    def remove(self, digest: bytes) -> bytes | None:
        sender = self.senders.pop(digest, None)
        for net, _ in _networks(sender):
            self.counts[net] -= 1
            if self.counts[net] <= 0:
                del self.counts[net]
        return sender


class Holding:
    """Folder of waiting envelopes; thread-safe."""

    def __init__(self, folder: Path, max_bytes: int, per_network: int) -> None:
        self._folder, self._max_bytes, self._per_network = folder, max_bytes, per_network
        self._lock = threading.Lock()
        for name in (GATHERING, LATER, LEAVING, SENT):
            (folder / name).mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        self._pools: dict[str, defaultdict[bytes, _Pool]] = {
            name: defaultdict(_Pool) for name in (GATHERING, LATER)
        }
        self._bytes, self._network_bytes = 0, Counter[bytes]()
        self._recover()
        for name, sender in ((GATHERING, None), (LATER, UNKNOWN)):
            for mark_folder in sorted((folder / name).iterdir()):
                for arrival in _read(mark_folder):
                    self._count(name, Arrival(arrival, sender))
        self._bytes += sum(_size(batch) for batch in (folder / LEAVING).iterdir())
        self._sent: dict[bytes, set[bytes]] = {
            bytes.fromhex(sent.name): set(_digests_in(sent)) for sent in (folder / SENT).iterdir()
        }

    def gathered(self) -> Mapping[bytes, int]:
        """Return the number of distinct envelopes that gather, by mark, even if it is 0."""
        with self._lock:
            pools, nothing = self._pools[GATHERING], _Pool()
            marks = {*pools, *self._pools[LATER], *self._sent}
            return {mark: len(pools.get(mark, nothing).senders) for mark in marks}

    def totals(self) -> tuple[int, int]:
        """Return the numbers of waiting envelopes, and of all bytes on disk."""
        with self._lock:
            pools = [pool for pools in self._pools.values() for pool in pools.values()]
            return sum(len(pool.senders) for pool in pools), self._bytes

    def keep(self, arrivals: Iterable[Arrival]) -> list[Exception | None]:
        """Write envelopes to disk, without duplicates; return why each was not accepted, or None.

        The errors are Full and OSError.
        """
        problems, digests = dict[bytes, Exception](), list[bytes]()
        groups = defaultdict[tuple[str, bytes], dict[bytes, Arrival]](dict)
        with self._lock:
            for arrival in arrivals:
                digests.append(digest := _digest(arrival.envelope))
                problems.pop(digest, None)
                if not self._holds(arrival.envelope.mark, digest):
                    try:
                        self._check_room(arrival)
                    except Full as error:
                        problems[digest] = error
                    else:
                        groups[self._place(arrival), arrival.envelope.mark][digest] = arrival
            for (name, mark), group in groups.items():
                try:
                    self._write(name, mark, [arrival.envelope for arrival in group.values()])
                except OSError as error:
                    for digest, arrival in group.items():
                        self._uncount(name, arrival.envelope)
                        problems[digest] = error
        return [problems.get(digest) for digest in digests]

    def close_batch(self, mark: bytes, keep: int = 0) -> None:
        """Turn gathering envelopes into a batch, and then let later ones take their place.

        At least `keep` envelopes stay, and at least as many leave, or nothing happens.
        """
        with self._lock:
            here = self._folder / GATHERING / mark.hex()
            groups, kept = {path: _parsed(path) for path in here.iterdir()}, 0
            paths = list(groups)
            shuffle(paths)
            while kept < keep and paths:
                kept += len(groups[paths.pop()])
            envelopes = [envelope for path in paths for envelope in groups[path]]
            if len(envelopes) < max(1, keep):
                return
            batch = self._folder / LEAVING / f"{token_hex(BATCH_NUMBER_BYTES)}-{mark.hex()}"
            unfinished = batch.with_name(batch.name + UNFINISHED)
            unfinished.mkdir(mode=PRIVATE_FOLDER)
            for path in paths:
                path.rename(unfinished / path.name)
            for envelope in envelopes:
                self._uncount(GATHERING, envelope)
                self._bytes += len(envelope.pack())
            self._remember(mark, envelopes)
            os.utime(here, ns=(0, 0))
            for folder in (here, unfinished):
                sync(folder)
            unfinished.rename(batch)
            sync(batch.parent)
            self._promote(mark)

    def drop(self, mark: bytes) -> None:
        """Turn all envelopes of a mark into dropped ones, which only have to be reported."""
        with self._lock:
            for name in (GATHERING, LATER):
                here, number = self._folder / name / mark.hex(), token_hex(BATCH_NUMBER_BYTES)
                for envelope in _read(here):
                    self._uncount(name, envelope)
                    self._bytes += len(envelope.pack())
                self._pools[name].pop(mark, None)
                with suppress(OSError):
                    here.rmdir()  # fails unless it is empty
                if here.exists():
                    here.rename(self._folder / LEAVING / f"{number}-{mark.hex()}-{DROPPED}")
                sync(self._folder / name)
            sync(self._folder / LEAVING)
            self._sent.pop(mark, None)
            shutil.rmtree(self._folder / SENT / mark.hex(), ignore_errors=True)

    def leaving(self) -> LeavingBatch | None:
        """Return a batch to send, or a drop to report."""
        for folder in sorted((self._folder / LEAVING).iterdir()):
            number, mark, *dropped = folder.name.split("-")
            envelopes = list(_read(folder))
            shuffle(envelopes)
            parts = bytes.fromhex(number), bytes.fromhex(mark), bool(dropped)
            return LeavingBatch(folder, *parts, envelopes)
        return None

    def delete(self, batch: LeavingBatch) -> None:
        """Delete a batch that has been delivered completely, or a drop that has been reported."""
        with self._lock:
            self._bytes -= _size(batch.folder)
            shutil.rmtree(self._folder / GONE, ignore_errors=True)
            batch.folder.rename(self._folder / GONE)
            sync(self._folder / LEAVING)
            shutil.rmtree(self._folder / GONE)

    # Under the lock

    def _recover(self) -> None:
        """Undo what a killed process has not finished."""
        shutil.rmtree(self._folder / GONE, ignore_errors=True)
        for unfinished in (self._folder / LEAVING).glob(f"*{UNFINISHED}"):
            here = self._folder / GATHERING / unfinished.stem.split("-")[1]
            here.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
            for path in unfinished.iterdir():
                path.rename(here / path.name)
            sync(here)
            unfinished.rmdir()
        for name in (GATHERING, LATER, SENT):
            for path in (self._folder / name).glob(f"*/*{UNFINISHED}"):
                path.unlink()
            sync(self._folder / name)

    def _holds(self, mark: bytes, digest: bytes) -> bool:
        pools = (self._pools[name].get(mark) for name in (GATHERING, LATER))
        if digest[:SHORT_BYTES] in self._sent.get(mark, ()):
            return True
        return any(pool is not None and digest in pool.senders for pool in pools)

    def _check_room(self, arrival: Arrival) -> None:
        """Raise Full if the relay, or a network of the sender, has no room for an envelope."""
        size, share = len(arrival.envelope.pack()), self._max_bytes // QUOTA_SHARES
        if any(
            self._network_bytes[net] + size > times * share
            for net, times in _networks(arrival.sender)
        ):
            raise Full("the relay holds too much from addresses near this one; send it again later")
        if self._bytes + size > self._max_bytes:
            raise Full("the relay is full; send the same body again later")

    def _place(self, arrival: Arrival) -> str:
        """Count an envelope in the folder for it, and return the folder's name."""
        gathering = self._pools[GATHERING][arrival.envelope.mark]
        has_room = gathering.has_room(arrival.sender, self._per_network)
        name = GATHERING if has_room else LATER
        self._count(name, arrival)
        return name

    def _count(self, name: str, arrival: Arrival) -> None:
        envelope, sender = arrival.envelope, arrival.sender
        self._pools[name][envelope.mark].add(_digest(envelope), sender)
        self._bytes += len(envelope.pack())
        for net, _ in _networks(sender):
            self._network_bytes[net] += len(envelope.pack())

    def _uncount(self, name: str, envelope: SealedEnvelope) -> Arrival:
        sender = self._pools[name][envelope.mark].remove(_digest(envelope))
        self._bytes -= len(envelope.pack())
        for net, _ in _networks(sender):
            self._network_bytes[net] -= len(envelope.pack())
            if self._network_bytes[net] <= 0:
                del self._network_bytes[net]
        return Arrival(envelope, sender)

    def _write(self, name: str, mark: bytes, group: list[SealedEnvelope]) -> None:
        here = self._folder / name / mark.hex()
        if not here.exists():
            here.mkdir(mode=PRIVATE_FOLDER)
            sync(here.parent)
        shuffle(group)
        _write(here / token_hex(16), b"".join(envelope.pack() for envelope in group))

    def _remember(self, mark: bytes, envelopes: Sequence[SealedEnvelope]) -> None:
        """Write the digests of a batch to disk, unless there are too many."""
        if sum(map(len, self._sent.values())) + len(envelopes) <= MAX_SENT:
            digests = sorted(_digest(envelope)[:SHORT_BYTES] for envelope in envelopes)
            self._sent.setdefault(mark, set()).update(digests)
            here = self._folder / SENT / mark.hex()
            here.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
            _write(here / token_hex(16), b"".join(digests))

    def _promote(self, mark: bytes) -> None:
        """Let later envelopes gather, as many as their networks may have in a batch."""
        here = self._folder / LATER / mark.hex()
        if not here.exists():
            return
        files, moved = list(here.iterdir()), defaultdict[str, list[SealedEnvelope]](list)
        arrivals = [self._uncount(LATER, envelope) for envelope in _read(here)]
        shuffle(arrivals)
        for arrival in arrivals:
            moved[self._place(arrival)].append(arrival.envelope)
        for name, envelopes in moved.items():
            self._write(name, mark, envelopes)
        for path in files:
            path.unlink()
        sync(here)


def _networks(sender: bytes | None) -> Iterable[tuple[bytes, int]]:
    return () if sender is None else networks(sender).items()


def _read(folder: Path) -> Iterator[SealedEnvelope]:
    for path in sorted(folder.iterdir()) if folder.exists() else ():
        yield from _parsed(path)


def _parsed(path: Path) -> list[SealedEnvelope]:
    try:
        return parse_sealed(path.read_bytes())
    except InvalidEnvelope:
        log.error("%s is damaged: its envelopes are lost", path)
        return []


def _digests_in(folder: Path) -> Iterator[bytes]:
    for path in folder.iterdir():
        content = path.read_bytes()
        for start in range(0, len(content), SHORT_BYTES):
            yield content[start : start + SHORT_BYTES]


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


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
