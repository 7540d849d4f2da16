"""One answer: the meaning of each status, and the order of steps."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deniable.client import Client, Outcome
from deniable.client.disclosure import read_summary
from deniable.client.state.database import DATABASE
from deniable.shared.envelope import decode_report
from deniable.shared.errors import InvalidPolicy
from deniable.shared.survey.document import parse_document
from tests.client.conftest import MakeClient
from tests.client.scripted import (
    ANSWERS,
    OTHER_KEY,
    Clock,
    Script,
    bit,
    document,
    lifetime_policy,
)
from tests.eventually import PATIENCE
from tests.given_table import Integers, honest, one_unit_to_the_truth, planted

# Statuses


def test_an_answer_is_queued_and_sent_once(script: Script, client_of: MakeClient) -> None:
    published = document()
    survey = script.publish(published)
    client = client_of()
    outcome = client.answer("app-health", **ANSWERS)
    assert (outcome.status, outcome.survey, outcome.round) == ("queued", survey, 683)
    assert client.flush(PATIENCE) == 0
    (envelope,) = script.envelopes()
    assert (envelope.survey, envelope.round, envelope.count) == (survey, 683, 1)
    assert len(envelope.id) == 16
    decode_report(parse_document(published), envelope.payload)


def test_a_survey_may_be_named_by_its_id(script: Script, client_of: MakeClient) -> None:
    survey = script.publish(document())
    assert client_of().answer(survey, **ANSWERS).status == "queued"


def test_a_round_is_answered_once(script: Script, client_of: MakeClient, clock: Clock) -> None:
    script.publish(document())
    client = client_of()
    assert client.answer("app-health", **ANSWERS).status == "queued"
    assert client.answer("app-health", **ANSWERS).status == "already-answered"
    assert client_of().answer("app-health", **ANSWERS).status == "already-answered"
    clock.now = datetime(2027, 1, 10, tzinfo=UTC)
    assert client.answer("app-health", **ANSWERS).status == "queued"
    client.flush(PATIENCE)
    sent = {
        (envelope.round, envelope.id) for envelope in script.envelopes()
    }  # two clients may both send one
    assert sorted(round_ for round_, _ in sent) == [683, 684]


def test_caps_hold_over_rounds_and_surveys(
    script: Script, client_of: MakeClient, clock: Clock
) -> None:
    for number in range(3):
        script.publish(document(f"survey-{number}", questions=bit(f"q{number}", "0.5")))
    client = client_of(policy=lifetime_policy(max_epsilon="1"))
    statuses = [client.answer(f"survey-{n}", **{f"q{n}": True}).status for n in range(3)]
    assert statuses == ["queued", "queued", "budget-spent"]


def test_a_cap_holds_to_the_last_billionth(script: Script, client_of: MakeClient) -> None:
    script.publish(document("one", questions=bit("q", "0.5")))
    script.publish(document("two", questions=bit("q", "0.500000001")))
    client = client_of(policy=lifetime_policy(max_epsilon="1"))
    assert client.answer("one", q=True).status == "queued"
    assert client.answer("two", q=True).status == "budget-spent"


def test_a_question_cap_holds_to_the_last_billionth(script: Script, client_of: MakeClient) -> None:
    for name, epsilon in (("one", "0.5"), ("two", "0.5"), ("three", "0.000000001")):
        script.publish(document(name, questions=bit("q", epsilon)))
    client = client_of(policy=lifetime_policy(max_epsilon_per_question="1"))
    statuses = [client.answer(name, q=True).status for name in ("one", "two", "three")]
    assert statuses == ["queued", "queued", "budget-spent"]


def test_a_question_cap_outlives_republishing(script: Script, client_of: MakeClient) -> None:
    """The same question in a survey with a new name uses the same budget."""
    script.publish(document("first", questions=bit("crashed", "0.5")))
    script.publish(document("second", questions=bit("crashed", "0.5")))
    script.publish(document("third", questions=bit("other", "0.5")))
    policy = lifetime_policy(max_epsilon_per_question="0.7")
    client = client_of(policy=policy)
    assert client.answer("first", crashed=True).status == "queued"
    outcome = client.answer("second", crashed=True)
    assert outcome.status == "budget-spent"
    assert "'crashed' has spent ε 0.5 of the 0.7" in outcome.detail
    assert client.answer("third", other=True).status == "queued"


def test_a_survey_above_the_caps_is_refused(script: Script, client_of: MakeClient) -> None:
    script.publish(document(questions=bit("crashed", "2.000000001")))
    outcome = client_of().answer("app-health", crashed=True)
    assert outcome.status == "refused"
    assert "asks for ε 2.000000001" in outcome.detail


def test_a_survey_by_invitation_is_refused_before_anything_is_charged(
    script: Script, client_of: MakeClient
) -> None:
    text = document(period="once", questions=bit("crashed", "0.5")).decode()
    line = '"minimum_reports": '
    script.publish(text.replace(line, f'"invitation": true,\n  {line}').encode())
    client = client_of()
    outcome = client.answer("app-health", crashed=True)
    assert (outcome.status, "by invitation" in outcome.detail) == ("refused", True)
    assert (client.flush(PATIENCE), script.posts) == (0, [])
    script.publish(document("app-mood", period="once", questions=bit("crashed", "0.5")))
    assert client.answer("app-mood", crashed=True).status == "queued"


def test_the_cap_itself_is_allowed(script: Script, client_of: MakeClient) -> None:
    script.publish(document(questions=bit("crashed", "2")))
    assert client_of().answer("app-health", crashed=True).status == "queued"


def test_a_survey_signed_by_an_untrusted_key_is_refused(
    script: Script, client_of: MakeClient
) -> None:
    script.publish(document(), key=OTHER_KEY)
    outcome = client_of().answer("app-health", **ANSWERS)
    assert outcome.status == "refused"
    assert "not a trusted key" in outcome.detail


@pytest.mark.parametrize("field", ["id", "document", "signature", "key"])
def test_a_survey_changed_on_its_way_is_never_answered(
    script: Script, client_of: MakeClient, field: str
) -> None:
    script.publish(document())
    text = script.surveys[0][field]
    middle = len(text) // 2
    changed = "0" if text[middle] != "0" else "1"
    script.surveys[0][field] = text[:middle] + changed + text[middle + 1 :]
    client = client_of()
    assert client.answer("app-health", **ANSWERS).status in ("refused", "no-survey")
    client.flush(PATIENCE)
    assert script.posts == []


def test_a_signature_of_another_document_is_refused(script: Script, client_of: MakeClient) -> None:
    script.publish(document())
    script.publish(document("other"))
    script.surveys[0]["signature"] = script.surveys[1]["signature"]
    assert client_of().answer("app-health", **ANSWERS).status == "refused"


def test_probabilities_that_do_not_match_epsilon_are_refused(
    script: Script, client_of: MakeClient
) -> None:
    """Even a trusted key's signature does not help: a thief of the key cannot remove the noise."""
    honest = document(questions=bit("crashed", "0.5"))
    lie = parse_document(honest).questions[0].mechanism.integers[0]
    script.publish(honest.replace(str(lie).encode(), b"1"))
    outcome = client_of().answer("app-health", crashed=True)
    assert outcome.status == "refused"
    assert "probabilities" in outcome.detail


@pytest.mark.parametrize("change", [None, one_unit_to_the_truth])
def test_the_table_of_a_survey_is_proved_before_it_is_answered(
    script: Script, client_of: MakeClient, change: Callable[[Integers], Integers] | None
) -> None:
    """Move one of 2^64 rolls toward the truth: even signed by a trusted key, it is not answered."""
    script.publish(planted(change) if change else honest())
    outcome = client_of().answer("app-health", minutes=34)
    assert outcome.status == ("refused" if change else "queued")
    assert ("not private" in outcome.detail) == (change is not None)


def test_a_pin_excludes_other_surveys(script: Script, client_of: MakeClient) -> None:
    pinned = script.publish(document())
    script.publish(document(opens="2026-12-02"))
    policy = lifetime_policy(surveys=[pinned])
    outcome = client_of(policy=policy).answer("app-health", **ANSWERS)
    assert (outcome.status, outcome.survey) == ("queued", pinned)


def test_an_unknown_survey_is_no_survey(script: Script, client_of: MakeClient) -> None:
    script.publish(document())
    assert client_of().answer("app-wealth", **ANSWERS).status == "no-survey"


@pytest.mark.parametrize("day", ["2026-11-30T23:59Z", "2027-03-01T00:00Z"])
def test_a_survey_is_closed_before_and_after_its_days(
    script: Script, client_of: MakeClient, clock: Clock, day: str
) -> None:
    script.publish(document())
    clock.now = datetime.fromisoformat(day)
    outcome = client_of().answer("app-health", **ANSWERS)
    assert outcome.status == "closed"
    assert "2026-12-01 to 2027-02-28" in outcome.detail


def test_days_are_those_of_utc(script: Script, client_of: MakeClient, clock: Clock) -> None:
    script.publish(document())
    clock.now = datetime.fromisoformat("2026-12-01T05:00:00+09:00")
    assert client_of().answer("app-health", **ANSWERS).status == "closed"


def test_a_survey_that_its_owner_closed_is_closed(script: Script, client_of: MakeClient) -> None:
    script.publish(document(), state="closed")
    assert client_of().answer("app-health", **ANSWERS).status == "closed"


def test_a_name_refers_to_the_newest_survey_that_is_open_today(
    script: Script, client_of: MakeClient
) -> None:
    script.publish(document(opens="2026-12-05"))
    newest = script.publish(document(opens="2026-12-09"))
    script.publish(document(opens="2026-12-01"))
    script.publish(document(opens="2026-12-10"), state="closed")
    script.publish(document(opens="2026-12-11"))
    script.publish(document(opens="2026-12-10"), key=OTHER_KEY)
    assert client_of().answer("app-health", **ANSWERS).survey == newest


def test_of_two_surveys_that_open_together_the_last_listed_is_newest(
    script: Script, client_of: MakeClient
) -> None:
    script.publish(document(closes="2027-01-31"))
    last = script.publish(document())
    assert client_of().answer("app-health", **ANSWERS).survey == last


@pytest.mark.parametrize("state", ["open", "closed"])
def test_questions_that_are_published_again_cost_nothing_in_the_round(
    script: Script, client_of: MakeClient, clock: Clock, tmp_path: Path, state: str
) -> None:
    """A corrected title makes another survey, which must not spend the budget again."""
    first, client = script.publish(document()), client_of()
    assert client.answer("app-health", **ANSWERS).status == "queued"
    script.surveys[0]["state"] = state
    second = script.publish(document().replace(b"How is the app doing?", b"How is our app doing?"))
    clock.now += timedelta(hours=2)
    client.prefetch(PATIENCE)
    outcome = client.answer("app-health", **ANSWERS)
    assert (outcome.status, outcome.survey) == ("already-answered", second)
    assert f"under the id {first}" in outcome.detail
    assert read_summary(tmp_path / "state").ledger.charges == 1
    clock.now += timedelta(days=31)
    assert client.answer("app-health", **ANSWERS).survey == second
    script.publish(document(period="week"))
    script.publish(document(questions=bit("crashed", "0.5")))
    clock.now += timedelta(hours=2)
    assert client.answer("app-health", crashed=True).status == "queued"
    assert client.answer("app-health", **ANSWERS).status == "queued"


def test_without_a_server_and_without_a_list_it_is_unavailable(client_of: MakeClient) -> None:
    client = client_of(server="http://127.0.0.1:9")
    assert client.answer("app-health", **ANSWERS).status == "unavailable"


# Order


@pytest.mark.parametrize("wrong", [{}, {"crashed": True}, ANSWERS | {"extra": 1}])
def test_unknown_question_names_are_refused_and_cost_nothing(
    script: Script, client_of: MakeClient, wrong: dict[str, object]
) -> None:
    script.publish(document())
    client = client_of()
    assert client.answer("app-health", **wrong).status == "refused"
    assert client.answer("app-health", **ANSWERS).status == "queued"


def test_without_consent_the_server_gets_no_request(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    script.publish(document())
    client = client_of(consent=False)
    assert client.answer("app-health", **ANSWERS).status == "no-consent"
    assert client.answer("app-health", wrong=1).status == "no-consent"
    assert client.flush(PATIENCE) == 0
    assert script.requests == []
    assert not (tmp_path / "state").exists()


def test_a_refused_survey_costs_nothing(script: Script, client_of: MakeClient) -> None:
    script.publish(document("greedy", questions=bit("crashed", "3")))
    script.publish(document("modest", questions=bit("crashed", "2")))
    client = client_of(policy=lifetime_policy(max_epsilon="2"))
    assert client.answer("greedy", crashed=True).status == "refused"
    assert client.answer("modest", crashed=True).status == "queued"


def test_the_charge_is_on_disk_before_the_noise_is_drawn(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    script.publish(document())
    seen: list[tuple[int, int]] = []

    def watching_draw(bits: int) -> int:
        with sqlite3.connect(f"file:{tmp_path}/state/{DATABASE}?mode=ro", uri=True) as db:
            charges = db.execute("SELECT count(*) FROM charges").fetchone()[0]
            seen.append((charges, db.execute("SELECT count(*) FROM outbox").fetchone()[0]))
        db.close()
        return 0

    assert client_of(draw=watching_draw).answer("app-health", **ANSWERS).status == "queued"
    assert set(seen) == {(1, 0)}


def test_an_answer_lost_after_its_charge_is_not_drawn_again(
    script: Script, client_of: MakeClient
) -> None:
    class Crash(BaseException):
        pass

    def crash(bits: int) -> int:
        raise Crash

    script.publish(document())
    with pytest.raises(Crash):
        client_of(draw=crash).answer("app-health", **ANSWERS)
    client = client_of()
    assert client.answer("app-health", **ANSWERS).status == "already-answered"
    client.flush(PATIENCE)
    assert script.posts == []


# The clock


@pytest.mark.parametrize("days", [-7, 7, -3650, 3650])
def test_no_change_of_the_clock_gives_budget_back(
    script: Script, client_of: MakeClient, clock: Clock, days: int
) -> None:
    script.publish(
        document(
            "a",
            opens="2010-01-01",
            closes="2039-12-31",
            period="week",
            questions=bit("crashed", "1"),
        )
    )
    client = client_of(policy=lifetime_policy(max_epsilon="2"))
    start = clock.now
    assert client.answer("a", crashed=True).status == "queued"
    clock.now = start + timedelta(days=days)
    assert client.answer("a", crashed=True).status == "queued"
    for back in (0, days, 2 * days // 3, -days // 2):
        clock.now = start + timedelta(days=back)
        assert client.answer("a", crashed=True).status in ("budget-spent", "already-answered")


# Mistakes of the app


def test_a_policy_is_needed(tmp_path: Path) -> None:
    with pytest.raises(InvalidPolicy, match="Policy"):
        Client("https://example.org", policy={"keys": []}, state=tmp_path)  # type: ignore[arg-type] # the mistake


def test_an_outcome_is_frozen_and_has_a_description() -> None:
    outcome = Outcome("queued", "a report is on disk")
    with pytest.raises(AttributeError):
        outcome.status = "closed"  # type: ignore[misc] # frozen
    assert "queued" in repr(outcome)
