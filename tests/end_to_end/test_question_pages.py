"""Pages of the kinds of questions and of the survey keys: sections, snippets and quotations."""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from deniable.client import Description, Policy, Summary
from deniable.client.testing import FakeClient
from deniable.server.surveys.survey_file import parse_survey_file
from deniable.shared.survey.document import Survey, parse_toml, render_document
from deniable.shared.survey.kinds import KINDS
from deniable.shared.survey.reader import Reader
from tests.command import run
from tests.documents import ROOT, blocks, section_of, text_of
from tests.server.results_data import add_round, spread
from tests.server.world import world

PAGES = ("bit.md", "choice.md", "number.md", "text.md", "vector.md")
KEYS, LANGUAGES = "shared/SURVEY_KEYS.md", "Texts and languages"
SECTIONS = (
    "What to ask with it", "The survey lines", "The call", "What is sent", "What the page shows",
    "Limits", "How to test", "The text that respondents see",
)  # fmt: skip
HEAD = """
[survey]
name = "my-survey"
title = "Our survey"
purpose = "Find out."
owner = "Example Ltd, privacy@example.org"
opens = 2026-12-01
closes = 2027-02-28
round = "once"
"""
SEED = 7
PAYLOAD_START = 64  # bytes of an envelope before its payload
BYTES = {1: "one byte", 3: "three bytes", 9: "nine bytes"}
PEOPLE, CENTRE = 20_000, 0.3  # behind the quoted headlines; numbers lie around this position
SHARES = {"bit": [0.9, 0.1], "choice": [0.45, 0.3, 0.175, 0.075]}
FINAL = datetime(2027, 4, 20, tzinfo=UTC)
Make = Callable[..., FakeClient]


def page(kind: str) -> str:
    return f"shared/questions/{kind}.md"


def block(kind: str, section: str) -> str:
    (found,) = [block.text for block in blocks(page(kind)) if block.section == section]
    return found


def survey_of(kind: str) -> Survey:
    return parse_survey_file(HEAD + block(kind, "The survey lines"))


def quotes(kind: str, section: str) -> list[str]:
    return re.findall(r"^> (.+)$", section_of(page(kind), section), re.MULTILINE)


def test_every_kind_has_a_page_and_every_page_the_same_sections() -> None:
    pages = {path.name for path in (ROOT / "shared/questions").glob("*.md")}
    assert pages == {*PAGES, "README.md"}
    assert {*PAGES} == {f"{kind}.md" for kind in KINDS}
    for kind in KINDS:
        assert re.findall(r"^## (.+)$", text_of(page(kind)), re.MULTILINE) == [*SECTIONS]


@pytest.mark.parametrize("kind", KINDS)
def test_the_call_and_the_quotations_of_a_page_are_those_of_the_client(kind: str) -> None:
    asked = survey_of(kind)
    (question,) = asked.questions
    policy = Policy(keys=["ab" * 32], questions={question.name: kind})
    with FakeClient(render_document(asked), policy=policy, seed=SEED) as client:
        client.consent(True)
        names: dict[str, Any] = {"client": client}  # Any: an outcome
        exec(block(kind, "The call"), names)  # a snippet of this repository
        assert names["outcome"].status == "queued"
        (report,) = client.reports
        assert report.symbols.keys() == {question.name}
        (body,) = client.server.posted
        sent = section_of(page(kind), "What is sent")
        assert BYTES[len(body) - PAYLOAD_START] in " ".join(sent.split())
        summary, description = client.sent(), client.describe("my-survey")
        assert isinstance(summary, Summary)
        assert isinstance(description, Description)
        assert quotes(kind, "What is sent")[-1] in summary.text
        shown = [line.strip(" -") for line in description.text.splitlines()]
        told = quotes(kind, "The text that respondents see")
        assert told == [line for line in shown if line in told]
        assert len(told) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_the_test_of_a_page_passes(
    kind: str, deniable_client: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my-survey.toml").write_text(HEAD + block(kind, "The survey lines"), "utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Callable[[Make], None]] = {}
    exec(block(kind, "How to test"), names)
    names["test_the_answer_is_reported"](deniable_client)


@pytest.mark.parametrize("kind", ["bit", "number", "choice"])
def test_the_results_page_begins_with_the_quoted_sentence(kind: str, tmp_path: Path) -> None:
    asked = survey_of(kind)
    mechanism: Any = asked.questions[0].mechanism  # Any: only a number's has steps
    held = [round(share * PEOPLE) for share in SHARES.get(kind, [])]
    with world(tmp_path / "data") as here:
        published = here.publish(asked)
        here.clock.time = FINAL
        add_round(here.store, published, 0, [held or spread(PEOPLE, mechanism.steps, CENTRE)])
        shown = here.client.get("/surveys/my-survey", headers=here.bearer("analyst")).text
    (quote,) = quotes(kind, "What the page shows")
    assert quote in html.unescape(re.sub(r"<[^>]+>", "", shown))


@pytest.mark.parametrize("kind", KINDS)
def test_the_quoted_margins_and_floors_are_those_of_the_check(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "survey.toml"
    file.write_text(HEAD + block(kind, "The survey lines"), "utf-8")
    printed = " ".join(run("survey", "check", file).stdout.split())
    quoted = quotes(kind, "The survey lines")
    quoted += quotes(kind, "What the page shows") if kind == "text" else []
    assert all(quote in printed for quote in quoted)
    assert quoted


# The keys of a survey file


def rows(section: str) -> set[str]:
    """Return the keys in the first column of a section's table."""
    table = section_of(KEYS, section)
    cells = re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
    return {key for cell in cells for key in re.findall(r"`(\w+)`", cell)}


def test_exactly_the_keys_that_a_survey_may_have_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = defaultdict[str, set[str]](set)
    done = Reader.done

    def recorded(self: Reader) -> None:
        read[self.path.partition("[")[0]] |= self._known_keys
        done(self)

    monkeypatch.setattr(Reader, "done", recorded)
    repeated = HEAD.replace('"once"', '"month"\nrepeat = "latched"\nrepeat_rounds = 2')
    numbers = block("number", "The survey lines")
    for lines in (
        *(HEAD + block(kind, "The survey lines") for kind in KINDS),
        repeated + numbers,
        HEAD + numbers + 'mechanism = "local-laplace"\ngrid = 8\n',
        *(f'{HEAD}{numbers}\n[[label]]\nname = "x"\n{key}\n' for key in LABELS),
    ):
        parse_survey_file(lines)
    follows = {"follows", "follows_rule", "follows_tally"}  # read together, if one is given
    assert rows("`[survey]`") == read["survey"] | follows | {"title", "purpose", "owner"}
    assert rows("`[[question]]`") == read["question"]
    assert rows("`[[label]]`") == read["label"]


LABELS = ('values = ["a"]', 'arms = ["a", "b"]', r"pattern = '\d+'")


def test_the_example_with_languages_is_a_survey() -> None:
    (text,) = [block.text for block in blocks(KEYS) if block.section == LANGUAGES]
    assert [texts.language for texts in parse_toml(text).texts] == ["en", "de"]
