"""Complete list of checks, which importing the modules of checks fills, and how one is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.conformance import answers, consent, delivery, features, ledger, surveys, vectors  # noqa: F401
from tests.conformance.claims import CHECKS
from tests.conformance.device import EVERYTHING, Claims, NotOffered, stage


@dataclass(frozen=True)
class Result:
    """Result of a check: the fault that it found, or the reason why it does not apply."""

    fault: str | None = None
    not_applicable: str | None = None
    operation: str | None = None  # that the client does not offer

    @property
    def passed(self) -> bool:
        return self == Result()


def run(command: Sequence[str], name: str, claims: Claims = EVERYTHING) -> Result:
    check = CHECKS[name]
    if lacking := check.unclaimed(claims):
        return Result(not_applicable=f"not claimed: {', '.join(lacking)}")
    with stage(command, claims) as made:
        try:
            check.run(made)
        except NotOffered as operation:
            reason = f"the client does not offer the operation {operation}"
            return Result(not_applicable=reason, operation=str(operation))
        except AssertionError as error:
            return Result(fault=f"{error} (rule {check.rule} of the protocol)")
    return Result()
