"""Cost of settling one new envelope in PostgreSQL, with few or with all of the others."""

from __future__ import annotations

import os
from collections.abc import Iterator

from deniable.server.intake.commit import commit
from deniable.server.store import PublishedSurvey, Upload
from deniable.server.store.postgres.postgres_store import PostgresStore
from deniable.server.store.postgres.scrub import ALL, settle
from tests.bench.measure import Measurement, seconds
from tests.server.postgres import cluster
from tests.server.surveys import DECEMBER, published, survey

FILL, BEFORE, ROUNDS = 10_000, 200_000, 5
LIMITS = {1: 1_000, ALL: 10_000}  # milliseconds, by the number of tiers that are merged


def measurements() -> Iterator[Measurement]:
    with cluster() as postgres, PostgresStore.create(postgres.new_database()) as store:
        asked = published(store, survey())
        for _ in range(0, BEFORE, FILL):
            write(store, asked, FILL)
        settle(store._pool)
        for tiers, limit in LIMITS.items():
            taken = [settled(store, asked, tiers) for _ in range(ROUNDS)]
            best = min(taken)
            yield Measurement(
                f"settle one envelope among {BEFORE:,} in PostgreSQL, {tiers} of {ALL} tiers",
                ours=best * 1e3,
                baseline=None,
                unit="ms",
                limit=limit,
                spread=(max(taken) - best) / best,
                note="done after a pause of 50 times as long",
            )


def settled(store: PostgresStore, asked: PublishedSurvey, tiers: int) -> float:
    write(store, asked, 1)
    return seconds(lambda: settle(store._pool, tiers))


def write(store: PostgresStore, asked: PublishedSurvey, reports: int) -> None:
    uploads = [Upload(asked, DECEMBER, os.urandom(16), 1, b"\0") for _ in range(reports)]
    with store.transaction() as transaction:
        commit(transaction, uploads)
