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
    """Return the real application, at noon of 15 December 2026 or at the test's marked time."""
    marked = request.node.get_closest_marker("at")
    with world(tmp_path / "data", marked.args[0] if marked else NOON) as made:
        yield made


@pytest.fixture
def published(here: World) -> PublishedSurvey:
    """Publish a survey; it has results if the test is marked with their time."""
    return fill(here)


@pytest.fixture(scope="session")
def cluster() -> Iterator[postgres.Cluster]:
    """Start a PostgreSQL of our own."""
    with postgres.cluster() as made:
        yield made


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make stores settle as often as asked."""
    monkeypatch.setattr(scrub, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(scrub, "SHARE", 0)


@pytest.fixture
def database(cluster: postgres.Cluster, eager: None) -> Database:
    """Return a new, empty database."""
    return cluster.new_database()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, eager: None) -> Place:
    """Return each kind of place for a store; a test that uses it holds for both."""
    if request.param == "sqlite":
        return tmp_path / "data"
    cluster: postgres.Cluster = request.getfixturevalue("cluster")
    return cluster.new_schema()
