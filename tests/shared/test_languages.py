"""Surveys in several languages: documents, the choice of a language, and what never changes."""

from __future__ import annotations

import json
import random
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.shared.envelope import encode_report
from deniable.shared.errors import InvalidSurvey
from deniable.shared.survey.document import (
    Survey,
    parse_document,
    parse_toml,
    render_document,
)
from deniable.shared.survey.languages import MAX_LANGUAGES, closest_language
from deniable.shared.survey.phrases import explain_survey
from tests.documents import blocks
from tests.shared.test_vectors import vectors
from tests.survey_texts import choice, number, question, survey_text

ANSWERS = {"crashed": True, "minutes": 34.5, "browser": "chrome"}
TITLE = {"en": "Did it crash?", "de": "Ist es abgestürzt?"}
UNIT = {"en": "min", "de": "Min."}
LABELS = {"en": ["Firefox", "Another one"], "de": ["Feuerfuchs", "Ein anderer"]}
QUESTIONS = (
    question("crashed", "bit", title=TITLE)
    + number(unit=UNIT)
    + question("browser", "choice", options=["firefox", "other"], labels=LABELS)
)
SETTINGS: dict[str, Any] = {  # Any: the values of a survey file
    "languages": ["en", "de"],
    "title": {"en": "How is the app doing?", "de": "Wie geht es der App?"},
    "purpose": {"en": "Find crashes.", "de": "Abstürze finden."},
}
TEXT = survey_text(QUESTIONS, **SETTINGS)


def texts(survey: Survey) -> list[object]:
    asked = [(part.title, part.unit, [*part.called]) for part in survey.questions]
    return [survey.title, survey.purpose, survey.owner, *asked]


ENGLISH = [
    "How is the app doing?",
    "Find crashes.",
    "Example Ltd, privacy@example.org",
    ("Did it crash?", "", ["yes"]),
    ("minutes", "min", ["mean"]),
    ("browser", "", ["Firefox", "Another one"]),
]
GERMAN = [
    "Wie geht es der App?",
    "Abstürze finden.",
    "Example Ltd, privacy@example.org",
    ("Ist es abgestürzt?", "", ["yes"]),
    ("minutes", "Min.", ["mean"]),
    ("browser", "", ["Feuerfuchs", "Ein anderer"]),
]


def test_each_text_is_shown_in_the_wanted_language() -> None:
    survey = parse_document(render_document(parse_toml(TEXT)))
    assert (survey.languages, survey.language) == (("en", "de"), "en")
    german = survey.in_language("de-AT")
    assert (texts(survey), texts(german)) == (ENGLISH, GERMAN)
    assert german.language == "de"
    assert texts(german.in_language("en")) == texts(survey.in_language("fr")) == ENGLISH
    for language, title in TITLE.items():
        (first, *_) = explain_survey(survey.in_language(language)).questions
        assert first.lines[0] == f"- {title}"


def test_the_survey_of_the_manual_has_both_languages() -> None:
    """Read the section "Ask in several languages" of SURVEYS.md."""
    (block,) = [
        one for one in blocks("server/SURVEYS.md") if one.section == "Ask in several languages"
    ]
    texts = tomllib.loads(block.text)["survey"]
    shown = parse_toml(survey_text(QUESTIONS, **SETTINGS | texts))
    assert [shown.in_language(tag).title for tag in texts["languages"]] == [
        *texts["title"].values()
    ]


def test_a_survey_without_languages_has_one_form() -> None:
    survey = parse_toml(survey_text(choice(3)))
    assert survey.in_language("de") is survey
    assert "languages" not in json.loads(render_document(survey))["survey"]
    assert (survey.language, survey.languages) == ("", ())


def test_the_document_and_its_texts_agree_with_the_vectors() -> None:
    vector = vectors("survey_languages.json")
    assert render_document(parse_toml(vector["toml"])) == vector["document"].encode()
    survey = parse_document(vector["document"].encode())
    for language, expected in vector["texts"].items():
        localized = survey.in_language(language)
        assert [localized.title, *(part.title for part in localized.questions)] == expected


@pytest.mark.parametrize("vector", vectors("survey_languages.json")["bad"], ids=lambda v: v["name"])
def test_bad_languages_of_the_vectors_are_refused(vector: dict[str, Any]) -> None:
    with pytest.raises(InvalidSurvey):
        parse_document(vector["document"].encode())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"languages": []}, "survey.languages: must be 1 to 16 tags, got 0"),
        ({"languages": [f"a{c}" for c in "abcdefghijklmnopq"]}, "1 to 16 tags, got 17"),
        ({"languages": ["en", "de", "en"]}, "survey.languages: 'en' is repeated"),
        ({"languages": ["en", "DE"]}, "survey.languages: 'DE' is not a tag"),
        ({"languages": ["en", "german"]}, "survey.languages: 'german' is not a tag"),
        ({"languages": ["en", "de\n"]}, "is not a tag"),
        ({"languages": ["en", 3]}, "survey.languages: 3 is not a tag"),
        ({"languages": "en"}, "survey.languages: must be a list, got 'en'"),
        ({"languages": None}, "survey.title: is a table, and the survey names no languages"),
        ({"languages": ["en", "de", "fr"]}, "survey.title: lacks fr"),
        ({"languages": ["en"]}, "survey.title: has de, which the survey's languages lack"),
        ({"title": {}}, "survey.title: lacks en, de"),
        ({"title": {"en": "One", "de": " "}}, "survey.title.de: must be one line"),
        ({"title": {"en": "a\nb", "de": "Zwei"}}, "survey.title: must be one line"),
        ({"title": {"en": "One", "de": 2}}, "survey.title.de: must be text, got 2"),
        ({"name": {"en": "app", "de": "App"}}, "survey.name: must be text"),
    ],
)
def test_an_error_names_the_text_and_the_language(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSurvey) as caught:
        parse_toml(survey_text(QUESTIONS, **SETTINGS | changes))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"title": {"en": "a", "de": "b" * 201}}, "question[1].title.de: must have at most 200"),
        ({"unit": UNIT}, "question[1].unit: applies only to a number"),
        ({"labels": {"en": ["a", "b"], "de": ["c"]}}, "question[1].labels.de: must have one"),
        ({"labels": {"en": ["a", "b"], "de": ["c", "c"]}}, "question[1].labels.de: must differ"),
        ({"options": {"en": ["a"], "de": ["b"]}}, "question[1].options: must be a list"),
    ],
)
def test_each_language_obeys_the_rules_of_a_plain_text(keys: dict[str, Any], message: str) -> None:
    asked: dict[str, Any] = {"options": ["x", "y"]} | keys
    with pytest.raises(InvalidSurvey) as caught:
        parse_toml(survey_text(question("a", "choice", **asked), **SETTINGS))
    assert message in str(caught.value)


def test_a_document_with_missing_or_superfluous_texts_is_refused() -> None:
    """A published document has every text of each table, and nothing else."""
    document = json.loads(render_document(parse_toml(TEXT)))
    del document["question"][0]["title"]["de"]
    with pytest.raises(InvalidSurvey, match="title: lacks de"):
        parse_document(json.dumps(document).encode())
    document["question"][0]["title"] |= {"de": "Titel", "fr": "Titre"}
    with pytest.raises(InvalidSurvey, match="title: has fr"):
        parse_document(json.dumps(document).encode())


TAGS = st.from_regex(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}", fullmatch=True)
LISTS = st.lists(TAGS, min_size=1, max_size=MAX_LANGUAGES, unique=True)
LINES = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20)


@given(languages=LISTS, wanted=TAGS, data=st.data(), seed=st.integers(0, 2**32))
def test_no_byte_that_is_sent_depends_on_the_language(
    languages: list[str], wanted: str, data: st.DataObject, seed: int
) -> None:
    def table() -> dict[str, str]:
        return {language: data.draw(LINES) for language in languages}

    title = table()
    asked = question("crashed", "bit", title=title) + number() + choice(["chrome", "other"])
    survey = parse_toml(survey_text(asked, languages=languages, title=table(), owner=table()))
    plain = parse_toml(
        survey_text(question("crashed", "bit") + number() + choice(["chrome", "other"]))
    )
    assert texts(parse_document(render_document(survey))) == texts(survey)
    payloads = set()
    for language in (*languages, wanted):
        localized = survey.in_language(language)
        assert render_document(localized) == render_document(survey)
        assert localized.costs == plain.costs
        assert localized.questions[0].title == title[localized.language]
    for one in (plain, survey, survey.in_language(wanted), survey.in_language(languages[-1])):
        draw = random.Random(seed).getrandbits
        payloads.add(encode_report(one, one.report(ANSWERS, draw).symbols, {}))
    assert len(payloads) == 1


@given(languages=LISTS, wanted=st.text(max_size=12) | TAGS)
def test_the_language_of_any_tag_is_one_of_the_survey_s(languages: list[str], wanted: str) -> None:
    chosen = closest_language(wanted, languages)
    assert chosen in languages
    if wanted in languages and [tag.lower() for tag in languages].count(wanted.lower()) == 1:
        assert chosen == wanted
    if wanted.lower().split("-")[0] not in {tag.split("-")[0] for tag in languages}:
        assert chosen == languages[0]


@pytest.mark.parametrize(
    ("wanted", "languages", "chosen"),
    [
        ("", ["en", "de"], "en"),
        ("DE-at", ["en", "de"], "de"),
        ("pt", ["en", "pt-BR", "pt-PT"], "pt-BR"),
        ("pt-PT", ["en", "pt-BR", "pt-PT"], "pt-PT"),
        ("de-AT", ["en", "de-CH", "de"], "de"),
        ("zh-Hant-TW", ["zh-Hans", "zh-Hant"], "zh-Hant"),
        ("zh-Hant-TW", ["zh-Hans-CN", "zh-Latn-TW", "zh-Hans"], "zh-Latn-TW"),
        ("zh-TW", ["en", "zh-Hans", "zh-Hant"], "zh-Hans"),
        ("en-AT", ["fr", "de-AT"], "fr"),
        ("d", ["en", "de"], "en"),
    ],
)
def test_the_closest_language_is_chosen(wanted: str, languages: list[str], chosen: str) -> None:
    assert closest_language(wanted, languages) == chosen
