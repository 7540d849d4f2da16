"""The key that a survey's reports are sealed to: X25519, its public half in the document.

The private half lives with the aggregation server, in a file that its operator names, and nowhere
in a store or a backup of one. A new key means a new survey, as the document names the key.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from deniable.shared.errors import InvalidSurvey, WrongUse
from deniable.shared.privacy.encoding import is_hex
from deniable.shared.survey.signing import read_key, write_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

MARK_BYTES = 8
CURE = "deniable keys new --sealing"
HOW = f"is the public key that `{CURE} FILE` prints, 64 hex digits"


def checked_public(text: str, key: str) -> str:
    """The public key in a document, at the place that `key` names. One to which nothing can be
    sealed, as it is a point of low order, is refused here and not when a report is made."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    if len(text) != 64 or not is_hex(text):
        raise InvalidSurvey(key, f"{HOW}; got {text[:80]!r}")
    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(text)))
    except ValueError:
        raise InvalidSurvey(key, f"{HOW}; to this one nothing can be sealed") from None
    return text


def mark_of(public: str) -> bytes:
    """By which a sealed envelope says what it is sealed to."""
    return hashlib.sha256(bytes.fromhex(public)).digest()[:MARK_BYTES]


def sealing_hex(key: X25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def create_sealing_key(path: str) -> X25519PrivateKey:
    """A new one in a new file that only its owner can read."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    key = X25519PrivateKey.generate()
    write_key(path, key, "a sealing key")
    return key


def load_sealing_key(path: str) -> X25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    key = read_key(path, "a sealing key", CURE)
    if not isinstance(key, X25519PrivateKey):
        raise WrongUse(f"{path} holds a key that is not X25519; make one: {CURE} FILE")
    return key
