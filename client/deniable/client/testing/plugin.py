"""The fixture `deniable_client`, which pytest finds through its entry point `pytest11`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from deniable.client.testing.fakes import FakeClient


@pytest.fixture
def deniable_client() -> Iterator[Callable[..., FakeClient]]:
    """Make clients like `FakeClient(...)`, and close them when the test ends."""
    from deniable.client.testing.fakes import FakeClient

    made: list[FakeClient] = []

    def make(*surveys: Any, **options: Any) -> FakeClient:  # Any: the arguments of FakeClient
        made.append(FakeClient(*surveys, **options))
        return made[-1]

    yield make
    for client in made:
        client.close()
