"""Whole transcripts of a real client: the ε that they reveal, and clients that reveal more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from deniable.client.cli import audit as verb
from deniable.client.testing.transcripts import audit_transcripts, transcript
from deniable.shared.cli import command
from deniable.shared.privacy import verification as audits
from deniable.shared.privacy.verification import Audited

History = Sequence[Mapping[str, object]]
FRESH = verb.SURVEY.format("", "1").encode()
OPEN = verb.SURVEY.format("", "20").encode()  # has so little noise that lies never occur
LATCHED = verb.SURVEY.format(verb.TRANSCRIPTS["transcript, latched"], "1").encode()
FEW = 25


@pytest.mark.parametrize("survey", [FRESH, LATCHED], ids=["fresh", "latched"])
def test_transcripts_of_a_client_reveal_no_more_than_epsilon(survey: bytes) -> None:
    """Keep false alarms at 1e-9.

    Every body of either history has the size that the survey states.
    """
    assert audit_transcripts("client", survey, FEW).holds


@pytest.mark.parametrize("sent", [True, False])
def test_a_client_that_sends_only_one_of_the_answers_is_caught(sent: bool) -> None:
    posted = transcript(FRESH, [{"crashed": sent, "browser": "firefox"}] * 2)

    def post(_: bytes, history: History) -> tuple[bytes, ...]:
        return posted if history[0]["crashed"] is sent else posted[1:]

    assert not audit_transcripts("silent", FRESH, 200, post).holds


def test_a_client_without_noise_is_caught() -> None:
    browsing = {"browser": "firefox"}
    said = {
        answer: transcript(OPEN, [{"crashed": answer, **browsing}, {"crashed": True, **browsing}])
        for answer in (False, True)
    }

    def post(_: bytes, history: History) -> tuple[bytes, ...]:
        return said[bool(history[0]["crashed"])]

    assert not audit_transcripts("open", FRESH, 200, post).holds


def test_the_verb_measures_every_mechanism_and_both_kinds_of_transcripts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["certify", "--audit", "--trials", "1000", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    names = [row["mechanism"] for row in found["audits"]]
    assert {"randomized-response", "optimal-table", *verb.TRANSCRIPTS} <= set(names)
    assert all(row["at_least"] <= 1 and row["epsilon"] == "1" for row in found["audits"])


def test_a_bound_above_epsilon_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def audit(mechanism: object, trials: int) -> Audited:  # ignores its arguments
        return Audited("planted", "1", 1.01, trials)

    monkeypatch.setattr(audits, "audit", audit)
    assert command.main(["certify", "--audit", "--kind", "bit", "--trials", "1000"]) == 1
    assert "MORE THAN ITS ε" in capsys.readouterr().out


def test_a_violated_table_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["certify", "--audit", "--kind", "number", "--epsilon", "0.6", "--trials", "1000"]
    assert command.main(words) == 0
    assert "optimal-table: no table for ε 0.6" in capsys.readouterr().err


def test_too_few_trials_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["certify", "--audit", "--trials", "10"]) == 2
    assert "--trials: give 1,000 or more" in capsys.readouterr().err
