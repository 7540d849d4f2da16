"""`deniable` with a planted bug in the server, which the kill tests must find.

    python planted.py late-commit serve ...        acknowledges first, and commits a moment later
    python planted.py no-deduplication serve ...   counts an envelope every time that it arrives
    python planted.py unwritten serve ...          keeps pending envelopes in memory only
    python planted.py none serve ...               has no bug

With PostgreSQL, clean-up never pauses, whichever bug is planted.
"""

import sys
import time
from collections.abc import Sequence

from deniable.server.intake.writer import Writer, _Request
from deniable.server.store import Upload, UploadKey
from deniable.server.store.postgres import scrub
from deniable.server.store.postgres.postgres_store import PostgresTransaction
from deniable.server.store.sqlite.redo_file import RedoFile
from deniable.server.store.sqlite.write_connection import SqliteTransaction
from deniable.shared.cli.command import main

honest_commit = Writer._commit


def late_commit(self: Writer, group: list[_Request], *, later: bool = False) -> bool:
    for request in group:
        request.settle(["accepted"] * len(request.uploads))
    time.sleep(0.2)
    unheard = [_Request(request.uploads, request.size, lambda _: None) for request in group]
    return honest_commit(self, unheard, later=later)


def no_deduplication(
    _: SqliteTransaction | PostgresTransaction, uploads: Sequence[Upload]
) -> set[UploadKey]:
    return {upload.key for upload in uploads}


def unwritten(self: RedoFile, content: bytes) -> None:
    self._half = len(content) % 2


if __name__ == "__main__":
    scrub.PAUSE_SECONDS = scrub.SHARE = 0
    if sys.argv[1] == "late-commit":
        Writer._commit = late_commit  # type: ignore[method-assign]  # that is the bug
    elif sys.argv[1] == "unwritten":
        RedoFile._write = unwritten  # type: ignore[method-assign]  # that is the bug
    elif sys.argv[1] == "no-deduplication":
        SqliteTransaction.insert = no_deduplication  # type: ignore[method-assign,assignment]  # that is the bug
        PostgresTransaction.insert = no_deduplication  # type: ignore[method-assign,assignment]  # the same
    raise SystemExit(main(sys.argv[2:]))
