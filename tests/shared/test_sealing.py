"""Sealed envelopes: one key opens them, completely or not at all, and all have equal size."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from deniable.shared import sealed_envelope
from deniable.shared.envelope import Envelope, encode_report, parse_envelopes
from deniable.shared.errors import InvalidEnvelope, InvalidSurvey, WrongUse
from deniable.shared.sealed_envelope import (
    SIZES,
    SealedEnvelope,
    mark_of,
    marks_of,
    parse_batch,
    parse_sealed,
    seal,
    unseal,
)
from deniable.shared.survey.document import (
    Symbols,
    parse_document,
    parse_toml,
    render_document,
    survey_id,
)
from deniable.shared.survey.keys import (
    create_key,
    create_sealing_key,
    load_sealing_key,
    public_hex,
    verify,
)
from tests import survey_texts as texts

FOLDER = Path(__file__).parent.parent / "vectors"
VECTORS = json.loads((FOLDER / "envelopes_sealed.json").read_text())
SURVEY = json.loads((FOLDER / "survey_sealed.json").read_text())
KEY = X25519PrivateKey.from_private_bytes(bytes.fromhex(VECTORS["private_key"]))
PUBLIC = public_hex(KEY)
ENVELOPE = Envelope("ab" * 32, 683, bytes(range(16)), 1, b"\1\2\0")


def title(vector: dict[str, Any]) -> str:
    return str(vector["name"])


def body(vector: dict[str, Any]) -> bytes:
    return bytes.fromhex(vector["sealed"])


@pytest.mark.parametrize("vector", VECTORS["good"], ids=title)
def test_sealed_vectors_open_to_the_stated_contents(vector: dict[str, Any]) -> None:
    (sealed,) = parse_sealed(body(vector))
    mark = mark_of(VECTORS["public_key"], survey_id(SURVEY["document"].encode()), 683)
    assert sealed.mark.hex() == mark.hex() == VECTORS["mark"]
    assert unseal(sealed, KEY).pack().hex() == vector["opened"]
    assert sealed.pack() == body(vector)


@pytest.mark.parametrize("vector", VECTORS["bad_body"], ids=title)
def test_a_bad_body_is_refused_whole_without_opening_it(vector: dict[str, Any]) -> None:
    with pytest.raises(InvalidEnvelope) as caught:
        parse_sealed(body(vector))
    assert caught.value.code == "bad-body"


@pytest.mark.parametrize(
    "vector",
    [bad for bad in VECTORS["bad_payload"] if bad["name"] != "under a wrong mark"],
    ids=title,
)
def test_an_envelope_that_cannot_be_opened_is_refused_alone(vector: dict[str, Any]) -> None:
    (sealed,) = parse_sealed(body(vector))
    with pytest.raises(InvalidEnvelope) as caught:
        unseal(sealed, KEY)
    assert caught.value.code == "bad-payload"


@pytest.mark.parametrize("vector", VECTORS["batches"], ids=title)
def test_batches_of_a_known_relay_are_read(vector: dict[str, Any]) -> None:
    batch, envelopes = parse_batch(bytes.fromhex(vector["body"]), [VECTORS["relay_key"]])
    assert [batch.number.hex(), batch.mark.hex()] == [vector["batch"], vector["mark"]]
    assert [batch.size, batch.dropped] == [vector["size"], vector["dropped"]]
    assert envelopes.hex() == vector["envelopes"]


@pytest.mark.parametrize("vector", VECTORS["bad_batch"], ids=title)
def test_a_batch_that_no_known_relay_signed_is_refused(vector: dict[str, Any]) -> None:
    with pytest.raises(InvalidEnvelope) as caught:
        parse_batch(body(vector), [VECTORS["relay_key"]])
    assert caught.value.code == "bad-body"


def test_marks_differ_by_key_survey_and_round() -> None:
    cases = [(PUBLIC, "ab" * 32, 1), (PUBLIC, "ab" * 32, 2), (PUBLIC, "ac" * 32, 1),
             ("01" * 32, "ab" * 32, 1)]  # fmt: skip
    assert len({mark_of(*case) for case in cases}) == 4


@pytest.mark.parametrize("period", ["once", "day", "week", "month"])
def test_marks_are_those_of_the_rounds_that_a_server_accepts(period: str) -> None:
    asked = parse_toml(texts.survey_text(texts.bit(), round=period, sealed_to=PUBLIC))
    moments = [asked.taken_from(asked.first_round) + timedelta(hours=n * 7) for n in range(-9, 400)]
    for now in moments:
        accepted = [
            number
            for number in range(asked.first_round, asked.last_round + 1)
            if asked.taken_from(number) <= now < asked.taken_until(number)
        ]
        assert sorted(marks_of("ab" * 32, asked, now).values()) == accepted


def test_the_key_of_the_vectors_is_read_from_its_document() -> None:
    document = SURVEY["document"].encode()
    verify(document, SURVEY["signature"], SURVEY["key"], [SURVEY["key"]])
    assert parse_document(document).sealed_to == VECTORS["public_key"] == PUBLIC
    assert render_document(parse_toml(SURVEY["toml"])) == document


@pytest.mark.parametrize("vector", SURVEY["bad"], ids=title)
def test_an_unusable_sealing_key_is_refused(vector: dict[str, Any]) -> None:
    table = json.loads(SURVEY["document"])
    table["survey"]["sealed_to"] = vector["sealed_to"]
    with pytest.raises(InvalidSurvey, match="sealed_to"):
        parse_document(json.dumps(table).encode())


def test_the_same_envelope_is_never_sealed_to_the_same_bytes() -> None:
    assert seal(ENVELOPE, PUBLIC) != seal(ENVELOPE, PUBLIC)
    assert unseal(seal(ENVELOPE, PUBLIC), KEY) == ENVELOPE


@pytest.mark.parametrize("ask", [None, 1])
def test_every_report_of_a_survey_has_the_same_size(ask: int | None) -> None:
    """Sizes are equal even if each install answers one of several questions of different sizes."""
    wide = texts.bit() + texts.choice(4_000, "unary", name="many")
    asked = parse_toml(texts.survey_text(wide, ask=ask))
    most = 2**4_000 - 1
    some: list[Symbols] = [(0, None), (1, None), (None, most)] if ask else [(0, 0), (1, most)]
    reports = [encode_report(asked, symbols) for symbols in some]
    made = [seal(Envelope("ab" * 32, 1, bytes(16), 1, report), PUBLIC).pack() for report in reports]
    assert len({len(body) for body in made}) == 1
    parse_sealed(made[0])  # the size is a standard one, which other surveys share


def test_the_longest_report_of_any_survey_fits() -> None:
    most = 100 * 8_192 // 8
    envelope = Envelope("ab" * 32, 1, bytes(16), 1, bytes(most))
    assert unseal(seal(envelope, PUBLIC), KEY) == envelope
    assert len(envelope.pack()) <= SIZES[-1]


def test_an_envelope_with_any_changed_byte_cannot_be_opened() -> None:
    """Change each byte of the encapsulated key, the ciphertext and the tag.

    X25519 ignores one bit of the key, but HPKE binds that bit as well.
    """
    sealed = seal(ENVELOPE, PUBLIC)
    for index in range(len(sealed.sealed)):
        changed = bytearray(sealed.sealed)
        changed[index] ^= 128
        with pytest.raises(InvalidEnvelope):
            unseal(SealedEnvelope(sealed.mark, bytes(changed)), KEY)


def test_the_padding_cannot_carry_a_message() -> None:
    """A one bit at any position of the padding is refused, even in a valid seal."""
    packed, size = ENVELOPE.pack(), SIZES[0]
    for position in range(len(packed), size):
        padded = bytearray(packed.ljust(size, b"\0"))
        padded[position] = 1
        sealed = sealed_envelope._suite().encrypt(
            bytes(padded), KEY.public_key(), info=sealed_envelope.CONTEXT
        )
        with pytest.raises(InvalidEnvelope):
            unseal(SealedEnvelope(bytes(8), sealed), KEY)


def test_every_truncation_is_refused() -> None:
    packed = seal(ENVELOPE, PUBLIC).pack()
    for length in range(len(packed)):
        with pytest.raises(InvalidEnvelope):
            parse_sealed(packed[:length])


def test_sealed_and_plain_bodies_are_not_confused() -> None:
    with pytest.raises(InvalidEnvelope):
        parse_sealed(ENVELOPE.pack())
    with pytest.raises(InvalidEnvelope):
        parse_envelopes(seal(ENVELOPE, PUBLIC).pack())


def test_a_sealing_key_is_created_once_and_read_later(tmp_path: Path) -> None:
    file = tmp_path / "sealing.pem"
    made = create_sealing_key(str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    assert public_hex(load_sealing_key(str(file))) == public_hex(made)
    with pytest.raises(WrongUse, match="never overwritten"):
        create_sealing_key(str(file))


def test_a_signing_key_is_refused_for_sealing(tmp_path: Path) -> None:
    create_key(str(tmp_path / "signing.pem"))
    with pytest.raises(WrongUse, match="not X25519"):
        load_sealing_key(str(tmp_path / "signing.pem"))
    with pytest.raises(WrongUse, match="keys new --sealing"):
        load_sealing_key(str(tmp_path / "none.pem"))
