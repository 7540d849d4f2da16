"""Documents and their contents, by file and section."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("client", "server", "shared", "simulations", "tests")
GENERATED = ("CHANGELOG.md", "REFERENCE.md")  # history, and text generated from the source


@dataclass(frozen=True)
class Block:
    """Fenced or indented block of a document: commands to type, or text to read."""

    document: str
    section: str
    language: str  # "" if none is named, or "indented"
    text: str

    @property
    def place(self) -> tuple[str, str, str]:
        return self.document, self.section, self.language


def documents() -> list[str]:
    patterns = ("*.md", ".github/*.md", *(f"{folder}/**/*.md" for folder in FOLDERS))
    found = (path for pattern in patterns for path in ROOT.glob(pattern))
    paths = (path.relative_to(ROOT).as_posix() for path in found)
    return sorted(path for path in paths if not path.endswith(GENERATED))


def text_of(document: str) -> str:
    return (ROOT / document).read_text("utf-8")


def blocks(document: str) -> Iterator[Block]:
    section, language, lines = "", "", list[str]()
    inside = False
    for line in text_of(document).splitlines():
        if inside and line.strip() == "```":
            yield Block(document, section, language, "\n".join(lines) + "\n")
            inside = False
        elif inside:
            lines.append(line)
        elif fence := re.match(r" *```(\w*)$", line):
            inside, language, lines = True, fence[1], []
        elif heading := re.match(r"#+ (.+)", line):
            section = heading[1]
        elif line.startswith("    deniable "):
            yield Block(document, section, "indented", line.strip() + "\n")


def section_of(document: str, section: str) -> str:
    """Return the text of a section without its heading."""
    return text_of(document).split(f"## {section}\n")[1].split("\n## ")[0]


def commands(text: str) -> list[str]:
    """Return each `deniable ...` command of a block on one line, without pipes and comments.

    A quoted word may contain what otherwise ends a command.
    """
    joined = text.replace("\\\n", " ")
    before = r"(?:^|&& |DENIABLE_TOKEN=\S+ |^docker exec \S+ |^ExecStart=\S+/)"
    words = r'((?:"[^"\n]*"|[^#|&\n])+?)(?= > |[#|&\n]|$)'
    found = re.findall(rf"{before}deniable {words}", joined, re.MULTILINE)
    listed = re.findall(r'^CMD (\["deniable.*)', text, re.MULTILINE)
    found += [" ".join(json.loads(entry)[1:]) for entry in listed]
    return [command.strip() for command in found]
