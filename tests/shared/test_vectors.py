"""Wire messages as files: valid ones are read and rewritten, bad ones are refused with a code."""

import json
from functools import cache
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from deniable.shared.envelope import (
    Envelope,
    NamedReports,
    decode_labels,
    decode_reports,
    encode_report,
    envelope_id,
    json_envelope,
    parse_envelopes,
    parse_json_envelopes,
)
from deniable.shared.errors import InvalidEnvelope, InvalidSurvey
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.survey.document import (
    Survey,
    parse_document,
    parse_toml,
    render_document,
)
from deniable.shared.survey.keys import verify
from tests.asked import position
from tests.survey_texts import question as in_toml
from tests.survey_texts import survey_text

FOLDER = Path(__file__).parent.parent / "vectors"


def vectors(name: str) -> Any:  # JSON can be any type
    return json.loads((FOLDER / name).read_text())


NAMES = ("envelopes.json", "envelopes_ask_one.json", "envelopes_labels.json")
FILES = [vectors(name) for name in NAMES]


def messages(kind: str) -> list[dict[str, Any]]:
    """Return the messages of two surveys, one that asks all its questions and one that asks one."""
    return [vector | {"of": file["survey"]} for file in FILES for vector in file.get(kind, ())]


GOOD, BAD_BODY, BAD_PAYLOAD = map(messages, ("good", "bad_body", "bad_payload"))


def title(vector: dict[str, Any]) -> str:
    return str(vector["name"])


@cache
def published(file: str) -> Survey:
    return parse_document(vectors(file)["document"].encode())


@pytest.fixture
def survey(vector: dict[str, Any]) -> Survey:
    return published(vector["of"])


def parse(vector: dict[str, str], survey: Survey) -> list[Envelope]:
    if "binary" in vector:
        return parse_envelopes(bytes.fromhex(vector["binary"]))
    return [named.envelope(survey) for named in parse_json(vector)]


def parse_json(vector: dict[str, str]) -> list[NamedReports]:
    return parse_json_envelopes(vector["json"].encode())


@pytest.mark.parametrize("vector", GOOD, ids=title)
def test_valid_messages_are_equal_in_both_encodings(vector: dict[str, Any], survey: Survey) -> None:
    binary = parse_envelopes(bytes.fromhex(vector["binary"]))
    named = [part.envelope(survey) for part in parse_json(vector)]
    assert binary == named
    stated = [
        Envelope(
            part["survey"],
            part["round"],
            bytes.fromhex(part["id"]),
            part["count"],
            bytes.fromhex(part["payload"]),
        )
        for part in vector["envelopes"]
    ]
    assert binary == stated


@pytest.mark.parametrize("vector", GOOD, ids=title)
def test_valid_messages_are_written_as_they_were_read(
    vector: dict[str, Any], survey: Survey
) -> None:
    envelopes = parse_envelopes(bytes.fromhex(vector["binary"]))
    assert b"".join(envelope.pack() for envelope in envelopes).hex() == vector["binary"]
    table = {"envelopes": [json_envelope(survey, envelope) for envelope in envelopes]}
    assert table == json.loads(vector["json"])
    for envelope in envelopes:
        size = survey.report_size
        reports = [
            encode_report(survey, symbols, decode_labels(survey, envelope.payload[number * size :]))
            for number, symbols in enumerate(decode_reports(survey, envelope))
        ]
        assert b"".join(reports) == envelope.payload


@pytest.mark.parametrize("vector", BAD_BODY, ids=title)
def test_a_bad_body_is_refused_whole(vector: dict[str, str], survey: Survey) -> None:
    with pytest.raises(InvalidEnvelope) as caught:
        parse(vector, survey)
    assert caught.value.code == "bad-body"


@pytest.mark.parametrize("vector", BAD_PAYLOAD, ids=title)
def test_a_bad_payload_refuses_its_envelope(vector: dict[str, str], survey: Survey) -> None:
    with pytest.raises(InvalidEnvelope) as caught:
        [decode_reports(survey, envelope) for envelope in parse(vector, survey)]
    assert caught.value.code == "bad-payload"


@pytest.mark.parametrize("number", [0, 2**32 - 1])
def test_the_first_and_the_last_round_are_the_same_in_both_encodings(number: int) -> None:
    made = Envelope("ab" * 32, number, bytes(16), 1, b"\1")
    assert parse_envelopes(made.pack()) == [made]
    twin = {"survey": made.survey, "round": number, "id": "00" * 16, "reports": [{"q": 1}]}
    (read,) = parse_json_envelopes(json.dumps({"envelopes": [twin]}).encode())
    assert (read.survey, read.round, read.id) == (made.survey, number, made.id)


def test_every_truncation_of_a_valid_message_is_refused() -> None:
    message = bytes.fromhex(GOOD[0]["binary"])
    for length in range(len(message)):
        with pytest.raises(InvalidEnvelope):
            parse_envelopes(message[:length])


@pytest.mark.parametrize("body", [b"\xff\xfe", b"[" * 50_000, b'{"envelopes": [9' + b"9" * 5000])
def test_hostile_json_is_refused_without_other_errors(body: bytes) -> None:
    with pytest.raises(InvalidEnvelope):
        parse_json_envelopes(body)


@pytest.mark.parametrize("vector", vectors("envelope_ids.json"))
def test_envelope_ids_agree_with_the_vectors(vector: dict[str, Any]) -> None:
    made = envelope_id(bytes.fromhex(vector["key"]), vector["survey"], vector["round"])
    assert made.hex() == vector["id"]


@pytest.mark.parametrize("vector", vectors("survey_ask_one.json")["drawn"])
def test_the_same_random_bytes_draw_the_same_question(vector: dict[str, Any]) -> None:
    """The first eight bytes select the question; the noise in the other bytes does not matter."""
    drawn = published("survey_ask_one.json")
    draws = chain([int.from_bytes(bytes.fromhex(vector["draw"]), "little")], repeat(0))
    report = drawn.report(dict.fromkeys(drawn.costs), lambda _: next(draws))
    asked = [number for number, symbol in enumerate(report.symbols) if symbol is not None]
    assert asked == [vector["question"]]


def test_charges_of_shared_rounds_agree_with_the_vectors() -> None:
    vector = vectors("survey_latched.json")
    asked = published("survey_latched.json")
    assert render_document(parse_toml(vector["toml"])) == vector["document"].encode()
    verify(vector["document"].encode(), vector["signature"], vector["key"], [vector["key"]])
    assert (asked.round_epsilon, asked.lifetime_epsilon) == (
        vector["round_epsilon"],
        vector["lifetime_epsilon"],
    )
    for charge in vector["charged"]:
        assert asked.span_of(charge["round"])[0] == charge["as"]


@pytest.mark.parametrize("vector", vectors("survey_latched.json")["bad_keys"], ids=title)
def test_bad_repetition_keys_are_refused(vector: dict[str, Any]) -> None:
    table = json.loads(vectors("survey_latched.json")["document"])
    del table["survey"]["repeat"], table["survey"]["repeat_rounds"]
    parse_document(json.dumps(table).encode())
    table["survey"] |= vector["keys"]
    with pytest.raises(InvalidSurvey):
        parse_document(json.dumps(table).encode())


@pytest.mark.parametrize("vector", vectors("mechanisms.json"))
def test_the_same_random_bytes_give_the_same_symbol(vector: dict[str, Any]) -> None:
    """Exactly these bytes are drawn, in this order."""
    epsilon, size, answer = Epsilon(vector["epsilon"]), vector["size"], vector["answer"]
    rest = bytes.fromhex(vector["draw"])

    def draw(bits: int) -> int:
        nonlocal rest
        random, rest = rest[: bits // 8], rest[bits // 8 :]
        assert len(random) * 8 == bits
        return int.from_bytes(random, "little")

    mechanism: Mechanism = mechanisms()[vector["mechanism"]](epsilon, size)
    whole = isinstance(answer, int)
    given = mechanism.answer_at(answer) if whole else position(answer, mechanism)
    symbol = mechanism.randomize(given, draw)
    assert (symbol, not rest) == (vector["symbol"], True)
    assert symbol.to_bytes(mechanism.payload_size, "little").hex() == vector["payload"]


@pytest.mark.parametrize("vector", vectors("texts.json"))
def test_a_text_is_hashed_into_the_buckets_of_the_vectors(vector: dict[str, Any]) -> None:
    asked = {key: vector[key] for key in ("length", "buckets", "salt")}
    (question,) = parse_toml(survey_text(in_toml("it", "text", **asked))).questions
    placed = question.place(vector["text"])
    assert placed == (None if vector["placed"] is None else tuple(vector["placed"]))


@pytest.mark.parametrize("vector", vectors("encodings.json"), ids=lambda v: str(v["mechanism"]))
def test_symbols_are_encoded_and_counted_as_in_the_vectors(vector: dict[str, Any]) -> None:
    mechanism = mechanisms()[vector["mechanism"]](Epsilon(vector["epsilon"]), vector["size"])
    encoding, size = mechanism.encoding, mechanism.payload_size
    assert [str(integer) for integer in mechanism.integers] == vector["integers"]
    for symbol in vector["symbols"]:
        number = int.from_bytes(bytes.fromhex(symbol["payload"]), "little")
        assert encoding.is_symbol(number)
        assert (encoding.from_json(symbol["json"]), encoding.to_json(number)) == (
            number,
            symbol["json"],
        )
        assert number.to_bytes(size, "little").hex() == symbol["payload"]
        if "adds" in symbol:
            assert list(encoding.amounts(number)) == list(enumerate(symbol["adds"]))
        else:
            assert list(mechanism.cells_of(number)) == symbol["cells"]
    for payload in vector["bad_payloads"]:
        assert not encoding.is_symbol(int.from_bytes(bytes.fromhex(payload), "little"))
