"""Vectors of random participation: the rounds that a person's key draws in a block."""

import hashlib
import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from deniable.shared.privacy.epsilon import parse_billionths
from deniable.shared.survey.document import PERIODS, parse_toml, render_document
from deniable.shared.survey.participation import drawn_in
from tests.survey_texts import bit, survey_text

DRAWN = "participation.json"
# The period, the rounds of a span, the ε of a round, the budget of one survey, and a day
ROWS = (
    ("day", 1, "0.3", "2", "2026-11-20"),
    ("day", 1, "0.3", "2", "2028-02-29"),
    ("day", 7, "0.5", "2", "2026-11-20"),
    ("week", 1, "0.3", "1", "2026-12-30"),
    ("week", 1, "0.3", "2", "2027-01-02"),  # its week began in the quarter before
    ("week", 1, "0.5", "2", "2027-01-04"),
    ("week", 1, "1", "2", "2029-12-31"),
    ("week", 1, "2", "2", "2026-11-20"),
    ("week", 1, "0.1", "2", "2026-11-20"),  # k = T
    ("week", 1, "0.15", "2", "2026-11-20"),
    ("week", 5, "1", "2", "2026-11-20"),
    ("week", 60, "2", "2", "2026-11-20"),
    ("month", 1, "1", "2", "2026-11-20"),
    ("month", 1, "1.1", "2", "2026-11-20"),
    ("month", 2, "1", "2", "2026-11-20"),
    ("once", 1, "2", "2", "2026-11-20"),
)
NAMES = ("app-health", "pulse")


def make(folder: Path) -> None:
    """Write the vectors if they are not there. A survey that is asked once has no block."""
    if not (folder / DRAWN).exists():
        rows = [vector(number, *row) for number, row in enumerate(ROWS)]
        (folder / DRAWN).write_text(json.dumps(rows, indent=1) + "\n")


def vector(number: int, period: str, span: int, epsilon: str, budget: str, day: str) -> Any:
    name = NAMES[number % 2]
    repeat = {"repeat": "latched", "repeat_rounds": span} if span > 1 else {}
    opens = date(2026, 5, 6)
    closes = opens + timedelta(days=1_500)
    text = survey_text(
        bit(epsilon=epsilon), name=name, round=period, opens=opens, closes=closes, **repeat
    )
    survey = parse_toml(text)
    round_ = survey.round_of(date.fromisoformat(day))
    key = hashlib.sha256(f"person {number}".encode()).digest()
    assert period in PERIODS
    drawn: dict[str, Any] = {"rounds": None, "count": None, "drawn": None}
    if (block := survey.block_of(round_)) is not None:
        count = block.answered(survey.round_billionths, parse_billionths(budget))
        drawn = {
            "rounds": list(block.rounds),
            "count": count,
            "drawn": sorted(drawn_in(block, key, name, count)),
        }
    return {
        "key": key.hex(),
        "document": render_document(survey).decode(),
        "budget": budget,
        "day": day,
        "round": round_,
        "quarter": survey.quarter_of(round_),
        **drawn,
    }
