"""A client whose state does not survive a call would have an endless budget, and is refused."""

import pytest

from deniable.client import InvalidPolicy
from deniable.client.environment import KEPT, PROVIDERS
from tests.client.conftest import MakeClient


@pytest.mark.parametrize("variable", PROVIDERS)
def test_a_client_in_a_serverless_function_is_refused_when_it_is_made(
    client_of: MakeClient, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv(KEPT)
    monkeypatch.setenv(variable, "name")
    with pytest.raises(InvalidPolicy, match=f"{PROVIDERS[variable]} deletes the folders"):
        client_of()
    monkeypatch.setenv(KEPT, "1")
    client_of()
