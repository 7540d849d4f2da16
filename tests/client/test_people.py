"""Many people in one state: each as in a separate folder, and without any id on disk."""

from __future__ import annotations

import logging
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deniable.client import Client, InvalidPerson, Person
from deniable.client.disclosure import Summary, read_summary
from deniable.client.state import ledger, outbox
from deniable.client.state.database import DATABASE
from deniable.client.state.ledger import OWN, Identity
from tests.client.conftest import MakeClient
from tests.client.scripted import (
    ACCEPTED,
    LATER,
    Clock,
    Script,
    bit,
    document,
    lifetime_policy,
    sqlite_of,
)
from tests.client.test_ledger import POLICY, SURVEYS, ListOnly
from tests.client.test_sent import command
from tests.eventually import PATIENCE

PEOPLE = (None, "ann", "bob")
SECRET = "ann-unmistakable@example.org"


@pytest.fixture(autouse=True)
def published(script: Script) -> None:
    script.publish(document(period="day", questions=bit("crashed", "0.5")))


def whose(client: Client, name: str | None) -> Person:
    return client if name is None else client.person(name)


# Separation

steps = st.lists(
    st.one_of(
        st.just("tomorrow"),
        st.sampled_from([*product(PEOPLE, [*SURVEYS, "yes", "no", "forget", "consented"])]),
    ),
    max_size=14,  # days, few enough that no report is late
)


class Crowd:
    """Several people, in one folder or in a folder each."""

    def __init__(self, folders: dict[str | None, Path], clock: Clock, together: bool) -> None:
        self.folders, self.together = folders, together
        self.clients = {
            folder: Client(
                "https://stats.example.org",
                policy=POLICY,
                state=folder,
                now=clock,
                transport=ListOnly(),
            )
            for folder in set(folders.values())
        }
        self.people = {
            name: whose(self.clients[folder], name if together else None)
            for name, folder in folders.items()
        }

    def play(self, name: str | None, action: str) -> object:
        person = self.people[name]
        if action in ("yes", "no"):
            return person.consent(action == "yes")
        if action == "forget":
            return person.forget()
        if action == "consented":
            return person.consented
        return person.answer(action, **dict.fromkeys(SURVEYS[action], True)).status

    def told(self, name: str | None) -> Summary:
        summary = read_summary(self.folders[name], name if self.together else None)
        unsaid = tuple(entry._replace(symbols=()) for entry in summary.entries)
        sealed = summary.ledger._replace(seal="")  # the seal covers the person
        return replace(summary, entries=unsaid, ledger=sealed, others=0)

    def close(self) -> None:
        for client in self.clients.values():
            client._uploader.stop(PATIENCE)
            client._state.close()


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(steps)
def test_people_in_one_state_behave_as_if_alone(events: list[Any]) -> None:
    """Let them answer, consent, withdraw and erase in any order.

    Outcomes, ledgers and histories equal those in separate folders.
    """
    with tempfile.TemporaryDirectory() as folder:
        clock, root = Clock(), Path(folder)
        one = Crowd(dict.fromkeys(PEOPLE, root / "one"), clock, together=True)
        each = Crowd({name: root / f"alone-{name}" for name in PEOPLE}, clock, together=False)
        for event in events:
            if event == "tomorrow":
                clock.now += timedelta(days=1)
            else:
                assert one.play(*event) == each.play(*event), event
        for name in PEOPLE:
            assert one.told(name) == each.told(name)
        one.close()
        each.close()


def test_two_people_share_no_ledger_no_key_and_no_envelope(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    client = client_of()
    for name in PEOPLE:
        person = whose(client, name)
        person.consent(True)
        assert person.answer("app-health", crashed=True).status == "queued"
        assert person.answer("app-health", crashed=True).status == "already-answered"
        assert read_summary(tmp_path / "state", name).ledger.total == 500_000_000
    assert client.flush(PATIENCE) == 0
    assert len({envelope.id for envelope in script.envelopes()}) == 3
    assert len(set(rows(tmp_path, "SELECT key FROM survey_keys"))) == 3
    for name in PEOPLE:
        (entry,) = read_summary(tmp_path / "state", name).entries
        assert entry.delivery == "accepted"


def test_a_person_s_withdrawal_and_erasure_leave_the_others(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    script.always = LATER
    client = client_of()
    for name in PEOPLE:
        whose(client, name).consent(True)
        whose(client, name).answer("app-health", crashed=True)
    assert client.person("ann").consent(False)
    assert client.person("bob").forget()
    assert client.flush(0) == 1
    assert [e.delivery for e in read_summary(tmp_path / "state", "ann").entries] == ["withdrawn"]
    assert read_summary(tmp_path / "state", "bob").entries == ()
    assert len(rows(tmp_path, "SELECT key FROM survey_keys")) == 2
    assert client.person("ann").consent(True)
    assert client.person("ann").answer("app-health", crashed=True).status == "already-answered"
    assert len(script.gets) == 1, "the list belongs to no person and must stay"
    assert client.forget()
    for name in PEOPLE:
        assert read_summary(tmp_path / "state", name).ledger.total == 500_000_000
        whose(client, name).consent(True)
        assert whose(client, name).answer("app-health", crashed=True).status == "already-answered"


def test_a_withdrawal_that_cannot_be_stored_stops_only_the_person_s_reports(
    script: Script, client_of: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(send_within=3600.0)
    ann, bob = client.person("ann"), client.person("bob")
    for person in (ann, bob):
        person.consent(True)
        person.answer("app-health", crashed=True)
    with locked(tmp_path / "state", monkeypatch):
        assert not ann.consent(False)
    assert client.flush(PATIENCE) == 1
    assert len(script.posts) == 1
    assert [e.delivery for e in read_summary(tmp_path / "state", "ann").entries] == ["waiting"]
    assert ann.answer("app-health", crashed=True).status == "no-consent"
    assert client.person("ann").consent(False), (
        "the withdrawal is stored, so nothing is left to send"
    )
    assert client.flush(PATIENCE) == 0
    assert len(script.posts) == 1


def test_a_person_s_erasure_does_not_delete_a_damaged_database(
    client_of: MakeClient, tmp_path: Path
) -> None:
    client = client_of()
    client.close()
    (tmp_path / "state" / DATABASE).write_bytes(b"no database" * 1000)
    assert client.person("ann").forget() is False
    assert (tmp_path / "state" / DATABASE).exists()


def test_only_reports_of_people_who_consented_are_sent(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    """A report that should have been deleted is not sent either."""
    script.always = LATER
    client = client_of(send_within=3600.0)
    for name in ("ann", "bob"):
        client.person(name).consent(True)
        client.person(name).answer("app-health", crashed=True)
    with client._state.transaction() as db:
        ann = Identity("ann").person(db)
        db.execute("UPDATE settings SET value = 'no' WHERE person = ?", (ann,))
    script.always = ACCEPTED
    client.flush(1.0)
    assert len(script.posts) == 1
    assert [e.delivery for e in read_summary(tmp_path / "state", "ann").entries] == ["waiting"]


# Ids


def test_an_id_is_in_no_file_no_log_no_repr_and_no_error(
    script: Script, client_of: MakeClient, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    script.always = LATER
    client = client_of()
    person = client.person(SECRET)
    person.consent(True)
    outcome = person.answer("app-health", crashed=True)
    assert outcome.status == "queued"
    (tmp_path / "state" / DATABASE).rename(tmp_path / "away")
    lost = person.answer("app-health", crashed=True)
    assert lost.status == "unavailable"
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    held = vars(person), vars(person._consent), client._state.consents
    shown = repr((outcome, lost, person, *held))
    assert b"app-health" in kept, "the scan must read the files"
    assert "unmistakable" not in shown + caplog.text
    assert b"unmistakable" not in kept


@pytest.mark.parametrize("wrong", ["", "unmistakable" * 100, "unmistakable \ud800"])
def test_an_id_of_the_wrong_length_is_the_app_s_mistake(client_of: MakeClient, wrong: str) -> None:
    with pytest.raises(InvalidPerson, match="1 to 1000 characters") as raised:
        client_of().person(wrong)
    assert "unmistakable" not in str(raised.value) + repr(raised.value)
    assert raised.value.__cause__ is None
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("wrong", [None, 17, b"ann", ["ann"]])
def test_an_id_that_is_no_text_is_the_app_s_mistake(client_of: MakeClient, wrong: Any) -> None:
    """None is refused too, or a forgotten login would answer for the install's default person."""
    with pytest.raises(TypeError, match="a person's id must be text, got"):
        client_of().person(wrong)


def test_the_longest_id_is_accepted(client_of: MakeClient) -> None:
    assert client_of().person("é" * 1000).consent(True)


def test_a_person_is_identified_by_a_key_of_the_store(
    client_of: MakeClient, tmp_path: Path
) -> None:
    """Two stores derive different keys from the same id; one store always derives the same."""
    told = []
    for folder in ("one", "one", "two"):
        with client_of(state=tmp_path / folder)._state.transaction() as db:
            told.append([Identity(name).person(db) for name in ("ann", "bob", None)])
    assert told[0] == told[1]
    assert told[0][:2] != told[2][:2]
    assert told[0][2] == told[2][2] == OWN
    assert len({*told[0], *told[2]}) == 5
    assert {len(person) for person in told[0]} == {0, 16}


@pytest.mark.parametrize("change", ["DELETE FROM people_key", "UPDATE people_key SET key = x'00'"])
def test_without_the_key_nobody_can_be_identified(
    client_of: MakeClient, tmp_path: Path, change: str
) -> None:
    client = client_of()
    client.person("ann").consent(True)
    with client._state.transaction() as db:
        db.execute(change)
    assert client.person("ann").answer("app-health", crashed=True).status == "unavailable"


# Bounds


def test_the_reports_of_one_person_never_displace_those_of_another(
    script: Script,
    client_of: MakeClient,
    clock: Clock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "MAX_WAITING", 2)
    script.always = LATER
    client = client_of(policy=lifetime_policy())
    for name in ("ann", "bob", "bob", "bob", "bob"):
        client.person(name).consent(True)
        assert client.person(name).answer("app-health", crashed=True).status == "queued"
        clock.now += timedelta(days=1)
    folder = tmp_path / "state"
    assert (read_summary(folder, "ann").dropped, read_summary(folder, "bob").dropped) == (0, 2)
    assert client.flush(0) == 3


def test_the_total_number_of_reports_is_bounded(
    script: Script, client_of: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest reports are dropped, and each person who loses one can see it."""
    monkeypatch.setattr(outbox, "MAX_WAITING_IN_ALL", 3)
    monkeypatch.setattr(outbox, "COUNT_EVERY", 1)
    script.always = LATER
    client = client_of()
    for number in range(6):
        client.person(f"user-{number}").consent(True)
        client.person(f"user-{number}").answer("app-health", crashed=True)
    assert client.flush(0) == 3
    lost = [read_summary(tmp_path / "state", f"user-{n}").dropped for n in range(6)]
    assert lost == [1, 1, 1, 0, 0, 0]


def test_people_use_no_memory_after_their_calls(
    client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "MAX_CACHED_PEOPLE", 3)
    client = client_of()
    for number in range(10):
        client.person(f"user-{number}").consent(True)
        client.person(f"user-{number}").answer("app-health", crashed=True)
        assert len(sqlite_of(client)._writer.db._verified) <= 3  # type: ignore[union-attr] # it is open
    assert not client._state.consents.unwritten


# Disclosure


def test_the_command_shows_one_person(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    client, state = client_of(), str(tmp_path / "state")
    client.person("ann").consent(True)
    client.person("ann").answer("app-health", crashed=True)
    client.close()
    own, ann = command("--state", state).stdout, command("--state", state, "--person", "ann").stdout
    assert "Other people, who are not shown: 1. Choose one with --person ID" in own
    assert "app-health" not in own
    assert "app-health, round 20797: sent" in ann
    assert "other people" not in ann
    wrong = command("--state", state, "--person", "")
    assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (2, "", 1)


def rows(tmp_path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(tmp_path / "state" / DATABASE)) as db:
        return db.execute(query).fetchall()


@contextmanager
def locked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lock the database from another connection, for longer than any caller waits."""
    with monkeypatch.context() as patch, closing(sqlite3.connect(folder / DATABASE)) as other:
        patch.setattr("deniable.client.signal_safety.LOCK_WAIT_SECONDS", 0.2)
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
