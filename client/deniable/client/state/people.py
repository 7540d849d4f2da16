"""People: the key under which each person's rows are stored, and the person's consent.

The install's own person is the empty byte string. Any other person is HMAC-SHA256(key, "person" 00
id), cut to 16 bytes, where the key is random and belongs to this store. Without the store,
these bytes reveal neither the id nor whether two stores know the same person. Anyone who has the
store has the key, and can test ids. The id itself is written to no file and shown by no `repr`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from deniable.client.outcome import Outcome
from deniable.client.state import Transaction
from deniable.shared.errors import InvalidPerson

MAX_ID_CHARACTERS = 1_000
PERSON_BYTES = 16
KEY_BYTES = 32
OWN = b""  # the install's own person

SWITCHES = ("DO_NOT_TRACK", "DENIABLE_OFF")
NOT_GIVEN = "consent was not given; call client.consent(True) once the person agrees"

Setting = Literal[
    "consent",  # "yes" or "no"
    "dropped",  # how many reports were dropped because too many were waiting
]


class Identity:
    """A person's id as the app gives it; None for the install's own person."""

    __slots__ = ("_text",)

    def __init__(self, text: str | None) -> None:
        self._text = None if text is None else _checked(text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def person(self, db: Transaction) -> bytes:
        """Return the bytes that stand for this person in this store."""
        if self._text is None:
            return OWN
        import hmac

        (key,) = db.execute("SELECT key FROM people_key").fetchone() or (None,)
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise ValueError("the key of the people is damaged")
        return hmac.digest(key, b"person\0" + self._text, "sha256")[:PERSON_BYTES]


class Consent:
    """One person's consent, read in each transaction: another process may have withdrawn it."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.withdrawn = False  # through this object; holds even if the disk fails
        self.unkept = ""  # the reason why consent that was given could not be stored

    def is_given(self, db: Transaction) -> bool:
        return self.recorded(db) is True

    def recorded(self, db: Transaction) -> bool | None:
        """Return the person's choice; None if the person was never asked."""
        if self.withdrawn:
            return False
        value = read_setting(db, self.identity.person(db), "consent")
        return {"yes": True, "no": False}.get(value or "")

    def obstacle(self, db: Transaction) -> Outcome | None:
        """Return the reason why nothing may be stored, fetched or sent now."""
        return overruled() or (None if self.is_given(db) else Outcome("no-consent", NOT_GIVEN))

    def write(self, db: Transaction, given: bool) -> None:
        write_setting(db, self.identity.person(db), "consent", "yes" if given else "no")


class Consents:
    """The consent of all people of a client, for what is done for all of them together."""

    def __init__(self) -> None:
        self.unwritten: set[Identity] = set()  # people whose withdrawal is not on disk yet

    def obstacle(self, db: Transaction) -> Outcome | None:
        """Return the reason why nothing may be fetched or sent now, for anyone."""
        query = "SELECT EXISTS (SELECT 1 FROM settings WHERE name = 'consent' AND value = 'yes')"
        given = not self.unwritten and db.execute(query).fetchone()[0]
        return overruled() or (None if given else Outcome("no-consent", NOT_GIVEN))


def overruled(environment: Mapping[str, str] = os.environ) -> Outcome | None:
    """Return the refusal that an environment variable states, whatever the app has."""
    for name in SWITCHES:
        if environment.get(name, "").strip().lower() not in ("", "0", "false", "no", "off"):
            return Outcome("no-consent", f"the environment overrules consent: {name} is set")
    return None


def count_others(db: Transaction) -> int:
    """Count the people, except the install's own, who gave or refused consent or were charged."""
    query = (
        "SELECT count(*) FROM (SELECT person FROM ledgers UNION SELECT person FROM settings)"
        " WHERE person != x''"
    )
    return int(db.execute(query).fetchone()[0])


def read_setting(db: Transaction, person: bytes, name: Setting) -> str | None:
    row = db.execute(
        "SELECT value FROM settings WHERE person = ? AND name = ?", (person, name)
    ).fetchone()
    return None if row is None else str(row[0])


def write_setting(db: Transaction, person: bytes, name: Setting, value: str) -> None:
    db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?, ?)", (person, name, value))


def _checked(text: str) -> bytes:
    if not 0 < len(text) <= MAX_ID_CHARACTERS:
        raise InvalidPerson(f"it has {len(text)} characters")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidPerson("it is not Unicode text")
    return text.encode()
