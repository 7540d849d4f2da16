"""Keys of a survey: an Ed25519 key signs its document, and an X25519 key seals its reports.

The signature covers `"deniable survey v1" 00` and the document's exact bytes, so no signature made
for another purpose is valid for a survey. The same key signs the epochs of the survey's rounds: a
new epoch makes devices send the reports of a round again, after a server has lost some. Keep the
signing key away from the server. The sealing key's private half stays with the aggregation server,
in a file that its operator names, and never in a store or a backup. The document names the public
half, so a new sealing key needs a new survey.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from deniable.shared.errors import InvalidSurvey, UntrustedSurvey, WrongUse

if TYPE_CHECKING:
    from collections.abc import Collection

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

Key = TypeVar("Key", "Ed25519PrivateKey", "X25519PrivateKey")

CONTEXT, EPOCH_CONTEXT = b"deniable survey v1\0", b"deniable epoch v1\0"
MAX_EPOCH = 2  # so that no report is sent more than twice after it was acknowledged
NEW_SIGNING_KEY = "deniable keys new"
NEW_SEALING_KEY = "deniable keys new --sealing"
SEALING_KEY_FORM = f"must be the public key that `{NEW_SEALING_KEY} FILE` prints, 64 hex digits"


# Signing


def verify(document: bytes, signature: str, key: str, trusted: Collection[str]) -> None:
    """Raise UntrustedSurvey unless `key` is trusted and has signed these bytes."""
    if key not in trusted:
        problem = f"the survey is signed by key {key[:16]}…, which is not a trusted key"
        raise UntrustedSurvey(problem)
    if not _has_signed(key, signature, CONTEXT + document):
        raise UntrustedSurvey("the survey's signature does not match its document")


def sign(document: bytes, key: Ed25519PrivateKey) -> str:
    return key.sign(CONTEXT + document).hex()


def sign_epoch(survey: str, round_: int, epoch: int, key: Ed25519PrivateKey) -> str:
    return key.sign(_epoch_statement(survey, round_, epoch)).hex()


def is_signed_epoch(survey: str, round_: int, epoch: int, signature: str, key: str) -> bool:
    """Return whether the survey's key has signed this epoch, and devices follow it."""
    statement = _epoch_statement(survey, round_, epoch)
    return 1 <= epoch <= MAX_EPOCH and _has_signed(key, signature, statement)


def _epoch_statement(survey: str, round_: int, epoch: int) -> bytes:
    return EPOCH_CONTEXT + f"{survey} {round_} {epoch}".encode()


def _has_signed(key: str, signature: str, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        public.verify(bytes.fromhex(signature), message)
    except (InvalidSignature, TypeError, ValueError):  # damage can turn stored text into bytes
        return False
    return True


def public_hex(key: Ed25519PrivateKey | X25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def create_key(path: str) -> Ed25519PrivateKey:
    """Create a signing key in a new file that only its owner can read."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return _created(path, Ed25519PrivateKey.generate(), "a signing key")


def load_key(path: str) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return _loaded(path, Ed25519PrivateKey, "a signing key", NEW_SIGNING_KEY)  # type: ignore[type-abstract]  # only tested for


# Sealing


def checked_public(text: str, key: str) -> str:
    """Return a document's public sealing key. `key` is its path in the document, for messages.

    Points of low order cannot be used for sealing. They are refused here, before any report is
    made.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    from deniable.shared.privacy.encodings import is_hex

    if len(text) != 64 or not is_hex(text):
        raise InvalidSurvey(key, f"{SEALING_KEY_FORM}; got {text[:80]!r}")
    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(text)))
    except ValueError:
        raise InvalidSurvey(key, f"{SEALING_KEY_FORM}; this key cannot seal") from None
    return text


def create_sealing_key(path: str) -> X25519PrivateKey:
    """Create a sealing key in a new file that only its owner can read."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return _created(path, X25519PrivateKey.generate(), "a sealing key")


def load_sealing_key(path: str) -> X25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return _loaded(path, X25519PrivateKey, "a sealing key", NEW_SEALING_KEY)  # type: ignore[type-abstract]  # only tested for


# Files


def _created(path: str, key: Key, noun: str) -> Key:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        problem = f"{path} already exists, and {noun} is never overwritten; name a new file"
        raise WrongUse(problem) from None
    except OSError as error:
        raise WrongUse(f"{path} cannot be written: {error.strerror}; name another file") from None
    return key


def _loaded(path: str, kind: type[Key], noun: str, command: str) -> Key:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        with open(path, "rb") as file:
            key = load_pem_private_key(file.read(), password=None)
    except FileNotFoundError:
        raise WrongUse(f"{path} does not exist; make {noun}: {command} {path}") from None
    except (ValueError, TypeError, OSError) as error:
        raise WrongUse(f"{path} cannot be read as {noun} in PEM form: {error}") from None
    if not isinstance(key, kind):
        name = kind.__name__.removesuffix("PrivateKey")
        raise WrongUse(f"{path} holds a key that is not {name}; make one: {command} FILE")
    return key
