"""Delay of other requests while a server deletes the reports of a round past its retention.

`python -m tests.bench.purging [REPORTS]` runs only this measurement.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

from deniable.server.intake.commit import commit
from deniable.server.store import FILE, PublishedSurvey, SqliteStore, Upload
from deniable.shared.survey.document import parse_toml
from tests.bench.answer import percentile
from tests.bench.ingest import upload
from tests.bench.load import latencies
from tests.bench.measure import Measurement
from tests.server.surveys import published, survey
from tests.server.world import serving
from tests.survey_texts import ALWAYS, bit, survey_text

REPORTS, FILL, OVER = 5_000_000, 65_536, date(2024, 1, 31)
CONNECTIONS, EACH = 8, 200
SLOWEST = 500  # ms for a response that waits for one slice of a purge and for the disk


def measurements(reports: int = REPORTS) -> Iterator[Measurement]:
    with TemporaryDirectory() as name:
        data = Path(name) / "data"
        with SqliteStore.create(data) as store:
            fill(store, reports)
            asked = published(store, parse_toml(survey_text(bit(), round="once", **ALWAYS)))
        with serving(data) as server:
            begin = time.monotonic()
            meanwhile = list[float]()
            while left(data):
                meanwhile += latencies(server.port, CONNECTIONS, EACH, upload(asked.id))
            took = time.monotonic() - begin
            alone = latencies(server.port, CONNECTIONS, EACH, upload(asked.id))
    yield Measurement(
        f"slowest of {len(meanwhile):,} answers while {reports:,} reports are purged",
        max(meanwhile),
        None,
        "ms",
        SLOWEST,
        note=f"{took:.0f} s, p99 {percentile(meanwhile, 99):.1f} ms; afterwards the slowest takes "
        f"{max(alone):.1f}, p99 {percentile(alone, 99):.1f}",
    )


def fill(store: SqliteStore, reports: int) -> PublishedSurvey:
    over = published(store, survey(name="over", opens=OVER, closes=OVER, retention_days=1))
    for start in range(0, reports, FILL):
        some = [
            Upload(over, over.survey.first_round, os.urandom(16), 1, b"\0")
            for _ in range(min(FILL, reports - start))
        ]
        with store.transaction(later=True) as transaction:
            commit(transaction, some)
        store.forget_order()
    return over


def left(data: Path) -> bool:
    """Return True while the ended survey still has reports; the open survey is the second one."""
    query = "SELECT 1 FROM envelopes WHERE survey = 1 LIMIT 1"
    with closing(sqlite3.connect(data / FILE)) as connection:
        return connection.execute(query).fetchone() is not None


if __name__ == "__main__":
    for measurement in measurements(*map(int, sys.argv[1:])):
        print(measurement.line())
