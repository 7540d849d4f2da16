"""The demo's twelve days as one small SVG: what was true, beside what the reports tell.

The numbers that it is drawn from stand in it as JSON, so that anyone can draw it again.

What the demo says when it is done: truth beside every estimate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from html import escape, unescape
from typing import Any

from deniable.shared.privacy.promises import round_promise
from deniable.shared.survey.document import Survey

WIDTH, HEIGHT = 720, 270
LEFT, TOP, RIGHT, BOTTOM = 50, 50, 700, 240
STEP = 0.1  # of the scale
HIGHEST = 0.4
PICTURE_STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #333 }
.grid { stroke: #ddd } .whisker { stroke: #1660a8; stroke-width: 2 } .estimate { fill: #1660a8 }
.truth { fill: none; stroke: #b4470f; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } .grid { stroke: #444 } .whisker { stroke: #6fb1f0 } .estimate { fill: #6fb1f0 }
.truth { stroke: #f0985c } }"""
Days = Sequence[Mapping[str, Any]]  # Any: the rows of `story` in what --json prints


def draw_picture(days: Days) -> str:
    """A dot and a whisker for each day's estimate, a ring for the truth."""
    people = f"{min(day['reports'] for day in days):,}"
    title = f"Crashes by day, of {people} people: what was true, and what deniable reports tell"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{title}</title>",
        f"<metadata>{escape(json.dumps(days), quote=False)}</metadata>",
        f"<style>{PICTURE_STYLE}</style>",
        _text(LEFT, 18, title, "start"),
        *_legend(),
        *(_scale(number * STEP) for number in range(round(HIGHEST / STEP) + 1)),
        *(_day(number, day, len(days)) for number, day in enumerate(days)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def picture_numbers(picture: str) -> Days:
    """The numbers of a picture."""
    (held,) = re.findall(r"<metadata>(.*)</metadata>", picture)
    found: Days = json.loads(unescape(held))
    return found


def _legend() -> list[str]:
    return [
        _ring(LEFT + 6, 34),
        _text(LEFT + 16, 38, "truth, which nobody holds", "start"),
        _whisker(LEFT + 190, 28, 40),
        _dot(LEFT + 190, 34),
        _text(LEFT + 200, 38, "estimate with its 95 % interval", "start"),
    ]


def _scale(share: float) -> str:
    y = _y(share)
    line = f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y}" y2="{y}"/>'
    return line + _text(LEFT - 8, y + 4, f"{share:.0%}".replace("%", " %"), "end")


def _day(number: int, day: Mapping[str, Any], days: int) -> str:
    x = round(LEFT + (number + 0.5) * (RIGHT - LEFT) / days, 1)
    label = f"{date.fromisoformat(day['day']):%d %b}"
    parts = [_text(x, BOTTOM + 18, label, "middle")]
    if day["estimate"] is not None:
        parts += [_whisker(x, _y(day["high"]), _y(day["low"])), _dot(x, _y(day["estimate"]))]
        if day["warning"]:
            parts.append(_text(x, _y(day["high"]) - 8, "forgery noticed", "middle"))
    return "".join([*parts, _ring(x, _y(day["truth"]))])


def _y(share: float) -> float:
    """Held inside: an estimate may be below 0."""
    inside = min(max(share, -0.03), HIGHEST)
    return round(BOTTOM - 8 - inside / HIGHEST * (BOTTOM - 8 - TOP), 1)


def _dot(x: float, y: float) -> str:
    return f'<circle class="estimate" cx="{x}" cy="{y}" r="4"/>'


def _ring(x: float, y: float) -> str:
    return f'<circle class="truth" cx="{x}" cy="{y}" r="6"/>'


def _whisker(x: float, high: float, low: float) -> str:
    return f'<line class="whisker" x1="{x}" x2="{x}" y1="{high}" y2="{low}"/>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'


def print_report(answer: Mapping[str, Any], survey: Survey, devices: int) -> None:
    people, days = answer["people"], answer["story"]
    print(
        f"\n{people:,} people answered {survey.name} in {answer['seconds']:.1f} s, "
        f"{min(people, devices):,} of them each through a complete client; nobody's answer was "
        "kept.\n"
    )
    print(f"{'question':<10}{'':<10}{'truth':>9}{'estimate':>10}   95 % interval")
    for name, rows in answer["questions"].items():
        shown = _as_minutes if name == "minutes" else _as_share
        for row in rows:
            print(f"{name:<10}{row['label']:<10}{_line(row, shown)}")
            name = ""  # noqa: PLW2901  # a question's name stands at its first row
    _show_story(days)
    print(f"\nWhat a report gives away: {round_promise(survey.round_billionths)}.")
    print("Confidence intervals are about the people who reported; one in twenty misses the truth.")


def _show_story(days: Sequence[Mapping[str, Any]]) -> None:
    """A bad release, day by day, and the day on which reports were forged."""
    print(f"\n{'crashes, by day':<20}{'truth':>9}{'estimate':>10}   95 % interval")
    for day in days:
        flagged = "   forged reports were noticed" if day["warning"] else ""
        print(f"{day['day']:<20}{_line(day, _as_share)}{flagged}")


def _line(row: Mapping[str, Any], shown: Callable[[float], str]) -> str:
    if row["estimate"] is None:
        return f"{shown(row['truth']):>9}   too few reports for an estimate"
    inside = "" if row["low"] <= row["truth"] <= row["high"] else "   (missed)"
    interval = f"{shown(row['low'])} to {shown(row['high'])}"
    return f"{shown(row['truth']):>9}{shown(row['estimate']):>10}   {interval}{inside}"


def _as_share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _as_minutes(value: float) -> str:
    return f"{value:.1f}"
