"""List of surveys: when it is fetched, what is kept, and what is used without a server."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deniable.client import Client, Policy
from deniable.client.net import survey_list, surveys
from deniable.client.net.surveys import Found, When
from deniable.client.net.transport import Reply
from deniable.client.state.database import DATABASE
from deniable.client.state.survey_cache import KeptList, ListedSurvey, kept_pause
from deniable.shared.errors import InvalidSurvey, UntrustedSurvey
from deniable.shared.survey import reader
from deniable.shared.survey.document import Survey
from deniable.shared.survey.keys import public_hex
from tests.client.conftest import MakeClient
from tests.client.scripted import (
    ANSWERS,
    KEY,
    OTHER_KEY,
    TODAY,
    Answer,
    Clock,
    Script,
    Ticks,
    bit,
    document,
    entry,
    lifetime_policy,
)
from tests.eventually import PATIENCE, eventually


def test_a_fresh_list_serves_every_survey_without_a_request(
    script: Script, client_of: MakeClient, clock: Clock
) -> None:
    script.publish(document())
    script.publish(document("second"))
    client = client_of()
    client.answer("app-health", **ANSWERS)
    clock.now += timedelta(minutes=59)
    client.answer("second", **ANSWERS)
    client_of().answer("app-health", **ANSWERS)
    assert len(script.gets) == 1


def test_the_list_is_fetched_again_after_an_hour(
    script: Script, client_of: MakeClient, clock: Clock
) -> None:
    script.publish(document(period="day"))
    client = client_of()
    clock.now = clock.now.replace(hour=23)
    client.answer("app-health", **ANSWERS)
    clock.now += timedelta(minutes=61)
    script.surveys[0]["state"] = "closed"
    assert client.answer("app-health", **ANSWERS).status == "closed"
    assert len(script.gets) == 2


@pytest.mark.parametrize(
    ("period", "epsilon", "most"), [("month", "6", 1), ("week", "6", 5), ("week", "0.5", 1)]
)
def test_an_app_in_daily_use_fetches_once_in_a_round_that_it_can_answer(
    script: Script, client_of: MakeClient, clock: Clock, period: str, epsilon: str, most: int
) -> None:
    """28 days, 12 hours a day. One fetch an hour told the server when the app is used."""
    script.publish(document(period=period, questions=bit("crashed", "0.5")))
    clock.now = datetime(2026, 12, 2, 8, tzinfo=UTC)
    client = client_of(policy=lifetime_policy(max_epsilon=epsilon))
    for hour in range(28 * 12):
        client.answer("app-health", crashed=hour % 7 == 0)
        clock.now += timedelta(hours=13 if hour % 12 == 11 else 1)
    assert len(script.gets) == most


def editions(script: Script, client: Client, clock: Clock, days: int) -> list[str]:
    """Answer a survey of one round daily, whose second edition is published on the first day.

    Return the days and ids of the answers that were queued.
    """
    queued = list[str]()
    for day in range(days):
        outcome = client.answer("app-health", crashed=day % 3 == 0)
        if outcome.status == "queued":
            queued.append(f"{day} {outcome.survey}")
        if day == 0:
            once(script, "0.6", opens="2026-12-02")
        clock.now += timedelta(days=1)
    return queued


def once(script: Script, epsilon: str = "0.5", opens: str = "2026-12-01") -> str:
    questions = bit("crashed", epsilon)
    published = document(period="once", opens=opens, closes="2030-12-01", questions=questions)
    return script.publish(published)


def test_a_new_edition_of_an_answered_survey_is_found_after_five_weeks(
    script: Script, client_of: MakeClient, clock: Clock
) -> None:
    """One fetch in 35 days; the survey is open for four years."""
    first = once(script)
    queued = editions(script, client_of(), clock, 105)
    assert queued[0] == f"0 {first}"
    assert [line.split()[0] for line in queued] == ["0", "35"]
    assert len(script.gets) == 3


def test_an_answered_survey_is_fetched_at_most_daily_from_a_server_that_is_gone(
    script: Script, client_of: MakeClient, clock: Clock, ticks: Ticks
) -> None:
    once(script)
    client = client_of(monotonic=ticks)
    assert client.answer("app-health", crashed=True).status == "queued"
    script.list_reply = Answer(500)
    clock.now += timedelta(days=35)
    for _ in range(10 * 24):
        assert client.answer("app-health", crashed=True).status == "already-answered"
        clock.now += timedelta(hours=1)
        ticks.seconds += 3600
        eventually(lambda: "deniable-surveys" not in [t.name for t in threading.enumerate()])
    client._uploader.stop(PATIENCE)
    assert 2 <= len(script.gets) <= 1 + 10


def test_a_process_does_not_wait_again_for_a_server_that_did_not_respond(
    script: Script, client_of: MakeClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like a command that runs once a day. The list is refreshed behind the answer."""
    script.publish(document(period="day"))
    client_of().answer("app-health", **ANSWERS)
    script.list_reply = Answer(500)
    clock.now += timedelta(days=1)
    assert client_of().answer("app-health", **ANSWERS).status == "queued"
    clock.now += timedelta(days=1)
    waits, client = list[int](), client_of()
    monkeypatch.setattr(client._surveys._fetcher, "fetch", waits.append)
    assert client.answer("app-health", **ANSWERS).status == "queued"
    assert waits == []

    def failures() -> int:
        with client._state.read() as db:
            return kept_pause(db, client._server).failures

    eventually(lambda: failures() == 2, "the third fetch has failed, and its pause is on disk")
    assert len(script.gets) == 3
    script.list_reply = None
    clock.now += timedelta(days=1)
    client = client_of()
    assert client.answer("app-health", **ANSWERS).status == "queued"
    eventually(lambda: failures() == 0, "the next process waits for a fresh list again")


def test_a_pause_survives_the_process(script: Script, client_of: MakeClient) -> None:
    for _ in range(6):
        assert client_of().answer("gone").status in ("no-survey", "unavailable")
    assert len(script.gets) < 6


@pytest.mark.parametrize(
    ("seconds", "fresh"), [(0, True), (3599, True), (3600, False), (-1, False)]
)
def test_a_list_is_fresh_for_an_hour(seconds: int, fresh: bool) -> None:
    kept = KeptList(fetched=int(TODAY.timestamp()))
    assert kept.is_fresh(TODAY + timedelta(seconds=seconds), 3600) == fresh
    assert not KeptList().is_fresh(TODAY, 3600)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE lists SET policy = 'x'",
        "UPDATE lists SET fetched = 'x'",
        "UPDATE lists SET server = 'x'",
        "DELETE FROM lists",
        "UPDATE surveys SET document = 'text'",
        "UPDATE surveys SET name = x'00'",
        "UPDATE surveys SET listed = 'x'",
        "DELETE FROM surveys",
    ],
)
def test_a_damaged_list_is_fetched_again(
    script: Script, client_of: MakeClient, tmp_path: Path, damage: str
) -> None:
    """The stored list is only a copy."""
    script.publish(document())
    client_of().answer("unheard-of")
    before = len(script.gets)
    with sqlite3.connect(tmp_path / "state" / DATABASE) as db:
        db.execute(damage)
    db.close()
    assert client_of().answer("app-health", **ANSWERS).status == "queued"
    assert len(script.gets) == before + 1


def test_a_list_that_came_meanwhile_is_not_fetched_again(
    script: Script, client_of: MakeClient
) -> None:
    """A slow thread that saw no list finds the one that another thread has fetched."""
    survey = script.publish(document())
    client = client_of()
    with client._state.transaction() as db:
        seen = client._surveys.seen(db)
    assert client.answer("unheard-of").status == "no-survey"
    found = client._surveys.find("app-health", When(TODAY.date()), seen, lambda _: None)
    assert isinstance(found, Found)
    assert found.id == survey
    assert len(script.gets) == 1


def test_a_list_that_comes_after_a_withdrawal_is_not_kept(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    script.publish(document())
    listed = json.dumps({"surveys": script.surveys}).encode()
    script.list_reply = Answer(body=listed, hold=(released := threading.Event()))
    client, other = client_of(), client_of()
    asking = threading.Thread(target=client.answer, args=("unheard-of",))
    asking.start()
    eventually(lambda: script.gets)
    other.consent(False)
    released.set()
    asking.join()
    db = sqlite3.connect(tmp_path / "state" / DATABASE)
    assert db.execute("SELECT count(*) FROM surveys").fetchone() == (0,)
    db.close()


def closed_then_open(script: Script, client: Client, clock: Clock) -> str:
    """Return the status after a list with the survey closed and a later one with it open."""
    script.surveys[0]["state"] = "closed"
    assert client.answer("app-health", **ANSWERS).status == "closed"
    script.surveys[0]["state"] = "open"
    clock.now += timedelta(hours=2)
    return client.answer("app-health", **ANSWERS).status


@pytest.mark.parametrize("gone", [False, True], ids=["still listed", "not listed meanwhile"])
def test_a_survey_seen_closed_is_not_opened_by_a_later_list(
    script: Script, client_of: MakeClient, clock: Clock, gone: bool
) -> None:
    """The state of a survey is unsigned, so a server or cache could claim anything.

    Restarts change nothing.
    """
    survey = script.publish(document())
    assert closed_then_open(script, client_of(), clock) == "closed"
    listed = script.surveys[:]
    for _ in range(3):
        clock.now += timedelta(hours=2)
        script.surveys[:] = [] if gone else listed
        client_of().answer("unheard-of")
        clock.now += timedelta(hours=2)
        script.surveys[:] = listed
        assert client_of().answer(survey, **ANSWERS).status == "closed"


def test_a_closed_survey_is_remembered_until_its_last_day_is_over(
    script: Script, client_of: MakeClient, clock: Clock, tmp_path: Path
) -> None:
    """Its last day is 2027-02-28."""
    script.publish(document())
    assert closed_then_open(script, client_of(), clock) == "closed"

    def kept() -> int:
        client_of().answer("unheard-of")
        db = sqlite3.connect(tmp_path / "state" / DATABASE)
        try:
            return int(db.execute("SELECT count(*) FROM closed").fetchone()[0])
        finally:
            db.close()

    clock.now = datetime(2027, 2, 28, 23, 59, tzinfo=UTC)
    assert kept() == 1
    clock.now = datetime(2027, 3, 1, tzinfo=UTC)
    assert kept() == 0
    script.surveys[0]["state"] = "closed"
    clock.now += timedelta(hours=2)
    assert kept() == 0, "later lists must not matter"


def test_an_unverified_survey_closes_nothing(
    script: Script, client_of: MakeClient, clock: Clock
) -> None:
    """A list may claim any id, so only verified surveys are remembered as closed."""
    script.publish(document(), key=OTHER_KEY, state="closed")
    client_of().answer("app-health", **ANSWERS)
    script.surveys.clear()
    script.publish(document())
    clock.now += timedelta(hours=2)
    assert client_of().answer("app-health", **ANSWERS).status == "queued"


def test_an_id_is_never_matched_by_a_name(
    script: Script, client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signed survey whose name is another's id is not answered for it."""
    with monkeypatch.context() as patch:
        patch.setattr(reader, "_ID", re.compile("none"))
        script.publish(document("ab" * 32))
        client = client_of()
        assert client.answer("ab" * 32, **ANSWERS).status == "no-survey"


@pytest.mark.parametrize("name", ["ab" * 32, "AB" * 32, "0" * 64])
def test_a_name_that_looks_like_an_id_is_refused(name: str) -> None:
    with pytest.raises(InvalidSurvey, match="not look like a survey's id"):
        document(name)
    document(name[1:])


def test_surveys_that_the_server_no_longer_lists_are_forgotten(
    script: Script, client_of: MakeClient, clock: Clock
) -> None:
    script.publish(document())
    client = client_of()
    client.answer("app-health", **ANSWERS)
    script.surveys.clear()
    clock.now += timedelta(hours=1)
    client.prefetch(PATIENCE)
    assert client.answer("app-health", **ANSWERS).status == "no-survey"


def test_a_clock_set_back_makes_the_list_stale(
    script: Script, client_of: MakeClient, clock: Clock
) -> None:
    script.publish(document())
    client = client_of()
    client.answer("app-health", **ANSWERS)
    clock.now -= timedelta(days=1)
    client.prefetch(PATIENCE)
    assert len(script.gets) == 2


def test_without_the_server_a_survey_on_disk_that_is_open_is_answered(
    script: Script, client_of: MakeClient, clock: Clock
) -> None:
    script.publish(document(period="day"))
    client_of().answer("app-health", **ANSWERS)
    clock.now += timedelta(days=3)
    script.list_reply = Answer(500)
    client = client_of()
    assert client.answer("app-health", **ANSWERS).status == "queued"
    assert client.answer("unheard-of").status == "unavailable"
    clock.now += timedelta(days=300)
    assert client.answer("app-health", **ANSWERS).status == "closed"


def test_a_survey_published_later_is_found_without_waiting_an_hour(
    script: Script, client_of: MakeClient
) -> None:
    client = client_of()
    assert client.answer("app-health", **ANSWERS).status == "no-survey"
    script.publish(document())
    assert client.answer("app-health", **ANSWERS).status == "queued"


def test_an_unknown_survey_is_not_requested_at_each_call(
    script: Script, client_of: MakeClient
) -> None:
    client = client_of()
    for _ in range(50):
        assert client.answer("gone").status == "no-survey"
    assert len(script.gets) < 10


def test_a_bad_survey_hides_no_good_one(script: Script, client_of: MakeClient) -> None:
    script.surveys += [{"id": "00"}, 5, None]  # type: ignore[list-item] # what a server must not send
    script.publish(document(), key=OTHER_KEY)
    script.publish(document("broken").replace(b'"owner"', b'"older"'))
    good = script.publish(document())
    assert client_of().answer("app-health", **ANSWERS).survey == good


def test_a_signed_document_that_cannot_be_encoded_hides_no_other(
    script: Script, client_of: MakeClient
) -> None:
    broken = document("broken").replace(b'"firefox"', b'"\\ud800"')
    assert broken != document("broken")
    script.publish(broken)
    script.publish(document())
    client = client_of()
    assert client.answer("app-health", **ANSWERS).status == "queued"
    outcome = client.answer("broken", **ANSWERS)
    assert outcome.status == "refused"
    assert "'\\ud800' has a character that cannot be shown" in outcome.detail


def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the surveys that are judged from now on, in order."""
    ids, verified = list[str](), survey_list.verified

    def judging(listed: ListedSurvey, policy: Policy) -> Survey:
        ids.append(listed.id)
        return verified(listed, policy)

    monkeypatch.setattr(surveys, "verified", judging)
    return ids


def test_only_surveys_that_the_app_asks_for_are_judged(
    script: Script, client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of a hundred others costs the check of its signature."""
    for number in range(100):
        script.publish(document(f"other-{number}"))
    wanted, ids = script.publish(document()), judged(monkeypatch)
    client = client_of()
    assert client.answer("app-health", **ANSWERS).status == "queued"
    assert client.answer("app-health", **ANSWERS).status == "already-answered"
    assert ids == [wanted]


def test_judging_many_surveys_of_one_name_takes_several_calls(
    script: Script, client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest is judged first, and the others when the app calls again."""
    monkeypatch.setattr(surveys, "JUDGE_SECONDS", -1.0)
    oldest = script.publish(document())
    for number in range(3):
        script.publish(document().replace(b"How is", b"%d: how is" % number), key=OTHER_KEY)
    both = lifetime_policy([public_hex(KEY), public_hex(OTHER_KEY)])
    monkeypatch.setattr(surveys, "verified", refuse_all_but(oldest, survey_list.verified))
    client = client_of(policy=both)
    statuses = [client.answer("app-health", **ANSWERS).status for _ in range(4)]
    assert statuses[0] == "refused"
    assert "queued" in statuses


def refuse_all_but(id_: str, verified: Callable[..., Survey]) -> Callable[..., Survey]:
    def judging(listed: ListedSurvey, policy: Policy) -> Survey:
        if listed.id != id_:
            raise UntrustedSurvey("refused")
        return verified(listed, policy)

    return judging


def test_nothing_is_parsed_before_its_signature_is_verified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = [entry(document("strange"), OTHER_KEY), entry(document())]
    body, parsed, loads = json.dumps({"surveys": entries}).encode(), list[bytes](), json.loads

    def parsing(text: bytes) -> object:
        parsed.append(text)
        return loads(text)

    monkeypatch.setattr(json, "loads", parsing)
    strange, sound = survey_list.read_list(Reply(200, body), Policy(keys=[public_hex(KEY)]))
    assert parsed == [body, sound.document]
    assert (strange.name, strange.document, sound.problem) == ("strange", None, None)


def test_a_list_verified_with_one_policy_is_not_used_with_another(
    script: Script, client_of: MakeClient
) -> None:
    """An app update that trusts a new key does not wait for the list to expire."""
    old = script.publish(document())
    new = script.publish(document(opens="2026-12-02"), key=OTHER_KEY)
    assert client_of().answer("app-health", **ANSWERS).survey == old
    both = lifetime_policy([public_hex(KEY), public_hex(OTHER_KEY)])
    assert client_of(policy=both).answer("app-health", **ANSWERS).survey == new


def test_a_key_no_longer_trusted_is_not_answered_from_disk(
    script: Script, client_of: MakeClient
) -> None:
    script.publish(document())
    assert client_of().answer("app-health", **ANSWERS).status == "queued"
    newer = lifetime_policy([public_hex(OTHER_KEY)])
    assert client_of(policy=newer).answer("app-health", **ANSWERS).status == "refused"


def test_a_survey_changed_on_disk_is_fetched_again(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    script.publish(document(questions=bit("crashed", "0.5")))
    client_of().answer("unheard-of")
    with sqlite3.connect(tmp_path / "state" / DATABASE) as db:
        db.execute("UPDATE surveys SET document = replace(document, '0.5', '0.6')")
    db.close()
    assert client_of().answer("app-health", crashed=True).status == "queued"
    assert len(script.gets) == 2
