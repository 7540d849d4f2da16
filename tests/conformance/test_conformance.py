"""Conformance of both clients; each check of the kit fails for a client that violates it."""

import sys
from pathlib import Path

import pytest

from tests.conformance.checks import run
from tests.conformance.claims import CHECKS
from tests.conformance.faulty import CAUGHT_BY
from tests.node import NODE

HERE = Path(__file__).parent
CLIENTS = {
    "python": [sys.executable, "-m", "tests.conformance.python_client"],
    "javascript": [NODE, str(HERE / "javascript_client.mjs")],
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("check", CHECKS)
def test_the_client_keeps_the_protocol(client: str, check: str) -> None:
    assert run(CLIENTS[client], check) is None


@pytest.mark.long
@pytest.mark.parametrize("fault", CAUGHT_BY)
def test_the_kit_catches_each_fault(fault: str) -> None:
    """Twin: a client with this fault fails the check for it."""
    faulty = [sys.executable, "-m", "tests.conformance.faulty", fault]
    assert run(faulty, CAUGHT_BY[fault]) is not None


def test_every_check_has_a_fault_that_it_catches() -> None:
    assert set(CAUGHT_BY.values()) == set(CHECKS)
