"""Consent: given in code, kept on disk, withdrawn at any time, and overruled by the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

from deniable.client.outcome import Outcome
from deniable.client.state import Transaction
from deniable.client.state.settings import read_setting, write_setting

SWITCHES = ("DO_NOT_TRACK", "DENIABLE_OFF")
NOT_GIVEN = "consent was not given; call client.consent(True) once the person agrees"


class Consent:
    """Asked anew in each transaction: another process may have withdrawn it meanwhile."""

    def __init__(self) -> None:
        self.withdrawn = False  # from this object: that holds even where the disk fails
        self.unkept = ""  # why consent that was given could not be stored

    def is_given(self, db: Transaction) -> bool:
        return self.recorded(db) is True

    def recorded(self, db: Transaction) -> bool | None:
        """What the person has said; None if nobody has asked."""
        if self.withdrawn:
            return False
        return {"yes": True, "no": False}.get(read_setting(db, "consent") or "")

    def obstacle(self, db: Transaction) -> Outcome | None:
        """Why nothing may be stored, fetched or sent now."""
        return overruled() or (None if self.is_given(db) else Outcome("no-consent", NOT_GIVEN))


def write_consent(db: Transaction, given: bool) -> None:
    write_setting(db, "consent", "yes" if given else "no")


def overruled(environment: Mapping[str, str] = os.environ) -> Outcome | None:
    """A person or an administrator says no by an environment variable, whatever the app has."""
    for name in SWITCHES:
        if environment.get(name, "").strip().lower() not in ("", "0", "false", "no", "off"):
            return Outcome("no-consent", f"the environment overrules consent: {name} is set")
    return None
