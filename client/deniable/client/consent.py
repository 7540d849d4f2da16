"""Consent: given in code, kept on disk, withdrawn at any time, and overruled by the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

from deniable.client.outcome import Outcome
from deniable.client.state import Transaction
from deniable.client.state.people import Identity
from deniable.client.state.settings import anyone, read_setting, write_setting

SWITCHES = ("DO_NOT_TRACK", "DENIABLE_OFF")
NOT_GIVEN = "consent was not given; call client.consent(True) once the person agrees"


class Consents:
    """Of all people of a client, for what is done for all of them together."""

    def __init__(self) -> None:
        self.unwritten: set[Identity] = set()  # whose withdrawal the disk has not taken

    def obstacle(self, db: Transaction) -> Outcome | None:
        """Why nothing may be fetched or sent now, for anyone."""
        given = not self.unwritten and anyone(db, "consent", "yes")
        return overruled() or (None if given else Outcome("no-consent", NOT_GIVEN))


class Consent:
    """One person's. Asked anew in each transaction: another process may have withdrawn it
    meanwhile."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.withdrawn = False  # from this object: that holds even where the disk fails
        self.unkept = ""  # why consent that was given could not be stored

    def is_given(self, db: Transaction) -> bool:
        return self.recorded(db) is True

    def recorded(self, db: Transaction) -> bool | None:
        """What the person has said; None if nobody has asked."""
        if self.withdrawn:
            return False
        said = read_setting(db, self.identity.person(db), "consent")
        return {"yes": True, "no": False}.get(said or "")

    def obstacle(self, db: Transaction) -> Outcome | None:
        """Why nothing may be stored, fetched or sent now."""
        return overruled() or (None if self.is_given(db) else Outcome("no-consent", NOT_GIVEN))


def write_consent(db: Transaction, person: bytes, given: bool) -> None:
    write_setting(db, person, "consent", "yes" if given else "no")


def overruled(environment: Mapping[str, str] = os.environ) -> Outcome | None:
    """A person or an administrator says no by an environment variable, whatever the app has."""
    for name in SWITCHES:
        if environment.get(name, "").strip().lower() not in ("", "0", "false", "no", "off"):
            return Outcome("no-consent", f"the environment overrules consent: {name} is set")
    return None
