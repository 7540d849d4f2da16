"""Vectors of a survey in several languages."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deniable.shared.survey.document import parse_toml
from tests.survey_texts import question, survey_text
from tests.vectors.signed import signed

SURVEY = "survey_languages.json"
QUESTIONS = question(
    "crashed", "bit", title={"en": "Did it crash?", "pt-BR": "Travou?", "zh-Hant": "當機了嗎？"}
) + question(
    "browser",
    "choice",
    mechanism="k-randomized-response",
    title="Browser",
    options=["firefox", "other"],
    labels={"en": ["Firefox", "Other"], "pt-BR": ["Firefox", "Outro"], "zh-Hant": ["火狐", "其他"]},
)
TITLE = {"en": "How is the app doing?", "pt-BR": "Como vai o app?", "zh-Hant": "應用程式如何？"}
LANGUAGES = [*TITLE]
TAGS: dict[str, object] = {
    "no language": [],
    "a repeated language": [*LANGUAGES, "en"],
    "capital letters": ["EN", *LANGUAGES[1:]],
    "an underscore": ["en", "pt_BR", "zh-Hant"],
    "a private tag": ["en", "pt-BR", "zh-Hant", "x-private"],
    "a number": [*LANGUAGES, 1],
    "text instead of a list": "en",
    "too many languages": [*LANGUAGES, *(f"{a}{b}" for a in "ab" for b in "bcdefgh")],
    "a language without texts": [*LANGUAGES, "de"],
    "texts without a language": LANGUAGES[:2],
    "null": None,
}
TEXTS: dict[str, object] = {
    "a missing text": {"en": "a", "pt-BR": "b"},
    "a superfluous text": {"en": "a", "pt-BR": "b", "zh-Hant": "c", "de": "d"},
    "no texts": {},
    "an empty text": {"en": "a", "pt-BR": "b", "zh-Hant": " "},
    "two lines": {"en": "a", "pt-BR": "b", "zh-Hant": "c\nd"},
    "a nested table": {"en": "a", "pt-BR": "b", "zh-Hant": {"en": "c"}},
    "a list of texts": ["a", "b", "c"],
}
LABELS: dict[str, object] = {
    "too few labels": {"en": ["a", "b"], "pt-BR": ["a", "b"], "zh-Hant": ["a"]},
    "equal labels": {"en": ["a", "b"], "pt-BR": ["a", "b"], "zh-Hant": ["a", "a"]},
    "tables in a list": [{"en": "a", "pt-BR": "b", "zh-Hant": "c"}, "d"],
}


def make(folder: Path) -> None:
    """Write the file if it does not exist."""
    text = survey_text(QUESTIONS, languages=LANGUAGES, title=TITLE)
    survey = parse_toml(text)
    seed = json.loads((folder / "survey.json").read_text())["signing_key_seed"]
    vectors = signed(text, survey, seed)
    localized = map(survey.in_language, LANGUAGES)
    vectors["texts"] = {
        one.language: [one.title, *(part.title for part in one.questions)] for one in localized
    }
    vectors["bad"] = list(bad(str(vectors["document"])))
    if not (folder / SURVEY).exists():
        (folder / SURVEY).write_text(json.dumps(vectors, indent=1) + "\n")


def bad(document: str) -> Iterator[dict[str, Any]]:
    def named(name: str, part: str, keys: dict[str, object]) -> dict[str, Any]:
        table = json.loads(document)
        (table["survey"] if part == "survey" else table["question"][1]).update(keys)
        return {"name": name, "document": json.dumps(table, ensure_ascii=False)}

    for name, tags in TAGS.items():
        yield named(name, "survey", {"languages": tags})
    for name, texts in TEXTS.items():
        yield named(f"title: {name}", "survey", {"title": texts})
        yield named(f"title of a question: {name}", "question", {"title": texts})
    for name, labels in LABELS.items():
        yield named(name, "question", {"labels": labels})
    yield named(
        "options are names", "question", {"options": {tag: ["a", "b"] for tag in LANGUAGES}}
    )
    table = json.loads(document)
    del table["survey"]["languages"]
    yield {"name": "tables without languages", "document": json.dumps(table, ensure_ascii=False)}
