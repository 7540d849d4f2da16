"""Results documents in their published form, with the surveys and tallies behind them.

`python -m tests.server.golden_results` rewrites tests/server/golden. Review the difference.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.survey.kinds.base import Question
from tests import survey_texts as texts
from tests.server.surveys import choice, survey
from tests.server.world import World, world

FOLDER = Path(__file__).with_name("golden")
NOW = datetime(2027, 2, 10, 12, tzinfo=UTC)  # within the grace period of round 684, in round 685

HALF_BIT = texts.bit(epsilon="0.5")
NUMBER = texts.number(-10, 120.5, "local-laplace", grid=4)
CHOICES = choice(["firefox", 'chrome, or "chromium"', "ältere"]) + choice(
    ["de", "en", "fr", "it"], "unary", name="languages", epsilon="2"
)


@dataclass(frozen=True)
class Case:
    questions: str
    changes: Mapping[str, object] = field(default_factory=dict)
    rounds: Mapping[int, int] = field(default_factory=dict)  # reports by round
    closed: bool = False


CASES = {
    "every-kind": Case(HALF_BIT + NUMBER + CHOICES, rounds={683: 20_000, 684: 100, 685: 99}),
    "bit-closed": Case(HALF_BIT, rounds={683: 1_000}, closed=True),
    "number-once": Case(NUMBER, {"round": "once", "minimum_reports": 1}, {0: 7}),
    "choice-of-the-future": Case(CHOICES, {"opens": date(2027, 3, 1)}),
}


def cells_of(question: Question, reports: int) -> list[int]:
    """Return rising counts that this number of reports could have, without randomness."""
    cells = question.mechanism.cells
    if question.mechanism.name == "unary":
        return [reports * (cell + 1) // (cells + 1) for cell in range(cells)]
    counts = [reports * (cell + 1) // (cells * (cells + 1) // 2) for cell in range(cells)]
    return [counts[0] + reports - sum(counts), *counts[1:]]


def fill(here: World, name: str) -> PublishedSurvey:
    case = CASES[name]
    common = {"name": name, "closes": date(2027, 4, 30), "minimum_reports": 100}
    published = here.publish(survey(case.questions, **(common | dict(case.changes))))
    for number, reports in case.rounds.items():
        counts = [cells_of(question, reports) for question in published.survey.questions]
        cells = np.array([cell for part in counts for cell in part], np.int64)
        with here.store.transaction() as transaction:
            transaction.add(published.sequence, RoundTally(number, reports, cells))
    return here.catalogue.close(published) if case.closed else published


def answers(data: Path) -> Iterator[tuple[str, str]]:
    """Yield the current response for each golden file, without ids, which change more often."""
    with world(data, NOW) as here:
        filled = [fill(here, name) for name in CASES]
        analyst = here.bearer("analyst")
        for published in filled:
            for form, end in (("results", "json"), ("results.csv", "csv")):
                answer = here.client.get(f"/v1/surveys/{published.id}/{form}", headers=analyst)
                assert answer.status_code == 200, answer.text
                yield f"{published.name}.{end}", answer.text.replace(published.id, "<id>")


def main() -> int:
    with TemporaryDirectory() as folder:
        for name, content in answers(Path(folder)):
            (FOLDER / name).write_text(content, "utf-8", newline="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
