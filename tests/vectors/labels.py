"""Vectors of a survey with labels: listed values, an open set with a pattern, and arms."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deniable.shared.envelope import Envelope, encode_report
from deniable.shared.survey.document import Survey, parse_toml, render_document, survey_id
from tests.vectors.ask_one import good
from tests.vectors.signed import signed

SURVEY, ENVELOPES = "survey_labels.json", "envelopes_labels.json"
LABELS = r"""
[[label]]
name = "platform"
values = ["linux", "mac", "windows"]

[[label]]
name = "version"
pattern = '\d+\.\d+[0-9a-z.-]*'

[[label]]
name = "search"
arms = ["control", "new-search"]
"""
REPORTS: list[tuple[tuple[int, ...], dict[str, str | None]]] = [
    ((1, 37, 4, 0x405), {"platform": "mac", "version": "3.0.1", "search": "control"}),
    ((0, 0, 0, 0), {"platform": None, "version": None, "search": "new-search"}),
    ((1, 1, 1, 1), {"platform": "linux", "version": "12.34" + "a" * 27, "search": "control"}),
]
KEYS = [bytes([number] * 32).hex() for number in range(8)]


def make(folder: Path) -> None:
    """Write both files if they do not exist: the survey of survey.json, with labels."""
    plain = json.loads((folder / "survey.json").read_text())
    text = plain["toml"] + LABELS
    survey = parse_toml(text)
    for name, made in (
        (SURVEY, published(text, survey, plain["signing_key_seed"])),
        (ENVELOPES, envelopes(survey, survey_id(render_document(survey)))),
    ):
        if not (folder / name).exists():
            (folder / name).write_text(json.dumps(made, indent=1) + "\n")


def published(text: str, survey: Survey, seed: str) -> dict[str, Any]:
    return {
        **signed(text, survey, seed),
        "report_size": survey.report_size,
        "arms": [
            {"key": key, "arm": survey.labels[2].drawn_arm(bytes.fromhex(key))} for key in KEYS
        ],
    }


def envelopes(survey: Survey, identifier: str) -> dict[str, Any]:
    payloads = [encode_report(survey, symbols, labels) for symbols, labels in REPORTS]
    one = Envelope(identifier, 683, bytes([1] * 16), 1, payloads[0])
    many = Envelope(identifier, 684, bytes([2] * 16), len(payloads), b"".join(payloads))
    return {
        "survey": SURVEY,
        "good": [good("one report", survey, one), good("labels not given", survey, many)],
        "bad_payload": list(bad(survey, identifier)),
    }


def text(value: bytes) -> bytes:
    return value.ljust(32, b"\0")


SYMBOLS = bytes.fromhex("0125040504")
BAD_BYTES = {
    "no such value": (b"\3" + text(b"3.0") + b"\0", "platforms are numbered 0 to 2, and 255"),
    "arm not given": (b"\0" + text(b"3.0") + b"\xff", "every device draws an arm"),
    "no such arm": (b"\0" + text(b"3.0") + b"\2", "arms are numbered 0 and 1"),
    "not a version": (b"\0" + text(b"beta") + b"\0", "the text does not match the pattern"),
    "spaces as padding": (b"\0" + b"3.0".ljust(32) + b"\0", "the padding is zero bytes"),
    "text after the padding": (b"\0" + text(b"3.0\0x") + b"\0", "zero bytes only at the end"),
    "not ASCII": (b"\0" + text("3.0é".encode()) + b"\0", "patterns are of printable ASCII"),
    "without labels": (b"", "each report begins with its labels"),
}
CLEAR = {"platform": "mac", "version": "3.0.1", "search": "control"}
BAD_JSON: dict[str, tuple[object, str]] = {
    "JSON: no labels": (None, "each report has the key label"),
    "JSON: unknown label": ({**CLEAR, "country": "se"}, "the survey has no such label"),
    "JSON: a label is missing": ({"platform": "mac"}, "a label that is not given is null"),
    "JSON: no such value": ({**CLEAR, "platform": "beos"}, "a value that is not listed is null"),
    "JSON: not a version": ({**CLEAR, "version": "beta"}, "a text that does not match is null"),
    "JSON: empty text": ({**CLEAR, "version": ""}, "a label that is not given is null"),
    "JSON: no arm": ({**CLEAR, "search": None}, "every device draws an arm"),
    "JSON: a number": ({**CLEAR, "version": 3}, "a value is text"),
    "JSON: labels are a list": (["mac", "3.0.1", "control"], "labels are an object"),
}
ANSWERS = {"crashed": 1, "minutes": 37, "browser": 4, "plugins": "0504"}


def bad(survey: Survey, identifier: str) -> Iterator[dict[str, Any]]:
    for name, (labels, reason) in BAD_BYTES.items():
        envelope = Envelope(identifier, 683, bytes([3] * 16), 1, labels + SYMBOLS)
        yield {"name": name, "binary": envelope.pack().hex(), "reason": reason}
    for name, (given, reason) in BAD_JSON.items():
        report = ANSWERS if given is None else {"label": given, **ANSWERS}
        part = {"survey": identifier, "round": 683, "id": "04" * 16, "reports": [report]}
        yield {"name": name, "json": json.dumps({"envelopes": [part]}), "reason": reason}
