"""Survey document: its rules, its bytes, its signature, and errors that name key and fix."""

import json
import math
import os
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.shared.errors import InvalidSurvey, UntrustedSurvey, WrongUse
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.mechanism import kernel_draw
from deniable.shared.survey.document import (
    PERIODS,
    parse_document,
    parse_toml,
    render_document,
    survey_id,
)
from deniable.shared.survey.keys import create_key, load_key, public_hex, sign, verify
from deniable.shared.survey.kinds.base import NO_LABELS
from deniable.shared.survey.kinds.number import Number
from deniable.shared.survey.questions import question_document
from tests.raising import Raising

VECTOR: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent / "vectors" / "survey.json").read_text()
)
TOML: str = VECTOR["toml"]
ANSWERS = {"crashed": True, "minutes": 34.5, "browser": "firefox", "plugins": "none"}


def test_a_survey_becomes_exactly_the_bytes_of_the_vector() -> None:
    assert render_document(parse_toml(TOML)) == VECTOR["document"].encode()
    assert survey_id(VECTOR["document"].encode()) == VECTOR["id"]


def test_a_published_survey_survives_a_round_trip() -> None:
    survey = parse_document(VECTOR["document"].encode())
    assert render_document(survey) == VECTOR["document"].encode()
    assert survey.report_size == VECTOR["report_size"] == 5
    assert (survey.first_round, survey.last_round, survey.rounds) == (683, 685, 3)
    assert (survey.round_epsilon, survey.lifetime_epsilon) == ("2.5", "7.5")


def test_defaults_are_chosen_and_written_to_the_document() -> None:
    text = TOML.replace("grid = 64\n", "")
    for name in ("local-laplace", "k-randomized-response", "unary"):
        text = text.replace(f'mechanism = "{name}"\n', "")
    questions = json.loads(render_document(parse_toml(text)))["question"]
    assert [question["mechanism"] for question in questions] == [
        "randomized-response",
        "one-bit-mean",
        "subset-selection",
        "subset-selection",
    ]
    assert all(question["integers"] for question in questions)
    assert "grid" not in questions[1]


@pytest.mark.parametrize(
    ("old", "new", "key", "says"),
    [
        ('name = "app-health"', 'name = "app health"', "survey.name", "dashes"),
        ('name = "app-health"', 'nmae = "app-health"', "survey.name", "'nmae' a misspelling"),
        ("grace_days = 14", "grace_day = 14", "survey.grace_day", "did you mean 'grace_days'"),
        ("grace_days = 14", 'colour = "red"', "survey.colour", "remove it"),
        ("grace_days = 14", "grace_days = -1", "survey.grace_days", "0 to 366"),
        ("grace_days = 14", "grace_days = true", "survey.grace_days", "whole number, got True"),
        ("grace_days = 14", "grace_days = [1]", "survey.grace_days", "whole number, got a list"),
        ("grace_days = 14", 'grace_days = "two"', "survey.grace_days", "number, got 'two'"),
        ("grace_days = 14", "grace_days = 2026-01-02", "survey.grace_days", "got 2026-01-02"),
        ("grace_days = 14", "grace_days = 10:00:00", "survey.grace_days", "number, got time"),
        ("grace_days = 14", "step = 4", "survey.step", "5 to 1000000, got 4"),
        ("grace_days = 14", "step = 1000001", "survey.step", "5 to 1000000, got 1000001"),
        ("grace_days = 14", 'looks = "daily"', "survey.looks", "any-time, twice, once"),
        ("grace_days = 14", 'looks = "twice"\ngrace_days = 1', "survey.grace_days", "2 or more"),
        ("grace_days = 14", 'most_change = "2"', "survey.most_change", '"99.99 points", got'),
        ("grace_days = 14", 'most_change = "0.0 points"', "survey.most_change", "0.01 points"),
        ("grace_days = 14", "most_change = 2", "survey.most_change", "2 points"),
        (
            "grace_days = 14",
            'most_change = "2 points"\nrepeat = "latched"\nrepeat_rounds = 2',
            "survey.most_change",
            "reports of their own",
        ),
        ("grace_days = 14", "invitation = false", "survey.invitation", "must be true, or left out"),
        ("grace_days = 14", "invitation = true", "survey.invitation", 'needs round = "once"'),
        ("grace_days = 14", "close_at = 0", "survey.close_at", "must be 1 to"),
        ("grace_days = 14", "close_at = 19", "survey.close_at", "at least the step, 20"),
        ("2027-02-28", "2026-11-30", "survey.closes", "before opens"),
        ("2027-02-28", '"soon"', "survey.closes", "2026-12-01"),
        ("2027-02-28", "2027-02-28T10:00:00Z", "survey.closes", "a day"),
        ('round = "month"', 'round = "year"', "survey.round", "once, day, week, month"),
        ('title = "How is', 'title = "\\nHow is', "survey.title", "one line"),
        (
            'owner = "Example Ltd, privacy@example.org"',
            "",
            "survey.owner",
            "organization that asks",
        ),
        ('epsilon = "0.5"', "epsilon = 0.5", "question[1].epsilon", 'epsilon = "0.5"'),
        ('epsilon = "0.5"', 'epsilon = "0"', "question[1].epsilon", "above 0"),
        ('epsilon = "0.5"', 'epsilon = "20.1"', "question[1].epsilon", "at most 20"),
        ('epsilon = "0.5"', 'epsilon = "-1"', "question[1].epsilon", "decimal text"),
        ('epsilon = "0.5"', 'epsilon = "1e-3"', "question[1].epsilon", "decimal text"),
        ('epsilon = "0.5"', 'epsilon = "٣"', "question[1].epsilon", "decimal text"),
        ('kind = "bit"', 'kind = "bits"', "question[1].kind", "bit, number, choice"),
        ('over = "first"', 'over = "max"', "question[1].over", "first, last, any, all"),
        ('over = "first"', 'over = "any"', "question.over", "for every question or for none"),
        ('kind = "bit"', 'kind = "bit"\nlow = 1', "question[1].low", "remove it"),
        ('name = "crashed"', 'name = "app crashed"', "question[1].name", "underscores"),
        ('name = "crashed"', 'name = "minutes"', "question.name", "is repeated"),
        ("high = 120", "high = 0", "question[2].high", "above low"),
        ("grid = 64", 'grid = "64"', "question[2].grid", "whole number"),
        ('"local-laplace"', '"ternary"', "question[2].grid", "has a fixed grid; leave grid out"),
        ("high = 120", "high = nan", "question[2].high", "between"),
        ("high = 120", "high = 1e300", "question[2].high", "between"),
        ("high = 120", f"high = 1{400 * '0'}", "question[2].high", "between"),
        ('"1"\nmech', '"0.000000001"\nmech', "question[2].epsilon", "too small"),
        ('mechanism = "unary"', 'mechanism = "laplace"', "question[4].mechanism", "unary"),
        ('"safari", ', '"chrome", ', "question[3].options", "'chrome' is repeated"),
        ('"chrome", ', '"", ', "question[3].options", "non-empty"),
        ('"chrome", ', '"chro\\u001bme", ', "question[3].options", "cannot be shown"),
        ('"chrome", ', '"chro\\u202eme", ', "question[3].options", "cannot be shown"),
        ('other = "other"', 'other = "else"', "question[3].other", "not one of the options"),
        ('kind = "bit"', 'kind = "bit"\nunit = "s"', "question[1].unit", "only to a number"),
        ('kind = "bit"', 'kind = "bit"\ntitle = " "', "question[1].title", "one line"),
        ('kind = "bit"', f'kind = "bit"\ntitle = "{201 * "x"}"', "question[1].title", "200"),
        ('kind = "bit"', 'kind = "bit"\nlabels = ["y"]', "question[1].labels", "0 options, got 1"),
        ('other = "other"', 'labels = ["Fox"]', "question[3].labels", "5 options, got 1"),
        ('other = "other"', "labels = [1, 2, 3, 4, 5]", "question[3].labels", "lines of 1 to"),
        ('other = "other"', 'labels = ["a", "b", "c", "d", "a"]', "question[3].labels", "same"),
    ],
)
def test_a_mistake_is_reported_with_its_key_and_its_fix(
    old: str, new: str, key: str, says: str
) -> None:
    assert old in TOML
    with pytest.raises(InvalidSurvey) as caught:
        parse_toml(TOML.replace(old, new, 1))
    assert caught.value.key == key
    assert says in caught.value.problem


def test_display_texts_are_published_and_change_nothing_else() -> None:
    words = (
        ('kind = "bit"', 'kind = "bit"\ntitle = "Did it crash?"'),
        ("high = 120", 'high = 120\nunit = "min"'),
        ('other = "other"', 'other = "other"\nlabels = ["Firefox", "Chrome", "Safari", "E", "O"]'),
    )
    text = TOML
    for old, new in words:
        text = text.replace(old, new, 1)
    plain, named = parse_toml(TOML), parse_document(render_document(parse_toml(text)))
    crashed, minutes, browser, _ = named.questions
    assert (crashed.title, minutes.title, minutes.unit) == ("Did it crash?", "minutes", "min")
    assert (browser.called[0], browser.labels[0]) == ("Firefox", "firefox")
    assert named.asks_the_same(plain)
    assert plain.asks_the_same(named)
    without = [replace(question, display=NO_LABELS) for question in named.questions]
    assert [question_document(question) for question in without] == [
        question_document(question) for question in plain.questions
    ]


@pytest.mark.parametrize("text", ["", "[survey]", "question = 3", "not toml", "[[question]]\n"])
def test_an_invalid_file_leads_to_one_clear_error(text: str) -> None:
    with pytest.raises(InvalidSurvey):
        parse_toml(text)


def published(change: dict[str, Any]) -> bytes:
    table = json.loads(VECTOR["document"])
    table["question"][0] |= change
    return json.dumps(table).encode()


@pytest.mark.parametrize(
    "change",
    [
        {"integers": ["6964396094736529934"]},
        {"integers": []},
        {"integers": [6964396094736529935]},
        {"epsilon": "0.6"},
        {"epsilon": "0.50"},
        {"mechanism": "unary"},
    ],
)
def test_a_published_survey_whose_integers_do_not_match_is_refused(change: dict[str, Any]) -> None:
    """ε is recomputed from the document's integers; even one unit less of noise is refused."""
    with pytest.raises(InvalidSurvey):
        parse_document(published(change))


@pytest.mark.parametrize(("key", "value"), [("invitation", True), ("close_at", 400)])
def test_invitations_and_the_closing_number_are_published(key: str, value: object) -> None:
    text = TOML.replace('round = "month"', f'round = "once"\n{key} = {json.dumps(value)}')
    document = render_document(parse_toml(text))
    assert json.loads(document)["survey"][key] == value
    survey = parse_document(document)
    assert (survey.by_invitation, survey.close_at) == (
        key == "invitation",
        {"close_at": 400}.get(key),
    )
    assert key not in json.loads(VECTOR["document"])["survey"]


def test_a_published_survey_needs_every_key() -> None:
    table = json.loads(VECTOR["document"])
    del table["question"][0]["integers"]
    with pytest.raises(InvalidSurvey, match="missing or superfluous keys"):
        parse_document(json.dumps(table).encode())


@pytest.mark.parametrize(
    "document", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"survey": {}, "survey": {}}']
)
def test_invalid_document_bytes_are_refused(document: bytes) -> None:
    with pytest.raises(InvalidSurvey):
        parse_document(document)


def test_a_signature_is_valid_only_for_its_bytes_and_its_key() -> None:
    document, key = VECTOR["document"].encode(), VECTOR["key"]
    verify(document, VECTOR["signature"], key, {key})
    with pytest.raises(UntrustedSurvey, match="not a trusted key"):
        verify(document, VECTOR["signature"], key, {"00" * 32})
    with pytest.raises(UntrustedSurvey):
        verify(document + b" ", VECTOR["signature"], key, {key})


@pytest.mark.parametrize("bad", VECTOR["bad"], ids=lambda bad: bad["name"])
def test_bad_signatures_of_the_vectors_are_refused(bad: dict[str, str]) -> None:
    with pytest.raises(UntrustedSurvey):
        verify(VECTOR["document"].encode(), bad["signature"], VECTOR["key"], {VECTOR["key"]})


def test_a_signing_key_is_readable_by_its_owner_only_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "signing.pem"
    key = create_key(str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    again = load_key(str(path))
    verify(b"document", sign(b"document", again), public_hex(key), {public_hex(key)})
    with pytest.raises(WrongUse, match="never overwritten"):
        create_key(str(path))


def test_a_signing_key_is_on_disk_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced = tmp_path / "signing.pem", []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(path.read_bytes()))
    create_key(str(path))
    assert synced == [path.read_bytes()]


@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_an_unreadable_key_gives_an_error_with_the_fix(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "signing.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(WrongUse, match=r"signing\.pem"):
        load_key(str(path))


@given(st.dates(date(1970, 1, 1), date(2100, 1, 1)), st.sampled_from(list(PERIODS)))
def test_every_day_is_in_its_round(day: date, name: str) -> None:
    period, noon = PERIODS[name], datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    number = period.round_of(day)
    assert period.starts(number, day) < noon < period.ends(number, day)
    if period.first_day is not None:
        assert period.ends(number, day) == period.starts(number + 1, day)


def test_reports_are_accepted_from_an_hour_before_the_round_to_the_end_of_grace() -> None:
    survey = parse_toml(TOML)
    assert survey.taken_from(683) == datetime(2026, 11, 30, 23, tzinfo=UTC)
    assert survey.taken_until(683) == datetime(2027, 1, 15, tzinfo=UTC)
    once = parse_toml(TOML.replace('"month"', '"once"'))
    assert (once.first_round, once.last_round) == (0, 0)
    assert once.taken_from(0) == datetime(2026, 11, 30, 23, tzinfo=UTC)
    assert once.taken_until(0) == datetime(2027, 3, 15, tzinfo=UTC)


def test_a_survey_is_answered_as_a_whole() -> None:
    survey = parse_toml(TOML)
    assert survey.unasked(ANSWERS) is None
    assert len(survey.report(ANSWERS, kernel_draw).symbols) == 4
    assert "minutes, browser, plugins is missing" in str(survey.unasked({"crashed"}))
    assert "not for colour" in str(survey.unasked({*ANSWERS, "colour"}))


UNFIT: list[object] = [None, "secret", 7351, b"", [], {}, 1j, math.nan, Decimal("NaN"), Raising()]


@pytest.mark.parametrize("value", UNFIT, ids=range(len(UNFIT)))
def test_a_value_that_does_not_fit_is_drawn_uniformly_and_only_the_app_knows(value: object) -> None:
    """The spare draw gives each answer equally often, even before the mechanism adds noise."""
    for question in parse_toml(TOML).questions:
        if question.name == "browser" or (question.name == "minutes" and value is UNFIT[2]):
            # becomes `other`, or an end of the range
            continue
        answers = question.mechanism.answers
        went = Counter[object]()
        for share in range(answers):
            draws = [(share * 2**64) // answers + 1]
            placed = watch(question, value, draws)
            went[placed] += 1
        assert went == Counter({question.mechanism.answer_at(n): 1 for n in range(answers)})


def watch(question: Any, value: object, draws: list[int]) -> object:
    """Return the value that the mechanism randomizes."""
    seen: list[object] = []
    mechanism = question.mechanism
    original = type(mechanism).randomize

    def randomize(self: object, answer: object, draw: object) -> object:
        seen.append(answer)
        return original(self, answer, draw)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(mechanism), "randomize", randomize)
        symbol, fits = question.report(value, lambda bits: draws.pop() if draws else 0)
    assert mechanism.encoding.is_symbol(symbol)
    assert not fits
    return seen[0]


def test_an_unlisted_option_counts_as_other() -> None:
    browser, plugins = parse_toml(TOML).questions[2:]
    assert browser.place("lynx") == browser.place("other") == browser.place(None) == 4
    assert plugins.place("lynx") is None


def test_numbers_and_bits_of_other_libraries_are_accepted() -> None:
    crashed, minutes, *_ = parse_toml(TOML).questions
    assert isinstance(minutes, Number)
    assert [crashed.place(value) for value in (True, 0, np.bool_(True), np.int8(0))] == [1, 0, 1, 0]
    assert isinstance(minutes, Number)
    whole = minutes.mechanism.answer_at(minutes.mechanism.size)
    assert {minutes.place(value) for value in HALVES} == {whole // 2}
    assert minutes.place(True) is None
    assert crashed.place(2) is None


HALVES = (60, 60.0, Decimal(60), Fraction(60), np.float32(60), np.int64(60), np.float64(60))


@given(st.floats(allow_nan=False) | st.integers())
def test_numbers_are_clamped_and_placed_exactly(answer: float) -> None:
    minutes = parse_toml(TOML).questions[1]
    assert isinstance(minutes, Number)
    share = Fraction(min(max(answer, 0), 120)) / 120
    assert minutes.place(answer) == math.ceil(share * minutes.mechanism.size * ONE)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(0, 1))
def test_positions_are_exact_for_any_bounds(low: float, width: float, share: float) -> None:
    high = low + width
    minutes = parse_toml(
        TOML.replace("low = 0\n", f"low = {low!r}\n").replace("high = 120\n", f"high = {high!r}\n")
    ).questions[1]
    answer = low + share * width
    exact = (Fraction(answer) - Fraction(low)) / (Fraction(high) - Fraction(low))
    clamped = min(max(exact, Fraction(0)), Fraction(1))
    assert minutes.place(answer) == math.ceil(clamped * minutes.mechanism.size * ONE)
