"""Report of the demo: truth next to estimate, as text and as a small SVG of the twelve days.

The SVG contains its numbers as JSON, so that anyone can draw it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from deniable.shared.privacy.epsilon import round_promise
from deniable.shared.survey.document import Survey

LEFT, RIGHT, TOP, BOTTOM = 50, 700, 50, 232
MAX_SHARE = 0.4
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
    width = (RIGHT - LEFT) / len(days)
    picture = files("deniable.simulations.demo").joinpath("twelve_days.svg").read_text("utf-8")
    template = Environment(
        autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    ).from_string(picture)
    return template.render(
        title=f"Crashes by day among {people} people: the truth, and what deniable reports show",
        numbers=json.dumps(days),
        days=[
            (round(LEFT + (n + 0.5) * width, 1), f"{date.fromisoformat(day['day']):%d %b}", day)
            for n, day in enumerate(days)
        ],
        y=_y,
    )


def _y(share: float) -> float:
    """Return the y of a share, clamped to the picture, because an estimate may be below 0."""
    inside = min(max(share, -0.03), MAX_SHARE)
    return round(BOTTOM - inside / MAX_SHARE * (BOTTOM - TOP), 1)


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
