"""Fields of a published survey's document that all its vectors share."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deniable.shared.survey.document import Survey, render_document, survey_id
from deniable.shared.survey.keys import public_hex, sign


def signed(text: str, survey: Survey, seed: str) -> dict[str, object]:
    key, document = (
        Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed)),
        render_document(survey),
    )
    return {
        "toml": text,
        "document": document.decode(),
        "id": survey_id(document),
        "signing_key_seed": seed,
        "key": public_hex(key),
        "signature": sign(document, key),
    }
