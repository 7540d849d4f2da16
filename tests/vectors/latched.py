"""Vectors of a survey whose reports are stored and sent again: `repeat = "latched"`."""

import json
from pathlib import Path
from typing import Any

from deniable.shared.survey.document import Survey, parse_toml
from tests.vectors.signed import signed

SURVEY = "survey_latched.json"
BAD: list[tuple[str, dict[str, object], str]] = [
    ("fresh", {"repeat": "fresh"}, "where each round has a report of its own there is no key"),
    ("another word", {"repeat": "memoized", "repeat_rounds": 2}, "it is latched"),
    ("no number", {"repeat": "latched"}, "it does not say for how many rounds"),
    ("one round", {"repeat": "latched", "repeat_rounds": 1}, "that is every round by itself"),
    ("more than there are", {"repeat": "latched", "repeat_rounds": 6}, "it has five rounds"),
    ("a text", {"repeat": "latched", "repeat_rounds": "2"}, "a whole number"),
    ("only a number", {"repeat_rounds": 2}, "it does not say that reports are latched"),
]


def make(folder: Path) -> None:
    """Write the survey of survey.json over five months, two of which share a report, if missing."""
    plain = json.loads((folder / "survey.json").read_text())
    text = (
        plain["toml"]
        .replace("closes = 2027-02-28", "closes = 2027-04-30")
        .replace("minimum_reports = 100\n", "minimum_reports = 100\n" + LATCHED)
    )
    if not (folder / SURVEY).exists():
        made = vectors(text, parse_toml(text), plain["signing_key_seed"])
        (folder / SURVEY).write_text(json.dumps(made, indent=1) + "\n")


LATCHED = 'repeat = "latched"\nrepeat_rounds = 2\n'


def vectors(text: str, survey: Survey, seed: str) -> dict[str, Any]:
    rounds = range(survey.first_round, survey.last_round + 1)
    return {
        **signed(text, survey, seed),
        "round_epsilon": survey.round_epsilon,
        "lifetime_epsilon": survey.lifetime_epsilon,
        "charged": [{"round": round_, "as": survey.span_of(round_)[0]} for round_ in rounds],
        "bad_keys": [{"name": name, "keys": keys, "reason": why} for name, keys, why in BAD],
    }
