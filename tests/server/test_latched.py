"""Latched surveys: counts per round, statements, and warnings about reports sent again."""

from __future__ import annotations

from datetime import UTC, date, datetime

import msgspec

from deniable.server.results import Results, survey_results
from deniable.server.results.advice import describe, facts, policy_line, warnings
from deniable.server.results.export import report_lines
from deniable.server.store import PublishedSurvey
from deniable.server.surveys.replacement import differences
from deniable.shared.envelope import Envelope
from deniable.shared.survey.document import Survey
from tests import survey_texts as texts
from tests.server.surveys import survey
from tests.server.world import World

BIT = texts.bit()
DECEMBER = 683


def latched(questions: str = BIT, repeat_rounds: int = 2, **changes: object) -> Survey:
    return survey(questions, repeat="latched", repeat_rounds=repeat_rounds, **changes)


def reported(here: World, reports: int = 1) -> PublishedSurvey:
    """Send the same reports in two rounds, under two envelope ids."""
    published = here.publish(latched(minimum_reports=1))
    payload = bytes(n % 2 for n in range(1, reports + 1))
    for number in range(2):
        here.clock.pass_(days=20 * number)
        envelope = Envelope(published.id, DECEMBER + number, bytes([number] * 16), reports, payload)
        assert here.send(envelope, app=True).json["accepted"] == reports
    return published


def results_of(here: World, published: PublishedSurvey) -> Results:
    now = datetime(2027, 1, 20, tzinfo=UTC)
    return survey_results(published, here.store.tallies(published.sequence), now)


def test_each_round_is_counted_separately_and_results_name_shared_rounds(here: World) -> None:
    results = results_of(here, published := reported(here))
    assert [period.reports for period in results.rounds] == [1, 1]
    assert (results.epsilon, results.lifetime_epsilon, results.repeat_rounds) == ("1", "2", 2)
    assert "contain the same reports" in " ".join(results.notes)
    assert "contain the same reports" in " ".join(report_lines(results)).replace("  ", " ")
    assert ", ε 1 for 2 rounds" in " ".join(report_lines(results))
    assert msgspec.json.decode(msgspec.json.encode(results), type=Results) == results
    assert published.survey.repeats


def test_results_of_a_fresh_survey_mention_no_shared_reports(here: World) -> None:
    results = results_of(here, here.publish(survey(BIT)))
    assert "contain the same reports" not in " ".join(results.notes)
    assert b"repeat_rounds" not in msgspec.json.encode(results)


def test_check_states_the_privacy_cost() -> None:
    asked = latched()
    text = "\n".join(describe(asked))
    assert "keeps that report. It sends it again" in text
    assert "do not reveal whether or when an answer changed" in text
    assert facts(asked)["repeat_rounds"] == 2
    assert facts(asked)["epsilon"] == {"round": "1", "survey": "2"}
    assert facts(asked)["odds"]["survey"] == "7.4"
    assert 'max_epsilon_per_survey="2", max_epsilon="2"' in policy_line(asked)
    assert "repeat_rounds" not in facts(survey(BIT))


def test_check_warns_that_a_report_of_many_bits_is_a_fingerprint() -> None:
    wide = texts.choice(20, "unary")
    assert "20 bits and is the same in 3 rounds, so anyone" in warned(latched(wide, 3))
    assert "fingerprint" not in warned(survey(wide))
    nine, ten = ("".join(texts.bit(f"q{n}") for n in range(bits)) for bits in (9, 10))
    assert "fingerprint" not in warned(latched(nine, 3))
    assert "fingerprint" in warned(latched(ten, 3))
    assert "fingerprint" not in warned(latched(ten, 3, ask=1))


def test_check_warns_of_a_last_report_sent_in_fewer_rounds() -> None:
    assert "the last report is sent in only 1 of 2 rounds" in warned(latched())
    assert "the last report" not in warned(latched(repeat_rounds=3))


def test_total_epsilon_counts_draws_not_rounds() -> None:
    much = texts.bit(epsilon="3")
    days = {"round": "day", "opens": date(2026, 12, 1), "closes": date(2026, 12, 12)}
    assert "adds up to ε 36" in warned(survey(much, **days))
    assert "adds up" not in warned(latched(much, 2, **days))


def warned(asked: Survey) -> str:
    return "\n".join(warnings(asked, date(2026, 12, 1)))


def test_publishing_under_the_same_name_shows_the_change() -> None:
    assert differences(survey(BIT), latched()) == ["~ repeat: fresh → one report for 2 rounds"]
    assert differences(latched(), latched()) == []


def test_a_page_names_rounds_that_share_reports(here: World) -> None:
    """The trend names them too. Both clients can answer."""
    published, analyst = reported(here, 500), here.bearer("analyst")
    page = here.client.get(f"/surveys/{published.id}", headers=analyst).text
    assert "keeps that report. It sends it again" in page
    assert "because they contain the same reports" in page
    empty = here.publish(latched(repeat_rounds=3))
    page = here.client.get(f"/surveys/{empty.id}", headers=analyst).text
    assert "in Python" in page
    assert "in JavaScript" in page
