"""Bytes written to disk per report, if nearly every report changes a separate page.

The bytes that remain stored are measured too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from deniable.server.intake.commit import commit
from deniable.server.store import FILE, PublishedSurvey, SqliteStore, Upload
from tests.bench.measure import Measurement
from tests.server.surveys import DECEMBER, published, survey

GROUP, GROUPS = 64, 64
# Number of groups that enter the tables together, and its limit. At 5,000 reports per second, 8
# groups arrive in a tenth of a second, which is the production setting; 32 groups would take four
# tenths.
TOGETHER = {1: 8_000, 8: 5_800, 32: 3_800}
# Size of a large report, and the limit of what is written for a byte of it, in groups of 8.
LARGE = {1_000: 33, 8_000: 12, 100_000: 11}
FILL = 8_192
BEFORE = 100_000  # reports already stored; they fill far more pages than one group changes


def measurements() -> Iterator[Measurement]:
    with TemporaryDirectory() as folder, SqliteStore.create(Path(folder) / "data") as store:
        asked = published(store, survey())
        for _ in range(0, BEFORE, FILL):
            write(store, asked, FILL)
        for together, limit in TOGETHER.items():
            yield Measurement(
                f"written for a report among {BEFORE:,}, in groups of {GROUP}, {together} together",
                ours=written_each(store, asked, together),
                baseline=None,
                unit="bytes",
                limit=limit,
                note="each page that changes goes to the log and to its place",
            )
        (total,) = store.report_totals().values()
        kept = (store.data / FILE).stat().st_size / total
    for size, limit in LARGE.items():
        yield Measurement(
            f"written for a byte of payload, in reports of {size:,} bytes",
            ours=written_for_large(size),
            baseline=None,
            unit="bytes",
            limit=limit,
            note="each part that arrives moves another one, so that no page shows the order",
        )
    yield Measurement("kept of a report of one byte", kept, None, "bytes", 50)


def written_each(store: SqliteStore, asked: PublishedSurvey, together: int) -> float:
    before = written()
    for number in range(GROUPS):
        write(store, asked, GROUP, settle=number % together == together - 1)
    return (written() - before) / (GROUPS * GROUP)


def written_for_large(size: int) -> float:
    with TemporaryDirectory() as folder, SqliteStore.create(Path(folder) / "data") as store:
        asked, groups = published(store, survey()), max(2, 400_000 // size // 8)
        for _ in range(4 * groups):
            write_large(store, asked, size)
        before = written()
        for _ in range(groups):
            write_large(store, asked, size)
        return (written() - before) / (groups * 8 * size)


def write_large(store: SqliteStore, asked: PublishedSurvey, size: int) -> None:
    with store.transaction() as transaction:
        transaction.insert(
            [Upload(asked, DECEMBER, os.urandom(16), 1, os.urandom(size)) for _ in range(8)]
        )
    store.forget_order()


def write(store: SqliteStore, asked: PublishedSurvey, reports: int, *, settle: bool = True) -> None:
    uploads = [Upload(asked, DECEMBER, os.urandom(16), 1, b"\0") for _ in range(reports)]
    with store.transaction(later=True) as transaction:
        commit(transaction, uploads)
    if settle:
        store.forget_order()


def written() -> int:
    """Return the bytes written by this process, as the kernel counts them."""
    found = re.search(r"^write_bytes: (\d+)$", Path("/proc/self/io").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])
