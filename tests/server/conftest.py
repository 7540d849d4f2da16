"""Fixtures of the server's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deniable.server.store import Database, Place, PublishedSurvey
from deniable.server.store.postgres import scrub
from tests.server import postgres
from tests.server.results_data import fill
from tests.server.world import NOON, World, world


@pytest.fixture
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """The real application: at noon of 15 December 2026, or the time that a test is marked with."""
    marked = request.node.get_closest_marker("at")
    with world(tmp_path / "data", marked.args[0] if marked else NOON) as made:
        yield made


@pytest.fixture
def published(here: World) -> PublishedSurvey:
    """With results, where a test is marked with their time."""
    return fill(here)


@pytest.fixture(scope="session")
def cluster() -> Iterator[postgres.Cluster]:
    """A PostgreSQL of our own."""
    with postgres.cluster() as made:
        yield made


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores settle as often as they are asked to."""
    monkeypatch.setattr(scrub, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(scrub, "SHARE", 0)


@pytest.fixture
def database(cluster: postgres.Cluster, eager: None) -> Database:
    """A new one, with nothing in it."""
    return cluster.new_database()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, eager: None) -> Place:
    """Return each kind of place for a store; a test that uses it holds for both."""
    if request.param == "sqlite":
        return tmp_path / "data"
    cluster: postgres.Cluster = request.getfixturevalue("cluster")
    return cluster.new_schema()
