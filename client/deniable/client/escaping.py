"""Words that came from outside, fit for a terminal, a log and an `Outcome`: one short line."""

from __future__ import annotations

MOST_SHOWN = 300  # characters, before they are escaped


def escaped(text: str, most: int = MOST_SHOWN) -> str:
    """Nothing in it moves a cursor, colours a line, begins a new one or turns its direction."""
    shown = "".join(each if each.isprintable() else _code(each) for each in text[:most])
    return shown if len(text) <= most else f"{shown}…"


def _code(character: str) -> str:
    return character.encode("unicode_escape").decode()
