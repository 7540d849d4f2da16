"""Fixtures of the server's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deniable.server.store import Database, Place
from deniable.server.store.postgres import settling
from tests.server import postgres
from tests.server.world import World, world


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    """The real application, at noon of 15 December 2026."""
    with world(tmp_path / "data") as made:
        yield made


@pytest.fixture(scope="session")
def cluster() -> Iterator[postgres.Cluster]:
    """A PostgreSQL of our own."""
    with postgres.cluster() as made:
        yield made


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores settle as often as they are asked to."""
    monkeypatch.setattr(settling, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(settling, "SHARE", 0)


@pytest.fixture
def database(cluster: postgres.Cluster, eager: None) -> Database:
    """A new one, with nothing in it."""
    return cluster.new_database()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, eager: None) -> Place:
    """Where a store may be: a test with it holds for both."""
    if request.param == "sqlite":
        return tmp_path / "data"
    cluster: postgres.Cluster = request.getfixturevalue("cluster")
    return cluster.new_schema()
