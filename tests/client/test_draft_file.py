"""The file of drafts: what a disk, a withdrawal or another process may do between two writes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deniable.client import Client
from deniable.client.state import drafts, outbox
from deniable.client.state.database import DATABASE, DRAFTS
from deniable.client.state.drafts import DraftFile
from deniable.client.state.ledger import OWN, write_setting
from deniable.client.state.outbox import HistoryEntry
from deniable.shared.envelope import Envelope
from tests.client.conftest import MakeClient
from tests.client.scripted import ACCEPTED, LATER, Clock, Script, document
from tests.client.test_drafts import JANUARY, LEFT, WIDE, after_the_round, asked, kept
from tests.eventually import PATIENCE

ONE, OTHER = "1" * 64, "2" * 64


def envelope(survey: str = ONE, round_: int = 683, payload: bytes = b"\1") -> Envelope:
    return Envelope(survey, round_, bytes(16), 1, payload)


def between_charge_and_write(client: Client, event: Callable[[], object]) -> None:
    """Let something happen once, after the next answer's charge and before its report."""
    note_charges = client._state.note_charges

    def meanwhile(charges: int) -> None:
        client._state.note_charges = note_charges  # type: ignore[method-assign] # once
        note_charges(charges)
        event()

    client._state.note_charges = meanwhile  # type: ignore[method-assign] # see above


# The disk


def test_every_write_is_synced_before_its_transaction_ends(
    script: Script, client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut could bring back the version before, which a later one was drawn from."""
    events, sync, write = list[str](), drafts._sync, os.write

    def synced(file: int) -> None:
        events.append("sync")
        sync(file)

    def written(file: int, content: bytes) -> int:
        if len(content) == drafts.BLOCK_BYTES:
            events.append("write")
        return write(file, content)

    monkeypatch.setattr(drafts, "_sync", synced)
    monkeypatch.setattr(os, "write", written)
    script.publish(asked())
    client = client_of()
    for crashed in (True, False):
        client.answer("app-health", crashed=crashed)
    client.consent(False)
    assert events == ["write", "sync"] * 3


def test_a_write_that_was_cut_short_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, write = DraftFile(tmp_path / DRAFTS), os.write
    monkeypatch.setattr(os, "write", lambda to, content: write(to, content[:-1]))
    with pytest.raises(OSError, match="completely"):
        file.write(0, envelope())


def test_a_slot_that_holds_another_report_is_no_draft_of_this_row(tmp_path: Path) -> None:
    """A damaged database may give a slot to two rows."""
    file = DraftFile(tmp_path / DRAFTS)
    row = outbox.QueuedEnvelope(1, OWN, ONE, 683, b"", 0.0, slot=0)
    for other, is_draft in (
        (envelope(), True),
        (envelope(OTHER), False),
        (envelope(ONE, 1), False),
    ):
        file.write(0, other)
        assert (drafts.draft_of(file, row) is not None) == is_draft


def test_a_damaged_state_that_is_forgotten_takes_its_drafts_with_it(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    script.publish(document(questions=WIDE))
    client, folder = client_of(), tmp_path / "state"
    client.answer("app-health", set="option 3")
    with (folder / DRAFTS).open("rb") as file:  # it shows what is written before the file is gone
        client._state.close()
        (folder / DATABASE).write_bytes(b"damaged" * 1_000)
        assert client.forget()
        assert set(file.read()) == {0}
    assert not (folder / DRAFTS).exists()


def test_the_document_of_a_survey_is_deleted_after_its_last_round(
    script: Script, client_of: MakeClient, clock: Clock, tmp_path: Path
) -> None:
    script.publish(asked())

    def documents() -> int:
        with sqlite3.connect(tmp_path / "state" / DATABASE) as db:
            return int(db.execute("SELECT count(*) FROM draft_surveys").fetchone()[0])

    client = client_of()
    client.answer("app-health", crashed=True)
    assert after_the_round(client, clock) == 0
    assert documents() == 1, "another round may need it"
    clock.now = datetime(2027, 3, 15, tzinfo=UTC)
    client.flush(0)
    assert documents() == 0


# Between the charge and the report


def test_a_withdrawal_after_the_charge_leaves_no_draft(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    script.publish(asked())
    client, other = client_of(), client_of()
    between_charge_and_write(client, lambda: other.consent(False))
    assert client.answer("app-health", crashed=True).status == "no-consent"
    file = tmp_path / "state" / DRAFTS
    assert not file.exists() or set(file.read_bytes()) == {0}


def test_a_consent_that_was_given_again_after_the_charge_brings_no_draft_back(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    script.publish(asked())
    client, other = client_of(), client_of()
    between_charge_and_write(client, lambda: (other.consent(False), other.consent(True)))
    assert client.answer("app-health", crashed=True).status == "already-answered"
    file = tmp_path / "state" / DRAFTS
    assert not file.exists() or set(file.read_bytes()) == {0}


def test_a_consent_that_is_missing_stops_a_redraw(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    """Even if the row of the draft is still there: the rows of another consent are not ours."""
    script.publish(asked())
    client = client_of()
    client.answer("app-health", crashed=True)
    before = (tmp_path / "state" / DRAFTS).read_bytes()

    def refuse() -> None:
        with client._state.transaction() as db:
            write_setting(db, OWN, "consent", "no")

    between_charge_and_write(client, refuse)
    assert client.answer("app-health", crashed=False).status == "no-consent"
    assert (tmp_path / "state" / DRAFTS).read_bytes() == before


@pytest.mark.parametrize("written", [False, True])
def test_a_draft_that_another_process_sent_after_the_charge_is_not_redrawn(
    written: bool, script: Script, client_of: MakeClient, clock: Clock
) -> None:
    """There is nothing to send if the first report was not written yet."""
    script.publish(asked())
    client, other = client_of(), client_of()
    script.always = LATER

    def send() -> None:
        clock.now = LEFT
        assert other.flush(PATIENCE) == written

    if written:
        client.answer("app-health", crashed=True)
    between_charge_and_write(client, send)
    assert client.answer("app-health", crashed=True).status == "already-answered"
    assert kept(client) is None
    with client._state.read() as db:
        rows = {bytes(row[0]) for row in db.execute("SELECT envelope FROM outbox")}
    assert rows == {post.body for post in script.posts}, "it may be sent again"
    assert len(rows) == written


def test_a_first_report_that_could_not_be_written_is_written_later(
    script: Script, client_of: MakeClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.publish(asked())
    client = client_of()
    with monkeypatch.context() as patch:

        def full(*_: object) -> None:
            raise OSError(28, "no space")

        patch.setattr(client._state.drafts, "write", full)
        outcome = client.answer("app-health", crashed=True)
    assert (outcome.status, "once it can be written" in outcome.detail) == ("queued", True)
    clock.now = JANUARY - timedelta(days=1)
    client.flush(0)
    assert kept(client) is not None
    assert after_the_round(client, clock) == 0
    assert len(script.posts) == 1


def test_a_draft_that_is_written_later_may_have_been_sent_by_another_process(
    script: Script, client_of: MakeClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slot was written, and the disk was full when the transaction ended."""
    script.publish(asked())
    client, other = client_of(), client_of()
    write = client._state.drafts.write
    with monkeypatch.context() as patch:

        def then_full(slot: int, envelope: Envelope) -> None:
            write(slot, envelope)
            raise OSError(28, "no space")

        patch.setattr(client._state.drafts, "write", then_full)
        patch.setattr(client._uploader, "wake", lambda: None)
        assert client.answer("app-health", crashed=True).status == "queued"
    clock.now, script.always = LEFT, LATER
    assert other.flush(PATIENCE) == 1
    script.always = ACCEPTED
    assert client.flush(PATIENCE) == 0
    assert len({post.body for post in script.posts}) == 1


# The first try


def test_a_report_that_was_never_tried_waits_for_a_durable_transaction(
    client_of: MakeClient,
) -> None:
    """It came after the uploader had looked, and only tried reports are taken without a sync."""
    client, now = client_of(), datetime(2026, 12, 10, tzinfo=UTC)
    limits = client._server, now, 0, 0.0
    until, symbols = now + timedelta(days=30), ()
    with client._state.transaction() as db:
        for survey in (ONE, OTHER):
            entry = HistoryEntry(survey, "app-health", 683, "2026-12-10", symbols)
            outbox.put(db, OWN, envelope(survey), b"bytes", until, entry, client._server)
        db.execute("UPDATE outbox SET tries = 1 WHERE survey = ?", (OTHER,))
        assert outbox.fewest_tries(db, *limits) == 0
        for _ in range(6):
            taken = outbox.take(db, *limits, 1)
            assert taken is not None
            assert taken.survey == OTHER
        db.execute("DELETE FROM outbox WHERE survey = ?", (OTHER,))
        assert outbox.take(db, *limits, 1) is None
