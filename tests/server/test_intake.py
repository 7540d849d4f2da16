"""Uploads: accepted ones are counted, and refused ones change nothing."""

import json
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deniable.server.intake import admission, commit
from deniable.server.intake.tally import tally
from deniable.server.store import Cells, PublishedSurvey, Upload
from deniable.shared.envelope import CONTENT_TYPE, MAX_BODY_BYTES, Envelope, json_envelope
from deniable.shared.survey.document import Survey
from tests.server.surveys import (
    BIT,
    DECEMBER,
    choice,
    envelope,
    expected_cells,
    mixed,
    published,
    survey,
)
from tests.server.world import JSON, PROBLEM, World

FRESH = count(1)  # each example of a property has its own survey


def refusal(answer: Any) -> str:  # Any: a test response
    assert answer.status_code == 200, answer.text
    (refused,) = answer.json["refused"]
    assert answer.json["accepted"] == answer.json["duplicates"] == 0
    assert set(refused) == {"index", "code", "detail"}
    return str(refused["code"])


def problem(answer: Any, status: int) -> str:
    assert answer.status_code == status, answer.text
    assert answer.content_type == PROBLEM
    assert answer.json["status"] == status
    return str(answer.json["detail"])


# Accepted uploads


def test_an_envelope_is_counted_in_its_round(here: World) -> None:
    asked = here.publish(mixed())
    answer = here.send(envelope(asked, 7))
    assert answer.json == {"accepted": 1, "duplicates": 0, "refused": []}
    assert here.tallies(asked) == {DECEMBER: (1, expected_cells(asked.survey, [7]))}


def test_both_encodings_count_as_the_same_report(here: World) -> None:
    asked = here.publish(mixed())
    sent = envelope(asked, 9)
    body = json.dumps({"envelopes": [json_envelope(asked.survey, sent)]}).encode()
    assert here.post(body, JSON).json == {"accepted": 1, "duplicates": 0, "refused": []}
    assert here.send(sent).json == {"accepted": 0, "duplicates": 1, "refused": []}
    assert here.tallies(asked) == {DECEMBER: (1, expected_cells(asked.survey, [9]))}


def test_the_same_envelope_counts_once_even_within_one_body(here: World) -> None:
    asked = here.publish(survey())
    sent = envelope(asked, 1)
    answer = here.send(sent, sent, envelope(asked, 2), app=True)
    assert answer.json == {"accepted": 2, "duplicates": 1, "refused": []}
    assert here.tallies(asked)[DECEMBER][0] == 2


def test_an_app_token_sends_65536_reports_in_one_envelope(here: World) -> None:
    asked = here.publish(survey())
    many = Envelope(asked.id, DECEMBER, bytes(16), 65_536, bytes([0, 1]) * 32_768)
    assert refusal(here.send(many)) == "too-many"
    assert here.send(many, app=True).json["accepted"] == 65_536
    assert here.tallies(asked) == {DECEMBER: (65_536, [32_768, 32_768])}
    more = Envelope(asked.id, DECEMBER, bytes([1] * 16), 65_537, bytes(65_537))
    assert refusal(here.send(more, app=True)) == "too-many"


def test_valid_envelopes_are_accepted_next_to_refused_ones(here: World) -> None:
    asked = here.publish(survey())
    late = envelope(asked, 1, round_number=DECEMBER - 1)
    answer = here.send(
        late, envelope(asked, 2), Envelope("0" * 64, 0, bytes(16), 1, b"\0"), app=True
    )
    assert answer.json["accepted"] == 1
    assert [(refusal["index"], refusal["code"]) for refusal in answer.json["refused"]] == [
        (0, "late"),
        (2, "unknown-survey"),
    ]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=8), max_size=10))
def test_any_order_and_repetition_gives_the_exact_tallies(
    here: World, bodies: list[list[int]]
) -> None:
    """Each distinct envelope counts once, however often it arrives and however it is bundled."""
    asked = here.publish(survey(BIT + choice(5, "unary"), title=f"Survey {next(FRESH)}"))
    accepted = duplicates = 0
    for numbers in bodies:
        answer = here.send(*(envelope(asked, number) for number in numbers), app=True).json
        accepted, duplicates = accepted + answer["accepted"], duplicates + answer["duplicates"]
    distinct = sorted({number for numbers in bodies for number in numbers})
    cells = expected_cells(asked.survey, distinct)
    assert here.tallies(asked) == ({DECEMBER: (len(distinct), cells)} if distinct else {})
    assert accepted == len(distinct)
    assert accepted + duplicates == sum(map(len, bodies))


# Single counting


def counted_payloads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the number of reports in each payload that admission or a group commit counts."""
    counts: list[int] = []

    def watched(asked: Survey, payload: bytes, count: int) -> Cells:
        counts.append(count)
        return tally(asked, payload, count)

    for module in (admission, commit):
        monkeypatch.setattr(module, "tally", watched)
    return counts


def test_a_large_envelope_is_counted_once(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Admission counts a large payload, and the commit reuses that tally."""
    asked = here.publish(survey())
    counts = counted_payloads(monkeypatch)
    large = envelope(asked, 1, count=500)
    assert here.send(large, app=True).json["accepted"] == 500
    assert counts == [500]
    assert here.send(large, app=True).json["duplicates"] == 500
    assert here.send(large, large, envelope(asked, 9_000), app=True).json["accepted"] == 1
    cells = expected_cells(asked.survey, [*range(1, 501), 9_000])
    assert here.tallies(asked) == {DECEMBER: (501, cells)}


def test_small_envelopes_are_counted_together_by_the_commit(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = here.publish(mixed())
    counts = counted_payloads(monkeypatch)
    here.send(*(envelope(asked, number) for number in range(50)), app=True)
    assert counts == [50]


def test_tallies_larger_than_their_payload_are_not_held_until_the_commit(here: World) -> None:
    asked = here.publish(mixed())
    sizes = {}
    for reports in (1, 2, 2_000):
        found = admission.admit(
            envelope(asked, reports, count=reports), here.catalogue, here.clock.now(), 65_536
        )
        assert isinstance(found, Upload)
        sizes[reports] = found.size / len(found.payload)
    assert sizes[1] == sizes[2] == 1
    assert 1 < sizes[2_000] <= 2


# Refused envelopes


@pytest.fixture
def asked(here: World) -> PublishedSurvey:
    """Return a survey with one report, whose tally no later upload may change."""
    made = here.publish(mixed())
    assert here.send(envelope(made, 1000)).json["accepted"] == 1
    return made


def unchanged(here: World, asked: PublishedSurvey) -> None:
    assert here.tallies(asked) == {DECEMBER: (1, expected_cells(asked.survey, [1000]))}


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (0, "late"),
        (682, "late"),
        (684, "early"),
        (685, "early"),
        (686, "early"),
        (2**32 - 1, "early"),
    ],
)
def test_only_the_current_round_is_accepted(
    here: World, asked: PublishedSurvey, number: int, code: str
) -> None:
    assert refusal(here.send(envelope(asked, 1, round_number=number))) == code
    unchanged(here, asked)


def test_a_round_is_accepted_from_an_hour_before_it_until_its_grace_is_over(here: World) -> None:
    asked = here.publish(survey())
    here.clock.time = here.clock.time.replace(month=11, day=30, hour=22, minute=59)
    assert refusal(here.send(envelope(asked, 1))) == "early"
    here.clock.pass_(minutes=1)
    assert here.send(envelope(asked, 1)).json["accepted"] == 1
    here.clock.time = here.clock.time.replace(year=2027, month=1, day=14, hour=23, minute=59)
    assert here.send(envelope(asked, 2)).json["accepted"] == 1
    here.clock.pass_(minutes=1)
    assert refusal(here.send(envelope(asked, 3))) == "late"


def test_a_closed_survey_accepts_nothing(here: World, asked: PublishedSurvey) -> None:
    done = here.client.post(f"/v1/surveys/{asked.id}/close", headers=here.bearer("operator"))
    assert done.json["state"] == "closed"
    assert refusal(here.send(envelope(asked, 1))) == "closed"
    unchanged(here, asked)


def test_an_unpublished_survey_is_unknown(here: World, asked: PublishedSurvey) -> None:
    other = Envelope("ab" * 32, DECEMBER, bytes(16), 1, envelope(asked).payload)
    assert refusal(here.send(other)) == "unknown-survey"
    unchanged(here, asked)


@pytest.mark.parametrize("app", [False, True])
def test_a_survey_that_another_node_has_just_published_is_known(here: World, app: bool) -> None:
    """Intake has just read the surveys, so without a second look it would not find this one."""
    here.front.intake.catalogue.refresh()
    asked = published(here.store, survey(name="new"))  # not through intake's catalogue
    body = envelope(asked, 1)
    other = Envelope("ab" * 32, DECEMBER, bytes([7] * 16), 1, body.payload)
    receipt = here.send(body, *([other] if app else []), app=app).json
    assert receipt["accepted"] == 1
    assert here.tallies(asked)[DECEMBER][0] == 1


# The mixed survey's report: bit at 0, number at 1, k-RR of 300 at 2 and 3, unary of 20 at 4 to 6.
BAD_PAYLOADS = {
    "a bit that is neither": (0, b"\x02"),
    "a symbol beyond the grid": (1, b"\x41"),
    "an option that is not there": (2, b"\x2c\x01"),
    "an option far beyond": (2, b"\xff\xff"),
    "padding that is not zero": (6, b"\x10"),
    "padding in the last bit": (6, b"\x80"),
}


@pytest.mark.parametrize("reports", [1, 3])
@pytest.mark.parametrize("reason", BAD_PAYLOADS)
def test_an_impossible_report_refuses_its_whole_envelope(
    here: World, asked: PublishedSurvey, reason: str, reports: int
) -> None:
    place, bad = BAD_PAYLOADS[reason]
    good = envelope(asked, 5, count=reports)
    start = (reports - 1) * asked.survey.report_size + place  # in the last report
    payload = good.payload[:start] + bad + good.payload[start + len(bad) :]
    spoilt = Envelope(good.survey, good.round, good.id, reports, payload)
    assert refusal(here.send(spoilt, app=reports > 1)) == "bad-payload"
    unchanged(here, asked)


@pytest.mark.parametrize(("reports", "length"), [(1, 6), (1, 8), (1, 0), (2, 7), (0, 0), (0, 7)])
def test_a_payload_must_have_count_times_the_size_of_a_report(
    here: World, asked: PublishedSurvey, reports: int, length: int
) -> None:
    odd = Envelope(asked.id, DECEMBER, bytes(16), reports, bytes(length))
    assert refusal(here.send(odd, app=True)) == "bad-payload"
    unchanged(here, asked)


# Refused bodies


def test_every_truncated_body_is_refused_whole(here: World, asked: PublishedSurvey) -> None:
    whole = envelope(asked, 1).pack() + envelope(asked, 2).pack()
    middle = len(whole) // 2
    for length in range(len(whole)):
        if length != middle:  # in the middle, the first envelope is complete
            assert "nothing was counted" in problem(here.post(whole[:length]), 400)
    unchanged(here, asked)


BAD_BODIES = {
    "empty": b"",
    "wrong magic": b"DNB2" + bytes(67),
    "not envelopes at all": b"hello",
}


@pytest.mark.parametrize("reason", BAD_BODIES)
def test_a_body_without_envelopes_is_refused(
    here: World, asked: PublishedSurvey, reason: str
) -> None:
    problem(here.post(BAD_BODIES[reason]), 400)
    unchanged(here, asked)


def test_trailing_bytes_cause_all_envelopes_to_be_refused(
    here: World, asked: PublishedSurvey
) -> None:
    problem(here.post(envelope(asked, 1).pack() + b"\0", headers=here.bearer("app")), 400)
    unchanged(here, asked)


BAD_JSON = {
    "not JSON": b"{",
    "not UTF-8": b"\xff\xfe",
    "too deep": b"[" * 50_000,
    "no envelopes": b'{"envelopes": []}',
    "another key": b'{"envelopes": [], "more": 1}',
    "a key twice": b'{"envelopes": [], "envelopes": []}',
    "a fraction": b'{"envelopes": [1.5]}',
    "infinity": b'{"envelopes": [Infinity]}',
}


@pytest.mark.parametrize("reason", BAD_JSON)
def test_json_that_is_not_envelopes_is_refused(
    here: World, asked: PublishedSurvey, reason: str
) -> None:
    problem(here.post(BAD_JSON[reason], JSON), 400)
    unchanged(here, asked)


@pytest.mark.parametrize(
    ("question", "value"),
    [("crashed", 2), ("crashed", True), ("crashed", "1"), ("minutes", 65), ("browser", 300),
     ("browser", -1), ("languages", "0000f0"), ("languages", "00"), ("languages", 3)],
)  # fmt: skip
def test_json_symbols_are_checked_like_bytes(
    here: World, asked: PublishedSurvey, question: str, value: object
) -> None:
    sent = json_envelope(asked.survey, envelope(asked, 1))
    sent["reports"][0][question] = value
    assert refusal(here.post(json.dumps({"envelopes": [sent]}).encode(), JSON)) == "bad-payload"
    unchanged(here, asked)


def test_a_long_body_is_refused_by_its_declared_length(here: World) -> None:
    """The body is refused unread; here it does not even exist."""
    declared = {"CONTENT_LENGTH": "10000000"}
    problem(here.post(b"", environ_overrides=declared), 413)


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/octet-stream", f"{JSON}; charset=latin-1", "text/json"],
)
def test_other_types_are_refused(here: World, content_type: str) -> None:
    problem(here.post(b"{}", content_type), 415)


def test_a_compressed_body_is_refused(here: World) -> None:
    problem(here.post(b"x", headers={"Content-Encoding": "gzip"}), 415)


@pytest.mark.parametrize(("envelopes", "status"), [(4_096, 200), (4_097, 413)])
def test_a_body_has_at_most_4096_envelopes(here: World, envelopes: int, status: int) -> None:
    asked = here.publish(survey())
    answer = here.send(*(envelope(asked, number) for number in range(envelopes)), app=True)
    assert answer.status_code == status
    assert here.tallies(asked) == (
        {DECEMBER: (4_096, expected_cells(asked.survey, range(4_096)))} if status == 200 else {}
    )


@pytest.mark.parametrize("app", [False, True])
def test_without_an_app_token_a_body_holds_one_envelope(
    here: World, asked: PublishedSurvey, app: bool
) -> None:
    """Otherwise a sender limited to five requests per second could send twenty thousand reports."""
    two = [envelope(asked, 1), envelope(asked, 2)]
    twins = {"envelopes": [json_envelope(asked.survey, envelope_) for envelope_ in two]}
    headers = here.bearer("app") if app else {}
    for answer in (
        here.post(b"".join(envelope_.pack() for envelope_ in two), headers=headers),
        here.post(json.dumps(twins).encode(), JSON, headers=headers),
    ):
        if not app:
            assert "at most 1 envelope; use an app token to send more" in problem(answer, 413)
            assert answer.json["code"] == "too-many"
    assert here.tallies(asked)[DECEMBER][0] == (3 if app else 1)


@pytest.mark.parametrize("app", [False, True])
def test_a_body_of_json_has_at_most_64_kibibytes(here: World, app: bool) -> None:
    """An empty report takes three bytes to send, and sixty or more in memory."""
    asked = here.publish(survey())
    headers = here.bearer("app") if app else {}
    twin = json_envelope(asked.survey, envelope(asked, 1))
    body = json.dumps({"envelopes": [twin]}).encode()
    whole = here.post(body + b" " * (2**16 - len(body)), JSON, headers=headers)
    assert whole.json["accepted"] == 1
    longer = here.post(body + b" " * (2**16 - len(body) + 1), JSON, headers=headers)
    assert "65536 bytes" in problem(longer, 413)
    assert longer.json["code"] == "too-long"


def test_a_body_has_at_most_a_mebibyte(here: World) -> None:
    """A longer body is refused, whether its length is declared or only found while reading."""
    assert MAX_BODY_BYTES == 2**20
    assert here.post(bytes(MAX_BODY_BYTES)).status_code == 400
    assert here.post(bytes(MAX_BODY_BYTES + 1)).status_code == 413


@pytest.mark.parametrize(("role", "status"), [("analyst", 403), ("operator", 403), (None, 401)])
def test_an_upload_with_a_token_needs_an_app_token(
    here: World, asked: PublishedSurvey, role: str | None, status: int
) -> None:
    """If a wrong token were ignored, its sender would believe that it works."""
    headers = here.bearer(role) if role else {"Authorization": "Bearer " + "x" * 43}
    problem(here.post(envelope(asked, 1).pack(), headers=headers), status)
    unchanged(here, asked)


def test_a_revoked_app_token_is_trusted_for_a_quarter_of_a_second(
    here: World, asked: PublishedSurvey
) -> None:
    headers = here.bearer("app")
    assert here.post(envelope(asked, 1).pack(), headers=headers).status_code == 200
    here.store.revoke_token(here.store.tokens()[0].id)
    here.clock.pass_(seconds=0.2)
    assert here.post(envelope(asked, 2).pack(), headers=headers).status_code == 200
    here.clock.pass_(seconds=0.05)
    problem(here.post(envelope(asked, 3).pack(), headers=headers), 401)


def test_no_response_repeats_a_payload(here: World, asked: PublishedSurvey) -> None:
    """No refusal, binary or JSON, contains the payload's marker in any form."""
    mark = "5ca1ab1e"
    sent = json_envelope(asked.survey, envelope(asked, 1))
    sent["reports"][0]["languages"] = mark
    bodies = [
        (bytes.fromhex(mark) * 20, CONTENT_TYPE),
        (envelope(asked, 1).pack()[:-7] + bytes.fromhex(mark) + b"abc", CONTENT_TYPE),
        (json.dumps({"envelopes": [sent]}).encode(), JSON),
        (f'{{"{mark}": 1}}'.encode(), JSON),
    ]
    for body, content_type in bodies:
        answer = here.post(body, content_type)
        assert mark not in answer.text.lower()
        assert str(bytes.fromhex(mark))[2:-1] not in answer.text


def test_outcomes_are_counted_by_survey_and_reason(here: World, asked: PublishedSurvey) -> None:
    here.send(envelope(asked, 1), envelope(asked, 1), app=True)
    here.send(envelope(asked, 2, round_number=1))
    # An envelope that claims far too many reports.
    here.send(Envelope(asked.id, DECEMBER, bytes(16), 2**32 - 1, bytes(7)))
    here.writer.stop()
    address, analyst = f"/v1/surveys/{asked.id}/counters", here.bearer("analyst", days=400)
    stepped = here.client.get(address, headers=analyst).json
    assert (stepped["duplicates"], stepped["refused"]) == (0, {})
    here.clock.pass_(days=300)
    counted = here.client.get(address, headers=analyst).json
    assert counted["accepted"] == 2
    assert counted["duplicates"] == 1
    assert counted["refused"] == {"late": 1, "too-many": 1}
