"""`deniable simulate all`: every study with its defaults, and a page with a card for each."""

from __future__ import annotations

from html import escape
from pathlib import Path

from deniable.simulations.frame.found import Found, run
from deniable.simulations.frame.option import read
from deniable.simulations.frame.page import WORDS, document
from deniable.simulations.frame.registry import load, summaries

TITLE = "What does privacy cost?"


def simulate_all(folder: Path, seed: int) -> None:
    """Each study in a folder of its own; finished ones are not computed again."""
    cards = []
    for name in summaries():
        study = load(name)
        options = study.check(read(study.options, {}))
        found = run(study, options, seed, out=folder / name, shown=True)
        found.write(folder / name)
        cards.append(card(found))
    (folder / "index.html").write_text(index(cards), "utf-8")


def index(cards: list[str]) -> str:
    parts = [f"<h1>{TITLE}</h1>", f'<p class="faint">{WORDS}</p>']
    return document(f"{TITLE} – deniable", [*parts, '<ul class="cards">', *cards, "</ul>"])


def card(found: Found) -> str:
    """Its question, its first figure, and the first of its sentences."""
    name, figure = found.study.name, found.report.figures[0]
    return (
        f'<li><h2><a href="{name}/index.html">{escape(found.study.question)}</a></h2>'
        f'<img src="{name}/{figure.name}.svg" alt="{escape(figure.caption)}">'
        f"<p>{escape(found.findings[0])}</p></li>"
    )
