"""Fixtures of the server's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.world import World, world


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    """The real application, at noon of 15 December 2026."""
    with world(tmp_path / "data") as made:
        yield made
