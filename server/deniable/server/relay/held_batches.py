"""Envelopes that the relay holds on disk: gathering, waiting for a later batch, or leaving.

    gathering/MARK/*               groups that leave with the next batch of their survey and round
    later/MARK/*                   groups from networks that have filled their share of that batch
    leaving/NUMBER-MARK/*          a batch that is being sent: nothing is added to it
    leaving/NUMBER-MARK-dropped/*  lost envelopes, until the aggregator knows their number
    sent/MARK/*                    short digests of envelopes that have left, until the grace period
                                   ends, and an empty file for each epoch of the round

Each group is one file of envelopes that arrived together, in random order. It is written completely
and synced before it gets its name, so acknowledged envelopes survive a kill. The name is random,
and ends with the group's rank and its number of envelopes: if the file is damaged, that number is
reported as dropped. Its modification time is set to 0.

The relay sends a batch as a whole, because envelopes added to a partly sent batch would stand out,
and deletes it once all of it is delivered. If a kill makes the relay send envelopes again, the
aggregator recognizes them by the ids inside them.

If a device sends an envelope again after its batch has left, the relay recognizes it by its digest:
in another batch, it would not add to the crowd. When a round has a new epoch, the relay forgets its
digests, because the aggregator may have lost the reports.

The networks of senders are only in memory. Envelopes in `later` have ranks: no network has more in
a rank than it may have in a batch. After a restart, one rank after the other gathers, and never two
in the same batch, so a network can add one share only: that of its new envelopes.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
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
DIGEST_BYTES = 16  # length of digests that recognize repeated envelopes
SHORT_BYTES = 8  # length of digests of envelopes that have left
MAX_SENT = 1_000_000  # digests of envelopes that have left: about 70 MB
QUOTA_SHARES = 64  # a network may fill one of these shares of the quota, and larger ones several
UNKNOWN = b"?"  # sender of all envelopes that a restarted relay finds

log = logging.getLogger("deniable.relay")
shuffle = SystemRandom().shuffle


class Full(DeniableError):
    """Raised if a relay has no room for an envelope until a batch has been sent."""


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
    dropped: int | None  # number of envelopes of a drop; None for a batch
    envelopes: Sequence[SealedEnvelope]  # shuffled


@dataclass
class _Pool:
    """Digests, senders and ranks of the envelopes of one mark; those of rank 0 gather."""

    most: int  # envelopes of one network in each rank
    senders: dict[bytes, tuple[bytes | None, int]] = field(default_factory=dict)
    sizes: Counter[int] = field(default_factory=Counter)  # envelopes by rank
    counts: Counter[tuple[int, bytes]] = field(default_factory=Counter)  # by rank and network
    later: dict[bytes, int] = field(default_factory=dict)  # last rank that a sender was given
    first: int = 1  # earlier ranks are from before a restart

    def rank(self, sender: bytes | None) -> int:
        """Return the first rank with room for an envelope."""
        if sender is None or self.has_room(0, sender):
            return 0
        ranks = count(max(self.first, self.later.get(sender, 0)))
        self.later[sender] = rank = next(rank for rank in ranks if self.has_room(rank, sender))
        return rank

    def has_room(self, rank: int, sender: bytes | None) -> bool:
        return all(self.counts[rank, net] < times * self.most for net, times in _networks(sender))

    def unknown(self) -> set[int]:
        return {rank for rank, net in self.counts if net == UNKNOWN}

    def add(self, digest: bytes, sender: bytes | None, rank: int) -> None:
        self.senders[digest] = sender, rank
        self.sizes[rank] += 1
        self.counts.update((rank, net) for net, _ in _networks(sender))

    def remove(self, digest: bytes) -> bytes | None:
        sender, rank = self.senders.pop(digest)
        self.sizes[rank] -= 1
        for net, _ in _networks(sender):
            self.counts[rank, net] -= 1
            if self.counts[rank, net] <= 0:
                del self.counts[rank, net]
        return sender


class Holding:
    """Folder of waiting envelopes; thread-safe."""

    def __init__(self, folder: Path, max_bytes: int, per_network: int) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._lock = threading.Lock()
        for name in (GATHERING, LATER, LEAVING, SENT):
            (folder / name).mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        self._pools = defaultdict[bytes, _Pool](partial(_Pool, per_network))
        self._bytes, self._network_bytes = 0, Counter[bytes]()
        self._recover()
        self._sent: dict[bytes, set[bytes]] = {
            bytes.fromhex(sent.name): set(_digests_in(sent)) for sent in (folder / SENT).iterdir()
        }
        self._load()
        for mark in list(self._pools):
            self._promote(mark)

    def gathered(self) -> Mapping[bytes, int]:
        """Return the number of distinct envelopes that gather, by mark, even if it is 0."""
        with self._lock:
            marks = {*self._pools, *self._sent}
            return {mark: self._pools[mark].sizes[0] for mark in marks}

    def totals(self) -> tuple[int, int]:
        """Return the numbers of waiting envelopes, and of all bytes on disk."""
        with self._lock:
            return sum(len(pool.senders) for pool in self._pools.values()), self._bytes

    def keep(self, arrivals: Iterable[Arrival]) -> list[Exception | None]:
        """Write envelopes to disk, without duplicates; return why each was not accepted, or None.

        The possible reasons are Full and OSError.
        """
        problems, digests = dict[bytes, Exception](), list[bytes]()
        groups = defaultdict[tuple[bytes, int], dict[bytes, SealedEnvelope]](dict)
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
                        mark = arrival.envelope.mark
                        rank = self._pools[mark].rank(arrival.sender)
                        self._count(arrival, rank)
                        self._bytes += len(arrival.envelope.pack())
                        groups[mark, rank][digest] = arrival.envelope
            for (mark, rank), group in groups.items():
                try:
                    self._write(mark, rank, list(group.values()))
                except OSError as error:
                    for digest, envelope in group.items():
                        self._uncount(envelope)
                        self._bytes -= len(envelope.pack())
                        problems[digest] = error
        return [problems.get(digest) for digest in digests]

    def close_batch(self, mark: bytes, fewest: int = 1, keep: int = 0) -> None:
        """Turn gathering envelopes into a batch, and then let later ones take their place.

        At least `keep` envelopes stay, and at least as many and `fewest` leave, or nothing happens.
        """
        with self._lock:
            groups, kept = self._groups(GATHERING, mark), 0
            paths = list(groups)
            shuffle(paths)
            while kept < keep and paths:
                kept += len(groups[paths.pop()])
            envelopes = [envelope for path in paths for envelope in groups[path]]
            if len(envelopes) >= max(fewest, keep):
                self._remember(mark, envelopes)
                self._leave(mark, paths)
                for envelope in envelopes:
                    self._uncount(envelope)
            if self._pools[mark].sizes[0] < 2 * fewest:
                self._promote(mark)

    def drop(self, mark: bytes) -> None:
        """Turn all envelopes of a mark into dropped ones, which only have to be reported."""
        with self._lock:
            for name in (GATHERING, LATER):
                here = self._folder / name / mark.hex()
                if groups := self._groups(name, mark):
                    self._leave(mark, groups, f"-{DROPPED}")
                for group in groups.values():
                    for envelope in group:
                        self._uncount(envelope)
                shutil.rmtree(here, ignore_errors=True)
                sync(self._folder / name)
            self._pools.pop(mark, None)
            self._sent.pop(mark, None)
            shutil.rmtree(self._folder / SENT / mark.hex(), ignore_errors=True)

    def begin_epoch(self, mark: bytes, epoch: int) -> None:
        """Forget the digests of envelopes that left in an earlier epoch, once for each epoch."""
        here = self._folder / SENT / mark.hex()
        with self._lock:
            if (here / f"epoch-{epoch}").exists():
                return
            self._sent[mark] = set()
            shutil.rmtree(here, ignore_errors=True)
            here.mkdir(mode=PRIVATE_FOLDER)
            for number in range(1, epoch + 1):
                _write(here / f"epoch-{number}", b"")
            sync(here.parent)

    def leaving(self, fewest: int = 1) -> LeavingBatch | None:
        """Return a batch to send, or a drop to report. Damage may turn a batch into a drop."""
        for folder in sorted((self._folder / LEAVING).iterdir()):
            number, mark, *dropped = folder.name.split("-")
            parts = folder, bytes.fromhex(number), bytes.fromhex(mark)
            if dropped:
                return LeavingBatch(*parts, sum(_named(path)[1] for path in folder.iterdir()), [])
            groups = {path: _parsed(path) for path in folder.iterdir()}
            envelopes = [envelope for group in groups.values() for envelope in group or ()]
            damaged = [path for path, group in groups.items() if group is None]
            if damaged and len(envelopes) < fewest:
                folder.rename(folder.with_name(f"{token_hex(BATCH_NUMBER_BYTES)}-{mark}-{DROPPED}"))
                sync(folder.parent)
                return self.leaving(fewest)
            if damaged:
                self._leave(parts[-1], damaged, f"-{DROPPED}")
            shuffle(envelopes)
            return LeavingBatch(*parts, None, envelopes)
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
        """Undo what a killed process has not finished; but what is dropped stays dropped."""
        shutil.rmtree(self._folder / GONE, ignore_errors=True)
        for unfinished in (self._folder / LEAVING).glob(f"*{DROPPED}{UNFINISHED}"):
            unfinished.rename(unfinished.with_suffix(""))
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

    def _load(self) -> None:
        """Count what the files hold, each envelope once."""
        pools = self._pools.values()
        known = {digest: sender for pool in pools for digest, (sender, _) in pool.senders.items()}
        self._pools.clear()
        self._network_bytes.clear()
        for name in (GATHERING, LATER):
            for mark in [bytes.fromhex(path.name) for path in (self._folder / name).iterdir()]:
                pool = self._pools[mark]
                left = self._sent.get(mark, ()) if name == LATER else ()
                for path, group in self._read(name, mark).items():
                    digests = {_digest(envelope): envelope for envelope in group}
                    fresh = [
                        envelope
                        for digest, envelope in digests.items()
                        if digest not in pool.senders and digest[:SHORT_BYTES] not in left
                    ]
                    rank = 0 if name == GATHERING else _named(path)[0]
                    if len(fresh) < len(group):  # copies, after a kill
                        self._replace(path, mark, rank, fresh)
                    for envelope in fresh:
                        sender = known.get(_digest(envelope), UNKNOWN)
                        self._count(Arrival(envelope, sender), rank)
        for pool in self._pools.values():
            pool.first = 1 + max(pool.unknown(), default=0)
        names = (GATHERING, LATER, LEAVING)
        self._bytes = sum(_size(path) for name in names for path in (self._folder / name).iterdir())

    def _read(self, name: str, mark: bytes) -> dict[Path, list[SealedEnvelope]]:
        """Return the files of a mark and their envelopes; damaged files become a drop."""
        here, groups = self._folder / name / mark.hex(), dict[Path, list[SealedEnvelope]]()
        for path in sorted(here.iterdir()) if here.exists() else ():
            group = _parsed(path)
            if group is None:
                self._leave(mark, [path], f"-{DROPPED}")
            else:
                groups[path] = group
        return groups

    def _groups(self, name: str, mark: bytes) -> dict[Path, list[SealedEnvelope]]:
        """Return the files of a mark. If they do not hold what is counted, count again."""
        groups, pool = self._read(name, mark), self._pools[mark]
        held = sorted(_digest(envelope) for group in groups.values() for envelope in group)
        ranks = [(digest, rank) for digest, (_, rank) in pool.senders.items()]
        if held != sorted(digest for digest, rank in ranks if (rank > 0) == (name == LATER)):
            self._load()
            return self._groups(name, mark)
        return groups

    def _leave(self, mark: bytes, paths: Iterable[Path], ending: str = "") -> None:
        """Turn files of one folder into a batch or a drop."""
        batch = self._folder / LEAVING / f"{token_hex(BATCH_NUMBER_BYTES)}-{mark.hex()}{ending}"
        unfinished = batch.with_name(batch.name + UNFINISHED)
        unfinished.mkdir(mode=PRIVATE_FOLDER)
        for path in paths:
            path.rename(unfinished / path.name)
        os.utime(path.parent, ns=(0, 0))
        for folder in (path.parent, unfinished):
            sync(folder)
        unfinished.rename(batch)
        sync(batch.parent)

    def _holds(self, mark: bytes, digest: bytes) -> bool:
        if digest[:SHORT_BYTES] in self._sent.get(mark, ()):
            return True
        return mark in self._pools and digest in self._pools[mark].senders

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

    def _count(self, arrival: Arrival, rank: int) -> None:
        envelope, sender = arrival.envelope, arrival.sender
        self._pools[envelope.mark].add(_digest(envelope), sender, rank)
        for net, _ in _networks(sender):
            self._network_bytes[net] += len(envelope.pack())

    def _uncount(self, envelope: SealedEnvelope) -> Arrival:
        sender = self._pools[envelope.mark].remove(_digest(envelope))
        for net, _ in _networks(sender):
            self._network_bytes[net] -= len(envelope.pack())
            if self._network_bytes[net] <= 0:
                del self._network_bytes[net]
        return Arrival(envelope, sender)

    def _write(self, mark: bytes, rank: int, group: list[SealedEnvelope]) -> None:
        here = self._folder / (LATER if rank else GATHERING) / mark.hex()
        if not here.exists():
            here.mkdir(mode=PRIVATE_FOLDER)
            sync(here.parent)
        shuffle(group)
        name = f"{token_hex(16)}-{rank}-{len(group)}"
        _write(here / name, b"".join(envelope.pack() for envelope in group))

    def _replace(self, path: Path, mark: bytes, rank: int, group: list[SealedEnvelope]) -> None:
        """Write what stays of a file. If a kill leaves both files, `_load` removes the copies."""
        if group:
            self._write(mark, rank, group)
        path.unlink()
        sync(path.parent)

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
        groups, pool = self._groups(LATER, mark), self._pools[mark]
        unknown, promoted = min(pool.unknown(), default=0), list[SealedEnvelope]()
        staying = defaultdict[Path, list[SealedEnvelope]](list)
        pool.later.clear()
        paths = list(groups)
        shuffle(paths)
        for path in sorted(paths, key=_named):
            for envelope in groups[path]:
                sender, rank = pool.senders[_digest(envelope)]
                if rank == unknown if sender == UNKNOWN else pool.has_room(0, sender):
                    self._count(self._uncount(envelope), 0)
                    promoted.append(envelope)
                else:
                    staying[path].append(envelope)
        if promoted:
            self._write(mark, 0, promoted)
        for path in paths:
            if len(staying[path]) < len(groups[path]):
                self._replace(path, mark, _named(path)[0], staying[path])


def _networks(sender: bytes | None) -> Iterable[tuple[bytes, int]]:
    return () if sender is None else networks(sender).items()


def _parsed(path: Path) -> list[SealedEnvelope] | None:
    """Return the envelopes in a file, or None if it is damaged."""
    content = path.read_bytes()
    try:
        return parse_sealed(content, len(content))
    except InvalidEnvelope:
        log.error("%s is damaged: its envelopes are lost", path)
        return None


def _named(path: Path) -> tuple[int, int]:
    """Return the rank and the number of envelopes in a file's name."""
    _, rank, envelopes, *_ = f"{path.name}-1-0".split("-")
    return int(rank), int(envelopes)


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
