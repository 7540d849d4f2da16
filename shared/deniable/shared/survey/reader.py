"""Strict reader of a document: each error names the key and the fix."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from deniable.shared.errors import InvalidSurvey

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,62}[A-Za-z0-9])?", re.ASCII)
_ID = re.compile(r"[0-9A-Fa-f]{64}")
_QUESTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_NOUNS = {str: "text", int: "a whole number", list: "a list", dict: "a table"}
_WHOLE = re.compile(r"-?\d{1,30}", re.ASCII)
MAX_TEXT_CHARACTERS = 2_000


class Reader:
    """Reader of one table of a document. Call `done` at the end: it refuses unread keys."""

    def __init__(self, path: str, table: object, language: str = "") -> None:
        if not isinstance(table, dict):
            raise InvalidSurvey(path, f"must be a table, got {_noun(table)}")
        self.path, self._table, self._known_keys = path, table, set[str]()
        self._language = language
        self._translations: dict[str, dict[str, Any]] = {}  # by key; Any: not yet read

    def accept_languages(self, keys: Collection[str], languages: Sequence[str]) -> None:
        """Let the texts with these keys be tables by language, and read their first language."""
        for key in keys:
            if isinstance(texts := self._table.get(key), dict):
                self._check_languages(key, texts, languages)
                self._translations[key] = texts
        first = {key: texts[languages[0]] for key, texts in self._translations.items()}
        self._table = {**self._table, **first}

    def in_language(self, language: str) -> Reader:
        """Return a reader of only the translated texts, in this language."""
        texts = {key: texts[language] for key, texts in self._translations.items()}
        return Reader(self.path, texts, language)

    def _check_languages(
        self, key: str, texts: Mapping[str, object], languages: Sequence[str]
    ) -> None:
        if not languages:
            fix = 'add languages = ["en", "de"] with its languages to [survey]'
            raise self.error(key, f"is a table, and the survey names no languages; {fix}")
        if missing := [language for language in languages if language not in texts]:
            raise self.error(key, f"lacks {', '.join(missing)}; add the text in each language")
        if extra := [language for language in texts if language not in languages]:
            problem = f"has {', '.join(extra)}, which the survey's languages lack"
            raise self.error(key, f"{problem}; add each there, or remove the text")

    def __contains__(self, key: str) -> bool:
        self._known_keys.add(key)
        return key in self._table

    def error(self, key: str, problem: str) -> InvalidSurvey:
        names = filter(None, (self.path, key, self._language))
        return InvalidSurvey(".".join(names), problem)

    def take(self, key: str, kind: type | tuple[type, ...], fix: str = "") -> Any:
        """Return the value of a required key. Any: `kind` determines the type."""
        if key not in self:
            near = next((k for k in self._table if _is_similar(k, key)), None)
            hint = f"is {near!r} a misspelling of it?" if near else fix or "add it"
            raise self.error(key, f"is missing; {hint}")
        value = self._table[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            wanted = " or ".join(_NOUNS.get(k, f"a {k.__name__}") for k in kinds)
            hint = f"; {fix}" if fix else ""
            raise self.error(key, f"must be {wanted}, got {_noun(value)}{hint}")
        return value

    def optional(self, key: str, kind: type) -> Any:  # Any: `kind` determines the type
        return self.take(key, kind) if key in self else None

    def integers(self, key: str, fix: str) -> list[int]:
        """Parse whole numbers written as text, because many JSON parsers lose digits of numbers."""
        texts: list[object] = self.take(key, list, fix)
        if not all(isinstance(text, str) and _WHOLE.fullmatch(text) for text in texts):
            raise self.error(key, "must be whole numbers as decimal text")
        return [int(str(text)) for text in texts]

    def text(self, key: str, fix: str) -> str:
        value: str = self.take(key, str, fix)
        if not value.strip() or len(value) > MAX_TEXT_CHARACTERS or not value.isprintable():
            wanted = f"one line of 1 to {MAX_TEXT_CHARACTERS} characters"
            raise self.error(key, f"must be {wanted}; {fix}")
        return value

    def name(self, key: str) -> str:
        """Return a question's name, which is also a keyword argument of `Client.answer`."""
        value: str = self.take(key, str, f'write {key} = "crashed"')
        if not _QUESTION_NAME.fullmatch(value):
            form = "at most 64 letters, digits and underscores, and not begin with a digit"
            raise self.error(key, f"must be {form}; got {value!r}")
        return value

    def survey_name(self, key: str) -> str:
        value: str = self.take(key, str, f'write {key} = "app-health"')
        if not _NAME.fullmatch(value) or _ID.fullmatch(value):
            form = "at most 64 letters, digits and inner dashes, and not look like a survey's id"
            raise self.error(key, f"must be {form}; got {value!r}")
        return value

    def one_of(self, key: str, allowed: Collection[str]) -> str:
        choices = ", ".join(allowed)
        value: str = self.take(key, str, f"write one of {choices}")
        if value not in allowed:
            raise self.error(key, f"must be one of {choices}; got {value!r}")
        return value

    def flag(self, key: str) -> bool:
        """Return whether a key is true. It may be left out, but not be false."""
        if key in self and self._table[key] is not True:
            raise self.error(key, "must be true, or left out")
        return key in self

    def count(self, key: str, default: int, low: int, high: int) -> int:
        value: int = self.take(key, int) if key in self else default
        if not low <= value <= high:
            raise self.error(key, f"must be {low} to {high}, got {value}")
        return value

    def day(self, key: str) -> date:
        """Return a day: a date in TOML, ISO text in JSON."""
        fix = f"write a day, like {key} = 2026-12-01"
        value = self.take(key, (date, str), fix)
        if isinstance(value, date) and not isinstance(value, datetime):
            return value
        try:
            day = date.fromisoformat(value)
        except (TypeError, ValueError):
            day = None
        if day is None or day.isoformat() != value:
            raise self.error(key, f"must be a day, got {_noun(value)}; {fix}")
        return day

    def done(self) -> None:
        """Refuse unread keys, because a misspelt key must not silently change a survey."""
        for key in self._table:
            if key not in self._known_keys:
                near = next((k for k in sorted(self._known_keys) if _is_similar(str(key), k)), None)
                hint = f"did you mean {near!r}?" if near else "remove it"
                raise self.error(key, f"is not a key of a survey; {hint}")


def _is_similar(one: str, other: str) -> bool:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, one, other).ratio() >= 0.75


def _noun(value: object) -> str:
    if isinstance(value, (str, bool, int, float, date)):
        return repr(value) if not isinstance(value, date) else value.isoformat()
    return _NOUNS.get(type(value), type(value).__name__)
