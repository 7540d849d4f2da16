"""No answer is ever on disk, in a log, in an error or in a `repr`."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deniable.client.state.database import DATABASE, MARKER
from deniable.shared.errors import InvalidAnswer
from tests.client.conftest import MakeClient
from tests.client.scripted import ANSWERS, LATER, Clock, Script, document, lifetime_policy
from tests.eventually import PATIENCE

CHOICE = """
[[question]]
name = "drug"
kind = "choice"
over = "first"
options = ["none", "aspirin", "other"]
other = "other"
epsilon = "0.5"

[[question]]
name = "amount"
kind = "number"
over = "first"
low = 0
high = 1e6
epsilon = "0.5"
"""
SECRET = {"drug": "ketamine-unmistakable", "amount": 271828.1828459}
TRACES = (b"unmistakable", b"271828", b"ketamine")


def every_byte(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.fixture
def survey(script: Script) -> Script:
    script.publish(document(questions=CHOICE))
    return script


def test_answers_are_in_no_file_no_log_and_no_repr(
    survey: Script, client_of: MakeClient, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    survey.always = LATER
    client = client_of()
    outcome = client.answer("app-health", **SECRET)
    assert outcome.status == "queued"
    assert client.flush(PATIENCE) == 1
    everything = [
        every_byte(tmp_path),
        repr(outcome).encode(),
        repr(vars(client)).encode(),
        caplog.text.encode(),
        b"".join(post.body for post in survey.posts),
    ]
    for text in everything:
        assert not any(trace in text for trace in TRACES)
    assert b"app-health" in everything[0], "the scan must read the files"


@pytest.mark.parametrize(
    "wrong",
    [
        {"drug": "ketamine-unmistakable"},
        SECRET | {"amount": "271828"},
        SECRET | {"drug": 271828},
        SECRET | {"amount": float("nan")},
        SECRET | {"unasked": "unmistakable"},
    ],
)
def test_no_outcome_repeats_an_answer(
    survey: Script, client_of: MakeClient, tmp_path: Path, wrong: dict[str, object]
) -> None:
    outcome = client_of().answer("app-health", **wrong)
    assert outcome.status in ("queued", "refused")
    assert not any(trace in repr(outcome).encode() + every_byte(tmp_path) for trace in TRACES)


def test_an_undeclared_name_raises_from_a_frame_without_the_answers(client_of: MakeClient) -> None:
    declared = lifetime_policy(questions={"drug": "choice"})
    with pytest.raises(InvalidAnswer, match="is not declared") as raised:
        client_of(policy=declared).answer("app-health", drug="none", amount=271828)
    told = str(raised.value) + repr(raised.value.args)
    frames = [raised.tb]
    while (below := frames[-1].tb_next) is not None:
        frames.append(below)
    told += "".join(repr(frame.tb_frame.f_locals) for frame in frames[1:])
    assert "271828" not in told
    assert raised.value.__context__ is None


def test_an_answer_outside_the_range_is_clamped_and_not_kept(
    survey: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    outcome = client_of().answer("app-health", drug="none", amount=27182818284.0)
    assert outcome.status == "queued"
    assert b"2718281" not in every_byte(tmp_path)


def test_only_the_owner_can_read_the_state(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    script.publish(document())
    client_of().answer("app-health", **ANSWERS)
    folder = tmp_path / "state"
    assert folder.stat().st_mode & 0o777 == 0o700
    names = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert {DATABASE, MARKER} <= set(names)
    assert set(names.values()) == {0o600}


def test_ids_of_rounds_and_surveys_cannot_be_linked(
    script: Script, client_of: MakeClient, clock: Clock, tmp_path: Path
) -> None:
    """Each survey has its own key, and two installs never share one."""
    script.publish(document())
    script.publish(document("second"))
    for folder in ("one", "two"):
        client = client_of(state=tmp_path / folder)
        client.answer("app-health", **ANSWERS)
        client.answer("second", **ANSWERS)
        assert client.flush(PATIENCE) == 0
    assert len({envelope.id for envelope in script.envelopes()}) == 4
    keys = []
    for folder in ("one", "two"):
        db = sqlite3.connect(tmp_path / folder / DATABASE)
        keys += db.execute("SELECT key FROM survey_keys").fetchall()
        db.close()
    assert len(set(keys)) == 4
    assert {len(key) for (key,) in keys} == {32}


@pytest.mark.parametrize("touch", ["answer", "flush", "start"])
def test_a_survey_s_key_is_destroyed_when_its_grace_is_over(
    script: Script, client_of: MakeClient, clock: Clock, tmp_path: Path, touch: str
) -> None:
    script.publish(document())
    client = client_of()
    client.answer("app-health", **ANSWERS)
    client.flush(PATIENCE)
    (key,) = stored(tmp_path, "SELECT key FROM survey_keys")
    assert key[0] in every_byte(tmp_path)
    clock.now = datetime(2027, 3, 14, 23, 59, tzinfo=UTC)
    touches: dict[str, Callable[[], object]] = {
        "answer": lambda: client.answer("unheard-of"),
        "flush": client.flush,
        "start": lambda: client_of(consent=False),
    }
    touches[touch]()
    assert stored(tmp_path, "SELECT key FROM survey_keys") == [key]
    clock.now = datetime(2027, 3, 15, tzinfo=UTC)
    touches[touch]()
    assert stored(tmp_path, "SELECT key FROM survey_keys") == []
    assert key[0] not in every_byte(tmp_path), "the key was unlinked but not overwritten"


def stored(folder: Path, query: str) -> list[tuple[bytes]]:
    db = sqlite3.connect(folder / "state" / DATABASE)
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()
