"""Latched surveys: the document, the rounds that share a report, and the stated promise."""

from __future__ import annotations

import json
import re

import pytest

from deniable.shared.errors import InvalidSurvey
from deniable.shared.privacy.epsilon import lifetime_promise, odds_change, round_promise
from deniable.shared.survey.document import Survey, parse_document, parse_toml, render_document
from deniable.shared.survey.phrases import gives_away, repeated
from tests.survey_texts import bit, question, survey_text, vector


def asking(**changes: object) -> Survey:
    return parse_toml(survey_text(bit(), **changes))


def latched(repeat_rounds: object = 2, **changes: object) -> Survey:
    return asking(repeat="latched", repeat_rounds=repeat_rounds, **changes)


def test_a_latched_document_survives_a_round_trip() -> None:
    survey = latched()
    document = render_document(survey)
    said = json.loads(document)["survey"]
    assert (said["repeat"], said["repeat_rounds"]) == ("latched", 2)
    assert render_document(parse_document(document)) == document


def test_a_survey_without_the_key_is_fresh() -> None:
    assert render_document(asking(repeat="fresh")) == render_document(asking())
    table = json.loads(render_document(asking()))
    table["survey"]["repeat"] = "fresh"
    with pytest.raises(InvalidSurvey, match="has missing or superfluous keys"):
        parse_document(json.dumps(table).encode())


@pytest.mark.parametrize("rounds", range(1, 12))
@pytest.mark.parametrize("repeat_rounds", range(2, 5))
def test_spans_cover_each_round_once_from_the_first_to_the_last(
    rounds: int, repeat_rounds: int
) -> None:
    """Spans begin with the survey's first round and end with its last round."""
    if repeat_rounds > rounds:
        with pytest.raises(
            InvalidSurvey, match=r"repeat_rounds: . exceeds the number of the survey's"
        ):
            latched(
                repeat_rounds, round="day", opens="2026-12-02", closes=f"2026-12-{rounds + 1:02}"
            )
        return
    survey = latched(
        repeat_rounds, round="day", opens="2026-12-02", closes=f"2026-12-{rounds + 1:02}"
    )
    numbers = range(survey.first_round, survey.last_round + 1)
    spans = {survey.span_of(number) for number in numbers}
    assert sorted(number for span in spans for number in span) == list(numbers)
    assert all(survey.span_of(number) == span for span in spans for number in span)
    assert [len(span) for span in sorted(spans, key=min)][:-1] == [repeat_rounds] * (len(spans) - 1)
    assert survey.draws == len(spans)
    assert survey.lifetime_billionths == len(spans) * survey.round_billionths


def test_without_latching_each_round_is_a_span_of_its_own() -> None:
    survey = asking()
    assert list(survey.span_of(684)) == [684]
    assert (survey.repeats, survey.draws, survey.lifetime_epsilon) == (False, 3, "3")
    assert repeated(survey) == ()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"repeat": "memoized"}, r"survey\.repeat: must be one of fresh, latched; got 'memoized'"),
        ({"repeat": "latched"}, r"survey\.repeat_rounds: is missing; write the number of rounds"),
        ({"repeat": "latched", "repeat_rounds": 1}, r"repeat_rounds: must be 2 to 10000, got 1"),
        ({"repeat": "latched", "repeat_rounds": "2"}, r"repeat_rounds: must be a whole number"),
        ({"repeat": "latched", "repeat_rounds": 4}, r"rounds, 3; write 2 to 3"),
        ({"repeat": "latched", "repeat_rounds": 2, "round": "once"}, "rounds, 1; leave repeat out"),
        ({"repeat_rounds": 2}, r'repeat_rounds: needs repeat = "latched"'),
        ({"repeat": "fresh", "repeat_rounds": 2}, r'repeat_rounds: needs repeat = "latched"'),
    ],
)
def test_a_mistake_is_one_clear_error(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidSurvey, match=problem):
        asking(**changes)


def test_promises_count_each_draw_of_noise_once() -> None:
    one, whole = gives_away(latched())
    assert one == round_promise(10**9, 2).replace("e", "E", 1) + ";"
    assert "in 2 rounds that share a report" in one
    assert whole == lifetime_promise(10**9, 3, 2) + "."
    assert f"in its 3 rounds changes them {odds_change(2 * 10**9)}" in whole
    assert lifetime_promise(10**9, 3) == lifetime_promise(10**9, 3, 1)
    assert "do not reveal whether or when an answer changed" in " ".join(repeated(latched()))


def test_the_survey_states_how_latched_reports_link_rounds() -> None:
    """Many installs send the same bit, but a vector's seed or a text's buckets can be unique."""
    assert "at most 2 different ones are possible" in repeated(latched())[-1]
    text = question("word", "text", "2", length=8, mechanism="grouped-subset-selection")
    for asked, bits in ((vector(10), 64), (text, 1_000)):
        settings = survey_text(asked, repeat="latched", repeat_rounds=2)
        said = repeated(parse_toml(settings))[-1]
        told = re.search(r"up to ([\d,]+) bits. Assume that anyone who sees them can link", said)
        assert told, said
        assert int(told[1].replace(",", "")) >= bits
