"""Kinds and periods in both clients.

Both clients answer the same surveys, whose documents are used to check the reports that are sent.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from deniable.shared.envelope import decode_report, parse_envelopes
from deniable.shared.survey.document import PERIODS, parse_document, parse_toml, render_document
from deniable.shared.survey.kinds import KINDS
from tests.client.scripted import TODAY
from tests.conformance.device import POLICY, Stage, stage
from tests.node import NODE
from tests.survey_texts import YEARS, question, survey_text

ADAPTER = Path(__file__).parents[1] / "conformance" / "javascript_client.mjs"
COMMANDS = {
    "python": [sys.executable, "-m", "tests.conformance.python_client"],
    "javascript": [NODE, str(ADAPTER)],
}
KEYS: dict[str, dict[str, Any]] = {  # keys that a question of this kind needs, as in TOML
    "bit": {},
    "number": {"low": 0, "high": 120, "mechanism": "local-laplace", "grid": 64},
    "choice": {"options": ["firefox", "chrome", "safari"]},
    "text": {"length": 4, "buckets": 1_024, "salt": "contract"},
    "vector": {"dimension": 3},
}


def published(kind: str, period: str) -> bytes:
    """Return a survey for one winter with one question of the kind and the given period."""
    asked = question("it", kind, **KEYS[kind])
    return render_document(parse_toml(survey_text(asked, name=period, round=period, **YEARS)))


def answered(made: Stage, kind: str) -> set[str]:
    """Answer with the kind's example in each period, and return the statuses."""
    for period in PERIODS:
        made.script.publish(published(kind, period))
    example = parse_document(published(kind, "once")).questions[0].example
    answer = list(example) if isinstance(example, tuple) else example
    return {made.answer(period, it=answer) for period in PERIODS}


@pytest.mark.parametrize("client", COMMANDS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_answered_in_every_period(client: str, kind: str) -> None:
    with stage(COMMANDS[client]) as made:
        made.policy = POLICY | {
            "questions": {"it": kind},
            "max_epsilon": str(len(PERIODS)),
        }
        made.start()
        assert answered(made, kind) == {"queued"}
        made.flush_often(len(PERIODS))
        envelopes = {
            envelope.survey: envelope
            for post in made.script.posts
            for envelope in parse_envelopes(post.body)
        }
        for entry in made.script.surveys:
            survey = parse_document(entry["document"].encode())
            envelope = envelopes.pop(entry["id"])
            assert envelope.round == survey.round_of(TODAY.date())
            assert len(envelope.payload) == survey.report_size
            (symbol,) = decode_report(survey, envelope.payload)
            assert symbol is not None
            assert 0 <= symbol < survey.questions[0].mechanism.symbols
        assert envelopes == {}


@pytest.mark.parametrize("client", COMMANDS)
@pytest.mark.parametrize("period", PERIODS)
def test_every_period_has_the_same_rounds_in_both_clients(client: str, period: str) -> None:
    """Check the first and the last day of the survey's first and last rounds."""
    document = published("bit", period)
    survey = parse_document(document)
    with stage(COMMANDS[client]) as made:
        made.start()
        for number in {survey.first_round, survey.last_round}:
            until = int(survey.taken_until(number).timestamp())
            last = survey.round_ends(number) - timedelta(days=1)
            for moment in (survey.round_starts(number), last):
                reply = made.ask("round", document=document.decode(), day=str(moment.date()))
                assert reply == {"round": number, "accepted_until": until}
