"""Vectors of a survey that asks each install one of its questions: `ask = 1`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deniable.shared.envelope import Envelope, encode_report, json_envelope
from deniable.shared.survey.document import Survey, Symbols, parse_toml, render_document, survey_id
from tests.vectors.signed import signed

SURVEY, ENVELOPES = "survey_ask_one.json", "envelopes_ask_one.json"
REPORTS: list[Symbols] = [
    (1, None, None, None),
    (None, 37, None, None),
    (None, None, 4, None),
    (None, None, None, 0x405),
    (None, 0, None, None),
]
DRAWS = ["0000000000000000", "ffffffffffffff3f", "0000000000000040", "ffffffffffffffff"]


def make(folder: Path) -> None:
    """Write both files if they are missing: the survey of survey.json with `ask`."""
    plain = json.loads((folder / "survey.json").read_text())
    text = plain["toml"].replace("minimum_reports = 100\n", "minimum_reports = 100\nask = 1\n")
    survey = parse_toml(text)
    document = render_document(survey)
    for name, made in (
        (SURVEY, published(text, survey, plain["signing_key_seed"])),
        (ENVELOPES, envelopes(survey, survey_id(document))),
    ):
        if not (folder / name).exists():
            (folder / name).write_text(json.dumps(made, indent=1) + "\n")


def published(text: str, survey: Survey, seed: str) -> dict[str, Any]:
    return {
        **signed(text, survey, seed),
        "report_size": survey.report_size,
        "round_epsilon": survey.round_epsilon,
        "lifetime_epsilon": survey.lifetime_epsilon,
        "drawn": [{"draw": draw, "question": asked(survey, draw)} for draw in DRAWS],
    }


def asked(survey: Survey, draw: str) -> int:
    return int.from_bytes(bytes.fromhex(draw), "little") * len(survey.questions) >> 64


def envelopes(survey: Survey, identifier: str) -> dict[str, Any]:
    payloads = [encode_report(survey, symbols) for symbols in REPORTS]
    one = Envelope(identifier, 683, bytes([1] * 16), 1, payloads[1])
    many = Envelope(identifier, 684, bytes([2] * 16), len(payloads), b"".join(payloads))
    return {
        "survey": SURVEY,
        "good": [good("one report", survey, one), good("a report of each question", survey, many)],
        "bad_payload": list(bad(survey, identifier)),
    }


def good(name: str, survey: Survey, envelope: Envelope) -> dict[str, Any]:
    return {
        "name": name,
        "binary": envelope.pack().hex(),
        "json": json.dumps({"envelopes": [json_envelope(survey, envelope)]}),
        "envelopes": [
            {
                "survey": envelope.survey,
                "round": envelope.round,
                "id": envelope.id.hex(),
                "count": envelope.count,
                "payload": envelope.payload.hex(),
            }
        ],
    }


BAD_BYTES = {
    "no such question": ("040000", "questions are numbered 0 to 3"),
    "padding not zero": ("000101", "a bit has one byte, and then one of zeros"),
    "symbol of another question": ("000200", "question 0 is a bit: 0 or 1"),
    "padding bit set in a set of options": ("030008", "eleven options leave five bits of zeros"),
    "without padding": ("0001", "a report has 3 bytes whichever question it is of"),
    "one byte more": ("00010000", "a report has 3 bytes whichever question it is of"),
    "all questions": ("0125040504", "each install is asked one question"),
    "second report bad": ("000100010000ff0000", "the whole envelope is refused"),
}
BAD_JSON: dict[str, tuple[object, str]] = {
    "JSON: two questions": ({"crashed": 1, "minutes": 37}, "each install is asked one question"),
    "JSON: no question": ({}, "a report is of one question"),
    "JSON: unknown question": ({"started": 1}, "the survey has no such question"),
    "JSON: symbol out of range": ({"crashed": 2}, "a bit is 0 or 1"),
    "JSON: report is a list": ([1], "a report is an object"),
}


def bad(survey: Survey, identifier: str) -> Iterator[dict[str, Any]]:
    for name, (payload, reason) in BAD_BYTES.items():
        sent = bytes.fromhex(payload)
        count = max(1, len(sent) // survey.report_size) if len(sent) % 3 == 0 else 1
        envelope = Envelope(identifier, 683, bytes([3] * 16), count, sent)
        yield {"name": name, "binary": envelope.pack().hex(), "reason": reason}
    for name, (report, reason) in BAD_JSON.items():
        part = {"survey": identifier, "round": 683, "id": "04" * 16, "reports": [report]}
        yield {"name": name, "json": json.dumps({"envelopes": [part]}), "reason": reason}
