"""Workload to record: several clients send envelopes to the real store and writer concurrently.

`python -m tests.server.power.recorded DATA ENVELOPES [FULL | OFF | TABLES]` runs it. The last
argument selects the files that are synced.

Ids of acknowledged envelopes are written to a file in the folder, so that the recording contains
them in order.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from contextlib import suppress
from pathlib import Path

from deniable.server.intake.writer import Unavailable, Writer
from deniable.server.store import PublishedSurvey, SqliteStore, Upload
from deniable.server.store.sqlite import redo_file, sqlite_database
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.clock import Clock
from tests.server.surveys import DECEMBER
from tests.server.world import NOON

ACKNOWLEDGED = "acknowledged"
CLIENTS = 4
COUNTED = 1, "accepted"


def main(data: Path, envelopes: int, syncs: str = "FULL") -> None:
    if syncs == "OFF":
        sqlite_database.PRAGMAS = tuple(
            pragma.replace("FULL", syncs) for pragma in sqlite_database.PRAGMAS
        )
    if syncs != "FULL":
        redo_file.os = Unsynced()  # type: ignore[assignment,attr-defined]  # all but the sync
    with SqliteStore.open(data) as store:
        catalogue = Catalogue(store)
        writer = Writer(store, catalogue, Clock(now=lambda: NOON))
        writer.start()
        log = os.open(data / ACKNOWLEDGED, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        clients = [
            threading.Thread(target=send, args=(writer, catalogue.surveys()[0], log, share, number))
            for number, share in enumerate([envelopes // CLIENTS] * CLIENTS)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        os._exit(0)  # closes nothing, like a power cut


class Unsynced:
    """The module `os` with an `fdatasync` that does nothing."""

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def fdatasync(self, _: int) -> None: ...


def send(writer: Writer, asked: PublishedSurvey, log: int, envelopes: int, seed: int) -> None:
    """Send envelopes alone or in groups. Some are larger than a bucket, and some are sent twice."""
    chance = random.Random(seed)
    while envelopes > 0:
        group = [upload(asked, chance) for _ in range(min(envelopes, chance.choice((1, 1, 9))))]
        until_taken(writer, group)
        os.write(log, b"".join(upload.id for upload in group))
        writer.count({COUNTED: len(group)})
        if chance.random() < 0.1:
            until_taken(writer, group)
        envelopes -= len(group)


def until_taken(writer: Writer, group: list[Upload]) -> None:
    """Submit a group again until the writer accepts it, as a client does."""
    while True:
        with suppress(Unavailable):
            writer.write(group)
            return


def upload(asked: PublishedSurvey, chance: random.Random) -> Upload:
    """Make an upload whose id encodes its number of reports."""
    identifier = chance.randbytes(16)
    count = reports_of(identifier)
    return Upload(asked, DECEMBER, identifier, count, bytes(count))


def reports_of(identifier: bytes) -> int:
    return 1_500 if identifier[0] < 8 else 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
