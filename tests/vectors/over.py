"""The vectors of a survey whose questions ask over a whole round: `over`."""

import json
from itertools import product
from pathlib import Path
from typing import Any

from deniable.shared.survey.document import parse_toml
from tests.survey_texts import SETTINGS, bit, question, survey_text
from tests.vectors.signed import signed

SURVEY = "survey_over.json"
QUESTIONS = (
    bit("crashed", "0.5", over="any")
    + bit("healthy", "0.5", over="all")
    + bit("dark", "0.5", over="last")
    + question("browser", "choice", "0.5", over="last", options=["firefox", "chrome", "other"])
)
# The question, its change or that of the survey, and the reason
BAD: list[tuple[str, int | None, dict[str, object], str]] = [
    ("another word", 0, {"over": "max"}, "it is first, last, any or all"),
    ("no word", 0, {"over": None}, "it is always written out"),
    ("any of a choice", 3, {"over": "any"}, "any and all are for bits"),
    ("a mixture", 0, {"over": "first"}, "all questions have first, or none"),
    ("too little grace", None, {"grace_days": 1}, "reports leave after the round"),
    ("latched", None, {"repeat": "latched", "repeat_rounds": 2}, "latched reports have first"),
]


def make(folder: Path) -> None:
    """The survey, broken ones, and what later answers do to a symbol; if it is not there."""
    if not (folder / SURVEY).exists():
        seed = json.loads((folder / "survey.json").read_text())["signing_key_seed"]
        (folder / SURVEY).write_text(json.dumps(vectors(seed), indent=1) + "\n")


def vectors(seed: str) -> dict[str, Any]:
    text = survey_text(QUESTIONS, minimum_reports=100)
    survey = parse_toml(text)
    assert SETTINGS["round"] == "month"
    rounds = range(survey.first_round, survey.last_round + 1)
    return {
        **signed(text, survey, seed),
        "leaves": [
            {
                "round": number,
                "from": int(survey.round_ends(number).timestamp()),
                "until": int(survey.leaves_until(number).timestamp()),
            }
            for number in rounds
        ],
        "redrawn": [
            {"over": over, "kept": kept, "answer": answer, "drawn": drawn, "symbol": symbol}
            for over, kept, answer, drawn in product(("last", "any", "all"), *[(0, 1)] * 3)
            for symbol in [drawn if over == "last" or answer == (over == "any") else kept]
        ],
        "bad": [
            {"name": name, "question": number, "keys": keys, "reason": why}
            for name, number, keys, why in BAD
        ],
    }
