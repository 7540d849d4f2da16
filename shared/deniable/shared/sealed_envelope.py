"""Sealed envelopes: each holds one envelope that only its survey's aggregator can open.

    "DNS1" · mark (8) · length (u32) · sealed

Numbers are little-endian, and sealed envelopes follow each other without gaps. `sealed` is HPKE
[1], base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM: the encapsulated key (32),
then the ciphertext with its tag (16). The plaintext is the envelope, padded with zeros to one of
six sizes, the same for all reports of a survey. The mark names the survey and the round, so that a
relay can shuffle their reports among each other. An envelope tells a relay
nothing else.

A relay sends a batch in one or several bodies, or states how many envelopes it has dropped:

    "DNR1" · public key (32) · batch (8) · mark (8) · size (u32) · dropped (u32) · signature (64)

followed by sealed envelopes. The Ed25519 signature covers a context and all other bytes.
PROTOCOL.md is normative; `tests/vectors/envelopes_sealed.json` has messages.

[1] Barnes, Bhargavan, Lipp, Wood 2022, "Hybrid Public Key Encryption", RFC 9180.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from deniable.shared.envelope import HEADER as PACKED
from deniable.shared.envelope import MAX_ENVELOPES, Envelope, parse_envelopes, split_body
from deniable.shared.errors import InvalidEnvelope
from deniable.shared.survey.keys import public_hex

if TYPE_CHECKING:
    from datetime import datetime

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.hpke import Suite

    from deniable.shared.survey.document import Survey

MAGIC = b"DNS1"
SEALED_TYPE = "application/vnd.deniable.sealed"
MARK_BYTES = 8
HEADER = struct.Struct(f"<4s{MARK_BYTES}sI")
CONTEXT = b"deniable sealed envelope v1\0"
# sizes of the plaintext; the longest report fits
SIZES: tuple[int, ...] = tuple(256 * 4**step for step in range(6))
BATCH = 1_000  # default number of reports in a relay's batch
OVERHEAD = 32 + 16  # bytes that HPKE adds: encapsulated key and tag
LENGTHS = frozenset(size + OVERHEAD for size in SIZES)
UNREADABLE = "the envelope cannot be opened: it was sealed to another key, or altered in transit"

BATCH_MAGIC = b"DNR1"
BATCH_TYPE = "application/vnd.deniable.batch"
BATCH_CONTEXT = b"deniable relay batch v1\0"
BATCH_NUMBER_BYTES, SIGNATURE_BYTES = 8, 64
BATCH_HEADER = struct.Struct(f"<4s32s{BATCH_NUMBER_BYTES}s{MARK_BYTES}sII")
UNSIGNED = "the batch is not signed by a relay that this server knows"


class SealedEnvelope(NamedTuple):
    mark: bytes  # names the survey and the round
    sealed: bytes
    batch: bytes = b""  # number of the relay's batch; empty if the envelope came alone

    def pack(self) -> bytes:
        return HEADER.pack(MAGIC, self.mark, len(self.sealed)) + self.sealed


class Batch(NamedTuple):
    """Statement of a relay about the batch to which the envelopes of a body belong."""

    number: bytes  # random, the same for all bodies of a batch
    mark: bytes  # of all its envelopes
    size: int  # number of envelopes in the batch
    dropped: int = 0  # envelopes of this mark that the relay dropped instead

    def pack(self, envelopes: bytes, key: Ed25519PrivateKey) -> bytes:
        """Return a body with packed envelopes of the batch, signed with the relay's key."""
        public = bytes.fromhex(public_hex(key))
        head = BATCH_HEADER.pack(BATCH_MAGIC, public, *self)
        return head + key.sign(BATCH_CONTEXT + head + envelopes) + envelopes


def parse_batch(body: bytes, relays: Collection[str]) -> tuple[Batch, bytes]:
    """Return a relay's statement and the packed envelopes after it, or refuse the body."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    head, rest = body[: BATCH_HEADER.size], body[BATCH_HEADER.size :]
    if len(rest) < SIGNATURE_BYTES or not head.startswith(BATCH_MAGIC):
        raise InvalidEnvelope("bad-body", "the body is not a relay's batch")
    _, public, *fields = BATCH_HEADER.unpack(head)
    signature, envelopes = rest[:SIGNATURE_BYTES], rest[SIGNATURE_BYTES:]
    if public.hex() not in relays:
        raise InvalidEnvelope("bad-body", UNSIGNED)
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(
            signature, BATCH_CONTEXT + head + envelopes
        )
    except (InvalidSignature, ValueError):
        raise InvalidEnvelope("bad-body", UNSIGNED) from None
    return Batch(*fields), envelopes


def mark_of(public: str, survey: str, number: int) -> bytes:
    """Return the mark of a survey and round: every client can compute it, and so can the relay."""
    named = bytes.fromhex(public) + bytes.fromhex(survey) + struct.pack("<I", number)
    return hashlib.sha256(named).digest()[:MARK_BYTES]


def marks_of(identifier: str, survey: Survey, now: datetime) -> dict[bytes, int]:
    """Return the rounds of a sealed survey that the server accepts now, by their marks."""
    public = survey.sealed_to or ""
    return {mark_of(public, identifier, n): n for n in survey.accepted_rounds(now)}


def sealed_bytes(packed_bytes: int) -> int:
    """Return the length of an envelope after sealing, from its length before."""
    return next(size for size in SIZES if size >= packed_bytes) + OVERHEAD


def seal(envelope: Envelope, public: str) -> SealedEnvelope:
    """Seal an envelope to a public key. Keep the bytes for retries: each call returns new bytes."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    packed = envelope.pack()
    padded = packed.ljust(sealed_bytes(len(packed)) - OVERHEAD, b"\0")
    recipient = X25519PublicKey.from_public_bytes(bytes.fromhex(public))
    sealed = _suite().encrypt(padded, recipient, info=CONTEXT)
    return SealedEnvelope(mark_of(public, envelope.survey, envelope.round), sealed)


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
