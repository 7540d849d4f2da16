"""Texts of a survey in several languages.

`languages = ["en", "de"]` in a survey names its languages; the first is the default. Each text for
people is plain, and so the same in every language, or a table with one text for each language:

    title = {en = "Did it crash?", de = "Ist es abgestürzt?"}

Names and options never change, so nothing that is asked, sent or estimated depends on a language.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from deniable.shared.survey.kinds.base import Labels, Question
from deniable.shared.survey.questions import read_labels
from deniable.shared.survey.reader import Reader

MAX_LANGUAGES = 16
LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}")  # the form of a tag of BCP 47
SURVEY_TEXTS = {
    "title": 'write title = "How is the app doing?"',
    "purpose": "describe in a sentence how the answers will be used",
    "owner": "write the name and address of the organization that asks",
}


class Texts(NamedTuple):
    """Translated texts of a survey in one language; empty where a text is plain."""

    language: str
    title: str
    purpose: str
    owner: str
    questions: tuple[Labels, ...]

    def fields(self) -> dict[str, str]:
        texts = {"title": self.title, "purpose": self.purpose, "owner": self.owner}
        return {key: text for key, text in texts.items() if text}


def read_languages(reader: Reader) -> tuple[str, ...]:
    """Parse `languages`; empty if a survey names none."""
    if "languages" not in reader:
        return ()
    tags: list[Any] = reader.take("languages", list)  # Any: a document may hold anything
    if not 1 <= len(tags) <= MAX_LANGUAGES:
        raise reader.error("languages", f"must be 1 to {MAX_LANGUAGES} tags, got {len(tags)}")
    for index, tag in enumerate(tags):
        if not (isinstance(tag, str) and LANGUAGE.fullmatch(tag)):
            raise reader.error("languages", f"{tag!r} is not a tag like en, pt-BR or zh-Hant")
        if tag in tags[:index]:
            raise reader.error("languages", f"{tag!r} is repeated; name each language once")
    return tuple(tags)


def read_texts(
    languages: Sequence[str], survey: Reader, asked: Sequence[Reader], questions: Sequence[Question]
) -> tuple[Texts, ...]:
    """Parse the translated texts of a survey, each by the rules of a plain text."""
    return tuple(
        Texts(
            language,
            *_survey_texts(survey.in_language(language)),
            tuple(
                read_labels(reader.in_language(language), question)
                for reader, question in zip(asked, questions, strict=True)
            ),
        )
        for language in languages
    )


def _survey_texts(reader: Reader) -> tuple[str, str, str]:
    title, purpose, owner = (
        reader.text(key, fix) if key in reader else "" for key, fix in SURVEY_TEXTS.items()
    )
    return title, purpose, owner


def by_language(texts: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Turn a table by key for each language into a table by language for each key.

    >>> by_language({"en": {"title": "Crashes"}, "de": {"title": "Abstürze"}})
    {'title': {'en': 'Crashes', 'de': 'Abstürze'}}
    """
    keys = next(iter(texts.values()), {})
    return {key: {language: named[key] for language, named in texts.items()} for key in keys}


def closest_language(wanted: str, languages: Sequence[str]) -> str:
    """Return the language that is closest to a wanted tag of BCP 47.

    That is, of the languages with the same first subtag, the one with the most equal subtags in
    the same places; among several, the shortest tag. If there is none, it is the default.

    >>> closest_language("de-AT", ["en", "de-CH", "de"]), closest_language("fr", ["en", "de"])
    ('de', 'en')
    """
    subtags = wanted.lower().split("-")

    def closeness(language: str) -> tuple[int, int]:
        pairs = [*zip(language.lower().split("-"), subtags, strict=False)]
        if pairs[0][0] != pairs[0][1]:
            return 0, 0
        return sum(own == other for own, other in pairs), -len(language)

    return max(languages, key=closeness)
