"""Text questions from devices to the page: real clients, a real intake, and hostile texts."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.client import Client, Policy
from deniable.client.disclosure import Description, Summary
from deniable.server.results import survey_results
from deniable.server.results.document import Floor
from deniable.server.results.export import report_lines
from deniable.server.results.sentences import texts_found
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.survey.document import parse_toml
from deniable.shared.survey.kinds.text import Text
from deniable.simulations.demo.server_process import running_server
from deniable.simulations.population import text_tally
from tests.command import asked_json
from tests.end_to_end.test_every_mechanism import InProcess
from tests.server.released import all_results
from tests.server.surveys import PUBLIC
from tests.server.world import World, world
from tests.survey_texts import ALWAYS, question, survey_text

COLOUR = question("colour", "text", "8", length=4, buckets=1_024)
HOSTILE = "=<b>"
ANSWERS = [*["blue"] * 45, *[HOSTILE] * 30, *(f"{n:04d}" for n in range(15))]

CAPS: Any = {"max_epsilon_per_round": "8", "max_epsilon_per_survey": "8", "per": "lifetime"}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "server") as made:
        yield made


def ask(here: World, **more: object) -> PublishedSurvey:
    return here.publish(parse_toml(survey_text(COLOUR, **more)))


def client(here: World, folder: Path, epsilon: str = "8") -> Client:
    policy = Policy(
        keys=[PUBLIC],
        questions={"colour": "text"},
        max_epsilon_per_round=epsilon,
        max_epsilon_per_survey="100",
        max_epsilon="100",
        per="lifetime",
    )
    made = Client(
        "https://stats.example.org",
        policy=policy,
        state=folder,
        now=here.clock.now,
        transport=InProcess(here),
        send_within=0,
    )
    made.consent(True)
    return made


def test_frequent_texts_are_found_from_the_reports_of_clients(tmp_path: Path) -> None:
    """Every person's report is sent over HTTP, and the test reads the output of the command.

    The noise is seeded, because with so few people one text in ten would be missed.
    """
    draw = random.Random(20261119).getrandbits
    (tmp_path / "survey.toml").write_text(survey_text(COLOUR, **ALWAYS))
    data = tmp_path / "data"
    published = asked_json("survey", "publish", str(tmp_path / "survey.toml"), "--data", str(data))
    with running_server(data) as server:
        policy = Policy(keys=[published["key"]], **CAPS)
        device = Client(
            server.url, policy=policy, state=tmp_path / "devices", send_within=0, draw=draw
        )
        for number, text in enumerate(ANSWERS):
            person = device.person(str(number))
            person.consent(True)
            assert person.answer("app-health", colour=text).status == "queued"
        assert device.flush(60) == 0
        device.close()
    results = all_results("app-health", data)
    latest = results["rounds"][-1]
    assert latest["reports"] == len(ANSWERS)
    rows = {row["label"]: row for row in latest["questions"]["colour"]}
    assert set(rows) == {"blue", HOSTILE}
    for text, row in rows.items():
        assert row["low"] < ANSWERS.count(text) / len(ANSWERS) < row["high"]
        assert row["note"].startswith("p-value ")
    assert set(latest["floors"]["colour"]) == {"share", "people", "false_discovery"}
    assert any("as people wrote them" in note for note in results["notes"])


def test_hostile_texts_are_shown_as_plain_text(here: World) -> None:
    """Pages, CSV and terminal output are checked."""
    published, analyst = ask(here), here.bearer("analyst")
    (asked,) = published.survey.questions
    assert isinstance(asked, Text)
    cells = text_tally(asked, {HOSTILE: 600}, 400, np.random.default_rng(1))
    with here.store.transaction() as transaction:
        transaction.add(published.sequence, RoundTally(published.survey.first_round, 1_000, cells))
    page = here.client.get(f"/surveys/{published.id}", headers=analyst).text
    assert "=&lt;b&gt;" in page
    assert HOSTILE not in page
    assert "is found with a probability of 99 %" in page
    table = here.client.get(f"/v1/surveys/{published.id}/results.csv", headers=analyst).text
    labels = {row["label"] for row in csv.DictReader(io.StringIO(table))}
    assert labels == {f"'{HOSTILE}"}
    tallies = here.store.tallies(published.sequence)
    told = "\n".join(report_lines(survey_results(published, tallies, here.clock.now())))
    assert "colour: A text that" in told
    assert told.replace("\n", "").isprintable()


def test_the_page_states_that_no_text_stands_out(here: World) -> None:
    published = ask(here)
    (asked,) = published.survey.questions
    assert isinstance(asked, Text)
    cells = text_tally(asked, {}, 1_000, np.random.default_rng(1))
    with here.store.transaction() as transaction:
        transaction.add(published.sequence, RoundTally(published.survey.first_round, 1_000, cells))
    page = here.client.get(f"/surveys/{published.id}", headers=here.bearer("analyst")).text
    assert "No answer is common enough to be found. A text that" in page


def test_a_latched_report_keeps_its_group(here: World, tmp_path: Path) -> None:
    """The next round sends the same bytes, so neither group nor symbol changes."""
    published = ask(here, repeat="latched", repeat_rounds=2)
    device = client(here, tmp_path / "device")
    assert device.answer(published.name, colour="blue").status == "queued"
    device.flush(30)
    here.clock.pass_(days=31)
    assert device.answer(published.name, colour="red").status == "queued"
    device.flush(30)
    device.close()
    (_, first), (_, second) = here.tallies(published).values()
    assert first == second


def test_a_client_describes_a_text_question_and_its_report(here: World, tmp_path: Path) -> None:
    published = ask(here)
    device = client(here, tmp_path / "device")
    device.prefetch()
    description = device.describe(published.name)
    assert isinstance(description, Description)
    assert "a short text, of which the first 4 bytes count" in description.text
    assert device.answer(published.name, colour="blue").status == "queued"
    sent = device.sent()
    assert isinstance(sent, Summary)
    (entry,) = sent.entries
    assert "buckets, into which all texts are put" in entry.symbols[0].says
    device.close()


def test_an_app_that_has_not_declared_texts_does_not_answer_them(
    here: World, tmp_path: Path
) -> None:
    published = ask(here)
    policy = Policy(keys=[PUBLIC], questions={"colour": "choice"}, **CAPS)
    device = Client(
        "https://stats.example.org",
        policy=policy,
        state=tmp_path / "device",
        now=here.clock.now,
        transport=InProcess(here),
    )
    device.consent(True)
    outcome = device.answer(published.name, colour="blue")
    assert outcome.status == "refused"
    assert "asked as a text" in outcome.detail
    device.close()


def test_a_found_text_and_the_floor_of_few_reports_do_not_contradict_each_other() -> None:
    words = Floor(share=1.2, people=12, false_discovery=0.01).words
    assert words == "So few reports may miss even a text that everyone gave."
    assert texts_found(1) == "1 answer is common enough to be found."
