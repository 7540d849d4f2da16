"""Ed25519 signatures over survey documents, by the `cryptography` library.

What is signed is `"deniable survey v1" 00` and then the document's exact bytes, so a signature made
for anything else is never one for a survey. The signing key stays away from the server.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from deniable.shared.errors import UntrustedSurvey, WrongUse

if TYPE_CHECKING:
    from collections.abc import Collection

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

CONTEXT = b"deniable survey v1\0"


def verify(document: bytes, signature: str, key: str, trusted: Collection[str]) -> None:
    """Return only if `key` is a trusted one and has signed these bytes; else UntrustedSurvey."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if key not in trusted:
        raise UntrustedSurvey(
            f"the survey is signed by key {key[:16]}…, which is not a trusted key"
        )
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        public.verify(bytes.fromhex(signature), CONTEXT + document)
    except (InvalidSignature, ValueError):
        raise UntrustedSurvey("the survey's signature does not match its document") from None


def sign(document: bytes, key: Ed25519PrivateKey) -> str:
    return key.sign(CONTEXT + document).hex()


def public_hex(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def create_key(path: str) -> Ed25519PrivateKey:
    """A new signing key in a new file that only its owner can read."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    write_key(path, key, "a signing key")
    return key


def load_key(path: str) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = read_key(path, "a signing key", "deniable keys new")
    if not isinstance(key, Ed25519PrivateKey):
        raise WrongUse(f"{path} holds a key that is not Ed25519; make one: deniable keys new FILE")
    return key


def write_key(path: str, key: Ed25519PrivateKey | X25519PrivateKey, what: str) -> None:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise WrongUse(f"{path} is there already, and {what} is never overwritten") from None


def read_key(path: str, what: str, cure: str) -> PrivateKeyTypes:
    """Of whatever kind."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        with open(path, "rb") as file:
            return load_pem_private_key(file.read(), password=None)
    except FileNotFoundError:
        noun = what.removeprefix("a ")
        raise WrongUse(f"there is no {noun} at {path}; make one: {cure} {path}") from None
    except (ValueError, TypeError, OSError) as error:
        raise WrongUse(f"{path} cannot be read as {what} in PEM form: {error}") from None
