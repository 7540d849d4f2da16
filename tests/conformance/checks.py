"""Complete list of checks, which importing the modules of checks fills."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance import answers, consent, delivery, ledger, surveys, vectors  # noqa: F401
from tests.conformance.claims import CHECKS
from tests.conformance.device import stage


def run(command: Sequence[str], name: str) -> str | None:
    """Run a check; return the fault that it finds, or None."""
    with stage(command) as made:
        try:
            CHECKS[name](made)
        except AssertionError as error:
            return str(error)
    return None
