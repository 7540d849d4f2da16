"""What the demo says when it is done: truth beside every estimate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deniable.shared.privacy.promises import round_promise
from deniable.shared.survey.document import Survey


def show(answer: Mapping[str, Any], survey: Survey, devices: int) -> None:
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
