"""Surveys that ask each install one question: counted, estimated and marked as such."""

from __future__ import annotations

import math
import random
import re
from datetime import UTC, date, datetime

import msgspec
import numpy as np
import pytest

from deniable.server.estimation.share_limits import anytime_rates
from deniable.server.estimation.statements import CONFIDENCE, halved
from deniable.server.planning.forecast import Expected
from deniable.server.results import Results, survey_results
from deniable.server.results.advice import describe, facts, warnings
from deniable.server.results.export import report_lines
from deniable.server.store import PublishedSurvey
from deniable.server.surveys.replacement import differences
from deniable.shared.envelope import Envelope, encode_report
from tests import survey_texts as texts
from tests.server.surveys import BROWSERS, choice, survey
from tests.server.world import JSON, World

DECEMBER = 683
PEOPLE = 600
HALF = texts.bit("crashed", "0.5") + texts.bit("slow", "0.5") + choice(BROWSERS, epsilon="0.5")


def reported(here: World, minimum: int = 1) -> tuple[PublishedSurvey, list[int]]:
    """Return a survey with reports, and the number of people who were asked each question."""
    published = here.publish(survey(HALF, ask=1, minimum_reports=minimum))
    draw = random.Random(20261118).getrandbits
    answers = {"crashed": True, "slow": False, "browser": "safari"}
    symbols = [published.survey.report(answers, draw).symbols for _ in range(PEOPLE)]
    payload = b"".join(encode_report(published.survey, report) for report in symbols)
    envelope = Envelope(published.id, DECEMBER, bytes(16), PEOPLE, payload)
    assert here.send(envelope, app=True).json["accepted"] == PEOPLE
    return published, [sum(report[index] is not None for report in symbols) for index in range(3)]


def results_of(here: World, published: PublishedSurvey) -> Results:
    now = datetime(2026, 12, 20, tzinfo=UTC)
    return survey_results(published, here.store.tallies(published.sequence), now)


def test_a_question_counts_only_the_people_who_were_asked_it(here: World) -> None:
    published, asked = reported(here)
    results = results_of(here, published)
    (period,) = results.rounds
    assert period.reports == sum(asked) == PEOPLE
    for count, rows in zip(asked, period.questions.values(), strict=True):
        assert {row.reports for row in rows} == {count}
    (yes,), (never,) = period.questions["crashed"], period.questions["slow"]
    assert yes.low is not None
    assert never.high is not None
    assert yes.low < 1
    assert never.high > 0
    assert (results.epsilon, results.ask) == ("0.5", 1)
    assert any("one of the 3 questions" in note for note in results.notes)
    assert any("weighs 3 times its `leverage`" in note for note in results.notes)
    printed = "\n".join(report_lines(results))
    assert "asked one of the 3 questions" in printed
    assert all(f"{count}\n" in printed for count in asked)
    plain = here.publish(survey(HALF, name="plain"))
    assert "one of the" not in "\n".join(report_lines(results_of(here, plain)))
    assert msgspec.json.decode(msgspec.json.encode(results), type=Results) == results


def test_the_minimum_applies_to_each_question(here: World) -> None:
    """With the minimum just above the smallest number of reports, that question has no estimate."""
    _, asked = reported(here)
    published, _ = reported(here, min(asked) + 1)
    rows = results_of(here, published).rounds[0].questions.values()
    shown = [row[0].estimate is not None for row in rows]
    assert shown == [count > min(asked) for count in asked]
    assert set(shown) == {False, True}
    page = here.client.get(f"/surveys/{published.id}", headers=here.bearer("analyst")).text
    assert page.count("No estimate below") == shown.count(False)
    for count in asked:
        assert f"{count} reports for this question" in page


def test_the_page_states_that_one_question_was_drawn_and_the_leverage(here: World) -> None:
    published, _ = reported(here)
    page = here.client.get(f"/surveys/{published.id}", headers=here.bearer("analyst")).text
    assert "Each install is asked one of these 3 questions" in page
    assert "the results of one group hold for all of them" in page
    assert "3 times as much among all who reported, because a forger chooses the question" in page
    plain = here.publish(survey(HALF, name="plain"))
    page = here.client.get(f"/surveys/{plain.id}", headers=here.bearer("analyst")).text
    assert "asked one of" not in page


def half_width(asked: float, share: float) -> float:
    """Return the half width of a bit's interval for every look, at ε 1/2."""
    lie = 1 / (1 + math.exp(0.5))
    count = np.array([round(asked * (lie + share * (1 - 2 * lie)))])
    low, high = anytime_rates(count, round(asked), halved(CONFIDENCE))
    return float((high - low)[0]) / 2 / (1 - 2 * lie)


def test_the_page_states_how_many_people_a_smaller_error_needs(here: World) -> None:
    """A third of these people answer the question, and their interval is as wide as wanted.

    The round is open, so the interval holds at every look. Twin: without the factor 3.
    """
    published, _ = reported(here)
    page = here.client.get(f"/surveys/{published.id}", headers=here.bearer("analyst")).text
    sentences = re.findall(r"For ± ([\d.]+) points? you need about ([\d,]+) people\.", page)
    rows = results_of(here, published).rounds[0].questions
    for (points, people), name in zip(sentences, ("crashed", "slow"), strict=False):
        (row,), needed = rows[name], int(people.replace(",", ""))
        assert row.low is not None
        assert row.high is not None
        share = min(max(0.5, row.low), row.high)
        assert half_width(needed / 3, share) == pytest.approx(float(points) / 100, rel=0.03)
        assert half_width(needed, share) != pytest.approx(float(points) / 100, rel=0.3)
    assert len(sentences) == 3


def test_single_reports_count_like_batches_from_an_app(here: World) -> None:
    """Send reports in both encodings, each report in its own envelope."""
    published = here.publish(survey(HALF, ask=1))
    for number, payload in enumerate([b"\0\1", b"\1\0", b"\2\4"]):
        sent = Envelope(published.id, DECEMBER, bytes([number] * 16), 1, payload)
        assert here.send(sent).json["accepted"] == 1
    named = '{"envelopes": [{"survey": "%s", "round": 683, "id": "%s", "reports": [{"slow": 1}]}]}'
    assert here.post((named % (published.id, "ff" * 16)).encode(), JSON).json["accepted"] == 1
    assert here.tallies(published) == {DECEMBER: (4, [0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 2, 1])}


def test_check_states_the_largest_epsilon_and_the_error_of_the_people_asked() -> None:
    asked, plain = survey(HALF, ask=1), survey(HALF)
    known = facts(asked)
    assert (known["ask"], known["epsilon"]) == (1, {"round": "0.5", "survey": "1.5"})
    assert "ask" not in facts(plain)
    for question, shown in zip(asked.questions, known["questions"], strict=True):
        assert shown["expected"]["10000"] == Expected(
            question, confidence=halved(CONFIDENCE)
        ).margin(3_333)
    assert any("one of the 3 questions" in line for line in describe(asked))
    assert not any("one of the 3 questions" in line for line in describe(plain))


def test_check_remarks_on_an_epsilon_below_the_largest() -> None:
    """Each round costs the largest ε, whichever question is asked."""
    uneven = texts.bit("a", "0.5") + texts.bit("b", "1")
    (found,) = (w for w in warnings(survey(uneven, ask=1), date(2026, 12, 1)) if "costs" in w)
    assert found.startswith("a: ε 0.5 is less than the 1 that each round costs")
    assert not [w for w in warnings(survey(uneven), date(2026, 12, 1)) if "costs" in w]


def test_replacing_a_survey_shows_that_one_question_is_asked_now() -> None:
    asked, plain = survey(HALF, ask=1), survey(HALF)
    assert differences(plain, asked) == ["~ ask: all questions → one question, drawn at random"]
    assert differences(asked, plain) == ["~ ask: one question, drawn at random → all questions"]
    assert differences(asked, asked) == []
