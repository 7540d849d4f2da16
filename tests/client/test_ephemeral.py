"""Ephemeral state: it would give a client an endless budget, so such a client is refused."""

import pytest

from deniable.client import InvalidPolicy
from deniable.client.environment import KEPT, PROVIDERS
from tests.client.conftest import MakeClient


@pytest.mark.parametrize("variable", PROVIDERS)
def test_a_client_in_a_serverless_function_is_refused_at_construction(
    client_of: MakeClient, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv(KEPT)
    monkeypatch.setenv(variable, "name")
    with pytest.raises(InvalidPolicy, match=f"{PROVIDERS[variable]} deletes the folders"):
        client_of()
    monkeypatch.setenv(KEPT, "1")
    client_of()
