"""`deniable sent`: describes the reports of this device truthfully."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deniable.client import Summary
from deniable.client.disclosure import read_summary
from deniable.client.state.outbox import HistoryEntry, ReportedSymbol, describe_report
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.survey.document import parse_document
from deniable.shared.survey.phrases import explain_report
from tests.asked import question
from tests.client.conftest import MakeClient
from tests.client.scripted import ANSWERS, LATER, Script, bit, document
from tests.eventually import PATIENCE

UNARY = """
[[question]]
name = "page"
kind = "choice"
over = "first"
options = [{options}]
mechanism = "unary"
epsilon = "1"
"""


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("deniable"), "sent", *arguments],
        capture_output=True,
        text=True,
    )


def test_an_empty_state_is_reported(tmp_path: Path) -> None:
    ran = command("--state", str(tmp_path / "none"))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "There are no reports" in ran.stdout
    assert not (tmp_path / "none").exists()


def test_the_record_is_printed_in_words_and_as_json(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    survey = script.publish(document(questions=bit("crashed", "0.5")))
    client = client_of(draw=lambda bits: 2 ** (bits - 1))  # above the lie, so reports are true
    client.answer("app-health", crashed=True)
    client.flush(PATIENCE)
    told = command("--state", str(tmp_path / "state")).stdout
    assert "2026-12-10  app-health, round 683: sent and accepted by the server" in told
    assert (
        "crashed, ε 0.5. Sent: yes. If your true answer is yes, 'yes' is sent 62 times in 100; if "
        "it is no, 38 times, so no one can tell."
    ) in told
    assert "Spent so far: ε 0.5 over all surveys and rounds." in told
    table = json.loads(command("--state", str(tmp_path / "state"), "--json").stdout)
    assert table["consent"] is True
    assert table["spent"] == {"epsilon": "0.5", "questions": {"crashed": "0.5"}}
    (report,) = table["reports"]
    assert (report["survey"], report["verdict"]) == (survey, "accepted")
    assert report["said"][0]["says"] == "yes"


def test_a_damaged_state_is_one_line_and_a_code(client_of: MakeClient, tmp_path: Path) -> None:
    client_of()
    (tmp_path / "state" / "deniable.sqlite3").write_bytes(b"no database" * 1000)
    ran = command("--state", str(tmp_path / "state"), "--json")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("deniable sent: ")
    assert ran.stderr.count("\n") == 1


def test_the_fate_of_a_report_is_shown(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    script.publish(document())
    script.always = LATER
    client = client_of()
    client.answer("app-health", **ANSWERS)
    assert "waiting to be sent" in read_summary(tmp_path / "state").text
    client.consent(False)
    assert "consent was withdrawn" in read_summary(tmp_path / "state").text


def test_the_record_equals_what_was_sent(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    """The record describes reports: it agrees with the symbols on the wire for any answers."""
    published = document()
    script.publish(published)
    client = client_of()
    client.answer("app-health", **ANSWERS)
    client.flush(PATIENCE)
    (envelope,) = script.envelopes()
    survey = parse_document(published)
    shown = {
        part["question"]: part["says"]
        for part in read_summary(tmp_path / "state").as_json()["reports"][0]["said"]
    }
    assert shown == {
        question.name: question.describe(symbol)
        for question, symbol in zip(survey.questions, envelope.payload, strict=True)
    }


def test_only_the_drawn_question_is_shown(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    script.publish(document(asks_one=True))
    client_of().answer("app-health", **ANSWERS)
    summary = read_summary(tmp_path / "state")
    (told,) = summary.as_json()["reports"][0]["said"]
    assert told["drawn_from"] == 3
    assert f"{told['question']} (drawn from 3 questions), ε 0.5. Sent: " in summary.text


@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "1", "4", "20"])
def test_odds_in_words_equal_those_of_the_table(epsilon: str) -> None:
    (question,) = parse_document(document(questions=bit("q", epsilon))).questions
    words = explained(describe_report([question], [1])[0])
    exact = [float(question.mechanism.weight(1, answer)) for answer in (1, 0)]
    assert shares(words) == pytest.approx(exact, abs=0.005)
    assert shares(words)[1] == pytest.approx(exact[1], rel=0.15), "a small share has two digits"


def test_odds_of_a_number_equal_those_of_its_column() -> None:
    (number,) = [q for q in parse_document(document()).questions if q.name == "minutes"]
    column = [row[64] for row in number.mechanism.rows]  # type: ignore[attr-defined] # a number's
    told = shares(explained(describe_report([number], [64])[0]))
    assert told == pytest.approx([column[64] / ONE, min(column) / ONE], abs=0.005)


def test_a_history_of_an_earlier_version_is_shown_and_another_language_too() -> None:
    symbols = (
        ReportedSymbol("a", "0.5", "yes", "reported with probability 62.2 % if true"),
        *describe_report(parse_document(document(questions=bit("b", "0.5"))).questions, [0]),
    )
    summary = Summary(entries=(HistoryEntry("5a" * 32, "s", 0, "2026-12-10", symbols),))
    assert "a, ε 0.5. Sent: yes. Reported with probability 62.2 % if true." in summary.text
    texts = {"sent": "Gesendet: {says}. {odds}", "value_no": "nein", "value_yes": "ja"}
    texts |= {"sent_option": "{says} in {keep} von {per}, {other} in {lie}."}
    assert "Gesendet: nein. nein in 62 von 100, ja in 38." in summary.text_in(texts)


def test_a_long_list_of_options_is_truncated() -> None:
    options = ", ".join(f'"page-{number}"' for number in range(200))
    (page,) = parse_document(document(questions=UNARY.format(options=options))).questions
    (told,) = describe_report([page], [2**200 - 1])
    assert len(told.says) <= 201
    assert "is sent 50 times in 100 if it is your true answer; if not, 27 times" in explained(told)


MAX_SYMBOLS = 2**16


def explained(symbol: ReportedSymbol) -> str:
    return explain_report(symbol.says, symbol.chances)


def shares(text: str) -> list[float]:
    """Return the two probabilities that a sentence states."""
    told = re.search(r"([\d,]+) times in ([\d,]+)\b.*?([\d,]+) times", text)
    assert told, text
    keep, per, lie = (int(number.replace(",", "")) for number in told.groups())
    return [keep / per, lie / per]


@pytest.mark.parametrize("mechanism", mechanisms())
def test_every_report_of_every_mechanism_can_be_described(mechanism: str) -> None:
    """The description is made right after the charge, and an error there would lose the report.

    If there are too many reports to enumerate, a sample is drawn.
    """
    (asked,) = parse_document(document(questions=question(mechanism))).questions
    made: Any = asked.mechanism  # Any: each mechanism takes another form of answer
    draw = random.Random(1).getrandbits
    symbols = (
        made.encoding.symbols()
        if made.symbols >> made.encoding.public_bits <= MAX_SYMBOLS
        else [made.randomize(made.answer_at(n), draw) for n in range(100)]
    )
    told = [describe_report([asked], [symbol])[0] for symbol in symbols]
    assert all(text.odds and text.says for text in told)
