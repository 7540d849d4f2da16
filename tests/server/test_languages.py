"""Results, pages and commands in the languages of a survey."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.server.analysis import open_results
from deniable.server.http.context import COOKIE
from deniable.server.planning.follow_up import drafted, epsilons, follow_up
from deniable.server.results.advice import warnings
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.survey.document import parse_toml
from tests import survey_texts as texts
from tests.command import asked_json, run
from tests.server.released import release_all
from tests.server.results_data import FIRST_ROUND, NOW, add_round, fill, grid_steps, spread
from tests.server.surveys import BROWSERS, until_spring
from tests.server.world import World, world

pytestmark = pytest.mark.at(NOW)

LABELS = {tag: [f"{name} ({tag})" for name in BROWSERS] for tag in ("en", "de")}
TRANSLATED = (
    texts.question("crashed", "bit", "0.5", title={"en": "Did it crash?", "de": "Abgestürzt?"})
    + texts.number(epsilon="2", unit={"en": "min", "de": "Min."})
    + texts.question(
        "browser", "choice", options=BROWSERS, mechanism="k-randomized-response", labels=LABELS
    )
)
SETTINGS: dict[str, Any] = {  # Any: values of a survey file
    "languages": ["en", "de"],
    "title": {"en": "How is the app?", "de": "Wie geht es der App?"},
    "purpose": {"en": "Find crashes.", "de": "Abstürze finden."},
}
OTHER = {"en": "de", "de": "en"}


@pytest.fixture
def asked(here: World) -> PublishedSurvey:
    return fill(here, until_spring(TRANSLATED, **SETTINGS))


def read(here: World, path: str) -> str:
    client = here.client
    client.set_cookie(COOKIE, here.session(here.token("analyst")))
    reply = client.get(path, headers=here.bearer("analyst"))
    assert reply.status_code == 200, path
    return str(reply.text)


def results(here: World, asked: PublishedSurvey, language: str) -> Any:  # Any: JSON
    return json.loads(read(here, f"/v1/surveys/{asked.id}/results?language={language}&by=all"))


def numbers(document: Any) -> str:  # Any: JSON
    """Return the rounds and periods, in which sentences contain a unit."""
    parts = json.dumps([document["rounds"], document["periods"]], ensure_ascii=False)
    return parts.replace(" Min.", " min")


def test_results_have_the_texts_of_a_language_and_the_same_numbers(
    here: World, asked: PublishedSurvey
) -> None:
    english, german, other = (results(here, asked, tag) for tag in ("", "de-AT", "fr"))
    assert english == other
    assert (english["language"], german["language"]) == ("en", "de")
    assert (english["title"], german["title"]) == ("How is the app?", "Wie geht es der App?")
    assert german["about"]["crashed"]["title"] == "Abgestürzt?"
    assert german["about"]["minutes"]["unit"] == "Min."
    assert german["about"]["browser"]["called"]["firefox"] == "firefox (de)"
    assert numbers(german) == numbers(english)


def test_each_language_has_sentences_of_its_own(here: World) -> None:
    """A warning about forged reports states a shift in the question's unit; results are cached."""
    minutes = texts.number(unit={"en": "min", "de": "Min."}, mechanism="one-bit-mean")
    asked = here.publish(until_spring(minutes, **SETTINGS))
    forged = np.array([0, 20_000])
    with here.store.transaction() as transaction:
        transaction.add(asked.sequence, RoundTally(FIRST_ROUND, 20_000, forged))
    release_all(here.store)
    for tag, unit in (("en", "min"), ("de", "Min."), ("en", "min")):
        (found,) = results(here, asked, tag)["rounds"][:1]
        assert re.findall(r"move an estimate by up to [\d.]+ (\S+?)\. There", found["warning"]) == [
            unit
        ]


def test_languages_change_no_estimate(here: World, tmp_path: Path, asked: PublishedSurvey) -> None:
    plain = re.sub(r"(title|unit|labels) = \{.*\}\n", "", TRANSLATED)
    with world(tmp_path / "plain", NOW) as without:
        expected = results(without, fill(without, until_spring(plain)), "")
    assert "language" not in expected
    found = results(here, asked, "de")
    assert numbers(found).replace(" min", "") == numbers(expected)


@pytest.mark.parametrize("language", ["en", "de"])
def test_pages_reports_and_files_have_the_texts_of_one_language(
    here: World, asked: PublishedSurvey, language: str
) -> None:
    shown, other = (asked.survey.in_language(tag) for tag in (language, OTHER[language]))
    assert shown.title != other.title
    page, report = (
        read(here, f"/surveys/{asked.id}{ending}?language={language}")
        for ending in ("", "/report.html")
    )
    csv = read(here, f"/v1/surveys/{asked.id}/results.csv?language={language}")
    for text in (page, report):
        assert f'<h1 lang="{language}">{shown.title}</h1>' in text
        assert (shown.purpose in text, other.purpose in text) == (True, False)
        assert other.title not in text
    for text in (page, report, csv):
        for one, unlike in zip(shown.questions, other.questions, strict=True):
            assert one.title in text
            assert unlike.title == one.title or unlike.title not in text
            assert all(label in text for label in one.display.options)
            assert not any(label in text for label in unlike.display.options)
    figure = f"/surveys/{asked.id}/figures/browser/round.svg?language={language}"
    assert LABELS[language][1] in read(here, figure)


def test_links_of_a_page_keep_its_language(here: World, asked: PublishedSurvey) -> None:
    page = read(here, f"/surveys/{asked.id}?language=de&round=684")
    links = re.findall(r'href="(\?[^"]*|[^"]*(?:results|figures|report)[^"]*)"', page)
    lost = [link for link in links if "language=de" not in link]
    assert len(links) > 8
    assert [link.partition("&")[0] for link in lost] == ["?language=en"], "to the other language"
    default = read(here, f"/surveys/{asked.id}?language=en")
    assert re.findall(r"language=(\w+)", default) == ["en", "de"], "only the links to choose one"


def test_a_shared_page_keeps_the_language_of_its_view(here: World, asked: PublishedSurvey) -> None:
    client = here.client
    client.set_cookie(COOKIE, here.session(here.token("analyst")))
    page = client.get(f"/surveys/{asked.id}?language=de").text.partition('id="shares"')[2]
    names = ("form_token", "by", "round", "language")
    fields = {name: re.findall(rf'name="{name}" value="([^"]*)"', page)[0] for name in names}
    client.post(f"/surveys/{asked.id}/shares", data=fields | {"days": "3"})
    (share,) = here.store.shares()
    assert share.language == "de"
    shared = here.devices.get(share.path).text
    assert "Wie geht es der App?" in shared
    assert "How is the app?" not in shared


def test_the_public_page_exists_in_each_language(tmp_path: Path) -> None:
    with world(tmp_path / "data", NOW, public_pages=True) as here:
        asked = here.publish(until_spring(TRANSLATED, **SETTINGS))
        for name in (asked.name, asked.id):
            english, german = (
                here.devices.get(f"/public/{name}{ending}") for ending in ("", ".de")
            )
            assert '<h1 lang="en">How is the app?</h1>' in english.text
            assert '<h1 lang="de">Wie geht es der App?</h1>' in german.text
            assert "Min." in german.text
            assert f'href="{asked.id}.de" hreflang="de"' in english.text
            assert f'href="{asked.id}" hreflang="en"' in german.text
            assert german.headers["Cache-Control"] == english.headers["Cache-Control"]
        facts = json.loads(here.devices.get(f"/public/{asked.id}.de.json").text)
        assert (facts["language"], facts["title"]) == ("de", "Wie geht es der App?")
        for wrong in (".en", ".fr", ".de.de", ".json.de", ".", ".de.json.json"):
            assert here.devices.get(f"/public/{asked.id}{wrong}").status_code == 404, wrong


def test_commands_and_python_show_the_language_that_is_asked_for(tmp_path: Path) -> None:
    with world(tmp_path / "data", NOW) as here:
        fill(here, until_spring(TRANSLATED, **SETTINGS))
    data = ("--data", tmp_path / "data")
    for language, survey_title in SETTINGS["title"].items():
        chosen = (*data, "--language", language)
        assert run("results", "app-health", *chosen).stdout.startswith(
            f"app-health: {survey_title}"
        )
        assert LABELS[language][0] in run("results", "app-health", *chosen, "--csv").stdout
        assert asked_json("results", "app-health", *chosen)["title"] == survey_title
        assert run("survey", "show", "app-health", *chosen).stdout.startswith(
            f"app-health: {survey_title}"
        )
        found = open_results(tmp_path / "data", language=language).document
        assert (found.title, found.language) == (survey_title, language)
    compared = asked_json(
        "results", "app-health", *data, "--language", "de", "--round", "2027-01-10",
        "--against", "2026-12-01..2026-12-31",
    )  # fmt: skip
    assert compared["about"]["minutes"]["unit"] == "Min."


def checked(text: str) -> list[str]:
    return [line for line in warnings(parse_toml(text), NOW.date()) if "every language" in line]


def test_survey_check_lists_the_texts_without_translations() -> None:
    (line,) = checked(texts.survey_text(TRANSLATED, **SETTINGS))
    assert line.startswith(
        "these texts are the same in every language: owner, title of minutes, title of browser; "
    )
    assert line.endswith('write a table, like title = {en = "...", de = "..."}')
    one_language = {"languages": ["de"], "title": "Wie geht es der App?"}
    assert checked(texts.survey_text(texts.bit(), **one_language)) == []
    complete = texts.question("crashed", "bit", title={"en": "Crash?", "de": "Crash?"})
    owner = {"en": "Example Ltd", "de": "Example Ltd"}
    assert checked(texts.survey_text(complete, **SETTINGS, owner=owner)) == []
    (line,) = checked(texts.survey_text(texts.number(unit="s"), **SETTINGS, owner=owner))
    assert "title of minutes, unit of minutes;" in line


def test_a_follow_up_survey_keeps_the_languages(here: World) -> None:
    fine = TRANSLATED.replace(
        'kind = "number"', 'kind = "number"\nmechanism = "square-wave"\ngrid = 32'
    )
    asked = here.publish(until_spring(fine, **SETTINGS))
    people = ([15_000, 5_000], spread(20_000, grid_steps(asked), 0.3), [10_000, 9_000, 0, 0, 1_000])
    add_round(here.store, asked, FIRST_ROUND, people)
    (tally,) = here.store.tallies(asked.sequence)
    choices = follow_up(asked.survey, tally, "0.5")
    budget, day = 10**10, NOW.date()
    epsilon = epsilons(asked.survey, [*choices.questions], budget, day)
    draft = parse_toml(drafted(asked, tally, "0.5", choices, epsilon, budget, day))
    assert draft.languages == ("en", "de")
    german = draft.in_language("de")
    assert german.title == "Wie geht es der App?"
    minutes, browser = german.questions
    assert minutes.unit == "Min."
    assert [*browser.labels] == ["firefox", "chrome", "other", "any other"]
    assert [*browser.called] == ["firefox (de)", "chrome (de)", "other (de)", "any other"]
