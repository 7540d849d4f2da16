"""Report of the demo: truth next to estimate, as text and as a small SVG of the twelve days.

The SVG contains its numbers as JSON, so that anyone can draw it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from html import escape
from typing import Any

from deniable.shared.privacy.epsilon import round_promise
from deniable.shared.survey.document import Survey

WIDTH, HEIGHT = 720, 270
LEFT, TOP, RIGHT, BOTTOM = 50, 50, 700, 240
GRID_STEP = 0.1
MAX_SHARE = 0.4
PICTURE_STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #333 }
.grid { stroke: #ddd } .whisker { stroke: #1660a8; stroke-width: 2 } .estimate { fill: #1660a8 }
.truth { fill: none; stroke: #b4470f; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } .grid { stroke: #444 } .whisker { stroke: #6fb1f0 } .estimate { fill: #6fb1f0 }
.truth { stroke: #f0985c } }"""
Days = Sequence[Mapping[str, Any]]  # Any: the rows of `story` in what --json prints


def report_lines(answer: Mapping[str, Any], survey: Survey, devices: int) -> Iterator[str]:
    """Yield the lines of the report: truth, estimate and interval of every row."""
    people = answer["people"]
    yield (
        f"\n{people:,} simulated people answered {survey.name} in {answer['seconds']:.1f} s "
        f"({min(people, devices):,} of them with a complete client). No answer was stored.\n"
    )
    yield f"{'question':<10}{'':<10}{'truth':>9}{'estimate':>10}   95 % interval"
    for name, rows in answer["questions"].items():
        shown = _as_minutes if name == "minutes" else _as_share
        for i, row in enumerate(rows):
            yield f"{name if i == 0 else '':<10}{row['label']:<10}{_numbers(row, shown)}"
    yield f"\n{'at least one crash':<20}{'truth':>9}{'estimate':>10}   95 % interval"
    for day in answer["story"]:
        flag = "   forged reports detected" if day["warning"] else ""
        yield f"{day['day']:<20}{_numbers(day, _as_share)}{flag}"
        if len(day["versions"]) > 1:
            for part in sorted(day["versions"], key=lambda part: str(part["version"])):
                yield f"  version {part['version']:<10}{_numbers(part, _as_share)}"
    yield f"\nWhat a report can reveal: {round_promise(survey.round_billionths)}."
    yield "Intervals refer to the people who reported; at most about 1 in 20 misses the truth."


def draw_picture(days: Days) -> str:
    """Draw each day's estimate as a dot with a whisker, and the truth as a ring."""
    people = f"{min(day['reports'] for day in days):,}"
    title = f"Crashes by day among {people} people: the truth, and what deniable reports show"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{title}</title>",
        f"<metadata>{escape(json.dumps(days), quote=False)}</metadata>",
        f"<style>{PICTURE_STYLE}</style>",
        _text(LEFT, 18, title, "start"),
        *_legend(),
        *(_grid_line(number * GRID_STEP) for number in range(round(MAX_SHARE / GRID_STEP) + 1)),
        *(_day(number, day, len(days)) for number, day in enumerate(days)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _numbers(row: Mapping[str, Any], shown: Callable[[float], str]) -> str:
    if row["estimate"] is None:
        return f"{shown(row['truth']):>9}   too few reports for an estimate"
    missed = "" if row["low"] <= row["truth"] <= row["high"] else "   (missed)"
    interval = f"{shown(row['low'])} to {shown(row['high'])}"
    return f"{shown(row['truth']):>9}{shown(row['estimate']):>10}   {interval}{missed}"


def _as_share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _as_minutes(value: float) -> str:
    return f"{value:.1f}"


def _legend() -> list[str]:
    return [
        _ring(LEFT + 6, 34),
        _text(LEFT + 16, 38, "truth, which no server holds", "start"),
        _whisker(LEFT + 190, 28, 40),
        _dot(LEFT + 190, 34),
        _text(LEFT + 200, 38, "estimate with its 95 % interval", "start"),
    ]


def _grid_line(share: float) -> str:
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
    """Return the y of a share, clamped to the picture, because an estimate may be below 0."""
    inside = min(max(share, -0.03), MAX_SHARE)
    return round(BOTTOM - 8 - inside / MAX_SHARE * (BOTTOM - 8 - TOP), 1)


def _dot(x: float, y: float) -> str:
    return f'<circle class="estimate" cx="{x}" cy="{y}" r="4"/>'


def _ring(x: float, y: float) -> str:
    return f'<circle class="truth" cx="{x}" cy="{y}" r="6"/>'


def _whisker(x: float, high: float, low: float) -> str:
    return f'<line class="whisker" x1="{x}" x2="{x}" y1="{high}" y2="{low}"/>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'
