"""The JavaScript client describes a survey in the same words as the Python client."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from deniable.client.disclosure import describe
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.survey.document import PERIODS, parse_document, parse_toml, render_document
from deniable.shared.survey.keys import public_hex
from tests.client.scripted import KEY, OTHER_KEY, Script, document, entry, lifetime_policy
from tests.contract.test_periods import QUARTER
from tests.eventually import PATIENCE
from tests.node import NODE
from tests.reference import PHRASES, TABLES, javascript_phrases, javascript_tables
from tests.shared.test_phrases import SURVEYS, TEXT
from tests.survey_texts import bit, choice, number, question, survey_text

PROGRAM = """
import { Client, Policy } from "./client/javascript/src/index.js";
import { fileStorage } from "./client/javascript/src/file-storage.js";
const given = JSON.parse(process.argv[1]);
const { url, key, state, shipped, wanted, texts, language, consent, maxEpsilon, per } = given;
const questions = { crashed: "bit" };
const caps = { maxEpsilon, maxEpsilonPerSurvey: maxEpsilon, per };
const policy = new Policy({ keys: [key], questions, ...caps });
const now = () => Date.parse("2026-12-10T12:00Z");
const client = new Client(url, { policy, storage: fileStorage(state), now });
if (consent) {
  await client.consent(true);
  await client.answer(wanted, { crashed: true });
}
console.log(JSON.stringify(await client.describe(wanted, { shipped, texts, language })));
await client.close();
"""


def described(tmp_path: Path, **changes: Any) -> Any:  # Any: JSON
    told = {
        "url": "http://127.0.0.1:9", "key": public_hex(KEY), "state": str(tmp_path / "state"),
        "wanted": "app-health", "maxEpsilon": "4", "per": "lifetime",
    }  # fmt: skip
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", PROGRAM, json.dumps(told | changes)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.stderr == ""
    return json.loads(done.stdout)


ODD = {
    "odd numbers": survey_text(number(-1234567.5, 2.0) + number(0.25, 1000, name="b")),
    "escaped": survey_text(
        '[[question]]\nname = "a"\nkind = "choice"\nover = "first"\nepsilon = "1"\n'
        'options = ["a\\\\b", "<b>&", "\\U0001F600", "\\"x\\""]\n'
    ),
    "several latched questions": survey_text(
        bit() + number(name="minutes") + choice(300), ask=1, repeat="latched", repeat_rounds=2
    ),
    "over a round": survey_text(bit(over="any") + bit("b", over="last"), round="month"),
    "over one round": survey_text(bit(over="all"), round="once", grace_days=5),
    "over days": survey_text(bit(over="last"), round="day", opens=date(2026, 12, 30)),
    "latched text": survey_text(TEXT, repeat="latched", repeat_rounds=2),
}


@pytest.mark.parametrize("name", [*SURVEYS, *ODD])
def test_both_clients_use_the_same_words(tmp_path: Path, name: str) -> None:
    survey = parse_toml((SURVEYS | ODD)[name])
    shipped = entry(render_document(survey))
    told = described(tmp_path, shipped=shipped)
    expected = describe(shipped["id"], survey, lifetime_policy(max_epsilon="4"))
    assert told["text"].split("\n") == expected.text.split("\n")
    for key in ("survey", "name", "title", "purpose", "owner", "when", "kept", "caps"):
        assert told[key] == getattr(expected, key)
    for key in ("privacy", "stop"):
        assert told[key] == list(getattr(expected, key))
    assert (told["asksOne"], told["rounds"]) == (expected.asks_one, expected.rounds)
    assert told["repeatRounds"] == expected.repeat_rounds
    assert told["questions"] == [
        {
            "name": question.name,
            "title": question.title,
            "options": list(question.options),
            "unit": question.unit,
            "asked": question.asked,
            "epsilon": question.epsilon,
            "odds": question.odds,
        }
        for question in expected.questions
    ]
    assert not (tmp_path / "state").exists(), "nothing is stored"


LANGUAGES = ["big", "de", "de-CH", "zh-Hant"]  # a text in JavaScript has a method `big`
TITLES = {tag: f"Title in {tag}" for tag in LANGUAGES}
TRANSLATED = survey_text(
    question("crashed", "bit", title=TITLES)
    + number(unit={tag: f"min {tag}" for tag in LANGUAGES})
    + question(
        "browser",
        "choice",
        options=["a", "b"],
        labels={tag: [f"One {tag}", f"Two {tag}"] for tag in LANGUAGES},
    ),
    languages=LANGUAGES,
    title=TITLES,
    owner={tag: f"Owner {tag}" for tag in LANGUAGES},
)


@pytest.mark.parametrize("language", ["", "de-CH-1901", "de-at", "zh", "fr"])
def test_both_clients_show_the_same_language(tmp_path: Path, language: str) -> None:
    """The sentences of the client are those of the app's own table."""
    survey, texts = (
        parse_toml(TRANSLATED),
        {"why": "Warum: {purpose}", "answers": "  Antwort: {asked}"},
    )
    shipped = entry(render_document(survey))
    policy = lifetime_policy(max_epsilon="4")
    told = described(tmp_path, shipped=shipped, texts=texts, language=language)
    expected = describe(shipped["id"], survey, policy, texts, language)
    assert told["text"].split("\n") == expected.text.split("\n")
    assert told["language"] == expected.language
    chosen = {"": "big", "de-CH-1901": "de-CH", "de-at": "de", "zh": "zh-Hant", "fr": "big"}[
        language
    ]
    assert (told["language"], told["title"]) == (chosen, f"Title in {chosen}")
    assert told["questions"][2]["options"] == [f"One {chosen}", f"Two {chosen}"]
    assert f"Antwort: a number from 0 to 120 (min {chosen})" in told["text"]


def test_bad_texts_of_the_vectors_are_refused() -> None:
    program = """
        import { readFileSync } from "node:fs";
        import { parseSurvey, Refused } from "./client/javascript/src/survey.js";
        const vectors = JSON.parse(readFileSync("tests/vectors/survey_languages.json"));
        const isRefused = (document) => {
          try {
            parseSurvey(document);
            return false;
          } catch (error) {
            return error instanceof Refused;
          }
        };
        const accepted = vectors.bad.filter((vector) => !isRefused(vector.document));
        const names = accepted.map((vector) => vector.name);
        console.log(JSON.stringify([isRefused(vectors.document), names]));
    """
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", program],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert json.loads(done.stdout) == [False, []]


def test_the_tables_are_those_of_the_python_client() -> None:
    assert PHRASES.read_text("utf-8") == javascript_phrases(), "run python -m tests.reference"
    assert TABLES.read_text("utf-8") == javascript_tables(), "run python -m tests.reference"


def test_a_change_of_a_table_changes_both_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """A period with neither a number of days nor of months is refused."""
    before = javascript_tables()
    monkeypatch.setitem(PERIODS, "quarter", QUARTER)
    monkeypatch.setattr("deniable.client.state.outbox.MAX_TRIES", 11)
    changed = {*javascript_tables().splitlines()} ^ {*before.splitlines()}
    assert changed == {
        "  quarter: { months: 3 },",
        "export const MAX_TRIES = 10;",
        "export const MAX_TRIES = 11;",
    }
    odd = replace(QUARTER, first_day=lambda n: date(1970 + n // 3, 4 * (n % 3) + 1, 2))
    monkeypatch.setitem(PERIODS, "odd", odd)
    with pytest.raises(AssertionError):
        javascript_tables()


def test_each_mechanism_of_the_python_client_is_made_by_the_javascript_client() -> None:
    program = """
        import { MECHANISMS } from "./client/javascript/src/mechanisms.js";
        console.log(JSON.stringify(Object.keys(MECHANISMS)));
    """
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", program],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert json.loads(done.stdout) == [*mechanisms()]


RENEWED = (
    "This survey uses at most {} of the {} privacy units (ε) that this app uses in each quarter. "
    "The budget renews on the first day of the next quarter."
)
DRAWN = (
    " The app answers at most {} of the rounds in a quarter. This device draws them at random in "
    "advance. Your answers do not affect the draw."
)


@pytest.mark.parametrize(
    ("period", "cap", "caps"),
    [
        ("week", "2", RENEWED.format(2, 2) + DRAWN.format(2)),
        ("month", "4", RENEWED.format(2, 4)),
        ("once", "2", RENEWED.format(1, 2)),
    ],
)
def test_a_budget_that_renews_is_described(
    tmp_path: Path, period: str, cap: str, caps: str
) -> None:
    """A round costs ε 1, and two months of the survey are in its longest quarter."""
    shipped = entry(render_document(parse_toml(survey_text(bit(), round=period))))
    told = described(tmp_path, shipped=shipped, per="quarter", maxEpsilon=cap)
    assert told["caps"] == caps


def test_sentences_can_be_replaced(tmp_path: Path) -> None:
    texts = {"address": "Der Server sieht die Adresse.", "why": "Warum: {purpose}"}
    told = described(tmp_path, shipped=json.dumps(entry(document())), texts=texts)
    assert "Der Server sieht die Adresse." in told["privacy"]
    assert "Warum: Find crashes." in told["text"].split("\n")


@pytest.mark.parametrize(
    ("shipped", "status"),
    [
        (entry(document(), key=OTHER_KEY), "refused"),
        (entry(document()) | {"document": document("x").decode()}, "refused"),
        (document().decode(), "refused"),
        ("[", "refused"),
        (None, "refused"),
        (entry(document("another")), "no-survey"),
    ],
    ids=["another key", "changed", "unsigned", "no JSON", "nothing", "another name"],
)
def test_a_shipped_survey_is_verified(tmp_path: Path, shipped: object, status: str) -> None:
    assert described(tmp_path, shipped=shipped)["status"] == status


def test_after_consent_the_list_on_disk_is_described(tmp_path: Path, script: Script) -> None:
    published = document()
    id_ = script.publish(published)
    assert described(tmp_path, url=script.url)["status"] == "no-consent"
    told = described(tmp_path, url=script.url, consent=True)  # its answer has fetched the list
    assert told["survey"] == id_
    expected = describe(
        id_, parse_document(published), lifetime_policy(["ab" * 32], max_epsilon="4")
    )
    assert told["text"] == expected.text
    missing = described(tmp_path, url=script.url, consent=True, wanted="unheard-of")
    assert missing["status"] == "no-survey"
