"""Vectors of a survey whose reports are sealed: `sealed_to`."""

import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from deniable.shared.envelope import Envelope, encode_report
from deniable.shared.sealed_envelope import (
    CONTEXT,
    HEADER,
    MAGIC,
    SIZES,
    Batch,
    SealedEnvelope,
    _suite,
    mark_of,
    seal,
)
from deniable.shared.survey.document import Survey, parse_toml, survey_id
from deniable.shared.survey.keys import public_hex
from tests.vectors.signed import signed

SURVEY, ENVELOPES = "survey_sealed.json", "envelopes_sealed.json"
SECRET, RELAY_SECRET = bytes(range(64, 96)), bytes(range(96, 128))
ROUND = 683
BAD_KEYS = [
    ("not hex", "zz" * 32, "64 hex digits in lower case"),
    ("upper case", "AB" * 32, "64 hex digits in lower case"),
    ("too short", "ab" * 31, "64 hex digits"),
    ("zero", "00" * 32, "of low order: nothing can be sealed to it"),
    ("one", "01" + "00" * 31, "of low order: nothing can be sealed to it"),
]


def make(folder: Path) -> None:
    """Write the sealed survey of survey.json, and messages of it, if they are missing."""
    key = X25519PrivateKey.from_private_bytes(SECRET)
    plain = json.loads((folder / "survey.json").read_text())
    line = f'minimum_reports = 100\nsealed_to = "{public_hex(key)}"\n'
    text = plain["toml"].replace("minimum_reports = 100\n", line)
    survey = parse_toml(text)
    if not (folder / SURVEY).exists():
        made = signed(text, survey, plain["signing_key_seed"])
        made |= {"bad": [{"name": n, "sealed_to": k, "reason": why} for n, k, why in BAD_KEYS]}
        (folder / SURVEY).write_text(json.dumps(made, indent=1) + "\n")
    if not (folder / ENVELOPES).exists():
        document = json.loads((folder / SURVEY).read_text())["document"].encode()
        made = vectors(survey, survey_id(document), key)
        (folder / ENVELOPES).write_text(json.dumps(made, indent=1) + "\n")


def vectors(survey: Survey, id_: str, key: X25519PrivateKey) -> dict[str, Any]:
    public = public_hex(key)

    def envelope(number: int, count: int = 1) -> Envelope:
        report = encode_report(survey, [0 for _ in survey.questions])
        return Envelope(id_, ROUND, bytes([number]) * 16, count, report * count)

    def raw(content: bytes) -> SealedEnvelope:
        return SealedEnvelope(
            mark_of(public, id_, ROUND), _suite().encrypt(content, key.public_key(), info=CONTEXT)
        )

    first, other = seal(envelope(1), public), X25519PrivateKey.from_private_bytes(bytes([7]) * 32)
    packed = envelope(2).pack()
    changed = bytearray(first.pack())
    changed[-1] ^= 1
    elsewhere = seal(envelope(3), public_hex(other))
    return {
        "survey": SURVEY,
        "private_key": SECRET.hex(),
        "public_key": public,
        "mark": mark_of(public, id_, ROUND).hex(),
        "sizes": list(SIZES),
        "good": [
            {
                "name": f"number {n}",
                "sealed": seal(envelope(n), public).pack().hex(),
                "opened": envelope(n).pack().hex(),
            }
            for n in (1, 2)
        ],
        "bad_body": [
            _bad("empty", b"", "no envelope"),
            _bad("cut short", first.pack()[:-1], "ends inside what is sealed"),
            _bad("a plain envelope", packed, "does not begin with DNS1"),
            _bad("a size of its own", HEADER.pack(MAGIC, first.mark, 305) + bytes(305), "no size"),
        ],
        "bad_payload": [
            _bad("changed", bytes(changed), "one bit of the tag is another"),
            _bad(
                "of another key", elsewhere.pack(), "sealed to a key that the server does not have"
            ),
            _bad(
                "under a wrong mark",
                SealedEnvelope(mark_of(public, id_, ROUND + 1), first.sealed).pack(),
                "its mark is that of the next round",
            ),
            _bad("two inside", raw((packed * 2).ljust(256, b"\0")).pack(), "one envelope in each"),
            _bad("not zeros", raw(packed.ljust(256, b"\1")).pack(), "the padding is not zero"),
            _bad("no envelope", raw(bytes(256)).pack(), "nothing inside begins with DNB1"),
        ],
        "too_many": [_bad("two reports", seal(envelope(4, 2), public).pack(), "one in each")],
    } | _batches(seal(envelope(5), public))


def _batches(envelope: SealedEnvelope) -> dict[str, Any]:
    relay, packed = Ed25519PrivateKey.from_private_bytes(RELAY_SECRET), envelope.pack()
    stranger = Ed25519PrivateKey.from_private_bytes(bytes([7]) * 32)
    statements = {"sent": (Batch(bytes(range(8)), envelope.mark, 1_000), packed),
                  "dropped": (Batch(bytes(range(8, 16)), envelope.mark, 0, 12), b"")}  # fmt: skip
    good = [
        {
            "name": name,
            "body": batch.pack(envelopes, relay).hex(),
            "batch": batch.number.hex(),
            "mark": batch.mark.hex(),
            "size": batch.size,
            "dropped": batch.dropped,
            "envelopes": envelopes.hex(),
        }
        for name, (batch, envelopes) in statements.items()
    ]
    body = statements["sent"][0].pack(packed, relay)
    changed = bytearray(body)
    changed[52] ^= 1
    unknown = statements["sent"][0].pack(packed, stranger)
    return {
        "relay_key": public_hex(relay),
        "batches": good,
        "bad_batch": [
            _bad("another size", bytes(changed), "the signature covers the size"),
            _bad("another envelope", body + packed, "the signature covers the envelopes"),
            _bad("a strange relay", unknown, "signed with a key that the server does not know"),
            _bad("cut short", body[:100], "ends inside the signature"),
        ],
    }


def _bad(name: str, body: bytes, reason: str) -> dict[str, str]:
    return {"name": name, "sealed": body.hex(), "reason": reason}
