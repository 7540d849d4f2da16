"""Consent and erasure: the effects of yes, no and "forget me"."""

from __future__ import annotations

import sqlite3
import subprocess
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from deniable.client.disclosure import read_summary
from deniable.client.state.database import DATABASE
from tests.client.conftest import MakeClient
from tests.client.scripted import (
    ACCEPTED,
    LATER,
    Answer,
    Clock,
    Script,
    Ticks,
    bit,
    document,
    lifetime_policy,
)
from tests.eventually import PATIENCE, eventually
from tests.node import NODE


@pytest.fixture(autouse=True)
def published(script: Script) -> None:
    script.publish(document(period="day", questions=bit("crashed", "0.5")))


def test_consent_is_remembered(client_of: MakeClient) -> None:
    assert client_of().answer("app-health", crashed=True).status == "queued"
    again = client_of(consent=False)
    assert again.answer("app-health", crashed=True).status == "already-answered"


def test_withdrawing_deletes_what_was_not_sent(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    script.always = LATER
    client = client_of()
    client.answer("app-health", crashed=True)
    client.flush(PATIENCE)
    assert client.consent(False)
    assert client.flush(PATIENCE) == 0
    assert client.answer("app-health", crashed=True).status == "no-consent"
    assert client_of(consent=False).answer("app-health", crashed=True).status == "no-consent"
    assert [entry.delivery for entry in read_summary(tmp_path / "state").entries] == ["withdrawn"]
    client.consent(True)
    assert client.answer("app-health", crashed=True).status == "already-answered"


def test_a_withdrawal_holds_in_this_process_even_if_the_disk_fails(
    script: Script,
    client_of: MakeClient,
    ticks: Ticks,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("deniable.client.signal_safety.LOCK_WAIT_SECONDS", 0.2)
    script.always = LATER
    client = client_of(monotonic=ticks)
    client.answer("app-health", crashed=True)
    assert client.flush(PATIENCE) == 1
    other = sqlite3.connect(tmp_path / "state" / DATABASE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert not client.consent(False)
    other.execute("ROLLBACK")
    other.close()
    script.always = ACCEPTED
    ticks.seconds += 1200
    before = len(script.posts)
    assert client._uploader.flush(PATIENCE) == 1
    assert len(script.posts) == before
    assert client.consent(True), "a new consent allows sending it"
    assert client.flush(PATIENCE) == 0
    assert len(script.posts) == before + 1


def test_keys_expire_even_if_the_environment_switches_the_client_off(
    client_of: MakeClient, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client_of().answer("app-health", crashed=True)
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    clock.now += timedelta(days=1000)
    assert client_of(consent=False).answer("app-health", crashed=True).status == "no-consent"
    db = sqlite3.connect(tmp_path / "state" / DATABASE)
    assert db.execute("SELECT count(*) FROM survey_keys").fetchone() == (0,)
    db.close()


def test_an_initial_refusal_is_the_only_thing_remembered(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    """Nothing is stored about a person who was not asked; one who refused is not asked again."""
    assert client_of(consent=False).consented is None
    assert not (tmp_path / "state").exists()
    assert client_of(consent=False).consent(False)
    again = client_of(consent=False)
    assert again.consented is False
    assert again.answer("app-health", crashed=True).status == "no-consent"
    assert not again.prefetch()
    assert (read_summary(tmp_path / "state").ledger.charges, script.requests) == (0, [])


def test_the_javascript_client_remembers_an_initial_refusal(tmp_path: Path) -> None:
    program = f"""
        import {{ Client, Policy }} from "./client/javascript/src/index.js";
        import {{ fileStorage }} from "./client/javascript/src/file-storage.js";
        const policy = new Policy({{ keys: ["{"ab" * 32}"], questions: {{ crashed: "bit" }} }});
        const storage = fileStorage({str(tmp_path / "state")!r});
        const start = () => new Client("http://127.0.0.1:9", {{ policy, storage }});
        const [asked, kept] = [await start().consented(), await start().consent(false)];
        console.log(asked, kept, await start().consented());
    """
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", program], cwd=Path(__file__).parents[2],
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("undefined true false\n", "")


def test_a_withdrawal_reaches_every_process_without_delay(
    script: Script, client_of: MakeClient
) -> None:
    """Two clients on one folder stand for two processes: they share only files."""
    script.always = LATER
    one, other = client_of(), client_of()
    one.answer("app-health", crashed=True)
    other.consent(False)
    assert one.answer("app-health", crashed=True).status == "no-consent"
    assert one.flush(PATIENCE) == 0


def test_a_withdrawal_stops_even_fetching_the_list(script: Script, client_of: MakeClient) -> None:
    client_of().consent(False)
    assert client_of(consent=False).answer("app-health", crashed=True).status == "no-consent"
    assert script.requests == []


def test_a_withdrawal_while_the_list_is_fetched_charges_nothing(
    client_of: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process withdraws after the first check and before the charge."""
    client, other = client_of(), client_of()
    assert client.answer("unheard-of").status == "no-survey"  # the list is on disk
    find = client._surveys.find

    def withdrawing_find(*arguments: Any) -> Any:
        other.consent(False)
        return find(*arguments)

    monkeypatch.setattr(client._surveys, "find", withdrawing_find)
    assert client.answer("app-health", crashed=True).status == "no-consent"
    assert read_summary(tmp_path / "state").ledger.total == 0


def test_a_report_made_during_a_withdrawal_is_discarded(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    """Another process withdraws after the charge and before the report is queued."""
    other = client_of()

    def withdrawing_draw(bits: int) -> int:
        other.consent(False)
        return 0

    client = client_of(draw=withdrawing_draw)
    assert client.answer("app-health", crashed=True).status == "no-consent"
    assert client.flush(PATIENCE) == 0
    assert script.posts == []
    assert read_summary(tmp_path / "state").entries == ()


@pytest.mark.parametrize("name", ["DO_NOT_TRACK", "DENIABLE_OFF"])
@pytest.mark.parametrize("value", ["1", "true", "please", " Yes "])
def test_the_environment_overrules_consent(
    script: Script,
    client_of: MakeClient,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
) -> None:
    script.always = LATER
    client = client_of()
    client.answer("app-health", crashed=True)
    client.flush(PATIENCE)
    sent = len(script.requests)
    monkeypatch.setenv(name, value)
    outcome = client.answer("app-health", crashed=True)
    assert outcome.status == "no-consent"
    assert name in outcome.detail
    assert client.flush(PATIENCE) == 1
    assert client_of().answer("app-health", crashed=True).status == "no-consent"
    assert len(script.requests) == sent


def test_a_withdrawal_stops_a_retrying_thread(
    script: Script, client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(threading.enumerate())
    script.always = Answer(500)
    client_of().answer("app-health", crashed=True)
    eventually(lambda: script.posts)
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    eventually(lambda: not [t for t in set(threading.enumerate()) - before if "uploader" in t.name])


@pytest.mark.parametrize("value", ["", " ", "0", "false", "FALSE", "no", "Off", " 0 "])
def test_a_switch_that_is_off_changes_nothing(
    client_of: MakeClient, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("DO_NOT_TRACK", value)
    assert client_of().answer("app-health", crashed=True).status == "queued"


def test_forget_erases_all_but_the_ledger(
    script: Script, client_of: MakeClient, clock: Clock, tmp_path: Path
) -> None:
    script.always = LATER
    client = client_of(policy=lifetime_policy(max_epsilon="0.5"))
    client.answer("app-health", crashed=True)
    client.flush(PATIENCE)
    (envelope, *_) = script.envelopes()
    with sqlite3.connect(tmp_path / "state" / DATABASE) as db:
        (key,) = db.execute("SELECT key FROM survey_keys").fetchone()
    db.close()
    assert client.forget()
    record = read_summary(tmp_path / "state")
    assert (record.consent, record.entries, record.ledger.total) == (False, (), 500_000_000)
    bytes_left = b"".join(path.read_bytes() for path in (tmp_path / "state").iterdir())
    assert key not in bytes_left
    assert envelope.id not in bytes_left
    assert b"How is the app doing?" not in bytes_left
    assert client.answer("app-health", crashed=True).status == "no-consent"
    client.consent(True)
    assert client.answer("app-health", crashed=True).status == "already-answered"
    clock.now = clock.now.replace(day=11)
    assert client.answer("app-health", crashed=True).status == "budget-spent"


def test_forget_without_records_creates_nothing(client_of: MakeClient, tmp_path: Path) -> None:
    assert client_of(consent=False).forget()
    assert not (tmp_path / "state").exists()


def test_forget_works_on_a_damaged_database_and_gives_no_budget_back(
    client_of: MakeClient, tmp_path: Path
) -> None:
    client_of().answer("app-health", crashed=True)
    database = tmp_path / "state" / DATABASE
    database.write_bytes(b"not a database" * 1000)
    client = client_of(consent=False)
    assert client.forget()
    assert not database.exists()
    assert not client.consent(True)
    assert client.answer("app-health", crashed=True).status == "no-consent"
    assert client_of(consent=False).answer("app-health", crashed=True).status == "unavailable"
