"""Opening the store that is named: a data folder, or a database."""

from __future__ import annotations

from pathlib import Path

from deniable.server.store.postgres.address import Database
from deniable.server.store.protocol import Store
from deniable.server.store.sqlite.store import SqliteStore

Place = Path | Database


def create_store(place: Place) -> Store:
    """The store, made if it is not there."""
    if isinstance(place, Path):
        return SqliteStore.create(place)
    from deniable.server.store.postgres.store import PostgresStore

    return PostgresStore.create(place)


def open_store(place: Place, node: str = "") -> Store:
    """The store, which must be there; StoreUnusable says why it cannot be. `node` names who counts,
    where several do."""
    if isinstance(place, Path):
        return SqliteStore.open(place)
    from deniable.server.store.postgres.store import PostgresStore

    return PostgresStore.open(place, node)
