"""Sealed envelopes: each holds one envelope that only its survey's aggregator can open.

    "DNS1" · mark of the key (8) · length (u32) · sealed

Numbers are little-endian, and sealed envelopes follow each other without gaps. `sealed` is HPKE
[1], base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM: the encapsulated key (32),
then the ciphertext with its tag (16). The plaintext is the envelope, padded with zeros to one of
six sizes, the same for all reports of a survey. A relay learns only the key and that size.
PROTOCOL.md is normative; `tests/vectors/envelopes_sealed.json` has messages.

[1] Barnes, Bhargavan, Lipp, Wood 2022, "Hybrid Public Key Encryption", RFC 9180.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from deniable.shared.envelope import HEADER as PACKED
from deniable.shared.envelope import MAX_ENVELOPES, Envelope, parse_envelopes, split_body
from deniable.shared.errors import InvalidEnvelope
from deniable.shared.survey.keys import MARK_BYTES, mark_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.hpke import Suite

MAGIC = b"DNS1"
SEALED_TYPE = "application/vnd.deniable.sealed"
HEADER = struct.Struct(f"<4s{MARK_BYTES}sI")
CONTEXT = b"deniable sealed envelope v1\0"
SIZES = tuple(256 * 4**step for step in range(6))  # sizes of the plaintext; the longest report fits
BATCH = 1_000  # default number of reports in a relay's batch
OVERHEAD = 32 + 16  # bytes that HPKE adds: encapsulated key and tag
LENGTHS = frozenset(size + OVERHEAD for size in SIZES)
UNREADABLE = "the envelope cannot be opened: it was sealed to another key, or altered in transit"


class SealedEnvelope(NamedTuple):
    mark: bytes  # mark of the public key
    sealed: bytes

    def pack(self) -> bytes:
        return HEADER.pack(MAGIC, self.mark, len(self.sealed)) + self.sealed


def seal(envelope: Envelope, public: str) -> SealedEnvelope:
    """Seal an envelope to a public key. Keep the bytes for retries: each call returns new bytes."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    packed = envelope.pack()
    size = next(size for size in SIZES if size >= len(packed))
    recipient = X25519PublicKey.from_public_bytes(bytes.fromhex(public))
    sealed = _suite().encrypt(packed.ljust(size, b"\0"), recipient, info=CONTEXT)
    return SealedEnvelope(mark_of(public), sealed)


def unseal(envelope: SealedEnvelope, key: X25519PrivateKey) -> Envelope:
    """Return the envelope inside; raise InvalidEnvelope if it cannot be opened."""
    from cryptography.exceptions import InvalidTag

    try:
        return _inside(_suite().decrypt(envelope.sealed, key, info=CONTEXT))
    except (InvalidTag, InvalidEnvelope):
        raise InvalidEnvelope("bad-payload", UNREADABLE) from None


def parse_sealed(body: bytes, most: int = MAX_ENVELOPES) -> list[SealedEnvelope]:
    """Return the sealed envelopes of a body, unopened, or refuse the body as a whole."""
    return [
        SealedEnvelope(mark, sealed)
        for (mark,), sealed in split_body(body, HEADER, MAGIC, most, LENGTHS)
    ]


def _inside(padded: bytes) -> Envelope:
    """Return the envelope in a padded plaintext; the padding must be zeros."""
    end = PACKED.size + PACKED.unpack_from(padded)[-1]
    if any(padded[end:]):
        raise InvalidEnvelope("bad-payload", UNREADABLE)
    (envelope,) = parse_envelopes(padded[:end], 1)
    return envelope


@cache
def _suite() -> Suite:
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
