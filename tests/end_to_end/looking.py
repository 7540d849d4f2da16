"""Checks of pages in a real browser: axe-core, overflow, and visible keyboard focus."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from tests.end_to_end.browser import CHROMIUM, FLAGS
from tests.eventually import PATIENCE
from tests.node import NODE
from tests.npm import npm_packages

SCRIPT = Path(__file__).with_name("pages.mjs")
CONTRAST = ["color-contrast"]


class Page(TypedDict, total=False):
    name: str
    url: str
    cookies: Sequence[Mapping[str, str]]
    fill: Mapping[str, str]  # text to type before pressing, by selector
    press: str  # selector to press before the check
    until: str  # JavaScript expression to wait for


class View(TypedDict, total=False):
    width: int
    scheme: str
    rules: Sequence[str]  # if left out, all rules of axe
    keyboard: bool


Found = Mapping[str, Any]  # Any: JSON


def look(
    folder: Path, pages: Sequence[Page], views: Sequence[View], shots: Path | None = None
) -> list[Found]:
    """Return one finding per page and view. The browser's profile is kept in the folder."""
    asked = {
        "browser": CHROMIUM,
        "flags": [*FLAGS, f"--user-data-dir={folder / 'profile'}"],
        "axe": str(npm_packages() / "node_modules/axe-core/axe.min.js"),
        "pages": pages,
        "views": views,
        "shots": shots and str(shots),
    }
    done = subprocess.run(
        [NODE, str(SCRIPT)], input=json.dumps(asked), capture_output=True, text=True,
        timeout=PATIENCE + 5 * len(pages) * len(views), check=False,
    )  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(pages) * len(views), done.stderr[-2000:]
    return found


def faults(found: Found) -> list[str]:
    """Describe the faults of the page; the list is empty if there are none."""
    said = [*found["found"], *found["complaints"], *found.get("unseen", ())]
    if found["wider"] > 0:
        said.append(f"wider than the window by {found['wider']} px")
    if found.get("stops") == 0:
        said.append("the keyboard reaches nothing")
    return [f"{found['page']}, {found['width']} px, {found['scheme']}: {fault}" for fault in said]
