"""Survey written by `deniable survey new`: it works in an app with the default policy."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from deniable.client import Client, Policy
from deniable.server.results.advice import policy_line
from deniable.server.surveys.survey_file import ROUNDS, template
from deniable.shared.survey.document import Survey, parse_toml, render_document
from deniable.shared.survey.keys import public_hex
from tests.client.scripted import ANSWERS, KEY, Listing

DEFAULT = Policy(keys=[public_hex(KEY)])


def statuses(survey: Survey, policy: Policy, folder: Path) -> list[str]:
    """Return the statuses of two answers in succession, at the start of each round."""
    day = datetime.combine(survey.opens, datetime.min.time(), UTC)
    moments = [day] + [
        survey.round_starts(n + 1) for n in range(survey.first_round, survey.last_round)
    ]
    now = [day]
    client = Client(
        "https://stats.example.org",
        policy=policy,
        state=folder,
        now=lambda: now[0],
        transport=Listing(render_document(survey)),
    )
    client.consent(True)
    said: list[str] = []
    for now[0] in moments:
        said.append(client.answer(survey.name, **ANSWERS).status)
        said.append(client.answer(survey.name, **ANSWERS).status)
    client._uploader.stop(30)
    client._state.close()
    return said


def monthly(opens: date, epsilon: str = '"1"') -> Survey:
    """Return the template, changed to ask each month."""
    text = template(opens).replace('round = "once"', 'round = "month"')
    return parse_toml(text.replace('"1"', epsilon))


@pytest.mark.parametrize("opens", [date(2026, 12, 1), date(2027, 1, 31), date(2028, 2, 29)])
def test_the_template_is_answered_under_the_default_policy(opens: date, tmp_path: Path) -> None:
    """Asked each month at ε 2, it is answered at most once a quarter."""
    once, survey = parse_toml(template(opens)), monthly(opens)
    assert statuses(once, DEFAULT, tmp_path / "once") == ["queued", "already-answered"]
    said = statuses(survey, DEFAULT, tmp_path / "month")
    pairs = [tuple(said[n : n + 2]) for n in range(0, len(said), 2)]
    assert set(pairs) <= {("queued", "already-answered"), ("not-drawn", "not-drawn")}
    quarters = [survey.quarter_of(survey.first_round + n) for n in range(ROUNDS)]
    answered = [q for q, pair in zip(quarters, pairs, strict=True) if pair[0] == "queued"]
    assert len(set(answered)) == len(answered)


def test_the_template_covers_three_months_whatever_its_first_day() -> None:
    for days in range(0, 1500, 7):
        survey = monthly(date(2026, 1, 1) + timedelta(days=days))
        assert survey.rounds == ROUNDS
        assert survey.round_billionths * survey.rounds <= DEFAULT.total_cap


def test_the_policy_that_check_prints_allows_exactly_the_survey(tmp_path: Path) -> None:
    """The policy is printed as Python code to copy.

    With slightly less budget, one round of the quarter is not drawn.
    """
    survey = monthly(date(2026, 10, 1), '"0.7"')
    line = policy_line(survey)
    assert 'max_epsilon_per_round="1.7", max_epsilon_per_survey="5.1", max_epsilon="5.1"' in line
    policy = eval(line.replace("...", public_hex(KEY)), {"Policy": Policy})
    assert statuses(survey, policy, tmp_path / "enough") == ["queued", "already-answered"] * 3
    less = replace(policy, max_epsilon_per_survey="5.09")
    assert statuses(survey, less, tmp_path / "less").count("not-drawn") == 2
