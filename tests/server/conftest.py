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
    """Return the real application, at noon on 15 December 2026 or at the time in the `at` mark."""
    marked = request.node.get_closest_marker("at")
    with world(tmp_path / "data", marked.args[0] if marked else NOON) as made:
        yield made


@pytest.fixture
def published(here: World) -> PublishedSurvey:
    """Publish a survey with three rounds of reports; its results are ready at the time NOW."""
    return fill(here)


@pytest.fixture(scope="session")
def cluster() -> Iterator[postgres.Cluster]:
    """Start a temporary PostgreSQL cluster."""
    with postgres.cluster() as made:
        yield made


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the pauses of PostgreSQL's clean-up, so that each request runs it immediately."""
    monkeypatch.setattr(scrub, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(scrub, "SHARE", 0)


@pytest.fixture
def database(cluster: postgres.Cluster, eager: None) -> Database:
    """Return a new, empty database."""
    return cluster.new_database()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, eager: None) -> Place:
    """Return each kind of store location in turn, so that the test runs with both."""
    if request.param == "sqlite":
        return tmp_path / "data"
    cluster: postgres.Cluster = request.getfixturevalue("cluster")
    return cluster.new_schema()
