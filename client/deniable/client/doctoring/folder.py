"""A state folder: who can read it, whether it is whole, what is left to spend, what waits."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from deniable.client.budget import budget
from deniable.client.policy import Policy
from deniable.client.sent import Summary, summary
from deniable.client.state.connection import State
from deniable.client.state.people import Identity
from deniable.shared.cli.verb import Finding
from deniable.shared.errors import StoreUnusable

ANY_KEY = "00" * 32  # the caps alone are asked of the policy


def look_at_folder(folder: str, max_epsilon: str, person: str | None = None) -> Iterator[Finding]:
    """Of one person's consent, budget and reports: by the app's id, or the install's own."""
    state, policy = State(folder), Policy([ANY_KEY], max_epsilon=max_epsilon)
    if not state.begun:
        yield Finding("state", True, f"{state.folder} holds no state yet: nobody has agreed")
        return
    yield _permissions(state)
    try:
        seen = summary(state, Identity(person))
    except StoreUnusable as error:
        cure = "put back what was there, or delete the folder to begin as a new install"
        yield Finding("state", False, str(error), cure)
        return
    yield Finding("state", True, "whole, and its ledger too")
    yield _consent(seen)
    if seen.others:
        yield Finding(
            "people", True, f"{seen.others} more in this folder; name one with --person ID"
        )
    left = budget(seen.ledger, policy)
    cure = "no survey is answered any more: that is what the cap is for" if left.left == "0" else ""
    yield Finding(
        "budget", True, f"ε {left.spent} spent, ε {left.left} of {max_epsilon} left", cure
    )
    waiting = sum(entry.delivery == "waiting" for entry in seen.entries)
    yield Finding("reports", True, f"{len(seen.entries)} made, {waiting} of them wait to be sent")


def _permissions(state: State) -> Finding:
    """Of the files: whoever reads them links the rounds of this install, and learns no answer."""
    open_to_others = [
        path.name
        for path in (state.database, state.marker.path)
        if path.exists() and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    ]
    if open_to_others:
        return Finding(
            "permissions",
            False,
            f"others can use {', '.join(open_to_others)} in {state.folder}",
            f"run: chmod go= {state.folder}/deniable.*",
        )
    if not os.access(state.folder, os.W_OK):
        return Finding(
            "permissions", False, f"{state.folder} cannot be written", "run it as its owner"
        )
    return Finding("permissions", True, "only their owner can read the files")


def _consent(seen: Summary) -> Finding:
    says = "given" if seen.consent else "not given, withdrawn, or overruled: nothing is sent"
    return Finding("consent", True, says)
