"""Results documents as they were first sent, and the surveys and tallies that they are of.

python -m tests.server.golden_results     writes tests/server/golden anew: read the difference
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flask.testing import FlaskClient

from deniable.server.app import create_app
from deniable.server.intake.writer import Writer
from deniable.server.store import Store
from deniable.shared.survey.document import parse_toml, render_document
from deniable.shared.survey.questions import Question
from deniable.shared.survey.signing import public_hex, sign

FOLDER = Path(__file__).with_name("golden")
NOW = datetime(2027, 2, 10, 12, tzinfo=UTC)  # within the grace of round 684, in round 685
TOKEN = "golden" * 6
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))

BIT = '[[question]]\nname = "crashed"\nkind = "bit"\nepsilon = "0.5"\n'
NUMBER = """
[[question]]
name = "minutes"
kind = "number"
low = -10
high = 120.5
epsilon = "1"
mechanism = "local-laplace"
grid = 4
"""
CHOICES = """
[[question]]
name = "browser"
kind = "choice"
options = ["firefox", "chrome, or \\"chromium\\"", "ältere"]
epsilon = "1"
mechanism = "k-randomized-response"

[[question]]
name = "languages"
kind = "choice"
options = ["de", "en", "fr", "it"]
other = "it"
epsilon = "2"
mechanism = "unary"
"""


@dataclass(frozen=True)
class Case:
    questions: str
    changes: dict[str, str] = field(default_factory=dict)
    rounds: Mapping[int, int] = field(default_factory=dict)  # reports by round
    closed: bool = False

    def toml(self, name: str) -> str:
        settings = {
            "title": '"How is the app doing?"',
            "purpose": '"Find crashes."',
            "owner": '"Example Ltd"',
            "opens": "2026-12-01",
            "closes": "2027-04-30",
            "round": '"month"',
            "minimum_reports": "100",
        } | self.changes
        lines = [f"{key} = {value}" for key, value in settings.items()]
        return "\n".join(["[survey]", f'name = "{name}"', *lines, self.questions])


CASES = {
    "every-kind": Case(BIT + NUMBER + CHOICES, rounds={683: 20_000, 684: 100, 685: 99}),
    "bit-closed": Case(BIT, rounds={683: 1_000}, closed=True),
    "number-once": Case(NUMBER, {"round": '"once"', "minimum_reports": "1"}, {0: 7}),
    "choice-of-the-future": Case(CHOICES, {"opens": "2027-03-01"}),
}


def cells_of(question: Question, reports: int) -> list[int]:
    """Some counts that so many reports may have: rising, and nothing drawn."""
    cells = question.mechanism.cells
    if question.mechanism.name == "unary":
        return [reports * (cell + 1) // (cells + 1) for cell in range(cells)]
    counts = [reports * (cell + 1) // (cells * (cells + 1) // 2) for cell in range(cells)]
    return [counts[0] + reports - sum(counts), *counts[1:]]


def fill(store: Store, name: str) -> str:
    """The survey's id."""
    case = CASES[name]
    document = render_document(parse_toml(case.toml(name)))
    published = store.find(store.publish(document, sign(document, KEY), public_hex(KEY)))
    for number, reports in case.rounds.items():
        counts = [cells_of(question, reports) for question in published.survey.questions]
        with store.recording() as recording:
            cells = np.array([cell for part in counts for cell in part], np.int64)
            recording.add(published, number, reports, cells)
    if case.closed:
        store.close_survey(published.id)
    return published.id


def answers(data: Path) -> Iterator[tuple[str, str]]:
    """The name of each golden file, and what is sent now."""
    with Store.create(data) as store:
        store.add_token(TOKEN, "analyst", NOW, NOW + timedelta(days=1))
        ids = {name: fill(store, name) for name in CASES}
        http = create_app(store, Writer(store), now=lambda: NOW).test_client()
        for name in CASES:
            for form in ("results", "results.csv"):
                sent = text(http, f"/v1/surveys/{name}/{form}").replace(ids[name], "<id>")
                yield f"{name}.{'csv' if form.endswith('csv') else 'json'}", sent


def text(http: FlaskClient, path: str) -> str:
    answer = http.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200, answer.text
    return answer.text


def main() -> int:
    with TemporaryDirectory() as folder:
        for name, content in answers(Path(folder)):
            (FOLDER / name).write_text(content, "utf-8", newline="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
