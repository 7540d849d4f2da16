"""Sealed envelopes: one envelope each, that only the aggregator of its survey can open.

    "DNS1" · mark of the key (8) · length (u32) · sealed

little-endian, back to back; `sealed` is HPKE [1], base mode, DHKEM(X25519, HKDF-SHA256),
HKDF-SHA256, AES-128-GCM: the encapsulated key (32), then the ciphertext with its tag (16). What is
sealed is the envelope and zeros up to the next of a few sizes, so whoever passes it on learns which
key it is for, and one of six sizes, the same for all reports of a survey.
PROTOCOL.md is the norm; `tests/vectors/envelopes_sealed.json` has messages.

[1] Barnes, Bhargavan, Lipp, Wood 2022, "Hybrid Public Key Encryption", RFC 9180.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from deniable.shared.envelope import HEADER as PACKED
from deniable.shared.envelope import MAX_ENVELOPES, Envelope, parse_envelopes, too_many
from deniable.shared.errors import InvalidEnvelope
from deniable.shared.survey.keys import MARK_BYTES, mark_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.hpke import Suite

MAGIC = b"DNS1"
HEADER = struct.Struct(f"<4s{MARK_BYTES}sI")
SEALED_TYPE = "application/vnd.deniable.sealed"
CONTEXT = b"deniable sealed envelope v1\0"
SIZES = tuple(256 * 4**step for step in range(6))  # of what is sealed; the longest report fits
BATCH = 1_000  # so many at least leave a relay together, unless it is told otherwise
OVERHEAD = 32 + 16  # HPKE's
LENGTHS = frozenset(size + OVERHEAD for size in SIZES)
UNREADABLE = "it cannot be opened: it was not sealed to this key, or was changed on the way"


@dataclass(frozen=True, slots=True)
class SealedEnvelope:
    mark: bytes  # of the key
    sealed: bytes

    def pack(self) -> bytes:
        return HEADER.pack(MAGIC, self.mark, len(self.sealed)) + self.sealed


def seal(envelope: Envelope, public: str) -> SealedEnvelope:
    """To the survey's public key. Each call draws a key of its own: keep the bytes for retries."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    packed = envelope.pack()
    size = next(each for each in SIZES if each >= len(packed))
    recipient = X25519PublicKey.from_public_bytes(bytes.fromhex(public))
    sealed = _suite().encrypt(packed.ljust(size, b"\0"), recipient, info=CONTEXT)
    return SealedEnvelope(mark_of(public), sealed)


def unseal(envelope: SealedEnvelope, key: X25519PrivateKey) -> Envelope:
    """The envelope inside; InvalidEnvelope if there is none."""
    from cryptography.exceptions import InvalidTag

    try:
        padded = _suite().decrypt(envelope.sealed, key, info=CONTEXT)
        return _inside(padded)
    except (InvalidTag, InvalidEnvelope):
        raise InvalidEnvelope("bad-payload", UNREADABLE) from None


def parse_sealed(body: bytes, most: int = MAX_ENVELOPES) -> list[SealedEnvelope]:
    """Every sealed envelope of a body, none opened; a body that cannot be read to its end is
    refused whole, and so is one with a size that no client makes."""
    found: list[SealedEnvelope] = []
    start = 0
    while start < len(body):
        if len(body) - start < HEADER.size:
            raise InvalidEnvelope("bad-body", f"envelope {len(found)} ends inside its header")
        magic, mark, length = HEADER.unpack_from(body, start)
        start += HEADER.size
        if magic != MAGIC:
            raise InvalidEnvelope("bad-body", f'envelope {len(found)} does not begin with "DNS1"')
        if length not in LENGTHS:
            raise InvalidEnvelope("bad-body", f"envelope {len(found)} has a size that none has")
        if len(body) - start < length:
            raise InvalidEnvelope("bad-body", f"envelope {len(found)} ends inside what is sealed")
        if len(found) == most:
            raise too_many(most)
        found.append(SealedEnvelope(mark, body[start : start + length]))
        start += length
    if not found:
        raise InvalidEnvelope("bad-body", "the body is empty; send at least one envelope")
    return found


def _inside(padded: bytes) -> Envelope:
    """One envelope, and zeros."""
    end = PACKED.size + PACKED.unpack_from(padded)[-1]
    if any(padded[end:]):
        raise InvalidEnvelope("bad-payload", UNREADABLE)
    (envelope,) = parse_envelopes(padded[:end], 1)
    return envelope


@cache
def _suite() -> Suite:
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
