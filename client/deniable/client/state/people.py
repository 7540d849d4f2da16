"""People: whose ledger, keys, consent, reports and history something is.

The install's own person is the empty text of bytes. Any other is HMAC-SHA256(key, "person" 00 id),
cut to 16 bytes, where the key is random and the store's own: without the store, nobody can tell
from such bytes which id they stand for, nor that two stores know the same person. Who has the store
has the key, and can try out ids. The id itself reaches no file, and is shown by no `repr`.
"""

from __future__ import annotations

from deniable.client.state import Transaction
from deniable.shared.errors import InvalidPerson

MOST_CHARACTERS = 1_000
PERSON_BYTES = 16
KEY_BYTES = 32
OWN = b""  # the install's own person


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
        """The bytes that stand for this person in this store."""
        if self._text is None:
            return OWN
        import hmac

        (key,) = db.execute("SELECT key FROM people_key").fetchone() or (None,)
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise ValueError("not as it was written")
        return hmac.digest(key, b"person\0" + self._text, "sha256")[:PERSON_BYTES]


def known(db: Transaction) -> int:
    """How many people, beside the install's own, have said yes or no or were charged."""
    query = (
        "SELECT count(*) FROM (SELECT person FROM ledgers UNION SELECT person FROM settings)"
        " WHERE person != x''"
    )
    return int(db.execute(query).fetchone()[0])


def _checked(text: str) -> bytes:
    if not 0 < len(text) <= MOST_CHARACTERS:
        raise InvalidPerson(f"it has {len(text)} characters")
    if not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text):
        raise InvalidPerson("it is not Unicode text")
    return text.encode()
