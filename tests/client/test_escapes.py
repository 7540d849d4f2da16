"""Text from a server: escaped before it reaches a terminal, a log or an outcome."""

from __future__ import annotations

import json
import logging
from argparse import ArgumentParser
from pathlib import Path

import pytest

from deniable.client.cli.sent import SENT
from deniable.client.diagnostics import escaped
from deniable.client.disclosure import read_summary
from deniable.client.net.delivery import delivery_result
from deniable.client.net.transport import Reply
from deniable.shared.survey.document import survey_id
from deniable.shared.survey.keys import sign
from tests.client.conftest import MakeClient
from tests.client.scripted import ANSWERS, KEY, Answer, Script, document, entry
from tests.eventually import PATIENCE

EVIL = "\x1b]0;owned\x07\x1b[2J\r\nspent: nothing\x9b31m\u202e\u2028\x00\ud800"


def test_no_terminal_control_sequence_gets_through() -> None:
    assert escaped("ε 0.5, naïve – 日本") == "ε 0.5, naïve – 日本"
    assert escaped(EVIL).isprintable()
    assert escaped(EVIL).startswith(r"\x1b]0;owned\x07\x1b[2J\r\nspent")
    assert escaped("x" * 301) == "x" * 300 + "…"


def test_a_code_of_a_refusal_is_escaped(
    script: Script, client_of: MakeClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.publish(document())
    refused = [{"index": 0, "code": EVIL, "detail": EVIL}]
    body = json.dumps({"accepted": 0, "duplicates": 0, "refused": refused}).encode()
    assert delivery_result(Reply(200, body)).detail.isprintable()
    script.always = Answer(body=body)
    client = client_of()
    client.answer("app-health", **ANSWERS)
    assert client.flush(PATIENCE) == 0
    for lines in read_summary(tmp_path / "state").text.splitlines():
        assert all(line.isprintable() for line in lines.removeprefix("\n").split("\n"))


@pytest.mark.parametrize("change", ["name", "key", "id", "signed"])
def test_a_detail_is_one_short_line_of_printable_words(
    script: Script,
    client_of: MakeClient,
    caplog: pytest.LogCaptureFixture,
    change: str,
) -> None:
    """Include every text of a listed survey, even one that a trusted key has signed."""
    caplog.set_level(logging.DEBUG)
    table = json.loads(document())
    if change == "name":
        table["survey"]["name"] = EVIL
    if change == "signed":
        table["survey"][EVIL + "x" * 10_000] = EVIL * 1000
    text = json.dumps(table, indent=1, ensure_ascii="\ud800" in EVIL).encode()
    listed = entry(document()) | {"document": text.decode(), "signature": sign(text, KEY)}
    if change in ("signed", "name"):
        listed["id"] = survey_id(text)
    if change == "key":
        listed["key"] = EVIL
    script.surveys.append(listed)
    client = client_of()
    for wanted in ("app-health", listed["id"]):
        outcome = client.answer(wanted, **ANSWERS)
        assert outcome.detail.isprintable()
        assert len(outcome.detail) < 400
        assert outcome.status == "refused" or wanted == "app-health" or change == "id"
    assert caplog.text.replace("\n", "").isprintable()


def test_a_history_with_control_characters_is_printed_escaped(
    script: Script, client_of: MakeClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Text and JSON output are escaped, however the characters got into the history."""
    script.publish(document())
    client = client_of()
    client.answer("app-health", **ANSWERS)
    assert client.flush(PATIENCE) == 0
    evil = EVIL.replace("\ud800", "").replace("\x00", "")
    said = json.dumps([{"question": evil, "epsilon": evil, "says": evil, "odds": evil}])
    with client._state.transaction() as db:
        db.execute("UPDATE history SET name = ?, detail = ?, said = ?", (evil, evil, said))
    for arguments in ([], ["--json"]):
        parser = ArgumentParser()
        SENT.arguments(parser)
        SENT.run(parser.parse_args(["--state", str(tmp_path / "state"), *arguments]))
        assert capsys.readouterr().out.replace("\n", "").isprintable()
