"""Envelopes: reports of one survey and round under one id, in binary form and in JSON.

    "DNB1" · survey id (32) · round (u32) · envelope id (16) · count (u32) · length (u32) · payload

Numbers are little-endian, lengths are in bytes, and envelopes follow each other without gaps. A
payload is `count` reports. A report has the survey's labels, and the symbols of its questions, in
order; if each install is asked one question, the labels are followed by that question's number, its
symbol, and zeros as padding.
PROTOCOL.md is normative; `tests/vectors/` has valid and invalid messages.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from deniable.shared.errors import InvalidEnvelope, quantity
from deniable.shared.privacy.encodings import is_hex
from deniable.shared.survey.document import Survey, Symbols
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.labels import RESERVED_NAME

MAGIC = b"DNB1"
HEADER = struct.Struct("<4s32sI16sII")
CONTENT_TYPE = "application/vnd.deniable.envelopes"
MAX_BODY_BYTES = 2**20
MAX_JSON_BYTES = 2**16  # parsed JSON takes about twenty times its length in memory
MAX_ENVELOPES = 4_096  # limit of one body with an app token; without a token it is 1
MAX_REPORTS = 65_536
NO_QUESTION = "a report must begin with the number of one of the survey's questions, from 0"
EMPTY = "the body is empty; send at least one envelope"
NO_LABELS: Mapping[str, str | None] = {}
NOT_ZERO = "the padding after its symbol must be zero"


@dataclass(frozen=True, slots=True)
class Envelope:
    survey: str  # 64 hex digits
    round: int
    id: bytes
    count: int
    payload: bytes

    def pack(self) -> bytes:
        header = HEADER.pack(
            MAGIC, bytes.fromhex(self.survey), self.round, self.id, self.count, len(self.payload)
        )
        return header + self.payload


class NamedReports(NamedTuple):
    """Envelope from JSON. Its reports stay tables by question name until its survey is known."""

    survey: str
    round: int
    id: bytes
    reports: list[Any]

    def envelope(self, survey: Survey) -> Envelope:
        payload = b"".join(
            encode_report(survey, _symbols(survey, report), _labels(survey, report))
            for report in self.reports
        )
        return Envelope(self.survey, self.round, self.id, len(self.reports), payload)


def envelope_id(key: bytes, survey: str, round_number: int) -> bytes:
    """Return the envelope id of a round, which is the same on every retry.

    It is an HMAC-SHA256 under a random key that the device keeps for each survey, so no one else
    can link the ids of two rounds or surveys.
    """
    message = b"id\0" + bytes.fromhex(survey) + struct.pack("<I", round_number)
    return hmac.digest(key, message, hashlib.sha256)[:16]


def encode_report(
    survey: Survey, symbols: Sequence[int | None], labels: Mapping[str, str | None] = NO_LABELS
) -> bytes:
    """Return the bytes of one report, whose length depends on neither symbols nor labels."""
    clear = b"".join(label.encode(labels.get(label.name)) for label in survey.labels)
    parts = [
        (number, symbol.to_bytes(question.mechanism.payload_size, "little"))
        for number, (question, symbol) in enumerate(zip(survey.questions, symbols, strict=True))
        if symbol is not None
    ]
    if not survey.asks_one:
        return clear + b"".join(payload for _, payload in parts)
    ((number, payload),) = parts
    return (clear + bytes([number]) + payload).ljust(survey.report_size, b"\0")


def decode_reports(survey: Survey, envelope: Envelope) -> list[Symbols]:
    """Return every report of an envelope; the reference for the server's vectorised code."""
    size = survey.report_size
    if envelope.count == 0:
        raise InvalidEnvelope("bad-payload", "an envelope must have at least one report")
    if len(envelope.payload) != envelope.count * size:
        raise InvalidEnvelope(
            "bad-payload",
            f"{quantity(envelope.count, 'report')} of {quantity(size, 'byte')} would have "
            f"{quantity(envelope.count * size, 'byte')}, got {len(envelope.payload)}",
        )
    starts = range(0, len(envelope.payload), size)
    return [decode_report(survey, envelope.payload[start : start + size]) for start in starts]


def decode_report(survey: Survey, payload: bytes) -> Symbols:
    """Return the symbols of one report; refuse reports that no client sends."""
    if len(payload) != survey.report_size:
        raise InvalidEnvelope(
            "bad-payload",
            f"a report has {quantity(survey.report_size, 'byte')}, got {len(payload)}",
        )
    decode_labels(survey, payload)
    payload = payload[survey.labels_size :]
    if survey.asks_one:
        return _decode_one(survey, payload[0], payload[1:])
    symbols, start = [], 0
    for question in survey.questions:
        end = start + question.mechanism.payload_size
        symbols.append(_decode(question, payload[start:end]))
        start = end
    return tuple(symbols)


def decode_labels(survey: Survey, payload: bytes) -> dict[str, str | None]:
    """Return the labels in front of a report; refuse bytes that no client sends."""
    labels, start = {}, 0
    for label in survey.labels:
        labels[label.name] = label.decode(payload[start : start + label.size])
        start += label.size
    return labels


def _decode_one(survey: Survey, number: int, padded: bytes) -> Symbols:
    if number >= len(survey.questions):
        raise InvalidEnvelope("bad-payload", NO_QUESTION)
    asked = survey.questions[number]
    size = asked.mechanism.payload_size
    if any(padded[size:]):
        raise InvalidEnvelope("bad-payload", f"question {asked.name!r}: {NOT_ZERO}")
    symbol = _decode(asked, padded[:size])
    return tuple(symbol if question is asked else None for question in survey.questions)


def _decode(question: Question, payload: bytes) -> int:
    symbol = int.from_bytes(payload, "little")
    if not question.mechanism.encoding.is_symbol(symbol):
        raise InvalidEnvelope("bad-payload", f"question {question.name!r}: symbol out of range")
    return symbol


def parse_envelopes(body: bytes, most: int = MAX_ENVELOPES) -> list[Envelope]:
    """Return the envelopes of a binary body, or refuse the body as a whole."""
    return [
        Envelope(survey.hex(), number, id_, count, payload)
        for (survey, number, id_, count), payload in split_body(body, HEADER, MAGIC, most)
    ]


def split_body(
    body: bytes,
    header: struct.Struct,
    magic: bytes,
    most: int,
    lengths: Container[int] = range(2**32),
) -> Iterator[tuple[list[Any], bytes]]:  # Any: types follow from the header's format
    """Yield the header's fields between magic and length, and the content, of each envelope."""
    number = start = 0
    while start < len(body):
        if len(body) - start < header.size:
            raise InvalidEnvelope("bad-body", f"envelope {number} ends inside its header")
        first, *fields, length = header.unpack_from(body, start)
        start += header.size
        if first != magic:
            name = magic.decode()
            raise InvalidEnvelope("bad-body", f'envelope {number} does not begin with "{name}"')
        if length not in lengths:
            raise InvalidEnvelope("bad-body", f"envelope {number} has a size that no client sends")
        if len(body) - start < length:
            raise InvalidEnvelope("bad-body", f"envelope {number} ends inside its content")
        if number == most:
            raise too_many(most)
        yield fields, body[start : start + length]
        number, start = number + 1, start + length
    if not number:
        raise InvalidEnvelope("bad-body", EMPTY)


def parse_json_envelopes(body: bytes, most: int = MAX_ENVELOPES) -> list[NamedReports]:
    """Return the envelopes of a JSON body. No key may repeat, and numbers must be whole."""
    if len(body) > MAX_JSON_BYTES:
        raise InvalidEnvelope(
            "too-long", f"a body in JSON has at most {MAX_JSON_BYTES} bytes; send {CONTENT_TYPE}"
        )
    try:
        table = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_without_repeated_keys,
            parse_float=_refuse,
            parse_constant=_refuse,
        )
    except InvalidEnvelope:
        raise
    except (ValueError, RecursionError):
        raise InvalidEnvelope("bad-body", "the body must be JSON in UTF-8") from None
    envelopes = _fields(table, "the body", envelopes=list)["envelopes"]
    if not envelopes:
        raise InvalidEnvelope("bad-body", EMPTY)
    if len(envelopes) > most:
        raise too_many(most)
    return [_named(index, part) for index, part in enumerate(envelopes)]


def too_many(most: int) -> InvalidEnvelope:
    advice = "; use an app token to send more" if most == 1 else "; split the body"
    return InvalidEnvelope("too-many", f"a body has at most {quantity(most, 'envelope')}{advice}")


def json_envelope(survey: Survey, envelope: Envelope) -> dict[str, Any]:
    reports = []
    for number, symbols in enumerate(decode_reports(survey, envelope)):
        pairs = zip(survey.questions, symbols, strict=True)
        asked = ((q, symbol) for q, symbol in pairs if symbol is not None)
        labels = decode_labels(survey, envelope.payload[number * survey.report_size :])
        clear = {RESERVED_NAME: labels} if labels else {}
        named = {q.name: q.mechanism.encoding.to_json(symbol) for q, symbol in asked}
        reports.append(clear | named)
    head = {"survey": envelope.survey, "round": envelope.round, "id": envelope.id.hex()}
    return {**head, "reports": reports}


def _symbols(survey: Survey, report: object) -> Symbols:
    names = [question.name for question in survey.questions]
    keys = set(report) if isinstance(report, dict) else set()
    if survey.labels:
        keys.discard(RESERVED_NAME)
    fits = len(keys) == 1 and keys <= set(names) if survey.asks_one else keys == set(names)
    if not fits:
        wanted = f"{'one of' if survey.asks_one else 'exactly'} the keys {', '.join(names)}"
        raise InvalidEnvelope("bad-payload", f"a report must have {wanted}")
    assert isinstance(report, dict), "its keys were checked"
    return tuple(_symbol(q, report[q.name]) if q.name in keys else None for q in survey.questions)


def _labels(survey: Survey, report: Any) -> Mapping[str, str | None]:  # Any: its keys were checked
    """Return the labels of a report in JSON: texts that its bytes hold, or null."""
    labels = report.get(RESERVED_NAME) if survey.labels else NO_LABELS
    names = [label.name for label in survey.labels]
    if not isinstance(labels, Mapping) or set(labels) != set(names):
        wanted = f"{RESERVED_NAME} must be an object with exactly the keys {', '.join(names)}"
        raise InvalidEnvelope("bad-payload", wanted)
    for label in survey.labels:
        value = labels[label.name]
        try:
            fits = isinstance(value, str | None) and label.decode(label.encode(value)) == value
        except ValueError:
            fits = False
        if not fits:
            problem = "must be one of its values, or null if not given"
            raise InvalidEnvelope("bad-payload", f"label {label.name!r} {problem}")
    return labels


def _symbol(question: Question, value: object) -> int:
    try:
        return question.mechanism.encoding.from_json(value)
    except ValueError as error:
        raise InvalidEnvelope("bad-payload", f"question {question.name!r}: {error}") from None


def _named(index: int, part: object) -> NamedReports:
    prefix = f"envelope {index}"
    fields = _fields(part, prefix, survey=str, round=int, id=str, reports=list)
    for key, digits in (("survey", 64), ("id", 32)):
        if len(fields[key]) != digits or not is_hex(fields[key]):
            problem = f"{key} must be {digits} hex digits in lower case"
            raise InvalidEnvelope("bad-body", f"{prefix}: {problem}")
    survey, number, id_ = fields["survey"], fields["round"], bytes.fromhex(fields["id"])
    if not 0 <= number < 2**32:
        raise InvalidEnvelope("bad-body", f"{prefix}: round must be 0 to 4294967295")
    return NamedReports(survey, number, id_, fields["reports"])


def _fields(table: object, prefix: str, **kinds: type) -> Mapping[str, Any]:
    if not isinstance(table, dict) or set(table) != set(kinds):
        raise InvalidEnvelope("bad-body", f"{prefix} must have exactly the keys {', '.join(kinds)}")
    for key, kind in kinds.items():
        if type(table[key]) is not kind:
            raise InvalidEnvelope("bad-body", f"{prefix}: {key} has the wrong JSON type")
    return table


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise InvalidEnvelope("bad-body", "an object must not repeat a key")
    return table


def _refuse(_: str) -> Any:
    raise InvalidEnvelope("bad-body", "numbers must be whole")
