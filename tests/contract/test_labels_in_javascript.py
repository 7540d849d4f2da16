"""Labels and arms in the JavaScript client: the same bytes and the same refusals as in Python."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deniable.shared.envelope import decode_labels, encode_report, parse_envelopes
from deniable.shared.errors import InvalidSurvey
from deniable.shared.survey.document import parse_document, parse_toml, render_document
from deniable.shared.survey.keys import public_hex
from tests.client.scripted import KEY, Script, entry, serving
from tests.node import NODE
from tests.shared.test_labels import BAD_PATTERNS, BROKEN
from tests.shared.test_vectors import vectors
from tests.survey_texts import ALWAYS, bit, label, survey_text

PROGRAM = Path(__file__).with_name("labelled_client.mjs")
LABELS = label("platform", values=["linux", "mac"]) + label("version", pattern=r"\d+\.\d+")
ARMS = label("search", arms=["control", "new"])


def asked(job: str, **fields: object) -> Any:  # Any: JSON
    done = subprocess.run(
        [NODE, str(PROGRAM)],
        input=json.dumps({"job": job, **fields}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def document(labels: str, **changes: object) -> bytes:
    return render_document(parse_toml(survey_text(bit() + labels, **(ALWAYS | changes))))


def test_labels_have_the_bytes_of_the_vectors() -> None:
    survey = vectors("survey_labels.json")
    parsed = parse_document(survey["document"].encode())
    (good,) = [v for v in vectors("envelopes_labels.json")["good"] if "not given" in v["name"]]
    (envelope,) = parse_envelopes(bytes.fromhex(good["binary"]))
    size, reports = parsed.report_size, json.loads(good["json"])["envelopes"][0]["reports"]
    sent = [envelope.payload[n * size :][: parsed.labels_size].hex() for n in range(len(reports))]
    given = [report["label"] for report in reports]
    assert asked("bytes", document=survey["document"], reports=given) == sent


def test_arms_agree_with_the_vectors() -> None:
    survey = vectors("survey_labels.json")
    keys = [vector["key"] for vector in survey["arms"]]
    arms = [vector["arm"] for vector in survey["arms"]]
    assert asked("arms", document=survey["document"], keys=keys) == arms
    assert len(set(arms)) == 2


PATTERNS = (
    r"\d+\.\d+",
    "[a-f0-9]{4,8}",
    "v?[0-9.-]+",
    "a?b*c+",
    ".{3}",
    r"\.\-\[x",
    "[-a]+",
    "[a-]x{1,3}",
)
TEXTS = (
    "3.0",
    "3.",
    "beef",
    "deadbeef0",
    "v3-1",
    "abbc",
    "c",
    "abc",
    ".-[x",
    "-a-",
    "axxx",
    "é",
    "3.0 ",
    " ",
)


def test_patterns_match_the_same_texts_in_both_clients() -> None:
    accepted = [pattern for pattern in PATTERNS if _is_read(pattern)]
    assert len(accepted) >= len(PATTERNS) - 1
    for pattern in accepted:
        text = document(label("it", pattern=pattern))
        survey, reports = parse_document(text), [{"it": value} for value in TEXTS]
        own = [encode_report(survey, (1,), report)[:32].hex() for report in reports]
        assert asked("bytes", document=text.decode(), reports=reports) == own


def _is_read(pattern: str) -> bool:
    try:
        document(label("it", pattern=pattern))
    except InvalidSurvey:
        return False
    return True


def test_javascript_refuses_the_documents_that_python_refuses() -> None:
    good = json.loads(document(LABELS))
    documents, names = [], []
    for name, (toml, _) in BROKEN.items():
        tables = _tables(toml)
        documents.append(json.dumps(good | {"label": tables}, indent=1))
        names.append(name)
    for pattern in BAD_PATTERNS:
        documents.append(json.dumps(good | {"label": [{"name": "it", "pattern": pattern}]}))
        names.append(pattern)
    documents.append(json.dumps(good | {"label": []}))
    refused = asked("refused", documents=documents)
    for name, text, problem in zip([*names, "empty"], documents, refused, strict=True):
        assert problem.startswith("Refused: "), name
        with pytest.raises(InvalidSurvey):
            parse_document(text.encode())
    assert asked("refused", documents=[document(LABELS + ARMS).decode()]) == [""]


def _tables(toml: str) -> Any:
    import tomllib

    return tomllib.loads(toml)["label"]


@pytest.fixture
def script() -> Iterator[Script]:
    with serving() as made:
        yield made


def answered(script: Script, folder: Path, labels: str, **changes: object) -> Any:
    text = document(labels)
    script.publish(text)
    options: dict[str, object] = {"allowed": ["platform", "version"], "labels": {"platform": "mac"}}
    given = options | changes
    where = {"server": script.url, "key": public_hex(KEY), "folder": str(folder)}
    return text, asked("client", survey="app-health", shipped=entry(text), **where, **given)


def test_the_client_sends_labels_and_the_arm_that_it_shows(script: Script, tmp_path: Path) -> None:
    text, reply = answered(script, tmp_path, LABELS + ARMS)
    assert reply["status"] == "queued", reply["detail"]
    (envelope,) = parse_envelopes(script.posts[-1].body)
    before, arm, other = reply["arms"]
    assert (before, other) == ("control", None), "the client must show the first arm before consent"
    sent = decode_labels(parse_document(text), envelope.payload)
    assert sent == {"platform": "mac", "version": None, "search": arm}


def test_the_client_refuses_a_label_that_the_policy_does_not_name(
    script: Script, tmp_path: Path
) -> None:
    _, reply = answered(script, tmp_path, LABELS, allowed=["platform"])
    assert (reply["status"], "which the app forbids" in reply["detail"]) == ("refused", True)
    assert script.posts == []


def test_a_mistake_in_an_app_s_labels_throws() -> None:
    wrong: list[object] = [{"version": v} for v in (3, "", "x" * 33, "é" * 17, "a\n", None, " ")]
    wrong += [{"country": "se"}, ["version"], "version", None]
    mistakes: list[dict[str, object]] = [{"labels": labels} for labels in wrong]
    assert asked("mistakes", mistakes=mistakes) == ["TypeError"] * len(mistakes)
