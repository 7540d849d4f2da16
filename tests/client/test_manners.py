"""Other uses of a client: prefetch, await, `with`, `repr`."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import traceback
from pathlib import Path

import pytest

from deniable.client import Client, InvalidAnswer, Policy
from deniable.client.state.ledger import read_ledger
from tests.client.conftest import MakeClient
from tests.client.scripted import (
    ANSWERS,
    LATER,
    Answer,
    Script,
    Ticks,
    document,
    lifetime_policy,
    sqlite_of,
)
from tests.eventually import PATIENCE, eventually

# prefetch


def test_a_prefetched_list_works_offline(script: Script, client_of: MakeClient) -> None:
    script.publish(document())
    client = client_of()
    assert client.prefetch(PATIENCE) is True
    assert client.prefetch(0) is True, "the list was fetched twice"
    assert len(script.gets) == 1
    script.list_reply = script.always = Answer(500)
    assert client.answer("app-health", **ANSWERS).status == "queued"
    assert len(script.gets) == 1


@pytest.mark.parametrize("how", ["never asked", "refused", "withdrawn", "overruled"])
def test_nothing_is_prefetched_without_consent(
    script: Script,
    client_of: MakeClient,
    how: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = client_of(consent=how in ("withdrawn", "overruled"))
    if how in ("refused", "withdrawn"):
        client.consent(False)
    if how == "overruled":
        monkeypatch.setenv("DO_NOT_TRACK", "1")
    assert client.prefetch(PATIENCE) is False
    assert script.requests == []
    assert (tmp_path / "state").exists() == (how != "never asked")


def test_a_failed_prefetch_is_reported_and_not_repeated_immediately(
    script: Script, client_of: MakeClient, ticks: Ticks
) -> None:
    script.list_reply = Answer(500)
    client = client_of(monotonic=ticks)
    assert [client.prefetch(PATIENCE) for _ in range(5)] == [False] * 5
    assert len(script.gets) == 2, "no second fetch after the pause"


def test_prefetch_keeps_to_its_timeout(script: Script, client_of: MakeClient) -> None:
    script.list_reply = Answer(hold=threading.Event())
    client = client_of()
    begin = time.monotonic()
    assert client.prefetch(0.05) is False
    assert time.monotonic() - begin < PATIENCE / 2


def test_an_answer_without_a_list_is_not_stored(
    script: Script, client_of: MakeClient, ticks: Ticks
) -> None:
    """The first call is offline, so nothing is queued or charged, whatever the answers are."""
    script.list_reply = Answer(500)
    script.publish(document())
    client = client_of(monotonic=ticks)
    outcome = client.answer("app-health", **ANSWERS)
    assert outcome.status == "unavailable"
    script.list_reply = None
    assert client.prefetch(PATIENCE) is True
    assert (client.flush(PATIENCE), script.posts) == (0, [])
    with client._state.transaction() as db:
        assert read_ledger(db).charges == 0
    assert client.answer("app-health", **ANSWERS).status == "queued"


# await


def test_the_event_loop_runs_while_a_server_hangs(script: Script, client_of: MakeClient) -> None:
    """The server holds the list until the loop has ticked fifty times."""
    script.publish(document())
    body = json.dumps({"surveys": script.surveys}).encode()
    held = script.list_reply = Answer(200, body, hold=threading.Event())
    client = client_of()

    async def both() -> str:
        answering = asyncio.create_task(client.aanswer("app-health", **ANSWERS))
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert not answering.done()
        assert held.hold is not None
        held.hold.set()
        return (await answering).status

    assert asyncio.run(both()) == "queued"


def test_a_cancelled_answer_is_charged_once(script: Script, client_of: MakeClient) -> None:
    script.publish(document())
    script.always = LATER
    client = client_of()
    assert client.prefetch(PATIENCE)
    inside, go_on = threading.Event(), threading.Event()
    charge = client._pipeline._charge

    def slowly(*arguments: object) -> object:
        inside.set()
        go_on.wait(PATIENCE)
        return charge(*arguments)  # type: ignore[arg-type] # handed on as they came

    client._pipeline._charge = slowly  # type: ignore[assignment, method-assign] # the same, later

    async def cancelled() -> str:
        answering = asyncio.create_task(client.aanswer("app-health", **ANSWERS))
        await asyncio.to_thread(inside.wait, PATIENCE)
        answering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answering
        again = asyncio.create_task(client.aanswer("app-health", **ANSWERS))
        go_on.set()
        return (await again).status

    assert asyncio.run(cancelled()) in ("already-answered", "queued")
    eventually(lambda: client.flush(0) == 1, "one report waits")
    with client._state.transaction() as db:
        assert read_ledger(db).charges == 1


def test_an_undeclared_name_raises_from_frames_without_the_answers(client_of: MakeClient) -> None:
    client = client_of(policy=lifetime_policy(questions={"drug": "choice"}))
    with pytest.raises(InvalidAnswer) as raised:
        asyncio.run(client.aanswer("app-health", drug="unmistakable", amount=3))
    shown = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    ours = [frame for frame in shown.stack if frame.filename.endswith("client/person.py")]
    assert len(ours) == 2
    assert "unmistakable" not in "".join(str(frame.locals) for frame in ours)


# with, repr


def test_a_client_is_closed_at_the_end_of_a_with_block(
    script: Script, client_of: MakeClient
) -> None:
    script.publish(document())
    with client_of(send_within=60.0) as client:
        assert client.answer("app-health", **ANSWERS).status == "queued"
    assert client._uploader._thread is None
    assert sqlite_of(client)._writer.db is None


def test_a_client_shows_its_server_and_folder_only(tmp_path: Path) -> None:
    client = Client(
        "https://stats.example.org",
        policy=Policy(keys=["ab" * 32]),
        state=tmp_path,
        proxy="http://user:unmistakable@proxy.example",
    )
    assert repr(client) == f"Client('https://stats.example.org', state='{tmp_path}')"
