"""Surveys as their authors write them: TOML from a few arguments."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date

SETTINGS: dict[str, object] = {
    "name": "app-health",
    "title": "How is the app doing?",
    "purpose": "Find crashes by platform before users have to tell us.",
    "owner": "Example Ltd, privacy@example.org",
    "opens": date(2026, 12, 1),
    "closes": date(2027, 2, 28),
    "round": "month",
    "grace_days": 14,
    "retention_days": 90,
    "minimum_reports": 1,
}
YEARS: dict[str, object] = {"opens": date(2024, 1, 1), "closes": date(2028, 12, 31)}
ALWAYS: dict[str, object] = {"opens": date(2020, 1, 1), "closes": date(2099, 12, 31)}


def survey_text(questions: str, **changes: object) -> str:
    """Return the TOML of a monthly survey for one winter; arguments change its settings."""
    return _table("[survey]", SETTINGS | changes) + questions


def question(
    name: str, kind: str, epsilon: str = "1", *, over: object = "first", **more: object
) -> str:
    """Return a question's TOML; keys whose value is None are left out."""
    keys = {"name": name, "kind": kind, "over": over, "epsilon": epsilon}
    return _table("[[question]]", keys | more)


def label(name: str, **kind: object) -> str:
    return _table("[[label]]", {"name": name} | kind)


def bit(name: str = "crashed", epsilon: str = "1", over: str | None = "first") -> str:
    return question(name, "bit", epsilon, over=over)


def number(
    low: float = 0,
    high: float = 120,
    mechanism: str | None = None,
    *,
    name: str = "minutes",
    epsilon: str = "1",
    grid: int | None = None,
    **more: object,
) -> str:
    ends = {"low": low, "high": high}
    return question(name, "number", epsilon, **ends, mechanism=mechanism, grid=grid, **more)


def choice(
    options: int | Iterable[str],
    mechanism: str | None = "k-randomized-response",
    *,
    name: str = "browser",
    epsilon: str = "1",
    other: str | None = None,
) -> str:
    """Return a choice among these options, or among this number of generated options."""
    named = [f"option {n}" for n in range(options)] if isinstance(options, int) else list(options)
    return question(name, "choice", epsilon, options=named, mechanism=mechanism, other=other)


def vector(
    dimension: int, mechanism: str | None = None, *, name: str = "gradient", epsilon: str = "1"
) -> str:
    return question(name, "vector", epsilon, dimension=dimension, mechanism=mechanism)


def _table(head: str, keys: dict[str, object]) -> str:
    lines = [f"{key} = {_toml(value)}" for key, value in keys.items() if value is not None]
    return "\n".join([head, *lines, "", ""])


def _toml(value: object) -> str:
    """Return a value as TOML: strings and lists look as in JSON, and dates are unquoted."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_toml(part)}' for key, part in value.items())}}}"
    return str(value) if isinstance(value, date) else json.dumps(value, ensure_ascii=False)
